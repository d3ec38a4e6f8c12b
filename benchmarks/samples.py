"""Shares of false guarantees of `secl threshold` if labels are not what the guarantee assumes.

    python -m benchmarks.samples [--streams 400]

A stream has 1,000 answers, some of them labelled. The guarantee is 90 % certainty that the share of wrong answers among
the accepted ones is at most `risk`. "false": streams with a guarantee that is false for later answers, by the
simulation's exact probabilities; at most 10 % may be false. "given": streams with a guarantee. "coverage": share of
answers that the guarantee accepts, 0 without one. "before" takes all judged answers for a random sample of independent
answers. "unlike", "changed": streams in which secl says that the labelled answers are no random sample, or that old and
new labels differ.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from benchmarks.study import heading, row
from benchmarks.thresholds import Outcome, Vector, Whole, measures, outcome
from secl.evaluation.acceptance import Answers, Judgement, answers_of
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.metrics.risk_control import guaranteed, risk_coverage

ANSWERS, CERTAINTY, UNFITTED = 1000, 0.9, LabelState.start()
NO_DOMAINS = np.zeros(ANSWERS, np.intp)
Generator = np.random.Generator


@dataclass
class Stream:
    """Simulated answers and their labels.

    Attributes:
        chance: probability that a later answer of this confidence is right.
        right: whether each answer is right; by default drawn with `chance`.
        document, domain: number of each answer's document and domain.
        labelled: places of the labelled answers, in the order of the labels.
        skipped: places of the skipped answers among these.
        verdict: the labels, if they differ from `right`.
        chosen: the user says that people chose the labelled answers.
    """

    confidence: Vector
    chance: Vector
    right: np.ndarray
    labelled: Whole
    document: Whole = field(default_factory=lambda: np.arange(ANSWERS))
    domain: Whole = field(default_factory=lambda: NO_DOMAINS)
    skipped: frozenset[int] = frozenset()
    verdict: np.ndarray | None = None
    chosen: bool = False

    def judgements(self) -> list[Judgement]:
        rows = zip(self.confidence.tolist(), self.document.tolist(), self.domain.tolist(), strict=True)
        return [
            Judgement(place, f"domain {domain}", confidence, None, document, document)
            for place, (confidence, document, domain) in enumerate(rows)
        ]

    def log(self, count: int | None = None) -> list[Label]:
        verdict = self.right if self.verdict is None else self.verdict
        return [
            Label(
                number=number,
                position=place,
                correct=None if place in self.skipped else bool(verdict[place]),
                confidence=float(self.confidence[place]),
                domain=f"domain {self.domain[place]}",
                reported=float(self.confidence[place]),
                time=float(number),
                source="review",
                chance=None if self.chosen else 1.0,
                skipped=place in self.skipped,
            )
            for number, place in enumerate(self.labelled[:count].tolist(), start=1)
        ]


World = Callable[[Generator], Stream]


def calibrated(
    generator: Generator, labelled: Callable[[Vector], Whole] | int = 200, risk: float | None = None
) -> Stream:
    """Return answers with calibrated confidences, or with a constant risk; labels of a random sample by default."""
    confidence = generator.beta(4, 1, ANSWERS)
    chance = confidence if risk is None else np.full(ANSWERS, 1 - risk)
    places = generator.permutation(ANSWERS)[:labelled] if isinstance(labelled, int) else labelled(confidence)
    return Stream(confidence, chance, generator.random(ANSWERS) < chance, places)


def by_confidence(first: float, last: float, count: int = 200) -> World:
    """Return a world with labels of answers between two quantiles of the confidences."""

    def world(generator: Generator) -> Stream:
        def places(confidence: Vector) -> Whole:
            order = np.argsort(confidence)[int(first * ANSWERS) : int(last * ANSWERS)]
            return generator.permutation(order)[:count]

        return calibrated(generator, places)

    return world


def accepted_only(generator: Generator) -> Stream:
    return calibrated(generator, lambda confidence: generator.permutation(np.flatnonzero(confidence >= 0.9))[:200])


def half_accepted(generator: Generator) -> Stream:
    def places(confidence: Vector) -> Whole:
        accepted = generator.permutation(np.flatnonzero(confidence >= 0.9))[:15]
        others = np.setdiff1d(np.arange(ANSWERS), accepted)
        return np.concatenate((accepted, generator.permutation(others)[:15]))

    return calibrated(generator, places)


def both_ends(generator: Generator) -> Stream:
    return calibrated(generator, lambda confidence: np.argsort(np.abs(confidence - np.median(confidence)))[-200:])


def one_domain(generator: Generator) -> Stream:
    """Return labels of the easiest of five domains alone; confidences are equally high in all domains."""
    stream = calibrated(generator)
    stream.domain = generator.integers(5, size=ANSWERS)
    easy = stream.domain == 0
    stream.right = np.where(easy, generator.random(ANSWERS) < 0.97, stream.right)
    stream.labelled = generator.permutation(np.flatnonzero(easy))[:200]
    return stream


def chosen(generator: Generator) -> Stream:
    stream = accepted_only(generator)
    stream.chosen = True
    return stream


def skips(of: str) -> World:
    """Return a world in which a reviewer of a random sample skips answers."""

    def world(generator: Generator) -> Stream:
        stream = calibrated(generator, 300)
        wrong = ~stream.right & (generator.random(ANSWERS) < 0.5)
        shown = {"wrong": wrong, "unsure": stream.confidence < 0.69, "any": generator.random(ANSWERS) < 0.05}[of]
        judged = np.cumsum(~shown[stream.labelled])
        stream.labelled = stream.labelled[: int(np.searchsorted(judged, 200)) + 1]
        stream.skipped = frozenset(stream.labelled[shown[stream.labelled]].tolist())
        return stream

    return world


def documents(agreement: float, count: int, *, risk: float = 0.105, whole: bool = True) -> World:
    """Return a world with documents of ten fields, whose errors agree with this intraclass correlation."""

    def world(generator: Generator) -> Stream:
        stream = calibrated(generator, 10 * count, risk)
        stream.document = np.repeat(np.arange(ANSWERS // 10), 10)
        if agreement:
            scale = 1 / agreement - 1
            errors = generator.beta(risk * scale, (1 - risk) * scale, ANSWERS // 10)
            stream.right = generator.random(ANSWERS) >= np.repeat(errors, 10)
        stream.domain = np.tile(np.arange(10), ANSWERS // 10)
        if whole:
            places = generator.permutation(ANSWERS // 10)[:count]
            stream.labelled = (places[:, None] * 10 + np.arange(10)).ravel()
        return stream

    return world


def texts(count: int, together: float, *, risk: float | None = 0.105, longer: bool = False) -> World:
    """Return a world with texts of 1 to 20 facts, of which all facts of `count` texts are labelled.

    Args:
        together: share of the texts whose facts are wrong together: all facts up to a chance that the text draws once.
        longer: whether the facts of longer texts are more often wrong, at the same confidences.
    """

    def world(generator: Generator) -> Stream:
        stream = calibrated(generator, 0, risk)
        sizes = generator.integers(1, 21, ANSWERS)
        stream.document = np.repeat(np.arange(ANSWERS), sizes)[:ANSWERS]
        sizes = np.bincount(stream.document)
        if longer:
            of_text = np.repeat(sizes, sizes)
            wrong = (1 - stream.chance) * of_text / of_text.mean()
            stream.chance = np.full(ANSWERS, 1 - float(wrong.mean())) if risk else stream.chance
            stream.right = generator.random(ANSWERS) >= wrong
        else:
            wrong = 1 - stream.chance
        shared = np.repeat(generator.random(sizes.size), sizes)
        joined = np.repeat(generator.random(sizes.size) < together, sizes)
        stream.right = np.where(joined, shared >= wrong, stream.right)
        drawn = generator.permutation(sizes.size)[:count]
        stream.labelled = np.concatenate([np.flatnonzero(stream.document == text) for text in drawn])
        stream.domain = generator.integers(4, size=ANSWERS)  # kinds of facts
        return stream

    return world


def repeated(times: int, labels: int, risk: float | None = 0.105) -> World:
    """Return a world in which each question occurs several times, with the same answer."""

    def world(generator: Generator) -> Stream:
        stream = calibrated(generator, labels, risk)
        stream.document = np.arange(ANSWERS) // times
        stream.confidence, stream.chance = stream.confidence[stream.document], stream.chance[stream.document]
        stream.right = stream.right[stream.document]
        return stream

    return world


def aged(old: int, new: int, *, since: bool = False) -> World:
    """Return a world in which later answers have the risk .15 instead of .03 at the same confidences."""

    def world(generator: Generator) -> Stream:
        stream = calibrated(generator, risk=0.15)
        half = ANSWERS // 2
        first, second = generator.permutation(half)[:old], half + generator.permutation(half)[:new]
        stream.right[:half] = generator.random(half) >= 0.03
        stream.labelled = second if since else np.concatenate((first, second))
        return stream

    return world


def noisy(wrong_called_right: float, right_called_wrong: float, risk: float | None = None) -> World:
    """Return a world whose labels have errors."""

    def world(generator: Generator) -> Stream:
        stream = calibrated(generator, risk=risk)
        draw = generator.random(ANSWERS)
        stream.verdict = np.where(stream.right, draw >= right_called_wrong, draw < wrong_called_right)
        return stream

    return world


@dataclass(frozen=True)
class Case:
    """A world, the risk that the user asks for, and whether the documentation promises the guarantee."""

    world: World
    promised: bool = True
    risk: float = 0.1


def plain(labels: int, risk: float | None = None) -> World:
    return lambda generator: calibrated(generator, labels, risk)


CASES = {
    "random sample, calibrated": Case(plain(200)),
    "random sample, risk .105": Case(plain(200, 0.105)),
    "random sample, risk .03": Case(plain(200, 0.03)),
    "accepted answers only (from .9)": Case(accepted_only),
    "most certain first": Case(by_confidence(0.8, 1)),
    "least certain first": Case(by_confidence(0, 0.2)),
    "middle third": Case(by_confidence(1 / 3, 2 / 3)),
    "both ends": Case(both_ends),
    "30 labels, accepted answers only": Case(by_confidence(0.65, 1, 30)),
    "30 labels, half of them of accepted answers": Case(half_accepted, promised=False),
    "easiest of 5 domains only": Case(one_domain),
    "accepted answers only, named as such": Case(chosen),
    "half of the wrong answers skipped": Case(skips("wrong")),
    "least confident third skipped": Case(skips("unsure")),
    "5 % of answers skipped": Case(skips("any")),
    "20 documents, ICC .3": Case(documents(0.3, 20)),
    "20 documents, ICC .6": Case(documents(0.6, 20)),
    "50 documents, ICC .3": Case(documents(0.3, 50)),
    "50 documents, ICC .6": Case(documents(0.6, 50)),
    "200 fields of 100 documents, ICC .6": Case(documents(0.6, 20, whole=False)),
    "50 documents, ICC 0, risk .03": Case(documents(0, 50, risk=0.03)),
    "50 documents, ICC .3, risk .03": Case(documents(0.3, 50, risk=0.03)),
    "200 fields of 100 documents, ICC .3, risk .03": Case(documents(0.3, 20, risk=0.03, whole=False)),
    "20 texts, independent facts": Case(texts(20, 0)),
    "20 texts, facts wrong together": Case(texts(20, 1)),
    "50 texts, independent facts": Case(texts(50, 0)),
    "50 texts, half of them wrong together": Case(texts(50, 0.5)),
    "50 texts, facts wrong together": Case(texts(50, 1)),
    "50 texts, calibrated, facts wrong together": Case(texts(50, 1, risk=None)),
    "50 texts, longer ones more often wrong": Case(texts(50, 1, longer=True)),
    "80 texts, independent facts, risk .03": Case(texts(80, 0, risk=0.03)),
    "80 texts, facts wrong together, risk .03": Case(texts(80, 1, risk=0.03)),
    "questions 3 times": Case(repeated(3, 200)),
    "questions 10 times, 100 labels": Case(repeated(10, 100)),
    "questions 10 times, 200 labels": Case(repeated(10, 200)),
    "questions 3 times, calibrated": Case(repeated(3, 200, None)),
    "150 old labels, 50 new": Case(aged(150, 50), promised=False),
    "100 old labels, 100 new": Case(aged(100, 100), promised=False),
    "the 100 new labels (--since)": Case(aged(100, 100, since=True)),
    "10 % of labels wrong": Case(noisy(0.1, 0.1)),
    "10 % of labels wrong, risk .12": Case(noisy(0.1, 0.1, 0.12)),
    "10 % of wrong answers called right": Case(noisy(0.1, 0)),
    "30 % of wrong answers called right": Case(noisy(0.3, 0), promised=False),
    "accuracy .999": Case(plain(1000, 0.001), risk=0.003),
    "accuracy .999, asked for half the risk": Case(plain(1000, 0.001), risk=0.0005),
    "accuracy .02": Case(plain(200, 0.98), risk=0.97),
    "accuracy .5, 3 labels": Case(plain(3, 0.5), risk=0.45),
}


def effect(stream: Stream, value: float | None) -> Outcome:
    return Outcome() if value is None else outcome(stream.confidence, value, stream.chance)


def before(stream: Stream, risk: float) -> Outcome:
    """Return the effect of a guarantee that takes all judged answers for a random sample of independent answers."""
    verdict = stream.right if stream.verdict is None else stream.verdict
    places = [place for place in stream.labelled.tolist() if place not in stream.skipped]
    seen = np.full(ANSWERS, math.nan)
    seen[places] = verdict[places]
    threshold = guaranteed(risk_coverage(stream.confidence, seen), risk, CERTAINTY)
    return effect(stream, None if threshold is None else threshold.value)


def now(stream: Stream, answers: Answers, risk: float) -> Outcome:
    """Return the effect of the guarantee of `secl threshold`."""
    promises = answers.basis == "labels"
    threshold = guaranteed(answers.curve, risk, CERTAINTY) if promises else None
    return effect(stream, None if threshold is None else threshold.value)


@dataclass
class Result:
    """Effects of the guarantees of one case before and now, and numbers of streams with a doubt or a change."""

    before: list[Outcome] = field(default_factory=list)
    now: list[Outcome] = field(default_factory=list)
    unlike: int = 0
    changed: int = 0


def simulated(streams: int, cases: Sequence[str] = tuple(CASES)) -> Iterator[tuple[str, Result]]:
    """Yield the name and the result of each case."""
    for name in cases:
        case, generator, result = CASES[name], np.random.default_rng(7), Result()
        for _ in range(streams):
            stream = case.world(generator)
            answers = answers_of(stream.judgements(), stream.log(), UNFITTED)
            result.before.append(before(stream, case.risk))
            result.now.append(now(stream, answers, case.risk))
            result.unlike += answers.doubt is not None
            result.changed += answers.change is not None
        yield name, result


def looks(streams: int, risk: float | None, step: int, until: int, *, anytime: bool) -> list[Outcome]:
    """Return the effects for a user who looks after every `step` labels until a guarantee appears."""
    generator, outcomes = np.random.default_rng(7), []
    for _ in range(streams):
        stream = calibrated(generator, until, risk)
        seen, found = np.full(ANSWERS, math.nan), Outcome()
        for count in range(step, until + 1, step):
            seen[stream.labelled[:count]] = stream.right[stream.labelled[:count]]
            threshold = guaranteed(risk_coverage(stream.confidence, seen), 0.1, CERTAINTY, anytime=anytime)
            if threshold is not None:
                found = effect(stream, threshold.value)
                break
        outcomes.append(found)
    return outcomes


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=400)
    streams = parser.parse_args().streams
    cells = ("false", "given", "coverage")
    both = [f"{cell} {when}" for when in ("before", "now") for cell in cells]
    print(heading("labels", "promised", "risk", *both, "unlike", "changed"))
    for name, found in simulated(streams):
        risk = CASES[name].risk
        shares = (f"{found.unlike / streams:.1%}", f"{found.changed / streams:.1%}")
        promised = "yes" if CASES[name].promised else "no"
        print(row(name, promised, risk, *measures(found.before, risk), *measures(found.now, risk), *shares), flush=True)
    print()
    print(heading("looks", "test", "risk of all answers", *cells))
    users: tuple[tuple[int, int], ...] = ((5, 500), (200, 200), (500, 500))
    risks: tuple[float | None, ...] = (0.105, 0.101, None)
    for (step, until), of_all, anytime in product(users, risks, (False, True)):
        outcomes = looks(streams, of_all, step, until, anytime=anytime)
        name = f"every {step} labels up to {until}" if step < until else f"one, at {until} labels"
        test = "anytime" if anytime else "one look"
        print(row(name, test, of_all or "calibrated", *measures(outcomes, 0.1)), flush=True)


if __name__ == "__main__":
    main()
