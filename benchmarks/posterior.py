"""Measures of the posterior on recorded runs, with its constants, changed constants, and weights fitted to labels.

    secl run --method posterior --benchmarks mmlu,arc,truthfulqa --per-domain 200 --model MODEL --data DIR --out RUN
    python -m benchmarks.posterior RUN [RUN ...]

One run has the evidence for all tables, because the posterior needs only the frozen model. The output is Markdown.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import softmax

import secl
from benchmarks.study import heading, in_a_sentence, row
from secl.evaluation.summary import measure
from secl.evidence import Posterior
from secl.grading.rules import correctness
from secl.metrics.intervals import symmetric_interval
from secl.posterior.rule import PosteriorRule, PosteriorState, replayed
from secl.posterior.views import LETTERS_VIEW, VIEWS, Views, Weight, read_views
from secl.records import Record

Array = npt.NDArray[np.float64]
FOLDS, RESAMPLES = 5, 2000

CONSTANTS: dict[str, dict[str, Weight]] = {
    "the rule": {},
    "likelihood .3": {"likelihood": lambda *_: 0.3},
    "likelihood .4": {"likelihood": lambda *_: 0.4},
    "likelihood .5": {"likelihood": lambda *_: 0.5},
    "likelihood .5 - s/4": {"likelihood": lambda s, _: 0.5 - s / 4},
    "letters s": {LETTERS_VIEW: lambda s, _: s},
    "letters .6 s": {LETTERS_VIEW: lambda s, _: 0.6 * s},
    "letters .5": {LETTERS_VIEW: lambda *_: 0.5},
    "letters 0, likelihood .5": {LETTERS_VIEW: lambda *_: 0.0, "likelihood": lambda *_: 0.5},
}
"""Changed weights of views, as functions of the reliability s of the letters."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posterior", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs with candidates for every question")
    for folder in parser.parse_args(arguments).runs:
        with secl.runs.Store(folder) as store:
            report(folder.name, list(store.records()))


def report(name: str, records: Sequence[Record]) -> None:
    """Print all tables of one run."""
    choices = [each for each in records if each.question.options and each.evidence.candidates is not None]
    rule = PosteriorRule()  # with the prior for models without a measured reliability of letters
    print(f"\n## {name}: {len(choices)} questions with options\n")
    domains = dict.fromkeys(each.question.domain.split("/")[0] for each in choices)
    streams = {"in order": choices, "shuffled": shuffled(choices, 1)}
    streams |= {domain: [r for r in choices if r.question.domain.split("/")[0] == domain] for domain in domains}
    own, best = "own: ECE (95 % floor) / Brier / AUROC", "best: right / says / ECE (95 % floor) / Brier"
    print(heading("stream", "weights", own, best, "-ln P"))
    for title, stream in streams.items():
        base = Worth.of(stream, replayed(rule, stream))
        for named, weights in CONSTANTS.items():
            if title in ("in order", "shuffled") or named == "the rule":
                with weighing(weights):
                    print(row(title, named, *Worth.of(stream, replayed(rule, stream)).cells(base)))
        known, posteriors = with_labels(stream)
        print(row(title, f"labels, {FOLDS} folds: {known}", *Worth.of(stream, posteriors).cells(base)))


@contextmanager
def weighing(weights: Mapping[str, Weight]) -> Iterator[None]:
    """Replace the library's weights of some views for a while."""
    usual = dict(VIEWS)
    VIEWS.update({name: replace(usual[name], weight=weight) for name, weight in weights.items()})
    try:
        yield
    finally:
        VIEWS.update(usual)


@dataclass(frozen=True)
class Worth:
    """Confidences and grades of own and most probable answers, and -ln P(right) of every question (`surprise`)."""

    own: tuple[Array, Array]
    best: tuple[Array, Array]
    surprise: Array

    @classmethod
    def of(cls, records: Sequence[Record], posteriors: Sequence[Posterior | None]) -> Worth:
        own, best, surprise = [], [], []
        for record, posterior in zip(records, posteriors, strict=True):
            if posterior is None or posterior.own is None:
                continue
            answer = record.question.letters[posterior.best]
            own.append((posterior.probabilities[posterior.own], bool(record.correct)))
            best.append((posterior.probabilities[posterior.best], bool(correctness(record, answer))))
            right = record.question.letters.index(str(record.question.reference))
            surprise.append(-math.log(max(posterior.probabilities[right], 1e-12)))
        pairs = [np.array(each, dtype=np.float64).T for each in (own, best)]
        return cls((pairs[0][0], pairs[0][1]), (pairs[1][0], pairs[1][1]), np.array(surprise))

    def cells(self, base: Worth) -> tuple[str, ...]:
        """Return the cells of a row, with 95 % intervals of the differences from `base` by paired bootstrap."""
        own, best = (measure(*pair, resamples=0) for pair in (self.own, self.best))
        brier = difference((self.own[0] - self.own[1]) ** 2, (base.own[0] - base.own[1]) ** 2)
        of_best = difference((self.best[0] - self.best[1]) ** 2, (base.best[0] - base.best[1]) ** 2)
        return (
            f"{own.ece:.3f} ({own.ece_floor_95:.3f}) / {own.brier:.4f}{brier} / {own.auroc:.3f}",
            f"{best.accuracy:.3f} / {best.mean_confidence:.3f} / {best.ece:.3f} ({best.ece_floor_95:.3f}) / "
            f"{best.brier:.4f}{of_best}",
            f"{self.surprise.mean():.4f}{difference(self.surprise, base.surprise)}",
        )


def difference(values: Array, base: Array) -> str:
    """Return the mean difference's 95 % interval as " [low, high]"; empty if all differences are 0."""
    delta = values - base
    if not delta.any():
        return ""
    rng = np.random.default_rng(0)
    means = [float(delta[rng.integers(len(delta), size=len(delta))].mean()) for _ in range(RESAMPLES)]
    interval = symmetric_interval(float(delta.mean()), means)
    return f" [{interval.low:+.4f}, {interval.high:+.4f}]"


def with_labels(records: Sequence[Record]) -> tuple[str, list[Posterior | None]]:
    """Return the mean weights as text, and posteriors whose weights minimise -ln P(right) on the other folds."""
    rule = PosteriorRule()
    state = rule.start()
    read = [read_views(rule.views, record) for record in records]
    for views in read:
        state, _ = rule.step(state, views)
    matrices = [None if views is None else matrix(state, views) for views in read]
    right = [each.question.letters.index(str(each.question.reference)) for each in records]

    def loss(weights: Array, taught: Sequence[int]) -> float:
        chosen = ((matrices[i], right[i]) for i in taught)
        return sum(-math.log(max(softmax(each @ weights)[z], 1e-12)) for each, z in chosen if each is not None)

    found = []
    for fold in range(FOLDS):
        taught = [i for i in range(len(records)) if i % FOLDS != fold]
        found.append(minimize(loss, [0.5, 0.5], args=(taught,), method="Nelder-Mead").x)
    changed = [
        posterior
        if posterior is None or each is None
        else replace(posterior, probabilities=tuple(softmax(each @ found[i % FOLDS]).tolist()))
        for i, (posterior, each) in enumerate(zip(replayed(rule, records), matrices, strict=True))
    ]
    return ", ".join(f"{weight:.2f}" for weight in np.mean(found, axis=0)), changed


def matrix(state: PosteriorState, views: Views) -> Array:
    """Return the values of letters and likelihood for a question, (candidates, 2); a missing view is 0."""
    letters = state.letters_of(views).mean_letters(views) if views.orders else (0.0,) * len(views.candidates)
    values = {**views.values, LETTERS_VIEW: letters}
    return np.array([values.get(name, (0.0,) * len(letters)) for name in (LETTERS_VIEW, "likelihood")]).T


def shuffled(records: Sequence[Record], seed: int) -> list[Record]:
    """Return the records in random order, with their new positions."""
    mixed = random.Random(seed).sample(list(records), len(records))
    return [replace(record, position=position) for position, record in enumerate(mixed)]


if __name__ == "__main__":
    with in_a_sentence():
        main()
