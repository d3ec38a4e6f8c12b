"""The answers of a run as rows, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from secl.display import excerpt
from secl.evaluation.symptoms import LOW_DIGIT_MASS, source_of
from secl.grading.rules import reported_correct
from secl.posterior.views import pmi_of
from secl.question import References
from secl.records import Record
from secl.reports.formatting import number
from secl.reports.table import Cell, Column, Table
from secl.runs.object_table import document_of

LOW = 0.5
"""Confidence below which an answer is more probably wrong than right."""

Sign = Literal["unreadable", "low", "another", "digits"]
"""Sign that a person should look at an answer."""

SIGNS: dict[Sign, str] = {
    "unreadable": "no readable answer",
    "low": "low confidence",
    "another": "own and best answer differ",
    "digits": "it hardly says a digit for its confidence",
}
"""The signs in words, the gravest first."""

NO_SIGN = "less confidence than in the others"
"""Reason to look at an answer without a sign, if no answer has one."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A record with its texts for display and its grade.

    Attributes:
        answer: the returned answer, an option with its letter; empty if unreadable.
        another: of the own answer and the most probable candidate the one not returned; empty if they are equal.
        reference: the right answer, of several the first three; empty if unknown.
        correct: whether the returned answer is right, by its label, else by the reference; None without either.
    """

    record: Record
    answer: str
    another: str
    reference: str
    correct: bool | None
    signs: tuple[Sign, ...]

    @property
    def remarks(self) -> list[str]:
        """Signs in words, and the outcome of learning."""
        changed = self.record.reply.answer != self.record.frozen.answer
        more = {"changed by adapting": changed, "not accepted": self.record.accepted is False}
        return [*(SIGNS[sign] for sign in self.signs), *(word for word in more if more[word])]

    @property
    def asked(self) -> str:
        """The question for display; for a field, with its document."""
        question, text = self.record.question, self.record.question.text
        return f"{document_of(question)}: {text}" if self.record.outcome == "field" else text

    @property
    def options(self) -> list[str]:
        """The options for display, each with its letter."""
        question = self.record.question
        return [question.named(letter) for letter in question.letters]


def neediest(rows: Sequence[AnswerRow], count: int) -> list[AnswerRow]:
    """Return the answers that most need a person: those with most signs, in a tie the least confident."""
    return sorted(rows, key=lambda row: (-len(row.signs), row.record.confidence, row.record.position))[:count]


def answer_row(record: Record) -> AnswerRow:
    """Return the row of a record."""
    question, own, best = record.question, record.reply.answer, record.best_answer
    reference = question.reference
    other = own if record.answers_best else best
    holds: dict[Sign, bool] = {
        "unreadable": record.answer is None,
        "low": record.confidence < LOW,
        "another": best != own,
        "digits": source_of(record) == "stated" and record.reply.digit_mass < LOW_DIGIT_MASS,
    }
    return AnswerRow(
        record=record,
        answer=question.named(record.answer),
        another=question.named(other) if own != best else "",
        reference=" / ".join(reference.correct[:3]) if isinstance(reference, References) else question.named(reference),
        correct=reported_correct(record),
        signs=tuple(sign for sign in SIGNS if holds[sign]),
    )


MOST_WRONG = 10
"""Most wrong answers in a table."""

LONGEST = 160
"""Most characters of a question or an answer in a table."""

NOTHING = SIGNS["unreadable"]

GRADES = {True: "right", False: "wrong", None: ""}


def _asked(row: AnswerRow) -> Cell:
    return Cell(excerpt(row.asked, LONGEST), excerpt("; ".join(row.options), LONGEST))


def _answered(row: AnswerRow) -> Cell:
    answer = row.answer or f"{NOTHING}: {row.record.reply.text.strip()!r}"
    return Cell(excerpt(answer, LONGEST), f"other: {excerpt(row.another, LONGEST)}" if row.another else "")


COLUMNS: dict[str, tuple[Column, Callable[[AnswerRow], Cell]]] = {
    "question": (Column("Question", text=True, wraps=True), lambda row: Cell(excerpt(row.asked, LONGEST))),
    "question and options": (Column("Question", text=True, wraps=True), _asked),
    "answer": (Column("Answer", text=True, wraps=True), lambda row: Cell(excerpt(row.answer, LONGEST) or NOTHING)),
    "answers": (Column("Answered", text=True, wraps=True), _answered),
    "right": (Column("Right", text=True, wraps=True), lambda row: Cell(excerpt(row.reference, LONGEST))),
    "confidence": (Column("Confidence"), lambda row: Cell(number(row.record.confidence, 3))),
    "stated": (Column("Stated (frozen)"), lambda row: Cell(number(row.record.frozen.stated, 3))),
    "P(True)": (
        Column("P(True)"),
        lambda row: Cell(number(p.probabilities[0] if (p := row.record.evidence.p_true) else None, 3)),
    ),
    "PMI": (Column("PMI"), lambda row: Cell(number(pmi_of(row.record), 1, "+"))),
    "grade": (
        Column("Grade", text=True),
        lambda row: Cell(GRADES[row.correct], "" if row.record.label is None else "labelled"),
    ),
    "why": (
        Column("Why", text=True, wraps=True),
        lambda row: Cell(", ".join(SIGNS[sign] for sign in row.signs) or NO_SIGN),
    ),
}
"""Columns of `questions_table` by name."""


def questions_table(rows: Sequence[AnswerRow], *names: str) -> Table:
    """Return a row for each answer, with these columns of `COLUMNS`; columns without text are left out."""
    cells_of = {name: [COLUMNS[name][1](row) for row in rows] for name in names}
    cells_of = {name: cells for name, cells in cells_of.items() if any(cell.text for cell in cells)}
    return Table([COLUMNS[name][0] for name in cells_of], {"": list(zip(*cells_of.values(), strict=True))})


def wrong_table(rows: Sequence[AnswerRow]) -> Table | None:
    """Return the wrong answers with the highest confidence, the highest first; None without wrong answers."""
    wrong = sorted((row for row in rows if row.correct is False), key=lambda row: -row.record.confidence)[:MOST_WRONG]
    names = ("question and options", "answers", "right", "confidence", "stated")
    return questions_table(wrong, *names) if wrong else None
