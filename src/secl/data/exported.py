"""Exports of runs (`secl export`) as question files: what they add to a question is not carried along."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from secl.data.cells import restored
from secl.data.columns import KEYS, plain
from secl.errors import DataError, QuestionError
from secl.question import Question

SIGNATURE = frozenset({"position", "stated_confidence", "digit_mass", "plain_tokens"})
"""Columns by which a table is known as an export; every row of one fills them."""

PREFIX = "extra_"
"""Before the name of an extra column that is called like one of an export."""

COMPUTED = (
    "position",
    "answer_text",
    "label",
    "confidence",
    "labelled_confidence",
    "low",
    "high",
    "abstained",
    "raw_text",
    "own_answer",
    "own_correct",
    "stated_confidence",
    "hard_confidence",
    "digit_mass",
    "entropy",
    "log_probability",
    "version",
    "frozen_answer",
    "frozen_correct",
    "frozen_confidence",
    "p_true",
    "pmi",
    "signal",
    "posterior",
    "best_answer",
    "posterior_best",
    "informed",
    "candidates",
    "probabilities",
    "distractor_source",
    "alarm",
    "in_burst",
    "statistic",
    "outcome",
    "target",
    "after",
    "new_version",
    "tokens",
    "plain_tokens",
)
"""What an export says of a record beyond its question, its answer and whether that is right."""


def extra_columns(extras: Iterable[str]) -> dict[str, str]:
    """The column of an export for each extra column, by its name there: its own, or one that is free.

    >>> extra_columns(["year", "Confidence"])
    {'year': 'year', 'Confidence': 'extra_Confidence'}
    """
    taken = {*KEYS, *COMPUTED}
    found: dict[str, str] = {}
    for name in dict.fromkeys(extras):
        column = name
        while plain(column) in taken:
            column = PREFIX + column
        taken.add(plain(column))
        found[name] = column
    return found


def is_export(names: Iterable[str]) -> bool:
    """Whether these are the columns of an export."""
    return set(names) >= SIGNATURE


def without_computed(values: Mapping[str, object], *, cells: bool) -> dict[str, object]:
    """What a row of an export says of its question and its answer; extra columns have the names that they had.

    Args:
        values: of the row.
        cells: whether texts are written as in the cells of a spreadsheet.
    """
    kept: dict[str, object] = {}
    for written, value in values.items():
        name = restored(written) if cells else written
        if name not in COMPUTED:
            column = name.removeprefix(PREFIX)
            kept[column if plain(column) in COMPUTED else name] = (
                restored(value) if cells and isinstance(value, str) else value
            )
    return kept


def is_record(values: Mapping[str, object]) -> bool:
    """Whether these are the values of a whole record, a line of a JSONL export."""
    return isinstance(values.get("question"), Mapping) and isinstance(values.get("reply"), Mapping)


def from_record(record: Mapping[str, Any], location: str) -> tuple[Question, str | None, bool | None]:
    """Question, reported answer, and whether that is right, of a record in a JSONL export.

    Raises:
        DataError: its question is not usable.
    """
    try:
        question = _adapter().validate_python(record["question"])
    except (ValidationError, QuestionError) as problem:
        reason = str(problem).splitlines()[0]
        raise DataError(f"{location} is a record with a question that cannot be read ({reason}).") from problem
    answer = record.get("answer")
    own = answer == record["reply"].get("answer")
    return question, answer, record.get("correct") if own and record.get("label") is None else record.get("label")


@functools.cache
def _adapter() -> TypeAdapter[Question]:
    return TypeAdapter(Question)
