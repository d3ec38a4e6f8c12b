"""Questions and answers of a run as texts for display, and tables of answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from secl.display import amount, excerpt, number
from secl.evaluation.symptoms import LOW_DIGIT_MASS
from secl.facts.records import expected_wrong
from secl.grading.rules import reported_correct
from secl.posterior.views import pmi_of
from secl.question import References
from secl.records import Record
from secl.reports.table import Cell, Column, Table
from secl.reports.texts import around_gap
from secl.runs.extracting import document_of

Sign = Literal["unreadable", "digits"]
"""Reason, other than a low confidence, why a person should look at an answer."""

SIGNS: dict[Sign, str] = {
    "unreadable": "no readable answer",
    "digits": "the model hardly stated a number as its confidence",
}
"""Signs in words, the most severe first."""

RARE = 3
"""A remark is a flag if at most one in `RARE` answers has it. Remarks about more answers distinguish nothing."""


def expected_grade(record: Record) -> float:
    """Return the probability that an answer is right; 1 for a text without facts, in which nothing can be wrong."""
    return 1.0 if record.parts == () else record.confidences.expected_grade


def signs_of(record: Record) -> tuple[Sign, ...]:
    """Return the signs of an answer, the most severe first."""
    holds: dict[Sign, bool] = {
        "unreadable": record.answer is None,
        "digits": record.confidences.source == "stated" and record.reply.digit_mass < LOW_DIGIT_MASS,
    }
    return tuple(sign for sign in SIGNS if holds[sign])


def remarks(record: Record) -> list[str]:
    """Return the signs of an answer in words, with "changed by adapting" where learning changed the answer."""
    changed = record.reply.answer != record.frozen.answer
    return [*(SIGNS[sign] for sign in signs_of(record)), *(["changed by adapting"] if changed else [])]


def flags_in(records: Sequence[Record]) -> set[str]:
    """Return the `remarks` that are rare enough to tell some of these answers from the others."""
    counts = Counter(remark for record in records for remark in remarks(record))
    return {remark for remark, count in counts.items() if RARE * count <= len(records)}


MOST_OWN, LONGEST_OWN = 5, 60
"""Maximum number of the user's columns beside the answers, and of characters in their cells."""


def own_columns(records: Sequence[Record]) -> list[str]:
    """Return names of the user's columns that the question of a record does not show already."""
    names = dict.fromkeys(name for record in records for name, value in record.question.row if value is not None)
    return [name for name in names if any(not _is_shown(record, name) for record in records)][:MOST_OWN]


def own_cell(record: Record, name: str) -> str:
    """Return the cell of the user's column; a date without a time is a day."""
    value = dict(record.question.row).get(name)
    return "" if value is None else excerpt(str(value).removesuffix("T00:00:00"), LONGEST_OWN)


def _is_shown(record: Record, name: str) -> bool:
    """Return whether the page shows the cell elsewhere: in the question, its options, its domain or right answer."""
    question, value = record.question, str(dict(record.question.row).get(name) or "").strip()
    reference = question.reference
    right = (*reference.correct, *reference.incorrect) if isinstance(reference, References) else (reference or "",)
    options = [option for option in question.options if option not in value]
    return (
        any(value in text for text in (question.text, question.context or "", question.system or "", question.domain))
        or value in (*question.options, *right, right_answer(record))
        or bool(question.options and not options)
    )


def asked(record: Record) -> str:
    """Return the question for display. The question of a field gets the id of the document in front."""
    question = record.question
    return f"{document_of(question)}: {question.text}" if record.kind == "field" else question.text


def brief(record: Record, longest: int) -> str:
    """Return the question on one line; the sentence of a fact is cut around its gap."""
    return around_gap(record.question.text, longest) if record.kind == "fact" else excerpt(asked(record), longest)


def answered(record: Record) -> str:
    """Return the answer for display; empty if unreadable. An option has its letter in front."""
    return record.question.named(record.answer)


def not_returned(record: Record) -> str:
    """Return the own answer if secl returned another candidate, or else the most probable candidate, in words.

    Empty if the own answer is the most probable candidate.
    """
    own, best = record.reply.answer, record.best_answer
    if own == best:
        return ""
    if record.best_returned:
        return f"the model wrote {record.question.named(own) or 'no readable answer'}"
    return f"more probable: {record.question.named(best)}"


def right_answer(record: Record) -> str:
    """Return the first three right answers for display; empty without a reference."""
    question, reference = record.question, record.question.reference
    return " / ".join(reference.correct[:3]) if isinstance(reference, References) else question.named(reference)


def options_of(record: Record) -> list[str]:
    """Return the options for display, each with its letter."""
    return [record.question.named(letter) for letter in record.question.letters]


def neediest(records: Sequence[Record], count: int) -> list[Record]:
    """Return the answers that most need a person. Answers with more signs come first, then less confident answers."""
    return sorted(records, key=lambda record: (-len(signs_of(record)), expected_grade(record), record.position))[:count]


MOST_WRONG = 10
"""Maximum number of wrong answers in a table."""

MAX_CHARACTERS = 160
"""Maximum number of characters of a question or an answer in a table."""

UNREADABLE = SIGNS["unreadable"]

GRADES = {True: "right", False: "wrong", None: ""}


def _asked(record: Record) -> Cell:
    return Cell(brief(record, MAX_CHARACTERS), excerpt("; ".join(options_of(record)), MAX_CHARACTERS))


def _answered(record: Record) -> Cell:
    answer, other = answered(record) or f"{UNREADABLE}: {record.reply.text.strip()!r}", not_returned(record)
    return Cell(excerpt(answer, MAX_CHARACTERS), excerpt(other, MAX_CHARACTERS) if other else "")


def _facts(record: Record) -> Cell:
    if record.parts is None:
        return Cell("")
    wrong = expected_wrong(record.parts) if record.parts else math.nan
    return Cell(amount(len(record.parts)), "" if math.isnan(wrong) else f"{wrong:.1f} wrong, expected")


COLUMNS: dict[str, tuple[Column, Callable[[Record], Cell]]] = {
    "question": (
        Column("Question", text=True, wraps=True),
        lambda record: Cell(brief(record, MAX_CHARACTERS)),
    ),
    "question and options": (Column("Question", text=True, wraps=True), _asked),
    "answer": (
        Column("Answer", text=True, wraps=True),
        lambda record: Cell(excerpt(answered(record), MAX_CHARACTERS) or UNREADABLE),
    ),
    "answers": (Column("Answered", text=True, wraps=True), _answered),
    "right": (
        Column("Right", text=True, wraps=True),
        lambda record: Cell(excerpt(right_answer(record), MAX_CHARACTERS)),
    ),
    "confidence": (Column("Confidence"), lambda record: Cell(number(record.confidence, 3))),
    "facts": (Column("Facts", text=True), _facts),
    "stated": (Column("Stated (frozen)"), lambda record: Cell(number(record.frozen.stated, 3))),
    "P(True)": (
        Column("P(True)"),
        lambda record: Cell(number(p.probabilities[0] if (p := record.evidence.p_true) else None, 3)),
    ),
    "PMI": (Column("PMI"), lambda record: Cell(number(pmi_of(record), 1, "+"))),
    "grade": (
        Column("Grade", text=True),
        lambda record: Cell(GRADES[reported_correct(record)], "" if record.label is None else "labelled"),
    ),
    "why": (
        Column("Why", text=True, wraps=True),
        lambda record: Cell(", ".join(SIGNS[sign] for sign in signs_of(record))),
    ),
}
"""Columns of `questions_table` by name."""


def questions_table(records: Sequence[Record], *names: str) -> Table:
    """Return a table with a row for each answer and the columns `names` of `COLUMNS`, except for empty columns."""
    cells_of = {name: [COLUMNS[name][1](record) for record in records] for name in names}
    cells_of = {name: cells for name, cells in cells_of.items() if any(cell.text for cell in cells)}
    return Table([COLUMNS[name][0] for name in cells_of], {"": list(zip(*cells_of.values(), strict=True))})


def wrong_table(records: Sequence[Record]) -> Table | None:
    """Return a table of the most confident wrong answers; None without wrong answers."""
    wrong = [record for record in records if reported_correct(record) is False]
    surest = sorted(wrong, key=lambda record: -record.confidences.expected_grade)[:MOST_WRONG]
    names = ("question and options", "answers", "right", "confidence", "stated")
    return questions_table(surest, *names) if wrong else None
