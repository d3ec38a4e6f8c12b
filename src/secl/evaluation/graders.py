"""Whether graders agree about the answers of a run: where they do not, its numbers depend on which one is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from secl.grading import grade, grader_of
from secl.records import Record

COMPARED = ("exact", "contains", "auto")
"""Graders that are asked about every answer that one of them graded."""

FEW = 0.03
"""Share of disputed answers up to which nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderComparison:
    """What several graders say of the same answers.

    Attributes:
        answers: answers that one of the graders graded; not those with options, with another rule or with a label.
        used: the graders that graded them.
        right: share of right answers, in [0, 1], by each grader.
        disputed: positions of the answers of which the graders do not say the same.
    """

    answers: int
    used: tuple[str, ...]
    right: Mapping[str, float]
    disputed: tuple[int, ...]

    @property
    def matters(self) -> bool:
        """Whether more than a few answers are disputed."""
        return len(self.disputed) > FEW * self.answers


def compare_graders(records: Sequence[Record]) -> GraderComparison | None:
    """Grade the reported answers by several graders; None without an answer to compare them on."""
    open_ones = [record for record in records if _comparable(record)]
    if not open_ones:
        return None
    used = tuple(dict.fromkeys(grader_of(record.question) for record in open_ones))
    grades = {name: [grade_by(record, name) for record in open_ones] for name in COMPARED}
    disputed = [record.position for record, *each in zip(open_ones, *grades.values(), strict=True) if len({*each}) > 1]
    return GraderComparison(
        answers=len(open_ones),
        used=used,
        right={name: sum(each) / len(open_ones) for name, each in grades.items()},
        disputed=tuple(disputed),
    )


def grade_by(record: Record, grader: str) -> bool:
    """Whether the reported answer to an open question is right by a grader."""
    return bool(grade(replace(record.question, grader=grader), record.answer))


def _comparable(record: Record) -> bool:
    question = record.question
    graded = not question.options and question.reference is not None and record.label is None
    return graded and grader_of(question) in COMPARED
