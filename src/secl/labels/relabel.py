"""Confidences of answers that were given before people labelled any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from secl.labels.label import Label
from secl.labels.rule import LabelRule
from secl.records import Record


def relabelled(records: Iterable[Record], log: Iterable[Label], rule: LabelRule) -> Iterator[Record]:
    """Records with the confidences that all labels of a log give; a labelled answer's, those that the others give.

    Leaving a label out of its own answer's confidence keeps what is measured on labelled answers honest.
    """
    state = rule.add(rule.start(), log)
    own = {label.position: label for label in state.standing}
    for record in records:
        said = own.get(record.position)
        known = state if said is None else rule.without(state, said)
        yield replace(record, labelled=rule.rate(known, record.question.domain, record.label_free))
