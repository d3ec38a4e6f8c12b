"""Which answers to ask people about: drawn at random, so that what they say holds for all."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar


def draw_positions(count: int, total: int, seed: int) -> frozenset[int]:
    """So many positions of a stream, all of them if it is shorter.

    >>> sorted(draw_positions(3, 100, 42)) == sorted(draw_positions(3, 100, 42)), len(draw_positions(5, 3, 0))
    (True, 3)
    """
    return frozenset(random.Random(f"labels-{seed}").sample(range(total), min(count, total)))


Answer = TypeVar("Answer")


def review_queue(answers: Sequence[Answer], seed: int) -> list[Answer]:
    """Answers in a random order that depends on their number and the seed alone, so that a review can go on later."""
    return random.Random(f"review-{seed}").sample(answers, len(answers))


def lot(position: int, seed: int) -> float:
    """The lot of a record, in [0, 1): whoever asks about the lowest lots first asks about answers at random.

    It depends on position and seed alone, so that a queue to which answers are added stays in order.

    >>> 0 <= lot(7, 42) < 1, lot(7, 42) == lot(7, 42), lot(7, 42) == lot(7, 43)
    (True, True, False)
    """
    digest = hashlib.blake2b(f"review-{seed}-{position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
