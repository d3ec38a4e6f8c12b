"""Which answers to rate next, in one of three orders, and what a label from each order is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from secl.labels.draw import lot
from secl.server.audit.store import ServerStore

Order = Literal["random", "unsure", "threshold"]
"""random: drawn by lot; unsure: confidence nearest to 0.5 first; threshold: nearest to the server's threshold first."""

ORDERS: tuple[Order, ...] = get_args(Order)

RECENT = 1000
"""Latest answers among which the next one is chosen: what people say is to hold for what is answered now."""

SEED = 42


@dataclass(frozen=True, slots=True)
class Queue:
    """Answers that nobody has rated, in order.

    Attributes:
        positions: of their records.
        drawn: whether they are drawn by lot, and not chosen by confidence; to be sent with a label.
        rated: how many of the latest answers have a label.
        answers: how many latest answers there are, `RECENT` at most.
    """

    positions: tuple[int, ...]
    drawn: bool
    rated: int
    answers: int


def review_queue(
    state: ServerStore, order: Order = "random", *, after: int | None = None, accept: float | None = None
) -> Queue:
    """The answers to rate.

    The lot of a record depends on its position alone. So every one of the latest answers is as likely as the others to
    come first, a review goes on where it was left, and two people who review draw the same.

    Args:
        state: to choose from.
        order: of the queue.
        after: begin behind the record at this position, which is skipped; None begins with the first.
        accept: the server's threshold; without one the order "threshold" is "unsure".
    """
    query = (
        "SELECT position, confidence, correct FROM answers WHERE confidence IS NOT NULL ORDER BY position DESC LIMIT ?"
    )
    with state.lock:
        rows = list(state.read(query, RECENT))
    near = accept if order == "threshold" and accept is not None else 0.5
    place: Callable[[int, float], tuple[float, int]] = (
        (lambda position, _: (lot(position, SEED), position))
        if order == "random"
        else (lambda position, confidence: (abs(confidence - near), -position))
    )
    places = {position: place(position, confidence) for position, confidence, _ in rows}
    unrated = sorted((position for position, _, correct in rows if correct is None), key=places.__getitem__)
    if after in places:
        unrated = [position for position in unrated if places[position] > places[after]]
    rated = sum(correct is not None for *_, correct in rows)
    return Queue(tuple(unrated), order == "random", rated, len(rows))
