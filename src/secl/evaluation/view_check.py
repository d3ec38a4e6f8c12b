"""Which views of the candidates carry information, as far as that can be seen without right answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from secl.posterior.fit import FEWEST, Stack, Z, standing_out
from secl.posterior.letters import agreements, follow_options, mean_letters, place_effects, reliability
from secl.posterior.views import LETTERS, Views, read_views
from secl.records import Record
from secl.settings import ViewName


@dataclass(frozen=True, slots=True)
class ViewCheck:
    """What one view shows over some questions.

    Attributes:
        name: of the view.
        n: questions that have it.
        standing_out: how far one candidate stands out upwards, in standard errors (the test of `Posterior.informed`); 0
            for questions with two candidates.
        reliability: of letters, their correlation between two orders of the options, place effects removed, -1 to 1;
            nan for other views and for a single order.
        informed: whether it passes one of the tests that a view without information passes in 5% of cases; None for
            fewer questions than they need.
    """

    name: ViewName
    n: int
    standing_out: float
    reliability: float
    informed: bool | None


@dataclass(frozen=True, slots=True)
class ViewChecks:
    """What the views show over some questions, together.

    Attributes:
        questions: all of them.
        compared: those with two different candidates or more.
        views: a check of each view that any of them has.
        agreement: share of the questions for which letters and likelihood prefer the same candidate; nan without both.
        chance: that share, were one of the two drawn at random: the mean of 1/K.
    """

    questions: int
    compared: int
    views: tuple[ViewCheck, ...]
    agreement: float
    chance: float

    @property
    def informed(self) -> tuple[ViewName, ...]:
        """The views that carry information."""
        return tuple(view.name for view in self.views if view.informed)


def check_views(records: Sequence[Record]) -> ViewChecks:
    """What the evidence of a run shows about every view; no right answer is looked at.

    >>> check_views([]).views
    ()
    """
    found = {name: _views(records, (name,)) for name in get_args(ViewName)}
    agreement, chance = agreement_of_views(records)
    return ViewChecks(
        questions=len(records),
        compared=max(map(len, found.values())),
        views=tuple(_check(name, views) for name, views in found.items() if views),
        agreement=agreement,
        chance=chance,
    )


def _views(records: Sequence[Record], names: tuple[ViewName, ...]) -> list[Views]:
    read = (read_views(names, each.question, each.reply, each.frozen, each.evidence) for each in records)
    return [views for views in read if views is not None]


def _check(name: ViewName, questions: Sequence[Views]) -> ViewCheck:
    places = place_effects(questions)
    columns = [mean_letters(views, places) if name == LETTERS else views.values[0] for views in questions]
    different = [[column[i] for i in views.distinct] for column, views in zip(columns, questions, strict=True)]
    (stands_out,) = standing_out(Stack.of([np.array([column]).T for column in different]))
    agreed = agreements(questions)
    return ViewCheck(
        name=name,
        n=len(questions),
        standing_out=float(stands_out),
        reliability=float(reliability(agreed)) if agreed else math.nan,
        informed=bool(stands_out > Z or follow_options(agreed, Z)) if len(questions) >= FEWEST else None,
    )


def agreement_of_views(records: Sequence[Record]) -> tuple[float, float]:
    """How often letters and likelihood have the same best candidate, and how often chance alone would have it.

    Both are nan without questions that have both.
    """
    questions = [views for views in _views(records, (LETTERS, "likelihood")) if len(views.names) == 2]
    if not questions:
        return math.nan, math.nan
    places = place_effects(questions)
    same = [np.argmax(mean_letters(views, places)) == np.argmax(views.values[1]) for views in questions]
    return float(np.mean(same)), float(np.mean([1 / len(views.distinct) for views in questions]))
