"""Which method to run on this model and stream, and whether learning would help: `secl check`.

**The method.** With graded answers secl compares the methods from the cheapest to the most expensive. A more expensive
method must have a significantly lower Brier score (paired bootstrap over the same questions). Without graded answers
secl recommends the posterior. Its Brier score was lower than that of the stated confidence on all measured streams but
one, which has 32 questions (docs/lab/log.md).

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from secl.metrics.intervals import FEWEST_COMPARED, FEWEST_OF_A_KIND, Difference, paired_differences
from secl.scores import Series

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


def check(series: Mapping[str, Series]) -> Check:
    """Compare the scores of a run that does not learn; a missing series counts as empty."""
    names = (*METHODS, "posterior_best", "at_once", "thoughts")
    series = {name: series.get(name, Series()) for name in names}
    stated, own, rated, best, at_once, thoughts = series.values()
    gains = {"posterior": _differences(stated, own), "norm_p_true": _differences(stated, rated)}
    basis: RecommendationBasis = "labels" if any(gains.values()) else "experience"
    method = _lowest_brier(series, gains) if basis == "labels" else "posterior"
    by_labels = basis == "labels" and method == "posterior"
    of_best = _differences(own, best, of_each_kind=0) if by_labels else {}
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
        thought=_differences(at_once, thoughts, of_each_kind=0),
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


def _lowest_brier(series: Mapping[str, Series], gains: Mapping[str, Mapping[str, Difference]]) -> str:
    """Start with the cheapest method, and switch to each costlier one with a significantly lower Brier score."""
    method = METHODS[0]
    for name in METHODS[1:]:
        over = gains[name] if method == METHODS[0] else _differences(series[method], series[name])
        if over and over["brier"].falls:
            method = name
    return method


def _differences(a: Series, b: Series, *, of_each_kind: int = FEWEST_OF_A_KIND) -> dict[str, Difference]:
    """Return differences over questions graded in both series; empty with too few questions, right or wrong answers."""
    first, second = (each.where(each.has_grade) for each in (a, b))
    shared, ours, theirs = np.intersect1d(first.positions, second.positions, return_indices=True)
    sides = first.confidence[ours], first.correct[ours], second.confidence[theirs], second.correct[theirs]
    for right in (sides[1].sum(), sides[3].sum()):
        if len(shared) < FEWEST_COMPARED or min(right, len(shared) - right) < of_each_kind:
            return {}
    return paired_differences(*sides)
