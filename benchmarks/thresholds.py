"""Shares of false guarantees of `secl threshold`, in simulations chosen to break the guarantee.

    python -m benchmarks.thresholds [--streams 400]

A stream has 1,000 answers, some of which are drawn at random and labelled. The guarantee is 90 % certainty that the
share of wrong answers among the accepted ones is at most `risk`. "false": share of streams in which this share exceeds
`risk`, measured with the simulation's exact probabilities; at most 10 % may be false. "given": share of streams with a
threshold. "coverage": share of answers that the threshold accepts, 0 without a threshold.
Thresholds are tested in the order of the confidences before labels. `docs/lab/log.md` has other orders
and recorded runs.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from benchmarks.labels import Rated, review_label
from benchmarks.study import heading, row
from secl.evaluation.acceptance import Judgement, advise, answers_of
from secl.labels.label import Label
from secl.metrics.risk_control import guaranteed, risk_coverage

Vector = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]
ANSWERS, CERTAINTY, FRESH = 1000, 0.9, 20_000
LABELS, DOMAINS = (20, 50, 200), (1, 14, 40)


@dataclass(frozen=True)
class World:
    """A kind of simulated answers, which have a confidence and a domain.

    Attributes:
        risk: largest allowed share of wrong answers among the accepted ones.
        confidence: draws n confidences.
        chance: maps n confidences and n domains to the probabilities of being right.
    """

    risk: float
    confidence: Callable[[np.random.Generator, int], Vector]
    chance: Callable[[Vector, Whole], Vector]


@dataclass(frozen=True)
class Answers:
    """Simulated answers: confidences, domains, probabilities of being right, and grades."""

    confidence: Vector
    domain: Whole
    chance: Vector
    correct: npt.NDArray[np.bool_]


def beta(a: float, b: float) -> Callable[[np.random.Generator, int], Vector]:
    """Return a function that draws confidences from a Beta distribution."""
    return lambda generator, count: generator.beta(a, b, count)


def clipped(generator: np.random.Generator, count: int) -> Vector:
    """Draw confidences, half of them above .999; a map clips their logits, so that they become equal."""
    usual, sure = expit(1.8 + generator.normal(size=count)), 1 - 10 ** -generator.uniform(3.1, 6, count)
    return np.asarray(np.where(generator.random(count) < 0.5, sure, usual))


def constant(share: float) -> Callable[[Vector, Whole], Vector]:
    """Return a function that gives all answers the same probability of being right."""
    return lambda confidence, _domain: np.full(len(confidence), share)


def shifted(confidence: Vector, domain: Whole) -> Vector:
    """Return probabilities of being right for domains that differ from the confidences by up to 1.5 logits."""
    shift = np.random.default_rng(3).normal(0, 0.75, 64)[domain]
    return np.asarray(expit(np.log(confidence / (1 - confidence)) + np.clip(shift, -1.5, 1.5)))


WORLDS = {
    "equal confidences": World(0.1, lambda _, count: np.full(count, 0.85), constant(0.85)),
    "nearly equal": World(0.1, lambda g, count: expit(1.73 + 0.1 * g.normal(size=count)), constant(0.85)),
    "ties at the clip": World(0.1, clipped, constant(0.86)),
    "worth nothing": World(0.2, beta(4, 1), constant(0.78)),
    "worst at the top": World(0.1, beta(4, 1), lambda c, _: np.where(c > 0.95, 0.7, c**0.5)),
    "overconfident": World(0.2, beta(4, 1), lambda c, _: c**1.5),
    "calibrated": World(0.1, beta(4, 1), lambda c, _: c),
    "domains differ": World(0.2, beta(4, 1), shifted),
}


def drawn(world: World, domains: int, count: int, generator: np.random.Generator) -> Answers:
    """Draw `count` answers of a world."""
    confidence, domain = world.confidence(generator, count), generator.integers(domains, size=count)
    chance = world.chance(confidence, domain)
    return Answers(confidence, domain, chance, generator.random(count) < chance)


def labelled(answers: Answers, places: Sequence[int]) -> list[Label]:
    """Return review labels of the answers at some places."""
    rated = [(float(answers.confidence[k]), bool(answers.correct[k]), f"domain {answers.domain[k]}") for k in places]
    return [review_label(place, Rated(*each)) for place, each in zip(places, rated, strict=True)]


@dataclass(frozen=True)
class Outcome:
    """Share of wrong answers (`risk`) and coverage of a threshold; nan without a threshold."""

    risk: float = math.nan
    coverage: float = math.nan


def outcome(confidence: Vector, value: float, chance: Vector) -> Outcome:
    """Return the effect of accepting the confidences of at least `value`."""
    accepted = confidence >= value
    return Outcome(float(1 - chance[accepted].mean()) if accepted.any() else 0.0, float(accepted.mean()))


def tested(
    answers: Answers, order: Vector, places: Sequence[int], risk: float, fresh: tuple[Vector, Vector]
) -> Outcome:
    """Return the effect on `fresh` answers of a threshold that labels at `places` guarantee, tested in `order`."""
    seen = np.full(len(order), math.nan)
    seen[list(places)] = answers.correct[list(places)]
    threshold = guaranteed(risk_coverage(order, seen), risk, CERTAINTY)
    return Outcome() if threshold is None else outcome(fresh[0], threshold.value, fresh[1])


def by_label_free(world: World, domains: int, labels: int, generator: np.random.Generator) -> Outcome:
    """Return the effect on a second run of a threshold from labels of a first run."""
    answers, again = drawn(world, domains, ANSWERS, generator), drawn(world, domains, FRESH, generator)
    return tested(answers, answers.confidence, range(labels), world.risk, (again.confidence, again.chance))


def measures(outcomes: Sequence[Outcome], risk: float) -> tuple[str, str, str]:
    """Return the cells "false", "given" and "coverage"."""
    given = [each for each in outcomes if not math.isnan(each.risk)]
    false = sum(each.risk > risk for each in given) / len(outcomes)
    coverage = sum(each.coverage for each in given) / len(outcomes)
    return f"{false:.1%}", f"{len(given) / len(outcomes):.0%}", f"{coverage:.0%}"


def simulated(streams: int) -> Iterator[str]:
    """Yield a row for each world, number of domains and number of labels."""
    for (name, world), domains, labels in itertools.product(WORLDS.items(), DOMAINS, LABELS):
        generator = np.random.default_rng(7)
        outcomes = [by_label_free(world, domains, labels, generator) for _ in range(streams)]
        yield row(name, world.risk, domains, labels, *measures(outcomes, world.risk))


def drifting(streams: int) -> Iterator[str]:
    """Yield a row for each change of the questions after 200 labels of calibrated confidences."""
    later = {
        "the same": WORLDS["calibrated"],
        "harder, confidences fall with it": World(0.1, beta(2, 1), lambda c, _: c),
        "harder, not noticed": World(0.1, beta(4, 1), lambda c, _: c**1.5),
        "much harder, not noticed": World(0.1, beta(4, 1), lambda c, _: c**3),
    }
    for name, world in later.items():
        generator, outcomes = np.random.default_rng(7), []
        for _ in range(streams):
            answers = drawn(WORLDS["calibrated"], 1, ANSWERS, generator)
            again = drawn(world, 1, FRESH, generator)
            fresh = (again.confidence, again.chance)
            outcomes.append(tested(answers, answers.confidence, range(200), world.risk, fresh))
        yield row(name, *measures(outcomes, world.risk))


def looked_often(streams: int) -> Iterator[str]:
    """Yield a row for each step: a user tries after every `step` labels, until a threshold appears or 200 labels exist.

    Every threshold is false: at each of them, 10.5 % of answers are wrong."""
    world = World(0.1, beta(4, 1), constant(0.895))
    for step in (200, 50, 20, 5):
        generator, outcomes = np.random.default_rng(7), []
        for _ in range(streams):
            answers = drawn(world, 1, ANSWERS, generator)
            fresh = (answers.confidence, answers.chance)
            looks = (tested(answers, answers.confidence, range(n), world.risk, fresh) for n in range(step, 201, step))
            outcomes.append(next((each for each in looks if not math.isnan(each.risk)), Outcome()))
        yield row(f"every {step} labels", *measures(outcomes, world.risk))


KINDS = (
    "review",
    "feedback, one chance",
    "feedback, two chances",
    "feedback of one client",
    "thumbs",
    "pruned records",
)


def given_as(kind: str, log: Sequence[Label], generator: np.random.Generator) -> list[Label]:
    """Return labels as `secl` stores them for a kind of feedback; two of the kinds allow no guarantee."""
    if kind == "feedback, one chance":  # every answer is labelled with probability .3
        kept = generator.random(len(log)) < 0.3
        return [replace(log[k], source="feedback", chance=0.3) for k in np.flatnonzero(kept).tolist()]
    if kind == "feedback, two chances":  # confident answers are seldom labelled
        chances = [0.1 if label.confidence > 0.9 else 1.0 for label in log]
        return [replace(label, source="feedback", chance=chance) for label, chance in zip(log, chances, strict=True)]
    if kind == "feedback of one client":  # it labels all its easy questions; a review adds labels
        easy = 3 * len(log) // 4
        return [*(replace(label, source="feedback", correct=True) for label in log[:easy]), *log[easy:]]
    return [replace(label, source="feedback", chance=None) for label in log] if kind == "thumbs" else [*log]


def stored(streams: int) -> Iterator[str]:
    """Yield a row for each world and kind of labels, from the code of `secl threshold`."""
    for (name, world), kind in itertools.product(WORLDS.items(), KINDS):
        generator, outcomes = np.random.default_rng(7), []
        for _ in range(streams // 4):
            answers = drawn(world, 14, ANSWERS, generator)
            log = given_as(kind, labelled(answers, range(667 if kind == "feedback, one chance" else 200)), generator)
            rows = zip(answers.confidence.tolist(), answers.domain.tolist(), strict=True)
            judged = [Judgement(place, f"domain {of}", each, None) for place, (each, of) in enumerate(rows)]
            kept = judged[500:] if kind == "pruned records" else judged
            advice = advise(answers_of(kept, log), world.risk, CERTAINTY)
            promised = advice.basis == "labels" and advice.threshold is not None
            value = advice.threshold.uncalibrated if promised and advice.threshold else 0.0
            outcomes.append(outcome(answers.confidence, value, answers.chance) if promised else Outcome())
        yield row(name, kind, *measures(outcomes, world.risk))


def main() -> None:
    """Print all tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=400)
    streams = parser.parse_args().streams
    cells = ("false", "given", "coverage")
    for lines, *first in (
        (simulated, "confidences", "risk", "domains", "labels"),
        (drifting, "afterwards questions are"),
        (looked_often, "threshold asked for"),
        (stored, "confidences", "labels"),
    ):
        print(heading(*first, *cells))
        print(*lines(streams), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
