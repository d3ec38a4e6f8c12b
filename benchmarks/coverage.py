"""Do 95% intervals hold the truth in 95% of samples? `python -m benchmarks.coverage [--draws 300]`, about ten minutes.

Answers are drawn from worlds with a known error: confidences from a beta distribution (or all alike), each answer right
with the probability that it states less a fixed amount. Every sample is measured as a report measures it. Printed are,
for each world and number of answers, how often the interval of ECE, adaptive ECE, Brier score and AUROC holds the true
value, and beside the ECE what percentiles of the bootstrap would have held.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from secl.evaluation.measures import measure
from secl.metrics.bootstrap import Interval, percentile_interval, resampled_measures
from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc
from secl.metrics.graded import Vector

SIZES = (50, 200, 600, 2000)
MANY = 1_000_000
"""Answers that make the true values."""

RESAMPLES = 400

Draw = Callable[[np.random.Generator, int], Vector]


@dataclass(frozen=True)
class World:
    """How confidences are drawn, and by how much they are too high."""

    name: str
    confidences: Draw
    excess: float

    def sample(self, generator: np.random.Generator, count: int) -> tuple[Vector, Vector]:
        """Confidences and grades of some answers."""
        stated = self.confidences(generator, count)
        right = generator.random(count) < np.clip(stated - self.excess, 0.0, 1.0)
        return stated, right.astype(np.float64)


def _beta(a: float, b: float) -> Draw:
    return lambda generator, count: generator.beta(a, b, count)


def _alike(generator: np.random.Generator, count: int) -> Vector:
    return 0.7 + 0.02 * generator.random(count)


WORLDS = [
    *(World("high (beta 5, 2)", _beta(5, 2), excess) for excess in (0.0, 0.02, 0.05, 0.1, 0.3)),
    *(World("spread (uniform)", _beta(1, 1), excess) for excess in (0.0, 0.05, 0.1)),
    *(World("nearly all alike", _alike, excess) for excess in (0.0, 0.05)),
]
TRUE = {"ece": ece, "ada_ece": ada_ece, "brier": brier, "auroc": auroc}


def held(world: World, truth: dict[str, float], size: int, draws: int) -> dict[str, float]:
    """How often the intervals of samples hold the truth, by measure; "percentile" is the ECE's by the bootstrap."""
    counts = dict.fromkeys((*TRUE, "percentile"), 0)
    for number in range(draws):
        stated, right = world.sample(np.random.default_rng((size, number)), size)
        intervals = measure(stated, right, resamples=RESAMPLES, seed=number).intervals
        if intervals is None:
            raise ValueError("a measure with resamples has intervals.")
        for name in TRUE:
            counts[name] += _holds(getattr(intervals, name), truth[name])
        resampled = resampled_measures(stated, right, resamples=RESAMPLES, seed=number)["ece"]
        counts["percentile"] += _holds(percentile_interval(resampled), truth["ece"])
    return {name: count / draws for name, count in counts.items()}


def _holds(interval: Interval, truth: float) -> bool:
    return interval.low - 5e-4 <= truth <= interval.high + 5e-4  # the truth is simulated, too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    draws = parser.parse_args().draws
    print("| confidences | too high by | n | true ECE | ECE | (percentiles) | AdaECE | Brier | AUROC |")
    print("|---|---|---|---|---|---|---|---|---|")
    for world in WORLDS:
        sample = world.sample(np.random.default_rng(1), MANY)
        truth = {name: true(*sample) for name, true in TRUE.items()}
        for size in SIZES:
            share = held(world, truth, size, draws)
            cells = [f"{share[name]:.2f}" for name in ("ece", "percentile", "ada_ece", "brier", "auroc")]
            cells[1] = f"({cells[1]})"
            print(f"| {world.name} | {world.excess} | {size} | {truth['ece']:.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
