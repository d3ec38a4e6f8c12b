"""Replies, and letters with known preferences for places, and known noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secl.evidence import LetterOrder
from secl.posterior.views import Views, centred
from secl.prompts.templates import other_order
from secl.records import Reply
from tests.answers import make_reply


def replied(text: str, option_log_p: Sequence[float] = ()) -> Reply:
    """A reply with this answer and these letters; its confidence is never looked at."""
    return replace(make_reply(0, text), text=text, option_log_p=tuple(option_log_p))


def texts_of(count: int) -> tuple[str, ...]:
    return tuple(f"candidate {i}" for i in range(count))


def lettered(
    rng: np.random.Generator,
    count: int,
    *,
    places: Sequence[float] | None = None,
    noise: float = 1.0,
    further: int = 1,
) -> Views:
    """Letters in `1 + further` orders: what their places get, and noise in each order."""
    texts = texts_of(count)
    orders = []
    half = count // 2
    orders_of = [tuple(range(count)), other_order(count), (*range(half, count), *range(half))]
    for order in orders_of[: 1 + further]:
        log_p = noise * rng.normal(size=count)
        for place, candidate in enumerate(order):
            log_p[candidate] += 0.0 if places is None else places[place]
        orders.append(LetterOrder(order=order, log_p=centred(texts, log_p.tolist())))
    return Views(texts, 0, orders=tuple(orders))
