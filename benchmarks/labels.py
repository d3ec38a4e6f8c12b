"""Effect of a few labels on a recorded run whose questions have references.

    secl run --method posterior --benchmarks mmlu:200,arc:200,truthfulqa:200 --out RUN
    python -m benchmarks.labels RUN

Labels are drawn eight times; each time, the confidences of unlabelled answers are measured after calibration by these
labels. "chosen by users": users label a wrong answer ten times as often as a right one. Level error: absolute
difference between mean confidence and accuracy.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import secl
from benchmarks.study import heading, in_a_sentence, row
from secl.grading.rules import reported_correct
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.metrics.measures import ece
from secl.posterior.rule import PosteriorRule, replayed
from secl.records import Record

COUNTS = (0, 10, 20, 50, 100)
DRAWS = 8
WRONG, RIGHT = 0.3, 0.03
"""Chances that a user rates a wrong answer, and that a user rates a right answer."""


@dataclass(frozen=True, slots=True)
class Rated:
    """An answer with its confidence and its grade."""

    confidence: float
    correct: bool
    domain: str


def review_label(place: int, answer: Rated) -> Label:
    """Return the label that a review would give an answer; `place` is the answer's index."""
    return Label(
        number=place + 1,
        position=place,
        correct=answer.correct,
        confidence=answer.confidence,
        domain=answer.domain,
        reported=answer.confidence,
        time=0.0,
        source="review",
        chance=1.0,
    )


Chosen = list[tuple[int, float | None]]
"""Index of each answer to label, and the probability of its choice; None if unknown."""

Draw = Callable[[Sequence[Rated], int, random.Random], Chosen]
"""Chooses the given number of answers to label."""


def at_random(answers: Sequence[Rated], count: int, generator: random.Random) -> Chosen:
    """Choose `count` answers with equal probabilities."""
    return [(place, 1.0) for place in generator.sample(range(len(answers)), count)]


def disliked(answers: Sequence[Rated], count: int, generator: random.Random) -> Chosen:
    """Choose at most `count` answers, wrong answers ten times as often as right ones."""
    order = generator.sample(range(len(answers)), len(answers))
    rated: Chosen = []
    for place in order:
        chance = RIGHT if answers[place].correct else WRONG
        if generator.random() < chance:
            rated.append((place, chance))
    return rated[:count]


def taken_for(draw: Draw, chance: float | None) -> Draw:
    """Return a draw of the same answers that stores `chance` as the probability of each label; None means unknown."""
    return lambda answers, count, generator: [(place, chance) for place, _ in draw(answers, count, generator)]


def some_at_random(answers: Sequence[Rated], count: int, generator: random.Random) -> Chosen:
    """Choose a fifth of the answers at random, and the others as users would."""
    fair = at_random(answers, count // 5, generator)
    asked = {place for place, _ in fair}
    others = [(place, None) for place, _ in disliked(answers, count, generator) if place not in asked]
    return [*others[: count - len(fair)], *fair]


DRAWN: dict[str, Draw] = {
    "at random": at_random,
    "chosen by users": taken_for(disliked, None),
    "chosen by users, taken for fair": taken_for(disliked, 1.0),
    "chosen by users, chance known": disliked,
    "a fifth at random, the rest chosen by users": some_at_random,
    "at random, taken for chosen by users": taken_for(at_random, None),
}


def measured(answers: Sequence[Rated], drawn: Chosen) -> tuple[float, float, float, float]:
    """Return measures of unlabelled answers: ECE, Brier score, level error, and mean of the domains' level errors."""
    labels = [replace(review_label(place, answers[place]), chance=chance) for place, chance in drawn]
    state = LabelState.start().add(labels)
    chosen = {place for place, _ in drawn}
    rest = [each for place, each in enumerate(answers) if place not in chosen]
    confidence = np.array([state.rate(each.domain, each.confidence).calibrated for each in rest])
    correct = np.array([each.correct for each in rest], dtype=np.float64)
    domains = np.array([each.domain for each in rest])
    gaps = [abs(float((confidence - correct)[domains == name].mean())) for name in sorted(set(domains))]
    brier = float(((confidence - correct) ** 2).mean())
    return ece(confidence, correct), brier, abs(float((confidence - correct).mean())), float(np.mean(gaps))


def rows(answers: Sequence[Rated]) -> Iterator[str]:
    """Yield a row for each rule that chooses labels and each number of labels."""
    for how, draw in DRAWN.items():
        for count in COUNTS:
            if (count == 0 and how != "at random") or count >= len(answers):
                continue
            seeds = range(DRAWS if count else 1)
            values = np.array([measured(answers, draw(answers, count, random.Random(seed))) for seed in seeds])
            mean, spread = values.mean(0), values.std(0)
            cells = [f"{m:.3f} ± {s:.3f}" if count else f"{m:.3f}" for m, s in zip(mean, spread, strict=True)]
            yield row(how if count else "-", count, *cells)


def print_table(title: str, answers: Sequence[Rated]) -> None:
    """Print a table in Markdown."""
    right = sum(each.correct for each in answers) / len(answers)
    print(f"\n### {title}: {len(answers)} answers, {right:.3f} right\n")
    print(heading("labels", "number", "ECE", "Brier", "level error", "of domains"))
    print(*rows(answers), sep="\n")


def rated_answers(records: Sequence[Record], confidence: Callable[[Record], float | None]) -> list[Rated]:
    """Return the answers with a confidence and a reference."""
    found = []
    for record in records:
        value, correct = confidence(record), reported_correct(record)
        if value is not None and correct is not None:
            found.append(Rated(value, correct, record.question.domain))
    return found


def main() -> None:
    """Print a table for stated confidences, and a table for posteriors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    with secl.runs.Store(parser.parse_args().run) as store:
        kept = [record for record in store.records() if record.evidence.candidates is not None]
    posteriors = replayed(PosteriorRule(), kept)
    records = [replace(record, posterior=posterior) for record, posterior in zip(kept, posteriors, strict=True)]
    sources: dict[str, Callable[[Record], float | None]] = {
        "stated": lambda record: record.reply.stated,
        "posterior": lambda record: None if record.posterior is None else record.posterior.own_probability,
        "best answers": lambda record: None if record.posterior is None else record.confidences.uncalibrated,
    }
    best = [replace(record, best_returned=record.posterior is not None) for record in records]
    for name, confidence in sources.items():
        print_table(name, rated_answers(best if name == "best answers" else records, confidence))


if __name__ == "__main__":
    with in_a_sentence():
        main()
