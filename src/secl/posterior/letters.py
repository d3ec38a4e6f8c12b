"""Letters under several orders: what a model prefers for the place of an option, and what it prefers for the option."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secl.posterior.views import Views, centred

Places = Mapping[tuple[int, int], tuple[float, ...]]
"""Mean of the centred ln P at each place, by the number of candidates and the number of the order."""

RELIABILITY = 0.5
"""Correlation of the letters between two orders, before anything is seen."""

PRIOR_QUESTIONS = 5.0
"""Questions that this correlation, and place effects of 0, count for."""

ROUNDING = 1e-12
"""Share of the letters' squares below which what is left of them is rounding."""


def place_effects(questions: Sequence[Views], prior: float = PRIOR_QUESTIONS) -> Places:
    """What letters get for their place alone: the mean over questions, drawn to 0 by `prior` questions without any."""
    sums: dict[tuple[int, int], list[float]] = {}
    counts: dict[tuple[int, int], int] = {}
    for views in questions:
        for number, each in enumerate(views.orders):
            key = (len(each.order), number)
            total = sums.setdefault(key, [0.0] * len(each.order))
            for place, candidate in enumerate(each.order):
                total[place] += each.log_p[candidate]
            counts[key] = counts.get(key, 0) + 1
    return {key: tuple(value / (counts[key] + prior) for value in total) for key, total in sums.items()}


def without_places(views: Views, places: Places) -> list[tuple[float, ...]]:
    """The letters of each order less what their places get, centred."""
    orders = []
    for number, each in enumerate(views.orders):
        effects = places.get((len(each.order), number), (0.0,) * len(each.order))
        by_candidate = dict(zip(each.order, effects, strict=True))
        values = [value - by_candidate[candidate] for candidate, value in enumerate(each.log_p)]
        orders.append(centred(views.candidates, values))
    return orders


def mean_letters(views: Views, places: Places) -> tuple[float, ...]:
    """The letters averaged over the orders, without place effects."""
    orders = without_places(views, places)
    return tuple(sum(values) / len(orders) for values in zip(*orders, strict=True))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the letters of one question agree between orders, place effects removed.

    Attributes:
        both: mean product of the letters in two orders, summed over candidates.
        own: mean of their squares, the same way.
    """

    both: float
    own: float


def agreements(questions: Sequence[Views]) -> list[Agreement]:
    """Of the questions whose letters can tell: asked in two orders or more, and not the only one with its number of
    candidates, for its place effects are then all that there is.

    Whole place effects are removed here: what is left of effects that are alike in two orders (a liking for the first
    and the last letter, in an order and its reverse) would look like agreement.
    """
    places = place_effects(questions, prior=0.0)
    counts = Counter(len(views.candidates) for views in questions)
    found = []
    for views in questions:
        count = len(views.orders)
        if count < 2 or counts[len(views.candidates)] < 2:
            continue
        orders = [[values[number] for number in views.distinct] for values in without_places(views, places)]
        squares = sum(value * value for values in orders for value in values)
        total = sum(sum(values) ** 2 for values in zip(*orders, strict=True))
        noise = ROUNDING * sum(value * value for each in views.orders for value in each.log_p)
        # Letters that follow nothing but their places leave nothing, and rounding is no evidence.
        known = squares > noise
        both = (total - squares) / (count * (count - 1))
        found.append(Agreement(both, squares / count) if known else Agreement(0.0, 0.0))
    return found


def reliability(found: Sequence[Agreement]) -> float:
    """How far letters follow the options: their correlation between two orders, place effects removed.

    1: the letters follow the options whatever the order; 0 or less: they follow something else. Includes the prior,
    which is all that there is where no question can tell.
    """
    if not found:
        return RELIABILITY
    both, own = sum(each.both for each in found), sum(each.own for each in found)
    prior = PRIOR_QUESTIONS * own / len(found)
    return (both + RELIABILITY * prior) / (own + prior) if own > 0 else 0.0


def follow_options(found: Sequence[Agreement], errors: float) -> bool:
    """Whether letters agree between orders by more than so many standard errors, without the prior."""
    products = [each.both for each in found]
    return sum(products) > errors * math.sqrt(sum(product * product for product in products))


def of_mean(correlation: float, orders: int) -> float:
    """Reliability of a mean over orders from the correlation of two of them (Spearman-Brown); 0 below 0.

    >>> round(of_mean(0.5, 2), 3), of_mean(-0.3, 2)
    (0.667, 0.0)
    """
    return orders * correlation / (1 + (orders - 1) * correlation) if correlation > 0 else 0.0
