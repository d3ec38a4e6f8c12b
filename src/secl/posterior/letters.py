"""Letters under two orders of the options: preferences for places, told apart from preferences for options.

The memory of a stream are sums, added up in its order and rounded once within a question (`math.fsum`; the built-in
`sum` rounds otherwise from Python 3.12 on), so that a replay gives the same digits everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from secl.posterior.views import Views

RELIABILITY = 0.5
"""Correlation of the letters between two orders, for a model that was not measured."""

PRIOR_QUESTIONS = 20.0
"""Weight of the correlation known before the stream, in questions."""

PRIOR_PLACES = 5.0
"""Place effects are shrunk towards 0 as by so many questions without any."""

ROUNDING = 1e-12
"""Share of the letters' squares below which the rest without place effects is rounding."""


@dataclass(frozen=True, slots=True)
class LetterSums:
    """Sums over questions with as many candidates, shown in as many orders.

    Candidates are numbered by their place in the first order. A letter is its centred ln P (`Views.orders`).

    Attributes:
        questions: how many there were.
        places: sum of the letters, for each order and candidate.
        squares: sum of the squares of all letters.
        squared_sums: sum of the squares of each candidate's letters, added up over the orders.
    """

    questions: int
    places: tuple[tuple[float, ...], ...]
    squares: float
    squared_sums: float

    @classmethod
    def empty(cls, views: Views) -> LetterSums:
        """Return the sums over no question like this one."""
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
        """Return the letters of each candidate, averaged over the orders, less the shrunk effects of their places."""
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
        """Sum of the products of letters in two orders, and of their squares, place effects removed.

        Place effects are not shrunk here: the rest of effects that are alike in two orders (a liking for the first and
        the last letter, in an order and its reverse) would look like agreement. Both sums are 0 with one order, and if
        the letters hold place effects and rounding alone.
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


def correlation(groups: Iterable[LetterSums], before: float, weight: float = PRIOR_QUESTIONS) -> float:
    """Return the correlation of letters between two orders, place effects removed, from -1 to 1.

    1: the letters follow the options whatever their order; 0 or less: they do not. The correlation expected `before`
    the stream has the weight of `weight` questions.
    """
    both = own = 0.0
    questions = 0
    for group in groups:
        products, squares = group.agreement
        if squares > 0:
            both, own, questions = both + products, own + squares, questions + group.questions
    if own <= 0:
        return before
    prior = before * weight if weight else 0.0  # `before` may be nan then
    return (questions * both / own + prior) / (questions + weight)


def of_mean(correlation: float, orders: int) -> float:
    """Return the reliability of a mean over orders from the correlation of two (Spearman-Brown); 0 below 0."""
    return orders * correlation / (1 + (orders - 1) * correlation) if correlation > 0 else 0.0


def _by_first_place(views: Views) -> list[list[float]]:
    first = views.orders[0].order
    return [[order.log_p[candidate] for candidate in first] for order in views.orders]
