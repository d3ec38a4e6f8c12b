"""What rows with the same options gain from each other, on recorded runs of tables with right answers.

    secl run --method posterior --questions FILE --option CLASS ... --columns reference=label --model MODEL --out RUN
    python -m benchmarks.shared_options RUN [RUN ...]

Each run is replayed with and without what rows share: as recorded, and with one class at 80 and 95 % of the rows. For
these shares, rows are drawn with replacement, once for each class as the most frequent one. The output is Markdown.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import secl
from benchmarks.posterior import Worth
from benchmarks.study import heading, in_a_sentence, row
from secl.evaluation.summary import measure
from secl.metrics.risk_control import risk_coverage
from secl.posterior.rule import PosteriorRule, replayed
from secl.records import Record

RULES = {"each row alone": PosteriorRule(shares=False), "rows share": PosteriorRule()}
SHARES, DRAWN = (0.8, 0.95), 150


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_options", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of tables with right answers")
    print(heading("run", "most frequent class", "rule", *MEASURES))
    for folder in parser.parse_args(arguments).runs:
        with secl.runs.Store(folder) as store:
            records = list(store.records())
        for title, streams in {"as recorded": [records], **dict(skewed(records))}.items():
            for name, rule in RULES.items():
                cells = [numbers(stream, rule) for stream in streams]
                print(row(folder.name, title, name, *(f"{value:.3f}" for value in np.nanmean(cells, axis=0))))


MEASURES = (
    "accuracy",
    "mean confidence",
    "Brier score",
    "ECE",
    "mean ECE floor",
    "AUROC",
    "accepted at 5 %",
    "at 10 %",
)


def numbers(records: Sequence[Record], rule: PosteriorRule) -> list[float]:
    """Return the `MEASURES` of the most probable options."""
    confidence, correct = Worth.of(records, replayed(rule, records)).best
    best = measure(confidence, correct, resamples=0)
    curve = risk_coverage(confidence, correct)
    accepted = [max(curve.coverage[curve.risk <= risk], default=0.0) for risk in (0.05, 0.1)]
    return [best.accuracy, best.mean_confidence, best.brier, best.ece, best.ece_floor, best.auroc, *accepted]


def skewed(records: Sequence[Record]) -> Iterator[tuple[str, list[list[Record]]]]:
    """Yield, for each share, a stream for each class that has this share of the rows."""
    drawing = random.Random(58)
    by_class: dict[str, list[Record]] = {}
    for record in records:
        by_class.setdefault(str(record.question.reference), []).append(record)
    for share in SHARES:
        streams = []
        for frequent in sorted(by_class):
            others = [each for each in sorted(by_class) if each != frequent]
            classes = [frequent if drawing.random() < share else drawing.choice(others) for _ in range(DRAWN)]
            drawn = [drawing.choice(by_class[each]) for each in classes]
            streams.append([replace(record, position=position) for position, record in enumerate(drawn)])
        yield f"{share:.0%}", streams


if __name__ == "__main__":
    with in_a_sentence():
        main()
