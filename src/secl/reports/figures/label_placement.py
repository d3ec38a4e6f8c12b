"""Where names go beside the points of a chart, so that they cover neither each other nor the points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

Spot = tuple[float, float]
"""A place: right and up, in typographical points."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""

RADIUS = 5.0
"""Of a marker."""


def place(spots: Sequence[Spot], sizes: Sequence[Spot], inside: Box, obstacles: Sequence[Box] = ()) -> list[Box]:
    """A box for each name, near its point; the lowest point chooses first.

    A box is paid for by what it covers (points, obstacles, earlier names and their lines), by what lies outside, by
    its distance, and by being nearer to another point than a reader can tell apart.

    Args:
        spots: the points.
        sizes: width and height of the names.
        inside: where all of them belong.
        obstacles: what else should stay uncovered.

    >>> place([(50, 50)], [(30, 10)], (0, 0, 100, 100))
    [(58.0, 45.0, 88.0, 55.0)]
    """
    points = np.asarray(spots, dtype=np.float64).reshape(-1, 2)
    taken = [*obstacles, *((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in points.tolist())]
    placed: dict[int, Box] = {}
    for which in sorted(range(len(spots)), key=lambda i: (spots[i][1], spots[i][0])):
        spot = spots[which]
        others = points[np.hypot(*(points - points[which]).T) > RADIUS]
        covers = np.asarray(taken)
        prices = {box: _price(box, spot, covers, others, inside) for box in _candidates(spot, sizes[which])}
        box = min(prices, key=lambda candidate: prices[candidate])
        placed[which] = box
        taken += [box, *_line(spot, box)]
    return [placed[which] for which in range(len(spots))]


def anchor(spot: Spot, box: Box) -> Spot:
    """Where the line from a point meets the box of its name: the nearest end, or the middle above and below.

    >>> anchor((0, 0), (8, -5, 38, 5)), anchor((0, 0), (-15, 12, 15, 22))
    ((8, 0.0), (0, 12))
    """
    left, bottom, right, top = box
    if left <= spot[0] <= right:
        return spot[0], bottom if bottom > spot[1] else top
    return left if left > spot[0] else right, (bottom + top) / 2


def _candidates(spot: Spot, size: Spot) -> Iterator[Box]:
    """Right and left of a point, further and further up and down, and centred above and below it."""
    width, height = size
    for step in range(16):
        out = RADIUS + 3 + step
        for rise in (4.5 * step, -4.5 * step) if step else (0.0,):
            bottom = spot[1] + rise - height / 2
            for left in (spot[0] + out, spot[0] - out - width, spot[0] - width / 2):
                yield left, bottom, left + width, bottom + height


def _price(box: Box, spot: Spot, taken: Numbers, others: Numbers, inside: Box) -> float:
    covered = float(_overlaps(np.asarray([box]), taken).sum())
    outside = (box[2] - box[0]) * (box[3] - box[1]) - overlap(box, inside)
    line = _line(spot, box)
    crossed = int((_overlaps(np.asarray(line), taken) > 0).sum()) if line else 0
    reach = (box[0] - RADIUS - 1, box[1] - 4, box[2] + RADIUS + 1, box[3] + 4)
    x, y = others.T
    claimed = int(((reach[0] < x) & (x < reach[2]) & (reach[1] < y) & (y < reach[3])).sum())
    distance = abs((box[1] + box[3]) / 2 - spot[1]) + 0.2 * math.dist(anchor(spot, box), spot)
    return 4 * covered + 10 * outside + 5 * crossed + 15 * claimed + distance


def _line(spot: Spot, box: Box) -> list[Box]:
    """The line from the edge of a marker to its name, as small boxes."""
    (x, y), (left, low) = anchor(spot, box), spot
    long = math.dist((x, y), spot)
    reached = [RADIUS + 1.5 + 3 * step for step in range(int(max(0.0, long - RADIUS) / 3))]
    along = [(left + (x - left) * part / long, low + (y - low) * part / long) for part in reached]
    return [(a - 1, b - 1, a + 1, b + 1) for a, b in along]


def _overlaps(ones: Numbers, others: Numbers) -> Numbers:
    """Areas that n boxes share with m others: n x m."""
    low = np.maximum(ones[:, None, :2], others[None, :, :2])
    high = np.minimum(ones[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2))


def overlap(one: Box, other: Box) -> float:
    """Area that two boxes share.

    >>> overlap((0, 0, 2, 2), (1, 1, 3, 3))
    1.0
    """
    return float(_overlaps(np.asarray([one]), np.asarray([other]))[0, 0])
