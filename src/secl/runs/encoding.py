"""Records to plain JSON values and back, without losing a digit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from secl.records import Record

_COMPUTED = ("stated", "stated_hard")
_REPORTED = ("answer", "confidence", "accepted", "best_answer")


def to_plain(record: Record) -> dict[str, Any]:
    """A record as nested dictionaries and lists."""
    return dict(_adapter().dump_python(record, warnings=False))  # as dataclasses.asdict, and much faster


def to_export(record: Record) -> dict[str, object]:
    """The same for other tools, with what is computed from it: confidences, and what was answered in the end."""
    values = to_plain(record)
    values |= {name: getattr(record, name) for name in _REPORTED}
    for key, reply in (("reply", record.reply), ("frozen", record.frozen)):
        values[key] |= {name: getattr(reply, name) for name in _COMPUTED}
    return values


def from_plain(values: Mapping[str, object]) -> Record:
    """The record behind `to_plain` or `to_export`, also after a trip through JSON (which keeps every float exactly).

    Raises:
        ValueError: a field is missing or has another type.
        QuestionError: the question is not usable.
    """
    return _adapter().validate_python(values)


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)
