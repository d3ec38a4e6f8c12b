"""Whether what `secl threshold` promises is kept: in simulated streams, under drift, and on recorded runs.

    python -m benchmarks.thresholds [RUN ...]

A stream has 1,000 answers, some of them drawn at random for a label, and a promise of 90 % certainty. "kept": streams
in which the risk of what the threshold accepts is the promised one at most, which the simulation knows exactly; a
stream without a threshold promises nothing, and keeps that. "given": streams with a threshold. "coverage": share of
answers that it accepts (none without), and "possible": the most that could be accepted at that risk.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import secl
from benchmarks.mistakes import in_a_sentence
from secl.evaluation.posterior import replayed
from secl.grading import reported_correct
from secl.labels import Label, LabelState
from secl.metrics.risk_control import Threshold, guaranteed, risk_coverage
from secl.posterior.rule import PosteriorRule
from secl.records import Record

Vector = npt.NDArray[np.float64]
STREAMS, ANSWERS, MANY = 200, 1000, 200_000
HALVES = ("risk", "kept, all answers", "kept, other half", "its risk", "given", "coverage")
RISKS, LABELS, CERTAINTY = (0.05, 0.1, 0.2), (50, 100, 300), 0.9


@dataclass(frozen=True)
class World:
    """Answers with Beta(a, b) confidences, right with a chance that depends on the confidence."""

    a: float
    b: float
    right: Callable[[Vector], Vector]

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Vector, Vector]:
        """Confidences, and whether the answers are right."""
        confidence = generator.beta(self.a, self.b, count)
        return confidence, (generator.random(count) < self.right(confidence)).astype(np.float64)

    def risks(self) -> tuple[Vector, Vector]:
        """Confidences, the highest first, and the share of wrong answers down to each."""
        confidence = np.sort(np.random.default_rng(0).beta(self.a, self.b, MANY))[::-1]
        return confidence, np.cumsum(1 - self.right(confidence)) / np.arange(1, MANY + 1)


CALIBRATED = World(4, 1, lambda c: c)
WORLDS = {
    "calibrated": CALIBRATED,
    "overconfident": World(4, 1, lambda c: c**1.5),
    "underconfident": World(2, 1, lambda c: c**0.4),
    "worst at the top": World(4, 1, lambda c: np.where(c > 0.95, 0.7, c**0.5)),
    "worth nothing": World(4, 1, lambda c: np.full(len(c), 0.79)),
}

SHIFTS = {
    "nothing": CALIBRATED,
    "harder questions, known to be": World(2, 1, lambda c: c),
    "harder questions, not noticed": World(4, 1, lambda c: c**1.5),
    "much harder, not noticed": World(4, 1, lambda c: c**3),
}
"""What comes after the labels, in streams whose labels were about calibrated answers."""


def found(world: World, risk: float, labels: int, generator: np.random.Generator) -> Threshold | None:
    """The threshold of one stream."""
    confidence, correct = world.draw(generator, ANSWERS)
    correct[labels:] = math.nan
    return guaranteed(risk_coverage(confidence, correct), risk, CERTAINTY)


def accepted_risk(risks: tuple[Vector, Vector], threshold: Threshold) -> tuple[float, float]:
    """Share of all answers that a threshold accepts, and the share of wrong ones among them."""
    confidence, shares = risks
    count = int(np.searchsorted(-confidence, -threshold.value, side="right"))
    return count / MANY, float(shares[max(count, 1) - 1])


def simulated() -> Iterator[str]:
    """A line for each world, risk and number of labels."""
    for name, world in WORLDS.items():
        risks = world.risks()
        for risk in RISKS:
            within = np.flatnonzero(risks[1] <= risk)
            possible = (within[-1] + 1) / MANY if within.size else 0.0
            for labels in LABELS:
                generator = np.random.default_rng(7)
                thresholds = [found(world, risk, labels, generator) for _ in range(STREAMS)]
                given = [accepted_risk(risks, each) for each in thresholds if each is not None]
                kept = (STREAMS - sum(wrong > risk for _, wrong in given)) / STREAMS
                coverage = sum(part for part, _ in given) / STREAMS
                share = len(given) / STREAMS
                yield f"| {name} | {risk} | {labels} | {kept:.3f} | {share:.2f} | {coverage:.2f} | {possible:.2f} |"


def drifting() -> Iterator[str]:
    """A line for each drift and risk: what a threshold from 300 labels does afterwards."""
    for name, later in SHIFTS.items():
        risks = later.risks()
        for risk in RISKS[1:]:
            generator = np.random.default_rng(7)
            thresholds = [found(CALIBRATED, risk, LABELS[-1], generator) for _ in range(STREAMS)]
            given = [accepted_risk(risks, each) for each in thresholds if each is not None]
            kept = (STREAMS - sum(wrong > risk for _, wrong in given)) / STREAMS
            wrong, coverage = float(np.mean([wrong for _, wrong in given])), sum(part for part, _ in given) / STREAMS
            yield f"| {name} | {risk} | {kept:.3f} | {wrong:.3f} | {coverage:.2f} |"


def moved() -> Iterator[str]:
    """A line for each risk where the labels move the confidences as well, of three domains that are unlike."""
    domains = (World(4, 1, lambda c: c), World(4, 1, lambda c: c**1.5), World(4, 1, lambda c: c**0.5))
    answers, labels = 300, 100
    for risk in RISKS[1:]:
        generator, kept, given, coverage = np.random.default_rng(7), 0, 0, 0.0
        for _ in range(STREAMS // 2):
            domain = generator.integers(0, len(domains), answers)
            confidence = generator.beta(4, 1, answers)
            chance = np.select([domain == k for k in range(3)], [world.right(confidence) for world in domains])
            correct = (generator.random(answers) < chance).astype(np.float64)
            log = [_label(k, bool(correct[k]), float(confidence[k]), str(domain[k])) for k in range(labels)]
            state = LabelState.start().add(log)
            after = np.array([state.rate(str(d), c).confidence for d, c in zip(domain, confidence, strict=True)])
            seen = correct.copy()
            seen[labels:] = math.nan
            threshold = guaranteed(risk_coverage(after, seen), risk, CERTAINTY)
            if threshold is None:
                kept += 1
                continue
            # The chances themselves of the answers without a label: what happens to such answers on average.
            part = after[labels:] >= threshold.value
            kept += bool(part.any()) and float(1 - chance[labels:][part].mean()) <= risk
            given, coverage = given + 1, coverage + float(part.mean())
        streams = STREAMS // 2
        yield f"| {risk} | {kept / streams:.3f} | {given / streams:.2f} | {coverage / streams:.2f} |"


def _label(place: int, correct: bool, confidence: float, domain: str) -> Label:
    return Label(
        number=place + 1,
        position=place,
        correct=correct,
        confidence=confidence,
        domain=domain,
        reported=confidence,
        time=0.0,
        source="review",
        chance=1.0,
    )


def halved(confidence: Vector, correct: Vector, risks: Sequence[float]) -> Iterator[str]:
    """A line for each risk: labels for a random half of recorded answers, tested on the other half and on all."""
    count = len(confidence)
    for risk in risks:
        generator, held, whole, given, coverage = np.random.default_rng(7), 0, 0, 0, 0.0
        wrong: list[float] = []
        for _ in range(STREAMS):
            order = generator.permutation(count)
            rest = order[count // 2 :]
            seen = correct.copy()
            seen[rest] = math.nan
            threshold = guaranteed(risk_coverage(confidence, seen), risk, CERTAINTY)
            if threshold is None:
                held, whole = held + 1, whole + 1
                continue
            part = confidence >= threshold.value
            others = part[rest]
            share = float(1 - correct[rest][others].mean()) if others.any() else 0.0
            held, whole = held + (share <= risk), whole + bool(1 - correct[part].mean() <= risk)
            given, coverage = given + 1, coverage + float(part.mean())
            wrong.append(share)
        mean = f"{np.mean(wrong):.3f}" if wrong else "-"
        yield (
            f"| {risk} | {whole / STREAMS:.3f} | {held / STREAMS:.3f} | {mean} | {given / STREAMS:.2f} | "
            f"{coverage / STREAMS:.2f} |"
        )


def recorded(folder: Path) -> dict[str, tuple[Vector, Vector]]:
    """Confidences of a run and whether its answers are right: as reported, and by the posterior for two answers."""
    with secl.Store(folder) as store:
        records = list(store.records())
    sources = {"reported": _graded(records)}
    compared = [record for record in records if record.evidence.candidates is not None]
    if compared:
        posteriors = replayed(PosteriorRule(), compared)
        weighed = [
            replace(record, posterior=posterior, labelled=None)
            for record, posterior in zip(compared, posteriors, strict=True)
            if posterior is not None and posterior.confidence is not None
        ]
        sources["posterior, own answers"] = _graded(weighed)
        sources["posterior, best answers"] = _graded([replace(record, answers_best=True) for record in weighed])
    return sources


def _graded(records: Sequence[Record]) -> tuple[Vector, Vector]:
    pairs = [(r.confidence, right) for r in records if (right := reported_correct(r)) is not None]
    return np.array([c for c, _ in pairs]), np.array([float(right) for _, right in pairs])


def main() -> None:
    """All tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    runs = parser.parse_args().runs
    for folder in runs:  # a folder that is none is found before anything is simulated
        secl.Store(folder).close()
    print("| confidences | risk | labels | kept | given | coverage | possible |\n|---|---|---|---|---|---|---|")
    print(*simulated(), sep="\n", flush=True)
    print("\n| afterwards comes | risk | kept | risk then | coverage then |\n|---|---|---|---|---|")
    print(*drifting(), sep="\n", flush=True)
    print("\n| risk, where 100 labels move confidences too | kept | given | coverage |\n|---|---|---|---|")
    print(*moved(), sep="\n", flush=True)
    for folder in runs:
        for source, (confidence, correct) in recorded(folder).items():
            right = f"{len(correct)} answers, {correct.mean():.3f} right" if len(correct) else "no graded answer"
            print(f"\n{folder.name}, {source}: {right}\n")
            print(f"| {' | '.join(HALVES)} |\n{'|---' * len(HALVES)}|")
            print(*halved(confidence, correct, (0.1, 0.2, 0.3, 0.5)), sep="\n", flush=True)


if __name__ == "__main__":
    with in_a_sentence():
        main()
