"""Several runs on the questions that they share: paired differences, and the questions whose answers changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from secl.display import excerpt
from secl.errors import RunError
from secl.evaluation.compare import Key, Side, compare, shared_questions
from secl.reports.answers import named
from secl.reports.comparison_report import comparison_table, remarks
from secl.reports.formatting import UNDEFINED, amount, counted, number
from secl.reports.question_table import GRADES
from secl.reports.run_report import RunReport, reported
from secl.reports.table import Cell, Column, Table

MOST_CHANGED = 20
"""Changed questions that are shown."""

EXCERPT = 200
"""Characters of a question or an answer that are shown."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One run beside the first one.

    Attributes:
        heading: names of both, and the confidences that are compared.
        notes: what a reader must know, a sentence or two each.
        differences: paired differences over the shared questions; None where none of these is graded in both runs.
        changed: shared questions with another answer, those with another grade first; None if there are none.
    """

    heading: str
    notes: tuple[str, ...]
    differences: Table | None
    changed: Table | None


def alike(runs: Sequence[RunReport]) -> bool:
    """Whether all runs have answered the same questions, so that their numbers can be compared as they stand."""
    asked = [{(record.question.id, record.question.text) for record in run.records} for run in runs]
    return all(each == asked[0] for each in asked)


def side_by_side(runs: Sequence[RunReport]) -> list[Pair]:
    """Every run but the first beside the first."""
    return [_pair(runs[0], run) for run in runs[1:]]


def _pair(one: RunReport, other: RunReport) -> Pair:
    a, b = _side(one), _side(other)
    heading = f"Side by side. A: {one.name}, {a.estimator.title}; B: {other.name}, {b.estimator.title}"
    shared = shared_questions(a, b)
    notes = _of_questions(one, other, len(shared))
    if not shared:
        return Pair(heading, notes, None, None)
    changed = [key for key in shared if a.answer(a.by_question[key]) != b.answer(b.by_question[key])]
    table = _changed(a, b, changed) if changed else None
    try:
        comparison = compare(a, b, partly=True)
    except RunError:
        text = f"None of them is graded in both runs. The answers to {amount(len(changed))} of them differ."
        return Pair(heading, (*notes, text), None, table)
    return Pair(heading, (*notes, *remarks(comparison)), comparison_table(comparison), table)


def _side(run: RunReport) -> Side:
    """What a run reports: the adapted confidence, else the posterior, else the stated one."""
    row = reported(run.summary) or run.summary.estimators["stated"]
    return Side(run.records, run.total, row.estimator)


def _of_questions(one: RunReport, other: RunReport, shared: int) -> tuple[str, ...]:
    """Whether both runs have answered the same questions, and which ones this is about."""
    counts = len(one.records), len(other.records)
    if counts == (shared, shared):
        return (f"Both have answered the same {counted(shared, 'question')}.",)
    said = f"{one.name} has answered {counted(counts[0], 'question')} and {other.name} {amount(counts[1])}"
    if not shared:
        return (f"{said}, none of them the same: their numbers cannot be compared.",)
    return (
        f"{said}, {amount(shared)} of them the same. The numbers of each run are about its own questions and cannot be "
        f"compared; what follows is about the {amount(shared)} alone.",
    )


def _changed(a: Side, b: Side, keys: Sequence[Key]) -> Table:
    """Questions with another answer, those with another grade first."""
    of_a, of_b = _estimates(a), _estimates(b)
    rows = []
    for key in keys:
        one, other = a.by_question[key], b.by_question[key]
        (before, was), (after, now) = of_a.get(one.position, NOTHING), of_b.get(other.position, NOTHING)
        cells = [Cell(_short(one.question.text)), Cell(_short(named(one.question, a.estimator.answer(one))))]
        cells += [Cell(number(before, 3), GRADES[was])]
        cells += [Cell(_short(named(other.question, b.estimator.answer(other)))), Cell(number(after, 3), GRADES[now])]
        rows.append((was == now, cells))
    rows.sort(key=lambda pair: pair[0])
    columns = [
        Column("Questions with another answer", text=True, wraps=True),
        Column("A answers", text=True, wraps=True),
    ]
    columns += [Column("A"), Column("B answers", text=True, wraps=True), Column("B")]
    more = len(rows) - MOST_CHANGED
    notes = [f"{counted(more, 'question')} more with another answer."] if more > 0 else []
    return Table(columns, {"": [cells for _, cells in rows[:MOST_CHANGED]]}, notes)


NOTHING: tuple[float | None, bool | None] = (None, None)
"""Confidence and grade of an answer that has neither."""


def _estimates(side: Side) -> dict[int, tuple[float | None, bool | None]]:
    series = side.series
    grades = (None if math.isnan(each) else bool(each) for each in series.correct.tolist())
    pairs = zip(series.confidence.tolist(), grades, strict=True)
    return dict(zip(series.positions.tolist(), pairs, strict=True))


def _short(text: str) -> str:
    return excerpt(text, EXCERPT) or UNDEFINED
