"""Where graders disagree: a sentence, and the answers that they dispute."""

from __future__ import annotations

from secl.display import excerpt
from secl.evaluation.graders import COMPARED, GraderComparison, grade_by
from secl.reports.answers import AnswerRow
from secl.reports.formatting import counted
from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Table

MOST = 50
"""Disputed answers that are listed."""

EXCERPT = 160
"""Characters of a text in the list."""


def graders_line(comparison: GraderComparison | None) -> str | None:
    """What graders say of the answers, in a sentence; None where they agree but for a few.

    >>> from secl.evaluation.graders import GraderComparison
    >>> right = {"exact": 0.225, "contains": 0.5, "auto": 0.475}
    >>> print(graders_line(GraderComparison(answers=40, used=("auto",), right=right, disputed=tuple(range(9)))))
    3 graders disagree on 9 of 40 answers (right by exact 22%, contains 50%, auto 48%); used here: auto.
    """
    if comparison is None or not comparison.matters:
        return None
    shares = ", ".join(f"{name} {100 * share:.0f}%" for name, share in comparison.right.items())
    return (
        f"{len(comparison.right)} graders disagree on {len(comparison.disputed)} of "
        f"{counted(comparison.answers, 'answer')} (right by {shares}); used here: {', '.join(comparison.used)}."
    )


def disputed_table(run: RunReport) -> Table | None:
    """The disputed answers with what each grader says; None where graders agree but for a few."""
    comparison = run.summary.graders
    if comparison is None or not comparison.matters:
        return None
    disputed = {*comparison.disputed}
    rows = [row for row in run.rows if row.record.position in disputed]
    headings = ("Question", "Answer", "Right")
    notes = [
        "An answer is right by exact if it equals the right one, by contains if it holds it as whole words, and by "
        "auto if it says so as people would. Another right answer goes into references, another rule into --grader."
    ]
    if len(rows) > MOST:
        notes.append(f"The first {MOST} of {len(rows)} are listed.")
    columns = [Column(name, text=True, wraps=True) for name in headings] + [
        Column(name, text=True) for name in COMPARED
    ]
    return Table(columns, {"": [_cells(row) for row in rows[:MOST]]}, notes)


def _cells(row: AnswerRow) -> list[Cell]:
    texts = (row.question.text, row.answer or "nothing readable", row.reference)
    grades = ("right" if grade_by(row.record, name) else "wrong" for name in COMPARED)
    return [*(Cell(excerpt(text, EXCERPT)) for text in texts), *(Cell(word) for word in grades)]
