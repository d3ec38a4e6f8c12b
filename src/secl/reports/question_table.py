"""Tables of answers: one list of the columns that they can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from secl.display import excerpt
from secl.posterior.views import pmi_of
from secl.reports.answers import NO_SIGN, SIGNS, AnswerRow
from secl.reports.formatting import number
from secl.reports.table import Cell, Column, Table

MOST_WRONG = 10
"""Wrong answers that are shown."""

LONGEST = 160
"""Characters of a question or an answer in a table."""

NOTHING = "no readable answer"
"""What stands in the place of an answer that could not be read."""

GRADES = {True: "right", False: "wrong", None: ""}
"""Grades in words; an answer without a reference has none."""


def _asked(row: AnswerRow) -> Cell:
    return Cell(excerpt(row.question.text, LONGEST), excerpt("; ".join(row.options), LONGEST))


def _answered(row: AnswerRow) -> Cell:
    answer = row.answer or f"{NOTHING}: {row.record.reply.text.strip()!r}"
    return Cell(excerpt(answer, LONGEST), f"other: {excerpt(row.another, LONGEST)}" if row.another else "")


def _p_true(row: AnswerRow) -> Cell:
    p_true = row.record.evidence.p_true
    return Cell(number(p_true.probabilities[0] if p_true else None, 3))


def _pmi(row: AnswerRow) -> Cell:
    return Cell(number(pmi_of(row.question, row.record.reply, row.record.evidence), 1, "+"))


COLUMNS: dict[str, tuple[Column, Callable[[AnswerRow], Cell]]] = {
    "question": (Column("Question", text=True, wraps=True), lambda row: Cell(excerpt(row.question.text, LONGEST))),
    "question and options": (Column("Question", text=True, wraps=True), _asked),
    "answer": (Column("Answer", text=True, wraps=True), lambda row: Cell(excerpt(row.answer, LONGEST) or NOTHING)),
    "answers": (Column("Answered", text=True, wraps=True), _answered),
    "right": (Column("Right", text=True, wraps=True), lambda row: Cell(excerpt(row.reference, LONGEST))),
    "confidence": (Column("Confidence"), lambda row: Cell(number(row.confidence, 3))),
    "stated": (Column("Stated (frozen)"), lambda row: Cell(number(row.record.frozen.stated, 3))),
    "P(True)": (Column("P(True)"), _p_true),
    "PMI": (Column("PMI"), _pmi),
    "grade": (Column("Grade", text=True), lambda row: Cell(GRADES[row.correct], "labelled" if row.labelled else "")),
    "why": (
        Column("Why", text=True, wraps=True),
        lambda row: Cell(", ".join(SIGNS[sign] for sign in row.signs) or NO_SIGN),
    ),
}
"""What can be said of an answer, by the names that `questions_table` takes."""


def questions_table(rows: Sequence[AnswerRow], *names: str) -> Table:
    """A row for each answer, with the columns of `COLUMNS` that are named; those without any text are left out."""
    cells_of = {name: [COLUMNS[name][1](row) for row in rows] for name in names}
    cells_of = {name: cells for name, cells in cells_of.items() if any(cell.text for cell in cells)}
    return Table([COLUMNS[name][0] for name in cells_of], {"": list(zip(*cells_of.values(), strict=True))})


def wrong_table(rows: Sequence[AnswerRow]) -> Table | None:
    """The wrong answers with the highest confidence, the highest first; None without any."""
    wrong = sorted((row for row in rows if row.correct is False), key=lambda row: -row.confidence)[:MOST_WRONG]
    names = ("question and options", "answers", "right", "confidence", "stated")
    return questions_table(wrong, *names) if wrong else None
