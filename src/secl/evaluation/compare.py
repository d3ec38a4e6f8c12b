"""Comparison of confidences over the same questions, from one run or from several runs (`secl compare`).

`secl check` says which method to run on this model and stream, and whether learning would help.

**The method.** With graded answers, `secl check` compares the methods from the cheapest to the most expensive. A more
expensive method must have a significantly lower Brier score (paired bootstrap over the same questions). Without graded
answers, secl recommends the posterior. Its Brier score was lower than that of the stated confidence on all measured
streams but one, which has 32 questions (docs/lab/log.md).

**Learning** pulls the stated confidence towards normalised P(True), so learning helps only if this signal is better
calibrated than the stated confidence. The signal must have the lower ECE and the lower Brier score, because an
uninformative signal can win by ECE alone, and a miscalibrated one by Brier score alone:

    adapt          ECE and Brier score are significantly lower: both intervals lie below 0
    do not adapt   the Brier score is significantly higher, or the interval excludes a gain in ECE of `MIN_GAIN`
    cannot tell    otherwise, or with too few questions (`FEWEST_COMPARED`), or too few right or wrong answers

docs/lab/log.md has the error rates of these verdicts. Even a constant near the base rate beats a very overconfident
stated confidence, so the report shows the AUROC of the signal with the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np

from secl.errors import RunError
from secl.evaluation.acceptance import units_of
from secl.metrics.intervals import (
    FEWEST_COMPARED,
    FEWEST_OF_A_KIND,
    Difference,
    Interval,
    design_effect,
    paired_differences,
)
from secl.metrics.measures import OF_BOTH_KINDS, EceFloor, ece_floor
from secl.records import Record, answers_in
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

    def key(self, record: Record) -> QuestionKey:
        question = record.question
        if self.by_text:
            text = self._asked[record.position] if record.kind == "fact" else ""
            return question.text, question.context, *sorted(question.options), text
        return question.id, question.text

    @cached_property
    def _asked(self) -> dict[int, str]:
        """The text of each question by position, for its facts."""
        return {record.position: record.question.text for record in self.records}

    @cached_property
    def series(self) -> Series:
        return self.estimator.estimate(self.rated)

    @cached_property
    def rated(self) -> Sequence[Record]:
        """The rated answers: of questions, and the facts of texts."""
        return answers_in(self.records)

    @cached_property
    def by_question(self) -> dict[QuestionKey, Record]:
        return {self.key(record): record for record in self.rated}

    @cached_property
    def answers(self) -> dict[QuestionKey, object]:
        """For each question, a key of the rated answer (`secl.scores.key_of`); None if unreadable."""
        rated = ((record, self.estimator.answer(record)) for record in self.rated)
        # Keys, not letters, because the other run may show the options in another order.
        return {self.key(record): key_of(record.question, answer) for record, answer in rated}

    @cached_property
    def graded(self) -> dict[QuestionKey, tuple[float, bool]]:
        """Confidence and grade of each graded question."""
        series = self.series.where(self.series.has_grade)
        pairs = zip(series.confidence.tolist(), (series.correct > 0).tolist(), strict=True)
        rated = {id(self.rated[row]): pair for row, pair in zip(series.rows.tolist(), pairs, strict=True)}
        return {key: rated[id(record)] for key, record in self.by_question.items() if id(record) in rated}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between the confidences of side b and side a.

    Attributes:
        shared: number of questions answered in all compared runs.
        unfinished: whether a run has questions left.
        graded: number of shared questions graded on all sides; the measures cover these.
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


def _shared(sides: Sequence[Side]) -> list[QuestionKey]:
    return [key for key in sides[0].by_question if all(key in side.by_question for side in sides)]


def compare(*sides: Side) -> list[Comparison]:
    """Return paired differences between the first confidence (a) and each further one (b), over the same questions.

    Questions are matched by id and text, in any order, or by text alone if this matches more questions and no text
    stands twice in a run. Questions that a run has not answered are left out.
    """
    shared, by_text = _shared(sides), tuple(replace(side, by_text=True) for side in sides)
    matched = _shared(by_text)
    if len(matched) > len(shared) and all(len(side.by_question) == len(side.rated) for side in by_text):
        sides, shared = by_text, matched
    if not shared:
        reason = (
            f"{len(matched)} texts stand in both runs, but their ids differ and some texts stand twice; give the rows "
            "an id before the runs"
            if matched
            else "compare runs of the same questions, or finish them with secl run --resume"
        )
        raise RunError(f"the runs share no answered question; {reason}.")
    graded = [key for key in shared if all(key in side.graded for side in sides)]
    if not graded:
        raise RunError(
            f"none of the {len(shared)} questions that all runs have answered is graded in each; compare runs of "
            "questions with references or labels."
        )
    unfinished = any(len(side.records) < side.total for side in sides)
    return [replace(_differences_of(sides[0], side, shared, graded), unfinished=unfinished) for side in sides[1:]]


def _differences_of(a: Side, b: Side, shared: Sequence[QuestionKey], graded: Sequence[QuestionKey]) -> Comparison:
    def measures(keys: Sequence[QuestionKey]) -> dict[str, Difference]:
        confidence_a, correct_a = zip(*(a.graded[key] for key in keys), strict=True)
        confidence_b, correct_b = zip(*(b.graded[key] for key in keys), strict=True)
        answers = [a.by_question[key] for key in keys]
        inside, units = [each.question.domain for each in answers], units_of(answers).tolist()
        return paired_differences(confidence_a, correct_a, confidence_b, correct_b, domains=inside, units=units)

    measured = measures(graded)
    if not (a.estimator.ranks and b.estimator.ranks):
        undefined = Difference(math.nan, math.nan, Interval(math.nan, math.nan))
        measured |= dict.fromkeys(OF_BOTH_KINDS, undefined)
    domains: dict[str, list[QuestionKey]] = {}
    for key in graded:
        domains.setdefault(a.by_question[key].question.domain, []).append(key)
    return Comparison(
        shared=len(shared),
        unfinished=False,
        graded=len(graded),
        answers_differ=sum(a.answers[key] != b.answers[key] for key in shared),
        measures=measured,
        floors={"a": _floor(a, graded), "b": _floor(b, graded)},
        domains={domain: measures(keys)["brier"] for domain, keys in domains.items()},
    )


def _floor(side: Side, keys: Sequence[QuestionKey]) -> EceFloor:
    """Return the ECE that perfect calibration would show by chance on these questions."""
    confidences, grades = (np.array(values, float) for values in zip(*(side.graded[key] for key in keys), strict=True))
    units = units_of([side.by_question[key] for key in keys]).tolist()
    return ece_floor(confidences, design_effect(grades - confidences, units))


METHODS = ("stated", "posterior", "norm_p_true")
"""Methods that may be recommended, from the cheapest to the most expensive."""

MIN_GAIN = 0.02
"""Smallest gain in ECE that justifies learning."""

RecommendationBasis = Literal["labels", "experience"]
"""Basis of a recommendation: graded answers, or measurements with other models and questions."""

LearningAdvice = Literal["adapt", "do not adapt", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The recommended method for a model and a stream, and the verdict on learning.

    Attributes:
        labelled: questions with a reference or a label.
        rated: labelled questions with a normalised P(True).
        right: right answers to the `rated` questions.
        gain: {measure: difference} from the stated confidence to the confidence of the method; empty with too few
            answers, or if the recommended method is the stated confidence.
        best: {measure: difference} from the posterior of own answers to the posterior of the most probable answers;
            empty unless `method` is "posterior" and `basis` is "labels".
        answer: "best" if the most probable answers are right significantly more often than own answers.
        thought: {measure: difference} from letters before a thought to letters after the thought; empty with too few
            graded questions.
        thinking: questions with options whose letters were read before and after a thought.
        signal: {measure: difference} from the stated confidence to normalised P(True); empty with too few answers.
        verdict: whether to learn; follows from `signal`.
    """

    questions: int
    labelled: int
    rated: int
    right: int
    basis: RecommendationBasis
    method: str
    answer: Literal["own", "best"]
    gain: Mapping[str, Difference]
    best: Mapping[str, Difference]
    thought: Mapping[str, Difference]
    thinking: int
    signal: Mapping[str, Difference]
    verdict: LearningAdvice


def check(series: Mapping[str, Series], units: Sequence[int] | None = None) -> Check:
    """Compare the scores of a run that does not learn.

    Args:
        series: by name of the score; a missing series counts as empty.
        units: number of the unit of each answer of the run, such as its document; by default, each answer is a unit.
    """
    names = (*METHODS, "posterior_best", "at_once", "thoughts")
    series = {name: series.get(name, Series()) for name in names}
    stated, own, rated, best, at_once, thoughts = series.values()
    differences = partial(_differences, units=units)
    gains = {"posterior": differences(stated, own), "norm_p_true": differences(stated, rated)}
    basis: RecommendationBasis = "labels" if any(gains.values()) else "experience"
    method = _lowest_brier(series, gains, differences) if basis == "labels" else "posterior"
    by_labels = basis == "labels" and method == "posterior"
    of_best = differences(own, best, of_each_kind=0) if by_labels else {}
    signal, (_, grades) = gains["norm_p_true"], rated.graded()
    return Check(
        questions=len(stated),
        labelled=int(stated.has_grade.sum()),
        rated=len(grades),
        right=int(grades.sum()),
        basis=basis,
        method=method,
        answer="best" if of_best and of_best["accuracy"].rises else "own",
        gain=gains.get(method, {}) if basis == "labels" else {},
        best=of_best,
        thought=differences(at_once, thoughts, of_each_kind=0),
        thinking=len(at_once),
        signal=signal,
        verdict=decide(signal) if signal else "cannot tell",
    )


def decide(signal: Mapping[str, Difference]) -> LearningAdvice:
    """Return the verdict on learning, from the differences between stated confidence and normalised P(True)."""
    if signal["ece"].falls and signal["brier"].falls:
        return "adapt"
    if signal["brier"].rises or signal["ece"].interval.low > -MIN_GAIN:
        return "do not adapt"
    return "cannot tell"


def _lowest_brier(
    series: Mapping[str, Series],
    gains: Mapping[str, Mapping[str, Difference]],
    differences: Callable[[Series, Series], Mapping[str, Difference]],
) -> str:
    """Start with the cheapest method, and switch to each costlier one with a significantly lower Brier score."""
    method = METHODS[0]
    for name in METHODS[1:]:
        over = gains[name] if method == METHODS[0] else differences(series[method], series[name])
        if over and over["brier"].falls:
            method = name
    return method


def _differences(
    a: Series, b: Series, *, units: Sequence[int] | None = None, of_each_kind: int = FEWEST_OF_A_KIND
) -> dict[str, Difference]:
    """Return differences over questions graded in both series; empty with too few questions, right or wrong answers."""
    first, second = (each.where(each.has_grade) for each in (a, b))
    shared, ours, theirs = np.intersect1d(first.rows, second.rows, return_indices=True)
    sides = first.confidence[ours], first.correct[ours], second.confidence[theirs], second.correct[theirs]
    for right in (sides[1].sum(), sides[3].sum()):
        if len(shared) < FEWEST_COMPARED or min(right, len(shared) - right) < of_each_kind:
            return {}
    of_unit = None if units is None else [units[row] for row in shared.tolist()]
    return paired_differences(*sides, units=of_unit)
