"""What the views of the candidates show without right answers: whether letters follow the options, and the texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from secl.posterior.letters import of_mean
from secl.posterior.rule import PosteriorState
from secl.posterior.views import LETTERS, Views, read_views
from secl.records import Record
from secl.settings import ViewName


@dataclass(frozen=True, slots=True)
class ViewChecks:
    """What letters and likelihoods show over some questions.

    Attributes:
        questions: all of them.
        compared: those with two different candidates or more.
        correlation: of the letters between two orders of the options, place effects removed, -1 to 1; nan where no
            questions can tell.
        reliability: of their mean over both orders, 0 to 1, which is their weight; nan where no questions can tell.
        agreement: share of the questions for which letters and likelihood prefer the same candidate; nan without both.
        chance: that share, were one of the two drawn at random: the mean of 1/K.
    """

    questions: int
    compared: int
    correlation: float
    reliability: float
    agreement: float
    chance: float


def check_views(records: Sequence[Record]) -> ViewChecks:
    """What the evidence of a run shows about questions with options; no right answer is looked at.

    >>> check_views([]).compared, check_views([]).correlation
    (0, nan)
    """
    state, compared = PosteriorState(), _views(records, (LETTERS, "likelihood", "p_true"))
    for views in compared:
        state = state.add(views)
    correlation = state.correlation(math.nan, 0.0, is_open=False)
    agreement, chance = agreement_of_views(records)
    return ViewChecks(
        questions=len(records),
        compared=len(compared),
        correlation=correlation,
        reliability=math.nan if math.isnan(correlation) else of_mean(correlation, 2),
        agreement=agreement,
        chance=chance,
    )


def agreement_of_views(records: Sequence[Record]) -> tuple[float, float]:
    """How often letters and likelihood have the same best candidate, and how often chance alone would have it.

    Both are nan without questions that have both.
    """
    questions = [views for views in _views(records, (LETTERS, "likelihood")) if len(views.names) == 2]
    if not questions:
        return math.nan, math.nan
    state = PosteriorState()
    for views in questions:
        state = state.add(views)
    same = [_best(state.sums_of(views).mean_letters(views)) == _best(views.values[1]) for views in questions]
    return fmean(same), fmean(1 / len(views.distinct) for views in questions)


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda number: values[number])


def _views(records: Sequence[Record], names: tuple[ViewName, ...]) -> list[Views]:
    read = (read_views(names, each.question, each.reply, each.frozen, each.evidence) for each in records)
    return [views for views in read if views is not None]
