"""Views drawn so that one candidate is right, and every view is noise beside that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from secl.evidence import LetterOrder
from secl.posterior.views import LETTERS, Views, centred
from secl.prompts.orders import further_orders
from secl.settings import ViewName

Generator = np.random.Generator


def texts_of(count: int) -> tuple[str, ...]:
    return tuple(f"candidate {i}" for i in range(count))


def view(
    values: Sequence[Sequence[float]], names: Sequence[ViewName] = ("likelihood",), own: int | None = 0, **changes: Any
) -> Views:
    """Views with these values, centred, over candidates that are all different."""
    texts = texts_of(len(values[0]))
    views = Views(texts, own, tuple(names), tuple(centred(texts, each) for each in values))
    return replace(views, **changes)


def drawn(
    rng: Generator, count: int, delta: Sequence[float], covariance: Any, names: Sequence[ViewName]
) -> tuple[Views, int]:
    """Views of a question with `count` candidates, and the one that is right."""
    right = int(rng.integers(count))
    x = rng.multivariate_normal(np.zeros(len(delta)), covariance, count)
    x[right] += delta
    return view(x.T.tolist(), names), right


def lettered(
    rng: Generator,
    count: int,
    *,
    places: Sequence[float] | None = None,
    preference: float = 0.0,
    noise: float = 1.0,
    further: int = 1,
) -> Views:
    """Letters in `1 + further` orders: what their places get, the preference for an option, and noise in each order."""
    texts = texts_of(count)
    liked = preference * rng.normal(size=count)
    orders = []
    for order in (tuple(range(count)), *further_orders(count, further)):
        log_p = liked + noise * rng.normal(size=count)
        for place, candidate in enumerate(order):
            log_p[candidate] += 0.0 if places is None else places[place]
        orders.append(LetterOrder(order=order, log_p=centred(texts, log_p.tolist())))
    return Views(texts, 0, (LETTERS,), ((0.0,) * count,), tuple(orders))


def together(letters: Views, others: Views) -> Views:
    """Letters with the other views of the same candidates."""
    return replace(letters, names=(LETTERS, *others.names), values=(letters.values[0], *others.values))
