"""How close the map of labels comes to the truth, in worlds with extreme confidences or a reversed ranking.

    python -m benchmarks.increasing_map

Prints for each world and number of labels the mean squared difference between the calibrated confidences of new answers
and their true probabilities, after and before labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.metrics.probability import Vector

DRAWS, ANSWERS = 40, 200

WORLDS: dict[str, tuple[float, float, Callable[[Vector], Vector]]] = {
    "calibrated": (3.0, 1.5, lambda z: z),
    "shift of -1": (3.0, 1.5, lambda z: z - 1),
    "extreme, calibrated": (0.3, 0.15, lambda z: z),
    "extreme, slope .4": (0.3, 0.15, lambda z: 0.4 * z),
    "extreme, floor": (0.3, 0.15, lambda z: np.minimum(z, math.log(9))),
    "ranking reversed": (3.0, 1.5, lambda z: -0.5 * z),
}
"""Parameters of the Beta distribution of confidences, and the true logit of a logit."""


def drawn(world: str, count: int, generator: np.random.Generator) -> tuple[Vector, Vector]:
    """Return confidences and true probabilities of some answers."""
    a, b, truth = WORLDS[world]
    confidence = np.clip(generator.beta(a, b, count), 1e-15, 1 - 1e-15)
    return confidence, 1 / (1 + np.exp(-truth(np.log(confidence / (1 - confidence)))))


def errors(world: str, labels: int) -> tuple[float, float]:
    """Return the mean squared difference to the truth, after and before labels."""
    generator, after, before = np.random.default_rng(7), [], []
    same = {"domain": "d", "time": 0.0, "source": "review", "chance": 1.0}
    for _ in range(DRAWS):
        confidence, truth = drawn(world, labels, generator)
        right = generator.random(labels) < truth
        pairs = enumerate(zip(confidence.tolist(), right.tolist(), strict=True))
        log = [Label(number=n + 1, position=n, correct=r, confidence=c, reported=c, **same) for n, (c, r) in pairs]  # type: ignore[arg-type]
        state = LabelState.start().add(log)
        confidence, truth = drawn(world, ANSWERS, generator)
        mapped = [state.rate("d", each).calibrated for each in confidence.tolist()]
        after.append(float(np.mean((mapped - truth) ** 2)))
        before.append(float(np.mean((confidence - truth) ** 2)))
    return float(np.mean(after)), float(np.mean(before))


if __name__ == "__main__":
    for name in WORLDS:
        for count in (20, 100):
            after_labels, before_labels = errors(name, count)
            print(f"{name}, {count} labels: {after_labels:.4f}, before labels {before_labels:.4f}", flush=True)
