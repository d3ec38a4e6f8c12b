"""Letters under several orders: what a model prefers for the place of an option, and what it prefers for the option."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from secl.posterior.views import Views, centred

Places = Mapping[tuple[int, int], tuple[float, ...]]
"""Mean of the centred ln P at each place, by the number of candidates and the number of the order."""

RELIABILITY = 0.5
"""Correlation of the letters between two orders, before anything is seen."""

PRIOR = 5.0
"""Questions that this correlation, and place effects of 0, count for."""


def place_effects(questions: Sequence[Views]) -> Places:
    """What letters get for their place alone, the mean over questions, drawn to 0 where there are few of them."""
    sums: dict[tuple[int, int], list[float]] = {}
    counts: dict[tuple[int, int], int] = {}
    for views in questions:
        for number, each in enumerate(views.orders):
            key = (len(each.order), number)
            total = sums.setdefault(key, [0.0] * len(each.order))
            for place, candidate in enumerate(each.order):
                total[place] += each.log_p[candidate]
            counts[key] = counts.get(key, 0) + 1
    return {key: tuple(value / (counts[key] + PRIOR) for value in total) for key, total in sums.items()}


def without_places(views: Views, places: Places) -> list[tuple[float, ...]]:
    """The letters of each order less what their places get; they sum to 0."""
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


def reliability(questions: Sequence[Views], places: Places) -> float:
    """How far letters follow the options: their correlation between two orders, place effects removed.

    1: the letters follow the options whatever the order; 0 or less: they follow something else. Includes the prior; nan
    where there is a single order.
    """
    both = own = 0.0
    counted = 0
    for views in questions:
        count = len(views.orders)
        if count < 2:
            continue
        orders = without_places(views, places)
        squares = sum(value * value for values in orders for value in values)
        total = sum(sum(values) ** 2 for values in zip(*orders, strict=True))
        both += (total - squares) / (count * (count - 1))  # mean product of two orders
        own += squares / count
        counted += 1
    if not counted:
        return math.nan
    prior = PRIOR * own / counted
    return (both + RELIABILITY * prior) / (own + prior) if own > 0 else 0.0


def of_mean(correlation: float, orders: int) -> float:
    """Reliability of a mean over orders from the correlation of two of them (Spearman-Brown); 0 below 0.

    >>> round(of_mean(0.5, 2), 3), of_mean(-0.3, 2)
    (0.667, 0.0)
    """
    return orders * correlation / (1 + (orders - 1) * correlation) if correlation > 0 else 0.0
