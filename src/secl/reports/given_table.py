"""Answers from elsewhere with what the model thinks of them, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from secl.display import excerpt
from secl.evaluation.measures import measure
from secl.posterior.views import pmi_of
from secl.records import Record
from secl.reports.answers import named
from secl.reports.formatting import UNDEFINED, counted, number
from secl.reports.table import Cell, Column, Table

EXCERPT = 60
"""Characters of a question or an answer that are shown."""

VERDICTS = {True: "right", False: "wrong", None: UNDEFINED}


def given_table(records: Sequence[Record]) -> Table:
    """A row for each answer, in their order: the confidence, and what else the model says of it."""
    graded = any(record.correct is not None for record in records)
    columns = [Column("question", text=True, wraps=True), Column("answer", text=True, wraps=True)]
    columns += [Column(name) for name in ("confidence", "stated", "P(True)", "PMI")]
    columns += [Column("graded", text=True)] if graded else []
    return Table(columns, {"": [[Cell(text) for text in _row(record, graded)] for record in records]})


def _row(record: Record, graded: bool) -> list[str]:
    p_true = record.evidence.p_true
    return [
        excerpt(record.question.text, EXCERPT),
        excerpt(named(record.question, record.reply.answer) or record.reply.text, EXCERPT),
        number(record.confidence, 3),
        number(record.reply.confidence, 3),
        number(p_true.probabilities[0] if p_true else None, 3),
        number(pmi_of(record.question, record.reply, record.evidence), 1, "+"),
        *([VERDICTS[record.correct]] if graded else []),
    ]


def given_notes(records: Sequence[Record]) -> list[str]:
    """What the columns are, what is known of the confidences, and what to keep in mind."""
    weighed = sum(record.posterior is not None for record in records)
    notes = [
        f"confidence: the posterior of the answer among its rivals, for {weighed} of {counted(len(records), 'answer')}"
        f"{'' if weighed == len(records) else '; of the others, as stated'}. PMI: nats by which the question makes the "
        "answer more probable."
    ]
    known = [(record.confidence, record.correct) for record in records if record.correct is not None]
    if known:
        right = sum(correct for _, correct in known)
        measures = measure([c for c, _ in known], [bool(correct) for _, correct in known], resamples=0)
        notes.append(
            f"{right} of {len(known)} graded answers are right; mean confidence {number(measures.mean_confidence, 3)}, "
            f"ECE {number(measures.ece, 3)}, Brier {number(measures.brier, 3)}, AUROC {number(measures.auroc, 2)}."
        )
    return notes
