"""Which method to run on this model and this stream, and whether there is anything to learn from: `secl check`.

**The method.** With right answers the methods are compared from the cheapest to the dearest, and a dearer one must have
a lower Brier score for sure (paired bootstrap over the same questions). Without, the posterior is the choice: its Brier
score was below that of the stated confidence on all streams but one of 32 questions (docs/log.md).

**Learning** pulls the stated confidence towards normalised P(True), so it can only help where that signal is better
calibrated: the paper's prerequisite, and the reason why it leaves its Qwen control alone. The signal must win by both
scores, for ECE alone can be won by knowing less, and Brier alone by knowing more without meaning it:

    adapt          ECE and Brier score are lower for sure: both intervals lie below 0
    do not adapt   the Brier score is higher for sure, or a gain in ECE of `MIN_GAIN` or more is excluded
    cannot tell    else, and always below `MIN_QUESTIONS` questions or `MIN_PER_CLASS` right or wrong answers

How often that is wrong was measured (docs/findings.md). Against a badly overconfident stated confidence even a constant
near the base rate wins, so the AUROC of the signal is told beside the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from secl.evaluation.estimators import make_estimators
from secl.evaluation.posterior import replayed
from secl.evaluation.series import Series
from secl.evaluation.summary import EstimatorSummary, evaluate
from secl.metrics.bootstrap import FEWEST_COMPARED, FEWEST_OF_A_KIND, Difference, paired_differences
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.settings.groups import Formula

SHOWN = ("stated", "letter_probability", "norm_p_true", "posterior", "posterior_best")
"""Estimators that are expected to matter, in the order of tables."""

METHODS = ("stated", "posterior", "norm_p_true")
"""Methods that can be recommended, from the cheapest to the dearest."""

MIN_GAIN = 0.02
"""Smallest gain in ECE that is worth learning for."""

MIN_QUESTIONS = FEWEST_COMPARED
"""Graded answers that a comparison needs."""

MIN_PER_CLASS = FEWEST_OF_A_KIND
"""Right answers, and wrong ones, that it needs: with fewer, a near constant at the base rate would fit."""

Basis = Literal["labels", "experience"]
"""What a recommendation stands on: right answers, or what was measured with other models and questions."""

Verdict = Literal["adapt", "do not adapt", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A method for a model and a stream, and whether it would learn anything there.

    Attributes:
        labelled: questions with a reference.
        rated: those among them with normalised P(True): the answer could be read, and has a distractor.
        right: right answers among these.
        flags: further flags beside `--method`, as typed.
        reliability: of the letters at the end of the stream, from 0 to 1; None without letters in two orders.
        compared: questions that showed it.
        rows: measures by estimator; nan without right answers.
        means: mean confidence by estimator, of all answers, also of those that cannot be graded.
        gain: {measure: difference} from the stated confidence (a) to the method's (b); empty without enough answers, or
            if the stated confidence is what is recommended.
        best: the same from the posterior of own answers (a) to that of best answers (b); empty unless the posterior is
            recommended by right answers.
        signal: the same from the stated confidence (a) to normalised P(True) (b); empty without enough answers.
        verdict: whether to learn, which follows from `signal`.
    """

    questions: int
    labelled: int
    rated: int
    right: int
    basis: Basis
    method: str
    flags: tuple[str, ...]
    reliability: float | None
    compared: int
    rows: Mapping[str, EstimatorSummary]
    means: Mapping[str, float]
    gain: Mapping[str, Difference]
    best: Mapping[str, Difference]
    tau: float
    signal: Mapping[str, Difference]
    verdict: Verdict


def check(records: Sequence[Record], tau: float = 1.0, formula: Formula = "log") -> Check:
    """Judge the records of a run that gathered P(True) and candidates for every answer; nothing is asked again.

    The run does not learn, and whatever evidence its records lack is left out. `tau` and `formula` are those of
    normalised P(True).

    >>> found = check([])
    >>> found.basis, found.method, found.verdict
    ('experience', 'posterior', 'cannot tell')
    """
    records, estimators = _with_posteriors(records), make_estimators(tau, formula)
    evaluation = evaluate(records, {name: estimators[name] for name in SHOWN})
    series, rows = evaluation.series, evaluation.summary.estimators
    gains = {name: _differences(series["stated"], series[name]) for name in METHODS[1:]}
    basis: Basis = "labels" if any(gains.values()) else "experience"
    method, flags = _lowest_brier(series, gains) if basis == "labels" else "posterior", tuple[str, ...]()
    best: Mapping[str, Difference] = {}
    if basis == "labels" and method == "posterior":
        best = _differences(series["posterior"], series["posterior_best"], of_each_kind=0)
        flags = ("--answer best",) if best and best["accuracy"].rises else ()
    signal, (_, grades) = gains["norm_p_true"], series["norm_p_true"].graded()
    posteriors = [
        record.posterior for record in records if record.posterior and record.posterior.reliability is not None
    ]
    return Check(
        questions=len(records),
        labelled=sum(record.frozen_correct is not None for record in records),
        rated=len(grades),
        right=int(grades.sum()),
        basis=basis,
        method=method,
        flags=flags,
        reliability=posteriors[-1].reliability if posteriors else None,
        compared=posteriors[-1].questions if posteriors else 0,
        rows=rows,
        means={name: fmean(series[name].confidence) for name in rows},
        gain=gains.get(method, {}) if basis == "labels" else {},
        best=best,
        tau=tau,
        signal=signal,
        verdict=decide(signal) if signal else "cannot tell",
    )


def decide(signal: Mapping[str, Difference]) -> Verdict:
    """The verdict over the differences from stated confidence to normalised P(True).

    >>> from secl.metrics.bootstrap import Interval
    >>> even, better = Difference(0.2, 0.2, Interval(-0.01, 0.01)), Difference(0.3, 0.1, Interval(-0.3, -0.1))
    >>> decide({"ece": better, "brier": better}), decide({"ece": even, "brier": even})
    ('adapt', 'do not adapt')
    """
    if signal["ece"].falls and signal["brier"].falls:
        return "adapt"
    if signal["brier"].rises or signal["ece"].interval.low > -MIN_GAIN:
        return "do not adapt"
    return "cannot tell"


def _with_posteriors(records: Sequence[Record]) -> Sequence[Record]:
    """The records with the posteriors that their evidence gives, where none was computed along the stream."""
    if any(record.posterior is not None for record in records):
        return records
    posteriors = replayed(PosteriorRule(), records)
    return [replace(record, posterior=each) for record, each in zip(records, posteriors, strict=True)]


def _lowest_brier(series: Mapping[str, Series], gains: Mapping[str, Mapping[str, Difference]]) -> str:
    """The method that no cheaper and no dearer one beats for sure; `gains` are those over the stated confidence."""
    method = METHODS[0]
    for name in METHODS[1:]:
        over = gains[name] if method == METHODS[0] else _differences(series[method], series[name])
        if over and over["brier"].falls:
            method = name
    return method


def _differences(a: Series, b: Series, *, of_each_kind: int = MIN_PER_CLASS) -> dict[str, Difference]:
    """All measures over the questions that both have a grade for; empty if they are too few for a verdict."""
    first, second = (each.where(each.has_grade) for each in (a, b))
    shared, ours, theirs = np.intersect1d(first.positions, second.positions, return_indices=True)
    sides = first.confidence[ours], first.correct[ours], second.confidence[theirs], second.correct[theirs]
    for right in (sides[1].sum(), sides[3].sum()):
        if len(shared) < MIN_QUESTIONS or min(right, len(shared) - right) < of_each_kind:
            return {}
    return paired_differences(*sides)
