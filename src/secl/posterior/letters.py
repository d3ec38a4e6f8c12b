"""Letters under two orders of the options: preferences for options, separated from preferences for places.

The memory of a stream is a set of sums. `math.fsum` rounds once within a question, so that a replay gives the same
digits everywhere; the built-in `sum` rounds differently from Python 3.12 on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from secl.posterior.views import Views

RELIABILITY = 0.5
"""Correlation of the letters between two orders, for an unmeasured model."""

PRIOR_QUESTIONS = 20.0
"""Weight of the prior correlation, in questions."""

PRIOR_PLACES = 5.0
"""Weight, in questions, of the prior that place effects are 0."""

ROUNDING = 1e-12
"""Share of the letters' squares below which the remainder without place effects is rounding."""


@dataclass(frozen=True, slots=True)
class LetterSums:
    """Sums over questions with the same number of candidates, shown in the same number of orders.

    Candidates are numbered by their place in the first order. "Letter" means its centred ln P (`Views.orders`).

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
        """Return zero sums of the shape of these views."""
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
        """Return the mean letter of each candidate over the orders, after subtraction of shrunk place effects."""
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

        Place effects are not shrunk here. Shrunk effects would leave a remainder, which looks like agreement if the
        orders share it, as with a preference for the first and last letter. Both sums are 0 with one order, and if
        place effects explain all letters.
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
    """Return the correlation of letters between two orders, without place effects, from -1 to 1.

    1 means that the letters follow the options in any order, 0 or less that they do not. The prior correlation `before`
    has the weight of `weight` questions.
    """
    both = own = 0.0
    questions = 0
    for group in groups:
        products, squares = group.agreement
        if squares > 0:
            both, own, questions = both + products, own + squares, questions + group.questions
    if own <= 0:
        return before
    prior = before * weight if weight else 0.0  # without weight, `before` may be nan
    return (questions * both / own + prior) / (questions + weight)


def of_mean(correlation: float, orders: int) -> float:
    """Return the reliability of a mean over orders from the correlation of two orders (Spearman-Brown), at least 0."""
    return orders * correlation / (1 + (orders - 1) * correlation) if correlation > 0 else 0.0


def _by_first_place(views: Views) -> list[list[float]]:
    first = views.orders[0].order
    return [[order.log_p[candidate] for candidate in first] for order in views.orders]
