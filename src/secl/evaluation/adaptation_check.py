"""Is there a gap to close? Stated confidence against normalised P(True) on questions with known answers: `secl check`.

Learning pulls the stated confidence towards normalised P(True), so it can only help where that signal is better
calibrated: the paper's prerequisite, and the reason why it leaves its Qwen control alone. The signal is rated at the
tau in use, and must win by both scores, each with a paired bootstrap interval (`metrics.paired_bootstrap`): ECE alone
can be won by knowing less, and Brier alone by knowing more without meaning it.

    adapt          ECE and Brier score are lower for sure: both intervals lie below 0
    do not adapt   the Brier score is higher for sure, or a gain in ECE of `MIN_GAIN` or more is excluded
    cannot tell    else, and always below `MIN_QUESTIONS` questions or `MIN_PER_CLASS` right or wrong answers

How often that is wrong was measured (docs/findings.md). Against a badly overconfident stated confidence even a constant
near the base rate wins, so the AUROC of the signal is told beside the verdict. A sweep shows what other taus would
give on the same answers.
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
        best: the tau with the least Brier score on these answers, of a tie the smallest; nan for n = 0.
        sweep: a row for each tau, the one in use among them, in rising order.
        measures: {measure: difference}, stated (a) against the signal at the tau in use (b).
        floors: the ECE of both sides that chance alone makes.
        verdict: what follows.
    """

    questions: int
    unlabelled: int
    unrated: int
    n: int
    right: int
    tau: float
    best: float
    sweep: tuple[TauResult, ...]
    measures: dict[str, Difference]
    floors: tuple[EceFloor, EceFloor]
    verdict: Verdict


def enough(n: int, right: int) -> bool:
    """Whether so many answers, so many of them right, are enough for a verdict."""
    return n >= MIN_QUESTIONS and min(right, n - right) >= MIN_PER_CLASS


def measure_gap(
    records: Sequence[Record], tau: float, formula: Formula = "log", *, resamples: int = 1000, seed: int = 0
) -> Gap:
    """Whether normalised P(True) is better calibrated than the stated confidence; nothing is asked again.

    Args:
        records: questions answered by a model that does not learn, with P(True) of every answer.
        tau: the temperature in use, above 0; it joins the sweep.
        formula: formula of normalised P(True).
        resamples: bootstrap draws.
        seed: seed of the bootstrap.

    Raises:
        DataError: no question has a reference.
        ParameterError: tau is not above 0.
    """
    labelled = sum(record.frozen_correct is not None for record in records)
    if not labelled:
        raise DataError(f"none of the {len(records)} questions has a reference; add the right answers to check by.")
    taus = sorted({*TAUS, tau})
    stated, signals, correct = _usable_answers(records, taus, formula)
    signal, n, right = signals[taus.index(tau)], int(correct.size), int(correct.sum())
    sweep = tuple(
        TauResult(each, ece(row, correct), brier(row, correct), auroc(row, correct))
        for each, row in zip(taus, signals, strict=True)
    )
    measures = paired_differences(stated, correct, signal, correct, resamples=resamples, seed=seed)
    return Gap(
        questions=len(records),
        unlabelled=len(records) - labelled,
        unrated=labelled - n,
        n=n,
        right=right,
        tau=tau,
        best=min(sweep, key=lambda row: row.brier).tau if n else math.nan,
        sweep=sweep,
        measures=measures,
        floors=(ece_floor(stated), ece_floor(signal)),
        verdict=decide(measures) if enough(n, right) else "cannot tell",
    )


def decide(measures: Mapping[str, Difference]) -> Verdict:
    """The verdict over the differences from stated confidence to signal.

    >>> from secl.metrics.bootstrap import Interval
    >>> even, better = Difference(0.2, 0.2, Interval(-0.01, 0.01)), Difference(0.3, 0.1, Interval(-0.3, -0.1))
    >>> decide({"ece": better, "brier": better}), decide({"ece": even, "brier": even})
    ('adapt', 'do not adapt')
    """
    if measures["ece"].falls and measures["brier"].falls:
        return "adapt"
    if measures["brier"].rises or measures["ece"].interval.low > -MIN_GAIN:
        return "do not adapt"
    return "cannot tell"


def _usable_answers(
    records: Sequence[Record], taus: Sequence[float], formula: Formula
) -> tuple[Vector, Vector, Vector]:
    """Stated confidence (n,), signal at each tau (taus, n) and grade (n,) of the questions that have all of them."""
    stated = ESTIMATORS["stated"].estimate(records)
    stated = stated.where(stated.has_grade)
    signals = [make_estimators(tau, formula)["norm_p_true"].estimate(records) for tau in taus]
    _, ours, theirs = np.intersect1d(stated.positions, signals[0].positions, return_indices=True)
    return stated.confidence[ours], np.array([each.confidence[theirs] for each in signals]), stated.correct[ours]
