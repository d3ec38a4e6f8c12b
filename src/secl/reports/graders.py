"""Whether graders agree about the answers of a run: where they do not, its numbers depend on which one is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from secl.grading import grade, grader_of
from secl.records import Record
from secl.reports.formatting import counted

COMPARED = ("exact", "contains", "auto")
"""Graders that are asked about every reported answer that one of them graded."""

FEW = 0.03
"""Share of disputed answers up to which nothing is said."""


def graders_line(records: Sequence[Record]) -> str | None:
    """What the graders say of the same answers, in a sentence; None where they agree but for a few."""
    open_ones = [record for record in records if _comparable(record)]
    grades = {name: [_is_right(record, name) for record in open_ones] for name in COMPARED}
    disputed = sum(len({*each}) > 1 for each in zip(*grades.values(), strict=True))
    if disputed <= FEW * len(open_ones):
        return None
    shares = ", ".join(f"{name} {100 * sum(each) / len(each):.0f}%" for name, each in grades.items())
    used = ", ".join(dict.fromkeys(grader_of(record.question) for record in open_ones))
    return (
        f"{len(COMPARED)} graders disagree on {disputed} of {counted(len(open_ones), 'answer')} (right by {shares}); "
        f"used here: {used}."
    )


def _is_right(record: Record, grader: str) -> bool:
    return bool(grade(replace(record.question, grader=grader), record.answer))


def _comparable(record: Record) -> bool:
    """Whether a grader of these graded it: no option, no other rule, no label."""
    question = record.question
    graded = not question.options and question.reference is not None and record.label is None
    return graded and grader_of(question) in COMPARED
