"""How sure a share is that was counted."""

from __future__ import annotations

import math

Z = 1.96
"""Standard normal quantile of 97.5%."""


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of n, n of at least 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return middle - half, middle + half
