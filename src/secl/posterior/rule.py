"""The posterior along a stream: `start() -> state`, `step(state, views) -> (state, posterior)`.

    P(candidate) = softmax( sum over the views of weight * view )

The weights are functions of one number, which is estimated along the stream without labels: the reliability s of the
letters, how far they follow the options rather than their order (`views.VIEWS`; docs/lab/log.md has the sensitivity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from secl.errors import ParameterError
from secl.evidence import Posterior
from secl.metrics.probability import softmax
from secl.posterior.letters import RELIABILITY, LetterSums, correlation, of_mean
from secl.posterior.views import LETTERS, VIEWS, Views, read_views
from secl.records import Record
from secl.settings.groups import DEFAULT_VIEWS, ViewName

Group = tuple[int, int, bool]
"""Group of questions that share sums: number of candidates, number of orders, and whether the questions are open."""


PosteriorState = Mapping[Group, LetterSums]
"""The memory of a stream: sums of its letters."""


def sums_of(state: PosteriorState, views: Views) -> LetterSums:
    """Return the sums over earlier questions of the same group."""
    return state.get(_group(views)) or LetterSums.empty(views)


def with_question(state: PosteriorState, views: Views) -> PosteriorState:
    """Return the state after a further question; equal options, which share letters, leave it unchanged."""
    if not views.orders or len(views.distinct) < len(views.candidates):
        return state
    return {**state, _group(views): sums_of(state, views).add(views)}


def _group(views: Views) -> Group:
    return len(views.candidates), len(views.orders), views.none_last


@dataclass(frozen=True)
class PosteriorRule:
    """Combines views of the candidates into one probability each, without labels.

    Pure, like a gate: a replay of recorded evidence gives the recorded posteriors. The weights of a question depend on
    the questions before it.

    Attributes:
        views: names of the combined views.
        letters: prior correlation of the model's letters between two orders of the options, -1 to 1
            (`secl.model.Model.letters`); None takes `RELIABILITY`.

    Raises:
        ParameterError: a correlation outside [-1, 1].
    """

    views: tuple[ViewName, ...] = DEFAULT_VIEWS
    letters: float | None = None

    def __post_init__(self) -> None:
        if self.letters is not None and not -1 <= self.letters <= 1:
            raise ParameterError(f"the letters' correlation is {self.letters}; it must lie in [-1, 1].")

    def start(self) -> PosteriorState:
        return {}

    def step(self, state: PosteriorState, views: Views | None) -> tuple[PosteriorState, Posterior | None]:
        """Return the state after a question, and the posterior of its candidates; None without views."""
        if views is None:
            return state, None
        return with_question(state, views), self._weigh(views, state)

    def follow(self, state: PosteriorState, record: Record) -> tuple[PosteriorState, Posterior | None]:
        """Return the state after a record, and the posterior of its candidates."""
        return self.step(state, read_views(self.views, record))

    def _weigh(self, views: Views, state: PosteriorState) -> Posterior:
        before = RELIABILITY if self.letters is None else self.letters
        # Open questions, or questions with options, in a fixed order.
        alike = [state[group] for group in sorted(state) if group[2] is views.none_last]
        between_orders = correlation(alike, before)
        reliability = of_mean(between_orders, len(views.orders))
        known = reliability if views.orders else 0.0
        letters: dict[str, tuple[float, ...]] = {}
        if views.orders:
            letters[LETTERS] = sums_of(state, views).mean_letters(views)
        columns = {**letters, **views.values}
        weights = tuple((name, VIEWS[name].weight(known, views.none_last)) for name in columns)
        shares = softmax(
            [math.fsum(weight * columns[name][number] for name, weight in weights) for number in views.distinct]
        )
        return Posterior(
            candidates=views.candidates,
            probabilities=tuple(shares[row] for row in views.rows),
            own=views.own,
            none_last=views.none_last,
            weights=weights,
            reliability=reliability if views.orders else None,
            questions=sum(sums.questions for sums in alike),
        )
