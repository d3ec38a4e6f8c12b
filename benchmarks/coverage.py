"""Share of 95% intervals that contain the true value: `python -m benchmarks.coverage [--streams 200]`, ten minutes.

With `--units`, documents of eight answers: a fraction of the documents have answers that are right or wrong together.

Each stream has n answers. Confidences come from a distribution, and each answer is right with a probability that
depends on its confidence. secl measures each stream as a report does. True values come from 2,000,000 answers.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from secl.evaluation.summary import measure
from secl.metrics.measures import MEASURES, standard_measures
from secl.metrics.probability import Vector

SIZES = (20, 50, 200, 2000, 10_000)

ANSWERS = 2_000_000
"""Answers for the true values."""

MARGIN = 5e-4
"""Allowance for the error of the true values, which are simulated."""


@dataclass(frozen=True)
class World:
    """A kind of stream: draws of confidences, and the probability of a right answer for a confidence."""

    name: str
    confidences: Callable[[np.random.Generator, int], Vector]
    accuracy: Callable[[Vector], Vector]

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Vector, Vector]:
        """Return confidences and grades of `count` answers."""
        stated = self.confidences(generator, count)
        return stated, (generator.random(count) < self.accuracy(stated)).astype(np.float64)


def _beta(a: float, b: float) -> Callable[[np.random.Generator, int], Vector]:
    return lambda generator, count: generator.beta(a, b, count)


def _near(value: float, width: float = 0.02) -> Callable[[np.random.Generator, int], Vector]:
    return lambda generator, count: generator.uniform(value - width, value + width, count)


def _two(generator: np.random.Generator, count: int) -> Vector:
    return generator.choice([0.7, 0.9], count)


def _less(excess: float) -> Callable[[Vector], Vector]:
    return lambda stated: np.clip(stated - excess, 0.0, 1.0)


def _always(accuracy: float) -> Callable[[Vector], Vector]:
    return lambda stated: np.full(stated.size, accuracy)


WORLDS = (
    World("accuracy .98, calibrated", _beta(24.5, 0.5), _less(0.0)),
    World("accuracy .98, confidence .9", _near(0.9), _always(0.98)),
    World("accuracy .02, calibrated", _beta(0.5, 24.5), _less(0.0)),
    World("accuracy .02, confidence .3 to .5", _near(0.4, 0.1), _always(0.02)),
    World("accuracy .02, confidence .8", _near(0.8), _always(0.02)),
    World("accuracy .05, confidence .85", _near(0.85), _always(0.05)),
    World("accuracy .5, confidence .9", _near(0.9), _always(0.5)),
    World("accuracy .8, two values", _two, _less(0.0)),
    World("uniform, calibrated", _beta(1, 1), _less(0.0)),
    World("high, .05 too high", _beta(5, 2), _less(0.05)),
    World("high, .3 too high", _beta(5, 2), _less(0.3)),
    World("equal confidences of .9, accuracy .1", lambda _, count: np.full(count, 0.9), _always(0.1)),
)

SHOWN = ("ece", "ada_ece", "brier", "accuracy", "auroc")


def coverage(world: World, size: int, streams: int) -> dict[str, tuple[float, float]]:
    """Return for each measure the share of defined intervals that contain the true value, and the share undefined."""
    truth = standard_measures(*world.draw(np.random.default_rng(0), ANSWERS))
    counts = {name: [0, 0] for name in SHOWN}
    for number in range(streams):
        spans = measure(*world.draw(np.random.default_rng((size, number)), size)).intervals or {}
        for name in SHOWN:
            span = spans[name]
            counts[name][1] += math.isnan(span.low)
            counts[name][0] += span.low - MARGIN <= truth[name] <= span.high + MARGIN
    return {
        name: (hits / (streams - undefined) if undefined < streams else math.nan, undefined / streams)
        for name, (hits, undefined) in counts.items()
    }


UNIT_SIZE = 8
"""Answers of each document in `--units`."""


def draw_units(generator: np.random.Generator, units: int, together: float) -> tuple[Vector, Vector]:
    """Return confidences and grades of documents with `UNIT_SIZE` answers each, calibrated on average.

    In a fraction `together` of the documents, one number decides about all answers: an answer is right if its
    confidence is above this number. Half of the spread of the confidences is between documents.
    """
    stated = generator.beta(4, 2, (units, 1)) * 0.5 + generator.beta(4, 2, (units, UNIT_SIZE)) * 0.5
    luck = np.where(
        generator.random((units, 1)) < together, generator.random((units, 1)), generator.random(stated.shape)
    )
    return stated.ravel(), (luck < stated).astype(np.float64).ravel()


def coverage_of_units(units: int, together: float, streams: int, *, known: bool) -> dict[str, float]:
    """Return for each measure the share of intervals with the true value; `known`: whether secl knows the units."""
    truth = standard_measures(*draw_units(np.random.default_rng(0), ANSWERS // UNIT_SIZE, 0.0))
    names = np.repeat(np.arange(units), UNIT_SIZE).tolist() if known else None
    hits = dict.fromkeys(SHOWN, 0)
    for number in range(streams):
        answers = draw_units(np.random.default_rng((units, number)), units, together)
        spans = measure(*answers, units=names).intervals or {}
        for name in SHOWN:
            hits[name] += spans[name].low - MARGIN <= truth[name] <= spans[name].high + MARGIN
    return {name: count / streams for name, count in hits.items()}


def print_units(streams: int) -> None:
    print(f"| together | documents | {' | '.join(MEASURES[name] for name in SHOWN)} |")
    print("|--:|--:|" + "--:|" * len(SHOWN))
    for together in (0.0, 0.3, 1.0):
        for units in (10, 20, 60, 250):
            before, now = (coverage_of_units(units, together, streams, known=known) for known in (False, True))
            cells = " | ".join(f"{before[name]:.2f} → {now[name]:.2f}" for name in SHOWN)
            print(f"| {together} | {units} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--units", action="store_true")
    chosen = parser.parse_args()
    streams = chosen.streams
    if chosen.units:
        print_units(streams)
        return
    print(f"| world | n | {' | '.join(MEASURES[name] for name in SHOWN)} (undefined) |")
    print("|---|--:|" + "--:|" * len(SHOWN))
    for world in WORLDS:
        for size in SIZES:
            number = streams if size < ANSWERS // 1000 else max(1, streams // 2)
            found = coverage(world, size, number)
            cells = " | ".join(f"{found[name][0]:.2f}" for name in SHOWN)
            print(f"| {world.name} | {size:,} | {cells} ({found['auroc'][1]:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
