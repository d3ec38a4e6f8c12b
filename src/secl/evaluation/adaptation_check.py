"""Is there a gap to close? Stated confidence against normalised P(True) on questions with known answers: `secl check`.

Learning pulls the stated confidence towards normalised P(True), so it can only help where that signal is better
calibrated: the paper's prerequisite, and the reason why it leaves its Qwen control alone. The verdict:

1. The signal is rated at the tau with the least Brier score. That score is proper: where the signal tells right from
   wrong, a tau that flattens it to a constant near the base rate does not win, as it can win the least ECE; and it has
   neither bins nor logarithms that a few answers make jump. Against a badly overconfident stated confidence even such
   a constant wins by both scores, so the AUROC of the signal is told beside the verdict.
2. The same answers must not both choose tau and rate it, so tau is cross-fitted: five seeded folds, each scored with
   the tau that is best on the other four.
3. The signal must win by both scores, each with a paired bootstrap interval (`metrics.paired_bootstrap`): ECE alone can
   be won by knowing less, and Brier alone by knowing more without meaning it.

    adapt          ECE and Brier score are lower for sure: both intervals lie below 0
    do not adapt   the Brier score is higher for sure, or a gain in ECE of `MIN_GAIN` or more is excluded
    cannot tell    else, and always below `MIN_QUESTIONS` questions or `MIN_PER_CLASS` right or wrong answers
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from secl.errors import DataError
from secl.evaluation.estimators import ESTIMATORS, make_estimators
from secl.metrics.bootstrap import FEWEST_OF_A_KIND
from secl.metrics.calibration import EceFloor, brier, ece, ece_floor
from secl.metrics.discrimination import auroc
from secl.metrics.graded import Vector
from secl.metrics.paired_bootstrap import FEWEST, Difference, paired_differences
from secl.records import Record
from secl.settings import Formula

TAUS = (
    *(0.05, 0.063, 0.08, 0.1, 0.125, 0.16, 0.2, 0.25, 0.315, 0.4),
    *(0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0),
)
"""The sweep: ten steps to a factor of ten, on numbers that people type."""

MIN_GAIN = 0.02
"""Smallest gain in ECE that is worth learning for."""

MIN_QUESTIONS = FEWEST
"""Usable questions that a verdict needs."""

MIN_PER_CLASS = FEWEST_OF_A_KIND
"""Right answers, and wrong ones, that a verdict needs: with fewer, a near constant at the base rate would fit."""

MAX_NEEDED = 100_000
"""Largest number of questions to advise."""

FOLDS = 5
"""Folds of the cross-fitted tau."""

Verdict = Literal["adapt", "do not adapt", "cannot tell"]


@dataclass(frozen=True, slots=True)
class TauResult:
    """Normalised P(True) at one tau, all usable questions together; nan where undefined."""

    tau: float
    ece: float
    brier: float
    auroc: float


@dataclass(frozen=True, slots=True)
class Gap:
    """Stated confidence against normalised P(True).

    Attributes:
        questions: asked.
        unlabelled: questions without a reference.
        unrated: questions with a reference but without a signal: the answer could not be read, or has no distractor.
        n: the rest, which everything below is about.
        right: right answers among the n.
        tau: the one in use: the model's own, or another that was asked for.
        best: the tau with the least Brier score over all n; nan for n = 0.
        folds: the tau that each fold was scored with; empty below `MIN_QUESTIONS` questions or `MIN_PER_CLASS` right or
            wrong answers.
        sweep: a row for each tau, the one in use among them, in rising order.
        used: {measure: difference}, stated (a) against the signal at the tau in use (b).
        floors: the ECE of both sides of `used` that chance alone makes.
        fitted: the same with the cross-fitted tau; empty where `folds` is.
        verdict: what follows.
        needed: questions that would probably be enough where these cannot tell; None where that cannot be said.
    """

    questions: int
    unlabelled: int
    unrated: int
    n: int
    right: int
    tau: float
    best: float
    folds: tuple[float, ...]
    sweep: tuple[TauResult, ...]
    used: dict[str, Difference]
    floors: tuple[EceFloor, EceFloor]
    fitted: dict[str, Difference]
    verdict: Verdict
    needed: int | None


def measure_gap(
    records: Sequence[Record], tau: float, formula: Formula = "log", *, resamples: int = 1000, seed: int = 0
) -> Gap:
    """Whether normalised P(True) is better calibrated than the stated confidence; nothing is asked again.

    Args:
        records: questions answered by a model that does not learn, with P(True) of every answer.
        tau: the temperature in use, above 0; it joins the sweep.
        formula: formula of normalised P(True).
        resamples: bootstrap draws.
        seed: seed of the folds and of the bootstrap.

    Raises:
        DataError: no question has a reference.
        ParameterError: tau is not above 0.
    """
    labelled = sum(record.frozen_correct is not None for record in records)
    if not labelled:
        raise DataError(f"none of the {len(records)} questions has a reference; add the right answers to check by.")
    taus = sorted({*TAUS, tau})
    stated, signals, correct = _usable_answers(records, taus, formula)
    n, right = int(correct.size), int(correct.sum())

    def against_stated(signal: Vector) -> dict[str, Difference]:
        return paired_differences(stated, correct, signal, correct, resamples=resamples, seed=seed)

    folds: tuple[float, ...] = ()
    fitted: dict[str, Difference] = {}
    if n >= MIN_QUESTIONS and min(right, n - right) >= MIN_PER_CLASS:
        folds, signal = cross_fitted(signals, correct, taus, tau, seed)
        fitted = against_stated(signal)
    verdict = decide(fitted)
    return Gap(
        questions=len(records),
        unlabelled=len(records) - labelled,
        unrated=labelled - n,
        n=n,
        right=right,
        tau=tau,
        best=taus[_best((signals - correct) ** 2, taus, tau)] if n else math.nan,
        folds=folds,
        sweep=tuple(
            TauResult(each, ece(signal, correct), brier(signal, correct), auroc(signal, correct))
            for each, signal in zip(taus, signals, strict=True)
        ),
        used=against_stated(signals[taus.index(tau)]),
        floors=(ece_floor(stated), ece_floor(signals[taus.index(tau)])),
        fitted=fitted,
        verdict=verdict,
        needed=questions_needed(fitted, n) if fitted and verdict == "cannot tell" else None,
    )


def decide(fitted: Mapping[str, Difference]) -> Verdict:
    """The verdict over the differences from stated confidence to cross-fitted signal (none: too few answers).

    >>> from secl.metrics.bootstrap import Interval
    >>> even, better = Difference(0.2, 0.2, Interval(-0.01, 0.01)), Difference(0.3, 0.1, Interval(-0.3, -0.1))
    >>> decide({"ece": better, "brier": better}), decide({"ece": even, "brier": even}), decide({})
    ('adapt', 'do not adapt', 'cannot tell')
    """
    if not fitted:
        return "cannot tell"
    if fitted["ece"].falls and fitted["brier"].falls:
        return "adapt"
    if fitted["brier"].rises or fitted["ece"].interval.low > -MIN_GAIN:
        return "do not adapt"
    return "cannot tell"


def questions_needed(fitted: Mapping[str, Difference], n: int) -> int | None:
    """How many questions would probably tell, after n of them could not; two digits, rounded up.

    Half of an interval shrinks with the square root of n. It is short enough once it is shorter than the way from its
    middle to a border: for ECE to 0 or to a gain of `MIN_GAIN`, whichever is further; with ECE settled, for Brier to 0.

    Returns:
        A number of questions; None for more than `MAX_NEEDED`.

    >>> from secl.metrics.bootstrap import Interval
    >>> questions_needed({"ece": Difference(0.3, 0.2, Interval(-0.3, 0.1))}, 60)
    240
    """
    unsettled = fitted["brier"] if fitted["ece"].falls else fitted["ece"]
    gain = -unsettled.difference
    # The interval may end early at the largest possible difference.
    half = max(unsettled.interval.high + gain, -gain - unsettled.interval.low)
    way = abs(gain) if fitted["ece"].falls else max(gain, MIN_GAIN - gain)
    if n * half**2 > MAX_NEEDED * way**2:
        return None
    exact = n * (half / way) ** 2
    step = int(10 ** max(0, math.floor(math.log10(exact)) - 1))
    return math.ceil(round(exact / step, 6)) * step


def cross_fitted(
    signals: Vector, correct: Vector, taus: Sequence[float], tau: float, seed: int
) -> tuple[tuple[float, ...], Vector]:
    """The tau of each seeded fold that has the least Brier score on the others, and so the signal of each question.

    `signals` has a row for each of `taus`, in rising order, and a column for each question; `tau` wins a tie, else the
    nearest to it.
    """
    squared = (signals - correct) ** 2
    fold = np.random.default_rng(seed).permutation(correct.size) % FOLDS
    chosen = [_best(squared[:, fold != k], taus, tau) for k in range(FOLDS)]
    return tuple(taus[i] for i in chosen), signals[np.array(chosen)[fold], np.arange(correct.size)]


def _best(squared: Vector, taus: Sequence[float], tau: float) -> int:
    """The row with the least mean; of a tie the one whose tau is nearest to the one in use."""
    means = squared.mean(axis=1)
    least = np.flatnonzero(means == means.min())
    return min(least.tolist(), key=lambda i: abs(math.log(taus[i] / tau)))


def _usable_answers(
    records: Sequence[Record], taus: Sequence[float], formula: Formula
) -> tuple[Vector, Vector, Vector]:
    """Stated confidence (n,), signal at each tau (taus, n) and grade (n,) of the questions that have all of them."""
    stated = ESTIMATORS["stated"].estimate(records)
    stated = stated.where(stated.has_grade)
    signals = [make_estimators(tau, formula)["norm_p_true"].estimate(records) for tau in taus]
    _, ours, theirs = np.intersect1d(stated.positions, signals[0].positions, return_indices=True)
    return stated.confidence[ours], np.array([each.confidence[theirs] for each in signals]), stated.correct[ours]
