"""Which method to run on this model and this stream, and whether there is anything to learn from: `secl check`.

**The method.** With right answers the methods are compared from the cheapest to the dearest, and a dearer one must have
a lower Brier score for sure (paired bootstrap over the same questions). Without, the posterior is the choice: its Brier
score was below that of the stated confidence on all streams but one of 32 questions (docs/lab/log.md).

**Learning** pulls the stated confidence towards normalised P(True), so it can only help where that signal is better
calibrated: the paper's prerequisite, and the reason why it leaves its Qwen control alone. The signal must win by both
scores, for ECE alone can be won by knowing less, and Brier alone by knowing more without meaning it:

    adapt          ECE and Brier score are lower for sure: both intervals lie below 0
    do not adapt   the Brier score is higher for sure, or a gain in ECE of `MIN_GAIN` or more is excluded
    cannot tell    else, and always below `FEWEST_COMPARED` questions or `FEWEST_OF_A_KIND` right or wrong answers

How often that is wrong was measured (docs/lab/log.md). Against a badly overconfident stated confidence even a constant
near the base rate wins, so the AUROC of the signal is shown with the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from secl.evaluation.series import Series
from secl.metrics.bootstrap import FEWEST_COMPARED, FEWEST_OF_A_KIND, Difference, paired_differences

METHODS = ("stated", "posterior", "norm_p_true")
"""Methods that can be recommended, from the cheapest to the dearest."""

MIN_GAIN = 0.02
"""Smallest gain in ECE that is worth learning for."""

Basis = Literal["labels", "experience"]
"""Basis of a recommendation: graded answers, or measurements with other models and questions."""

Verdict = Literal["adapt", "do not adapt", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A method for a model and a stream, and whether learning would help there.

    Attributes:
        labelled: questions with a reference or a label.
        rated: those among them with normalised P(True): the answer could be read, and has a distractor.
        right: right answers among these.
        gain: {measure: difference} from the stated confidence (a) to the method's (b); empty without enough answers, or
            if the stated confidence is what is recommended.
        best: the same from the posterior of own answers (a) to that of best answers (b); empty unless the posterior is
            recommended by right answers.
        answer: "best" where best answers are right more often for sure.
        thought: the same from letters without a thought (a) to those after thoughts (b); empty without enough of both.
        signal: the same from the stated confidence (a) to normalised P(True) (b); empty without enough answers.
        verdict: whether to learn, which follows from `signal`.
    """

    questions: int
    labelled: int
    rated: int
    right: int
    basis: Basis
    method: str
    answer: Literal["own", "best"]
    gain: Mapping[str, Difference]
    best: Mapping[str, Difference]
    thought: Mapping[str, Difference]
    signal: Mapping[str, Difference]
    verdict: Verdict


def check(series: Mapping[str, Series]) -> Check:
    """Judge the estimators of a run that does not learn; an estimator without evidence is an empty series."""
    names = (*METHODS, "posterior_best", "at_once", "thoughts")
    series = {name: series.get(name, Series()) for name in names}
    stated, own, rated, best, at_once, thoughts = series.values()
    gains = {"posterior": _differences(stated, own), "norm_p_true": _differences(stated, rated)}
    basis: Basis = "labels" if any(gains.values()) else "experience"
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
        signal=signal,
        verdict=decide(signal) if signal else "cannot tell",
    )


def decide(signal: Mapping[str, Difference]) -> Verdict:
    """Return the verdict over the differences from stated confidence to normalised P(True)."""
    if signal["ece"].falls and signal["brier"].falls:
        return "adapt"
    if signal["brier"].rises or signal["ece"].interval.low > -MIN_GAIN:
        return "do not adapt"
    return "cannot tell"


def _lowest_brier(series: Mapping[str, Series], gains: Mapping[str, Mapping[str, Difference]]) -> str:
    """The method that no cheaper and no dearer one beats for sure; `gains` are those over the stated confidence."""
    method = METHODS[0]
    for name in METHODS[1:]:
        over = gains[name] if method == METHODS[0] else _differences(series[method], series[name])
        if over and over["brier"].falls:
            method = name
    return method


def _differences(a: Series, b: Series, *, of_each_kind: int = FEWEST_OF_A_KIND) -> dict[str, Difference]:
    """Return all measures over the questions that both have a grade for; empty if they are too few for a verdict."""
    first, second = (each.where(each.has_grade) for each in (a, b))
    shared, ours, theirs = np.intersect1d(first.positions, second.positions, return_indices=True)
    sides = first.confidence[ours], first.correct[ours], second.confidence[theirs], second.correct[theirs]
    for right in (sides[1].sum(), sides[3].sum()):
        if len(shared) < FEWEST_COMPARED or min(right, len(shared) - right) < of_each_kind:
            return {}
    return paired_differences(*sides)
