"""The posterior along a stream: `start() -> state`, `step(state, views) -> (state, posterior)`.

    P(candidate) = softmax( sum over the views of weight * view )

The weights are functions of one number, which is estimated along the stream without labels: the reliability s of the
letters. The reliability is high if the letters follow the options, and low if they follow the places of the options.
`views.VIEWS` has the functions. docs/lab/log.md shows the effect of other functions.

The state of a stream is a set of sums over its questions (`LetterSums`). Sums within a question use `math.fsum`, so
that a replay gives the same digits everywhere; the built-in `sum` rounds differently before and after Python 3.12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from secl.errors import ParameterError
from secl.evidence import Posterior
from secl.metrics.probability import softmax
from secl.posterior.views import LETTERS, VIEWS, Views, read_views
from secl.records import Record
from secl.settings.groups import DEFAULT_VIEWS, ViewName

RELIABILITY = 0.5
"""Prior correlation of the letters between two orders, for an unmeasured model."""

PRIOR_QUESTIONS = 20.0
"""Weight of the prior correlation, in questions."""

PRIOR_PLACES = 5.0
"""Weight, in questions, of the prior that place effects are 0."""

ROUNDING = 1e-12
"""If subtracting place effects leaves less than this fraction of a sum of squares, what is left is rounding error."""


@dataclass(frozen=True, slots=True)
class LetterSums:
    """Sums over questions with the same number of candidates, shown in the same number of orders.

    Candidates are numbered by their place in the first order. "Letter" means the centred ln P of a letter
    (`Views.orders`).

    Attributes:
        questions: number of questions.
        places: sum of the letters, for each order and candidate.
        squares: sum of the squares of all letters.
        squared_sums: sum over the candidates of (sum of the candidate's letters over the orders)^2.
    """

    questions: int
    places: tuple[tuple[float, ...], ...]
    squares: float
    squared_sums: float

    @classmethod
    def empty(cls, views: Views) -> LetterSums:
        """Return sums of 0, in the shape of these views."""
        return cls(0, tuple((0.0,) * len(order.order) for order in views.orders), 0.0, 0.0)

    def add(self, views: Views) -> LetterSums:
        """Return the sums with a further question."""
        letters = _by_first_place(views)
        over_orders = [math.fsum(candidate) for candidate in zip(*letters, strict=True)]
        return LetterSums(
            questions=self.questions + 1,
            places=tuple(
                tuple(total + letter for total, letter in zip(*order, strict=True))
                for order in zip(self.places, letters, strict=True)
            ),
            squares=self.squares + math.fsum(letter * letter for order in letters for letter in order),
            squared_sums=self.squared_sums + math.fsum(total * total for total in over_orders),
        )

    def mean_letters(self, views: Views) -> tuple[float, ...]:
        """Subtract place effects, shrunk towards 0, and return the mean letter of each candidate over the orders."""
        shrunk = self.questions + PRIOR_PLACES
        less = [
            [letter - total / shrunk for letter, total in zip(*order, strict=True)]
            for order in zip(_by_first_place(views), self.places, strict=True)
        ]
        means = [math.fsum(candidate) / len(less) for candidate in zip(*less, strict=True)]
        by_candidate = dict(zip(views.orders[0].order, means, strict=True))
        return tuple(by_candidate[number] for number in range(len(means)))

    @property
    def agreement(self) -> tuple[float, float]:
        """Sum of the products of letters in two orders, and sum of their squares, without place effects.

        Place effects are not shrunk here, because shrinkage would leave a remainder of them. If a model prefers the
        first and the last letter, for example, both orders have the same remainder, which would look like agreement.
        Both sums are 0 with a single order, and if place effects explain all letters.
        """
        orders = len(self.places)
        if orders < 2 or self.questions < 2:
            return 0.0, 0.0
        n = self.questions
        squares = self.squares - math.fsum(total * total for row in self.places for total in row) / n
        sums = self.squared_sums - math.fsum(math.fsum(column) ** 2 for column in zip(*self.places, strict=True)) / n
        if squares <= ROUNDING * self.squares:
            return 0.0, 0.0
        return (sums - squares) / (orders * (orders - 1)), squares / orders


def correlation(groups: Iterable[LetterSums], before: float) -> float:
    """Return the correlation of letters between two orders, without place effects, from -1 to 1.

    1 means that the letters follow the options in any order, 0 or less that they do not. The prior correlation `before`
    has the weight of `PRIOR_QUESTIONS` questions.
    """
    both = own = 0.0
    questions = 0
    for group in groups:
        products, squares = group.agreement
        if squares > 0:
            both, own, questions = both + products, own + squares, questions + group.questions
    if own <= 0:
        return before
    return (questions * both / own + before * PRIOR_QUESTIONS) / (questions + PRIOR_QUESTIONS)


def of_mean(correlation: float, orders: int) -> float:
    """Return the reliability of a mean over orders from the correlation of two orders (Spearman-Brown), at least 0."""
    return orders * correlation / (1 + (orders - 1) * correlation) if correlation > 0 else 0.0


def _by_first_place(views: Views) -> list[list[float]]:
    first = views.orders[0].order
    return [[order.log_p[candidate] for candidate in first] for order in views.orders]


Group = tuple[int, int, bool]
"""Group of questions that share sums: number of candidates, number of orders, and whether the questions are open."""


PosteriorState = Mapping[Group, LetterSums]
"""The state of a stream: for each group of questions, sums over their letters."""


def sums_of(state: PosteriorState, views: Views) -> LetterSums:
    """Return the sums over earlier questions in the group of these views."""
    return state.get(_group(views)) or LetterSums.empty(views)


def with_question(state: PosteriorState, views: Views) -> PosteriorState:
    """Return the state after a further question, unchanged if two options are equal or the letters are unknown."""
    if not views.orders or len(views.distinct) < len(views.candidates):
        return state
    return {**state, _group(views): sums_of(state, views).add(views)}


def _group(views: Views) -> Group:
    return len(views.candidates), len(views.orders), views.none_last


@dataclass(frozen=True)
class PosteriorRule:
    """Combines views of the candidates into one probability each, without labels.

    `step` is a pure function: a replay of recorded evidence gives the recorded posteriors. The weights for a question
    depend on earlier questions.

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
        # Sums over questions of the same kind (open, or with options). The fixed order keeps their rounding the same.
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
