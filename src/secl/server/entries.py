"""Entries of a state folder: records with the circumstances of their replies, and events of learning."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from secl.question import has_half_character
from secl.records import Record

Values = dict[str, Any]
"""A JSON object."""

EventKind = Literal["start", "rollback", "pause", "resume", "failed_update"]


def _encodable(text: str) -> str:
    if has_half_character(text):
        raise ValueError("it contains an unpaired surrogate, which is invalid Unicode")
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""A text that can be encoded as UTF-8."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of learning, at a time in seconds since 1970, with one sentence (`detail`).

    Attributes:
        position: position of the latest record at this time; None before the first record.
        version: version of the adapter after the event.
    """

    time: float
    kind: str
    position: int | None
    version: int
    detail: str


@dataclass(frozen=True, slots=True)
class Served:
    """A record with the circumstances of its reply.

    Attributes:
        id: random id, which the client gets.
        time: time of the answer, in seconds since 1970.
        batch: number of questions in the same pass.
        label: whether people judged the answer right; None while unlabelled.
    """

    record: Record
    id: str
    time: float
    batch: int
    label: bool | None


def answer_text(record: Record) -> str:
    """Return the answer in the form that people read, or the whole reply if it has no readable answer."""
    return record.reply.text.strip() if record.answer is None else record.question.named(record.answer)


def new_record_id() -> str:
    """Return a random id, which only the record's client and readers of all records know."""
    return f"rec_{secrets.token_hex(12)}"


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as UTC: "1970-01-01 00:00:00"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
