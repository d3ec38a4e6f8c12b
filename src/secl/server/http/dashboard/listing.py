"""Rows of records for lists and charts, as plain values."""

from __future__ import annotations

from collections.abc import Sequence

from secl.evaluation.json_values import defined
from secl.server.audit.entries import Values, record_id
from secl.server.audit.search import Answered, answered
from secl.server.audit.store import ServerStore
from secl.server.audit.wording import answer_text

BEGINNING = 200
"""Characters of a question and of an answer that are shown in a list."""


def point(row: Answered) -> Values:
    """A record without its texts."""
    return {
        "position": row.position,
        "time": row.time,
        "confidence": row.confidence,
        "frozen_confidence": row.frozen_confidence,
        "entropy": defined(row.entropy),
        "alarm": row.alarm,
        "in_burst": row.in_burst,
        "version": row.version,
        "outcome": row.outcome,
        "correct": row.correct,
        "accepted": row.accepted,
    }


def listed(state: ServerStore, positions: Sequence[int]) -> list[Values]:
    """The records at these positions, in their order, with the beginnings of their texts as they are kept."""
    marks = ", ".join("?" * len(positions))
    with state.moment():
        rows = answered(state, positions)
        records = {record.position: record for record in state.records(f"r.position IN ({marks})", *positions)}
    return [
        {
            **point(row),
            "record_id": record_id(row.position),
            "domain": row.domain,
            "question": beginning(records[row.position].question.text),
            "answer": beginning(answer_text(records[row.position])),
        }
        for row in rows
    ]


def beginning(text: str) -> str:
    """The beginning of a text on one line.

    >>> beginning("one\\n two"), len(beginning("word " * 100))
    ('one two', 201)
    """
    line = " ".join(text.split())
    return line if len(line) <= BEGINNING else f"{line[:BEGINNING].rstrip()} …"
