"""Which method to run on this model and this stream: by right answers where there are enough, else by experience.

With right answers the methods are compared from the cheapest to the dearest, and a dearer one must have a lower Brier
score for sure (paired bootstrap over the same questions). Without, the posterior is the choice: its Brier score was
below that of the stated confidence wherever both were measured (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from secl.evaluation.adaptation_check import MIN_PER_CLASS, MIN_QUESTIONS
from secl.evaluation.estimators import make_estimators
from secl.evaluation.posterior import replayed
from secl.evaluation.series import Series
from secl.evaluation.summary import EstimatorSummary, evaluate
from secl.evaluation.view_check import ViewChecks, check_views
from secl.metrics.paired_bootstrap import Difference, paired_differences
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.settings import Formula

SHOWN = ("stated", "letter_probability", "norm_p_true", "posterior", "posterior_best")
"""Estimators that are expected to matter, in the order of tables."""

METHODS = ("stated", "posterior", "norm_p_true")
"""Methods that can be recommended, from the cheapest to the dearest."""

Basis = Literal["labels", "experience"]
"""What a recommendation stands on: right answers, or what was measured with other models and questions."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A method for a model and a stream.

    Attributes:
        basis: what it stands on.
        method: its name for `--method`.
        flags: further flags, as typed.
        views: what the views show.
        rows: measures by estimator; nan without right answers.
        means: mean confidence by estimator, of all answers, also of those that cannot be graded.
        gain: {measure: difference} from the stated confidence (a) to the method's (b); empty without enough answers, or
            if the stated confidence is what is recommended.
        best: the same from the posterior of own answers (a) to that of best answers (b); empty unless the posterior is
            recommended by right answers.
    """

    basis: Basis
    method: str
    flags: tuple[str, ...]
    views: ViewChecks
    rows: Mapping[str, EstimatorSummary]
    means: Mapping[str, float]
    gain: Mapping[str, Difference]
    best: Mapping[str, Difference]


def recommend(
    records: Sequence[Record], tau: float = 1.0, formula: Formula = "log", *, seed: int = 0
) -> Recommendation:
    """Recommend a method from the records of a run that gathered P(True) and candidates for every answer.

    The run does not learn, and whatever evidence its records lack is left out. `tau` and `formula` are those of
    normalised P(True).

    >>> recommend([]).basis, recommend([]).method
    ('experience', 'posterior')
    """
    records, estimators = _with_posteriors(records), make_estimators(tau, formula)
    evaluation = evaluate(records, {name: estimators[name] for name in SHOWN})
    series, rows, views = evaluation.series, evaluation.summary.estimators, check_views(records)
    basis: Basis = "experience"
    method, flags = "posterior", tuple[str, ...]()
    gain: Mapping[str, Difference] = {}
    best: Mapping[str, Difference] = {}
    gains = {name: _differences(series["stated"], series[name], seed) for name in METHODS[1:]}
    if any(gains.values()):
        basis, method, flags = "labels", _lowest_brier(series, gains, seed), ()
        gain = gains.get(method, {})
    if basis == "labels" and method == "posterior":
        best = _differences(series["posterior"], series["posterior_best"], seed, of_each_kind=0)
        flags = ("--answer best",) if best and best["accuracy"].rises else ()
    means = {name: fmean(series[name].confidence) for name in rows}
    return Recommendation(basis, method, flags, views, rows, means, gain, best)


def _with_posteriors(records: Sequence[Record]) -> Sequence[Record]:
    """The records with the posteriors that their evidence gives, where none was computed along the stream."""
    if any(record.posterior is not None for record in records):
        return records
    posteriors = replayed(PosteriorRule(), records)
    return [replace(record, posterior=each) for record, each in zip(records, posteriors, strict=True)]


def _lowest_brier(series: Mapping[str, Series], gains: Mapping[str, Mapping[str, Difference]], seed: int) -> str:
    """The method that no cheaper and no dearer one beats for sure; `gains` are those over the stated confidence."""
    method = METHODS[0]
    for name in METHODS[1:]:
        over = gains[name] if method == METHODS[0] else _differences(series[method], series[name], seed)
        if over and over["brier"].falls:
            method = name
    return method


def _differences(a: Series, b: Series, seed: int, *, of_each_kind: int = MIN_PER_CLASS) -> dict[str, Difference]:
    """All measures over the questions that both have a grade for; empty if they are too few for a verdict."""
    first, second = (each.where(each.has_grade) for each in (a, b))
    shared, ours, theirs = np.intersect1d(first.positions, second.positions, return_indices=True)
    sides = first.confidence[ours], first.correct[ours], second.confidence[theirs], second.correct[theirs]
    for right in (sides[1].sum(), sides[3].sum()):
        if len(shared) < MIN_QUESTIONS or min(right, len(shared) - right) < of_each_kind:
            return {}
    return paired_differences(*sides, seed=seed)
