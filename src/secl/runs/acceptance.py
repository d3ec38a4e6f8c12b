"""The answers in a folder with what is known of them, for thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from secl.evaluation.acceptance import Answers, answers_of
from secl.labels import LabelRule
from secl.records import Record
from secl.runs.store import Store


def stored_answers(store: Store, records: Sequence[Record] | None = None) -> Answers:
    """The answers of a run or a server with their labels, and with the confidences that such answers get next.

    Args:
        store: an open run or server.
        records: its records as another grader sees them; None for those that are stored.
    """
    rule = LabelRule()
    return answers_of(store.records() if records is None else records, store.label_log(), rule)
