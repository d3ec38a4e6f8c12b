"""What a state folder gives back: records with the circumstances of their replies, and events of learning."""

from __future__ import annotations

import re
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from secl.errors import ParameterError
from secl.question import has_half_character
from secl.records import Record

Values = dict[str, Any]
"""Plain values by their names, as JSON has them."""

EventKind = Literal["start", "rollback", "pause", "resume", "failed_update"]


def _encodable(text: str) -> str:
    if has_half_character(text):
        raise ValueError("it contains an unpaired surrogate, which is invalid Unicode")
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""A text that can be encoded as UTF-8."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to learning.

    Attributes:
        time: seconds since 1970.
        kind: what.
        position: of the latest record then; None before the first.
        version: of the adapter afterwards.
        detail: one sentence.
    """

    time: float
    kind: str
    position: int | None
    version: int
    detail: str

    def to_json(self) -> Values:
        """As plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Served:
    """A record with the circumstances of its reply.

    Attributes:
        record: as stored.
        time: when it was answered, in seconds since 1970.
        batch: how many questions were answered in the same pass.
        correct: what people said about the answer; None if nobody did.
    """

    record: Record
    time: float
    batch: int
    correct: bool | None


def answer_text(record: Record) -> str:
    """The answer as people read it; what was written if no answer can be read in it."""
    return record.reply.text.strip() if record.answer is None else record.question.named(record.answer)


def record_id(position: int) -> str:
    """The public id of a record.

    >>> record_id(7)
    'rec_00000007'
    """
    return f"rec_{position:08d}"


def moment(seconds: float) -> str:
    """A time in seconds since 1970 as people read it, in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def promised_name() -> str:
    """A public id for a record that has no position yet; no other record has it."""
    return f"rec_{secrets.token_hex(12)}"


def is_promised_name(name: str) -> bool:
    """Whether this can be a name as of `promised_name`, which nobody can guess, and no number of a record."""
    return re.fullmatch(r"rec_[0-9a-f]{24}", name) is not None


def position_of(name: str) -> int:
    """The position of a record from its id, or from a bare number.

    Raises:
        ParameterError: it is not the id of a record.
    """
    number = name.removeprefix("rec_")
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise ParameterError(f"{name!r} names no record; a record is called like {record_id(7)!r}.")
    return int(number)
