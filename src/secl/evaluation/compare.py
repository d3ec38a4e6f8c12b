"""Comparison of two confidences over the same questions, from one run or from two runs (`secl compare`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from secl.errors import RunError
from secl.metrics.intervals import Difference, Interval, paired_differences
from secl.metrics.measures import OF_BOTH_KINDS, EceFloor, ece_floor
from secl.question import Question
from secl.records import Record
from secl.scores import Score, Series, key_of

QuestionKey = tuple[str, ...]
"""Identity of a question: id and text; or text, passage and sorted options if these are unique in both runs."""


@dataclass(frozen=True)
class Side:
    """A confidence computed from the records of a run. An unfinished run has fewer records than `total`.

    `by_text`: whether texts identify questions, because rows of a file without ids have moved.
    """

    records: Sequence[Record]
    total: int
    estimator: Score
    by_text: bool = False

    def key(self, question: Question) -> QuestionKey:
        if self.by_text:
            return question.text, question.context, *sorted(question.options)
        return question.id, question.text

    @cached_property
    def series(self) -> Series:
        return self.estimator.estimate(self.records)

    @cached_property
    def by_question(self) -> dict[QuestionKey, Record]:
        return {self.key(record.question): record for record in self.records}

    @cached_property
    def answers(self) -> dict[QuestionKey, object]:
        """For each question, a key of the rated answer (`secl.scores.key_of`); None if unreadable."""
        rated = ((record.question, self.estimator.answer(record)) for record in self.records)
        # Keys, not letters, because the other run may show the options in another order.
        return {self.key(question): key_of(question, answer) for question, answer in rated}

    def graded(self) -> dict[QuestionKey, tuple[float, bool]]:
        """Return confidence and grade of each graded question."""
        series = self.series.where(self.series.has_grade)
        pairs = zip(series.confidence.tolist(), (series.correct > 0).tolist(), strict=True)
        by_position = dict(zip(series.positions.tolist(), pairs, strict=True))
        return {
            key: by_position[record.position]
            for key, record in self.by_question.items()
            if record.position in by_position
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between the confidences of side b and side a.

    Attributes:
        shared: number of questions answered in both runs.
        unfinished: whether a run has questions left.
        graded: number of shared questions with a graded confidence on both sides; the measures cover these.
        answers_differ: number of shared questions with different answers.
        floors: {side: ECE that perfect calibration shows by chance}, for the sides "a" and "b".
        domains: {domain: difference in Brier score}, in order of appearance.
    """

    shared: int
    unfinished: bool
    graded: int
    answers_differ: int
    measures: dict[str, Difference]
    floors: dict[str, EceFloor]
    domains: dict[str, Difference]


def _shared(a: Side, b: Side) -> list[QuestionKey]:
    return [key for key in a.by_question if key in b.by_question]


def compare(a: Side, b: Side) -> Comparison:
    """Return paired differences (b - a) of two confidences over the questions that both runs have answered.

    Questions are matched by id and text, in any order, or by text alone if this matches more questions and no text
    stands twice in a run. Questions of only one run are left out.
    """
    shared = _shared(a, b)
    by_text = replace(a, by_text=True), replace(b, by_text=True)
    matched = _shared(*by_text)
    if len(matched) > len(shared) and all(len(side.by_question) == len(side.records) for side in by_text):
        (a, b), shared = by_text, matched
    if not shared:
        reason = (
            f"{len(matched)} texts stand in both runs, but their ids differ and some texts stand twice; give the rows "
            "an id before the runs"
            if matched
            else "compare runs of the same questions, or finish them with secl run --resume"
        )
        raise RunError(f"the runs share no answered question; {reason}.")
    graded_a, graded_b = a.graded(), b.graded()
    graded = [key for key in shared if key in graded_a and key in graded_b]
    if not graded:
        raise RunError(
            f"none of the {len(shared)} questions that both runs have answered is graded in both; compare runs of "
            "questions with references or labels."
        )

    def measures(keys: Sequence[QuestionKey]) -> dict[str, Difference]:
        confidence_a, correct_a = zip(*(graded_a[key] for key in keys), strict=True)
        confidence_b, correct_b = zip(*(graded_b[key] for key in keys), strict=True)
        inside = [a.by_question[key].question.domain for key in keys]
        return paired_differences(confidence_a, correct_a, confidence_b, correct_b, domains=inside)

    measured = measures(graded)
    if not (a.estimator.ranks and b.estimator.ranks):
        undefined = Difference(math.nan, math.nan, Interval(math.nan, math.nan))
        measured |= dict.fromkeys(OF_BOTH_KINDS, undefined)
    domains: dict[str, list[QuestionKey]] = {}
    for key in graded:
        domains.setdefault(a.by_question[key].question.domain, []).append(key)
    return Comparison(
        shared=len(shared),
        unfinished=len(a.records) < a.total or len(b.records) < b.total,
        graded=len(graded),
        answers_differ=sum(a.answers[key] != b.answers[key] for key in shared),
        measures=measured,
        floors={
            side: ece_floor([of_side[key][0] for key in graded]) for side, of_side in (("a", graded_a), ("b", graded_b))
        },
        domains={domain: measures(keys)["brier"] for domain, keys in domains.items()},
    )
