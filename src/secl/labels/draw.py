"""Which answers to ask people about: drawn at random, so that what they say holds for all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def by_lot(positions: Iterable[int], seed: int) -> list[int]:
    """Positions of answers in the order of their lots: whoever asks about the first ones asks at random.

    >>> by_lot(range(5), 42) == by_lot(reversed(range(5)), 42), sorted(by_lot(range(5), 42))
    (True, [0, 1, 2, 3, 4])
    """
    return sorted(positions, key=lambda position: (lot(position, seed), position))


def lot(position: int, seed: int) -> float:
    """The lot of an answer, in [0, 1).

    It depends on position and seed alone, so that a queue to which answers are added stays in order.

    >>> 0 <= lot(7, 42) < 1, lot(7, 42) == lot(7, 42), lot(7, 42) == lot(7, 43)
    (True, True, False)
    """
    digest = hashlib.blake2b(f"review-{seed}-{position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
