"""What the posterior is worth, and each of its parts, on recorded runs.

    secl run --method secl --gate always --evidence-on always --extra-evidence candidates --orders 2 \\
        --benchmarks mmlu,arc,truthfulqa --per-domain 200 --model MODEL --data DIR --out RUN
    python -m benchmarks.posterior RUN

Everything but the learned confidence comes from the frozen model's evidence, so one run serves all tables: estimators
in the order of the run and shuffled, ablations of the posterior, and its stability. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import secl
from benchmarks.posterior_views import print_domains, print_header, print_with_labels
from secl.evaluation.estimators import make_estimators
from secl.evaluation.measures import measure
from secl.evaluation.posterior import replayed
from secl.evaluation.series import Series
from secl.evidence import CandidateEvidence, LetterOrder, Posterior
from secl.metrics.paired_bootstrap import paired_differences
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.settings import PosteriorSettings

BASELINES = (
    "stated",
    "constant",
    "constant_labelled",
    "letter_probability",
    "stated_temperature",
    "stated_platt",
    "label_free_platt",
    "norm_p_true",
    "norm_p_true_platt",
    "order_averaged",
    "likelihood",
    "pmi",
)
TAUS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
SHUFFLES = 2
DRAWS = 10
"""Streams drawn for each length."""

Row = tuple[str, Series]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posterior", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run with candidates and P(True) for every question")
    parser.add_argument("--orders", type=int, default=1, help="further orders that count, outside the ablation of them")
    options = parser.parse_args(arguments)
    with secl.Store(options.run) as store:
        told = [record for record in store.records() if record.evidence.candidates is not None]
    records = [as_frozen(record) for record in told]
    kept = with_orders(records, options.orders)
    print(f"\n## {options.run.name}: {len(records)} questions\n")
    print_estimators("as recorded", kept, [("secl", make_estimators()["secl"].estimate(told))])
    for seed in (1, 2):
        print_estimators(f"shuffled, seed {seed}", shuffled(kept, seed), [])
    print_ablations(records)
    print_domains(kept)
    print_with_labels(kept)
    print_stability(kept)


def as_frozen(record: Record) -> Record:
    """A record as if nothing had been learned: the reply is the frozen model's, and so is what P(True) is about."""
    evidence, frozen = record.evidence, record.frozen
    if evidence.p_true is not None and record.question.options and frozen.answer is not None:
        asked = evidence.p_true
        own = asked.candidates.index(record.question.option(frozen.answer))
        order = [own, *(i for i in range(len(asked.candidates)) if i != own)]
        asked = replace(
            asked,
            candidates=tuple(asked.candidates[i] for i in order),
            probabilities=tuple(asked.probabilities[i] for i in order),
            false_probabilities=tuple(asked.false_probabilities[i] for i in order),
        )
        evidence = replace(evidence, p_true=asked)
    return replace(record, reply=frozen, correct=record.frozen_correct, evidence=evidence, posterior=None)


def with_orders(records: Iterable[Record], count: int) -> list[Record]:
    """The same records with the first `count` further orders alone."""

    def cut(candidates: CandidateEvidence | None) -> CandidateEvidence | None:
        return None if candidates is None else replace(candidates, letters=candidates.letters[:count])

    return [replace(r, evidence=replace(r.evidence, candidates=cut(r.evidence.candidates))) for r in records]


def shuffled(records: Sequence[Record], seed: int) -> list[Record]:
    """The records in another order, numbered anew."""
    mixed = random.Random(seed).sample(list(records), len(records))
    return [replace(record, position=position) for position, record in enumerate(mixed)]


def weighed(records: Sequence[Record], settings: PosteriorSettings) -> list[Record]:
    """The records with the posteriors that settings give along them."""
    posteriors = replayed(PosteriorRule(settings), records)
    return [replace(record, posterior=posterior) for record, posterior in zip(records, posteriors, strict=True)]


def print_estimators(title: str, records: Sequence[Record], others: Sequence[Row]) -> None:
    """A row for every confidence, and how far the posterior is from it on the same questions."""
    own = make_estimators()
    run = weighed(records, PosteriorSettings())
    taus = [(tau, make_estimators(tau)["norm_p_true"].estimate(run)) for tau in TAUS]
    best_tau, best = min(taus, key=lambda each: brier_of(each[1]))
    posterior = own["posterior"].estimate(run)
    rows = [(name, own[name].estimate(run)) for name in BASELINES]
    rows += [(f"norm_p_true, tau {best_tau} (labels)", best), *others]
    rows += [("posterior_best", own["posterior_best"].estimate(run)), ("posterior", posterior)]
    domains = {record.position: record.question.domain.split("/")[0] for record in run}
    print(f"### {title}\n")
    print_header(
        "confidence",
        "Brier",
        "ECE (95% of a perfect one)",
        "AUROC",
        "within domains",
        "PRR@50",
        "coverage at 5/10/20 % risk",
        "accuracy",
        "posterior's Brier less this",
        "posterior's AUROC less this",
    )
    for name, series in rows:
        print(line(name, series, posterior, domains))
    print()


def line(name: str, series: Series, posterior: Series, domains: dict[int, str]) -> str:
    """One row of measures with 95 % bootstrap intervals."""
    confidences, grades = series.graded()
    if not confidences.size:
        return f"| {name} | | | | | | | | | |"
    places = [domains[each.position] for each in series.estimates if each.correct is not None]
    m = measure(confidences, grades, domains=places)
    spans = m.intervals
    if spans is None:
        raise ValueError("intervals were asked for")
    by_position = {each.position: each for each in series.estimates}
    pairs = [(each, by_position[each.position]) for each in posterior.estimates if each.position in by_position]
    cells = ["", ""]
    if pairs and name != "posterior":
        a, b = zip(*((other, own) for own, other in pairs), strict=True)
        differences = paired_differences(
            [x.confidence for x in a], [x.correct for x in a], [x.confidence for x in b], [x.correct for x in b]
        )
        cells = [
            f"{each.difference:+.3f} ({each.interval.low:+.3f} to {each.interval.high:+.3f})"
            for each in (differences["brier"], differences["auroc"])
        ]
    return (
        f"| {name} | {m.brier:.4f} ({spans.brier.low:.3f}-{spans.brier.high:.3f}) | {m.ece:.3f} ({m.ece_floor_95:.3f}) "
        f"| {m.auroc:.3f} ({spans.auroc.low:.3f}-{spans.auroc.high:.3f}) | {m.auroc_within:.3f} "
        f"| {m.prr_50:.2f} | {m.coverage_at_5:.2f}/{m.coverage_at_10:.2f}/{m.coverage_at_20:.2f} | {m.accuracy:.3f} "
        f"| {cells[0]} | {cells[1]} |"
    )


ABLATIONS: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (1, {}),
    "no further order": (0, {}),
    "two further orders": (2, {}),
    "prior 5": (1, {"prior": 5.0}),
    "prior 80": (1, {"prior": 80.0}),
    "window 100": (1, {"window": 100}),
    "window 2000": (1, {"window": 2000}),
    "refit every 5": (1, {"refit": 5}),
    "refit every 100": (1, {"refit": 100}),
    "no reliability": (1, {"reliability": False}),
    "level by agreement": (1, {"level": True}),
    "guard": (1, {"guard": True}),
    "letters alone": (1, {"views": ("letters",)}),
    "likelihood alone": (0, {"views": ("likelihood",)}),
    "PMI alone": (0, {"views": ("pmi",)}),
    "P(True) alone": (0, {"views": ("p_true",)}),
    "letters, PMI": (1, {"views": ("letters", "pmi")}),
    "letters, likelihood, P(True)": (1, {"views": ("letters", "likelihood", "p_true")}),
    "letters, likelihood, PMI": (1, {"views": ("letters", "likelihood", "pmi")}),
    "all four": (1, {"views": ("letters", "likelihood", "pmi", "p_true")}),
}
"""Further orders and settings of every ablation."""


def print_ablations(records: Sequence[Record]) -> None:
    """The posterior with one part changed, as the mean over shuffled streams, and what its evidence costs."""
    most = max(len(record.evidence.candidates.letters) for record in records if record.evidence.candidates)
    print(f"### ablations, mean of the recorded order and {SHUFFLES} shuffles\n")
    print_header("", "own: Brier", "ECE", "AUROC", "best: accuracy", "Brier", "AUROC", "passes")
    for name, (further, changes) in ABLATIONS.items():
        if further <= most:
            cut = with_orders(records, further)
            streams = [cut, *(shuffled(cut, seed) for seed in range(SHUFFLES))]
            values = np.mean([figures(stream, PosteriorSettings(**changes)) for stream in streams], axis=0)
            cost = passes(records, further, PosteriorSettings(**changes))
            print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + f" | {cost:.2f} |")
    print()


def figures(records: Sequence[Record], settings: PosteriorSettings) -> list[float]:
    """Brier, ECE and AUROC of own answers; accuracy, Brier and AUROC of the best ones."""
    run = weighed(records, settings)
    own, best = (
        measure(*make_estimators()[name].estimate(run).graded(), resamples=0)
        for name in ("posterior", "posterior_best")
    )
    return [own.brier, own.ece, own.auroc, best.accuracy, best.brier, best.auroc]


def passes(records: Sequence[Record], further: int, settings: PosteriorSettings) -> float:
    """Tokens for answer and evidence per token of plain answering, orders counted in equal parts."""
    total = plain = 0.0
    for record in records:
        ledger, candidates = record.ledger, record.evidence.candidates
        recorded = len(candidates.letters) if candidates is not None else 0
        share = further / recorded if recorded and "letters" in settings.views else 0.0
        total += ledger.answering + ledger.reordering * share
        total += ledger.likelihood * bool({"likelihood", "pmi"} & set(settings.views))
        total += ledger.scoring * ("p_true" in settings.views)
        plain += record.plain_tokens
    return total / plain


def print_stability(records: Sequence[Record]) -> None:
    """Short streams, streams that are all right or all wrong, other numbers of options, an option repeated."""
    right, wrong = ([r for r in records if bool(r.correct) is kind] for kind in (True, False))
    streams: dict[str, Callable[[int], Sequence[Record]]] = {
        "30 questions": lambda seed: shuffled(records, seed)[:30],
        "100 questions": lambda seed: shuffled(records, seed)[:100],
        "300 questions": lambda seed: shuffled(records, seed)[:300],
        "all right": lambda seed: shuffled(right, seed)[:100],
        "all wrong": lambda seed: shuffled(wrong, seed)[:100],
        "two options": lambda seed: shuffled([fewer(r, 2) for r in records], seed)[:300],
        "three options": lambda seed: shuffled([fewer(r, 3) for r in records], seed)[:300],
        "an option repeated": lambda seed: shuffled([repeated(r) for r in records], seed)[:300],
    }
    print(f"### stability, mean of {DRAWS} streams of at most so many questions\n")
    print_header(
        "stream", "own: Brier", "mean confidence", "accuracy", "Brier of the letter probability", "confidences"
    )
    for name, draw in streams.items():
        rows, ends = [], []
        for seed in range(DRAWS):
            run = weighed(draw(seed), PosteriorSettings())
            own = measure(*make_estimators()["posterior"].estimate(run).graded(), resamples=0)
            free = measure(*make_estimators()["letter_probability"].estimate(run).graded(), resamples=0)
            rows.append([own.brier, own.mean_confidence, own.accuracy, free.brier])
            ends += [p.confidence for p in (r.posterior for r in run) if isinstance(p, Posterior) and p.confidence]
        means = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
        print(f"| {name} | {means} | {min(ends):.3f}, {max(ends):.3f} |")
    print()


def fewer(record: Record, count: int) -> Record:
    """A question with the right option, the model's own and others, `count` in all, as its evidence would be."""
    candidates, question = record.evidence.candidates, record.question
    if candidates is None or len(question.options) <= count or record.reply.answer is None:
        return record
    needed = {question.letters.index(str(question.reference)), question.letters.index(record.reply.answer)}
    rest = [i for i in range(len(question.options)) if i not in needed]
    kept = sorted([*needed, *rest[: max(0, count - len(needed))]])
    return chosen(record, kept)


def repeated(record: Record) -> Record:
    """A question with its first option once more at the end."""
    return chosen(record, [*range(len(record.question.options)), 0])


def chosen(record: Record, kept: Sequence[int]) -> Record:
    """A record whose options are those of some numbers, with the evidence that was recorded for them."""
    candidates, question = record.evidence.candidates, record.question
    if candidates is None or record.reply.answer is None:
        return record
    places = tuple(range(len(kept)))
    letters = tuple(
        LetterOrder(
            order=tuple(sorted(places, key=lambda place: (each.order.index(kept[place]), place))),
            log_p=tuple(each.log_p[number] for number in kept),
        )
        for each in candidates.letters
    )
    own, right = (question.letters.index(str(each)) for each in (record.reply.answer, question.reference))
    options = tuple(question.options[number] for number in kept)
    asked = replace(question, options=options, reference=question.letters[kept.index(right)])
    reply = replace(
        record.reply,
        answer=question.letters[kept.index(own)],
        option_log_p=tuple(record.reply.option_log_p[number] for number in kept),
    )
    evidence = replace(
        candidates,
        candidates=options,
        letters=letters,
        likelihoods=tuple(candidates.likelihoods[number] for number in kept),
    )
    return replace(
        record,
        question=asked,
        reply=reply,
        frozen=reply,
        evidence=replace(record.evidence, candidates=evidence, p_true=None),
    )


def brier_of(series: Series) -> float:
    confidences, grades = series.graded()
    return measure(confidences, grades, resamples=0).brier if confidences.size else math.inf


if __name__ == "__main__":
    main()
