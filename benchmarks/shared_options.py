"""What rows with the same options gain from each other, on recorded runs of tables with right answers.

    secl run --method posterior --questions FILE --option CLASS ... --columns reference=label --model MODEL --out RUN
    python -m benchmarks.shared_options RUN [RUN ...]

Each run is measured as recorded, and with one class at 80 and 95 % of the rows. For these shares, rows are drawn with
replacement, once for each class as the most frequent one. The output is Markdown.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import secl
from benchmarks.labels import DRAWS, Rated, at_random, review_label
from benchmarks.posterior import Array, Worth, difference
from benchmarks.study import heading, in_a_sentence, row
from secl.evaluation.summary import measure
from secl.grading.rules import correctness
from secl.labels.state import LabelState
from secl.metrics.probability import softmax
from secl.metrics.risk_control import risk_coverage
from secl.posterior.rule import PosteriorRule, replayed
from secl.records import Record

SHARES, DRAWN, LABELS = (0.8, 0.95), 150, 20

Answers = tuple[Array, Array]
"""Confidences and grades of the answers of a table."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_options", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of tables with right answers")
    print(heading("run", "most frequent class", "confidence", *MEASURES))
    for folder in parser.parse_args(arguments).runs:
        with secl.runs.Store(folder) as store:
            records = list(store.records())
        for cells in compared(records):
            print(row(folder.name, *cells))


def compared(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    """Yield a row of cells for each share of the most frequent class and each confidence."""
    for title, streams in [("as recorded", [records]), *skewed(records)]:
        several = [confidences(stream) for stream in streams]
        for name in several[0]:
            cells = [numbers(each[name], each["each row alone"][0]) for each in several]
            values = [f"{value:.3f}" for value in known_mean([numeric for numeric, _ in cells])]
            yield title, name, *values, cells[0][1] if len(cells) == 1 else ""


MEASURES = (
    "accuracy",
    "mean confidence",
    "Brier score",
    "ECE",
    "mean ECE floor",
    "AUROC",
    "accepted at 5 %",
    "at 10 %",
    "Brier score minus that of each row alone",
)


def confidences(records: Sequence[Record]) -> dict[str, list[Answers]]:
    """Return the answers of each confidence: a list with one table, or with the unlabelled rows of each draw."""
    own = np.array([bool(correctness(record, record.reply.answer)) for record in records], dtype=np.float64)
    letters = np.array([max(softmax(record.reply.option_log_p)) for record in records])
    stated = np.array([record.reply.stated for record in records])
    alone, shared = (
        Worth.of(records, replayed(PosteriorRule(shares=shares), records)).best for shares in (False, True)
    )
    return {
        "own letters": [(letters, own)],
        "each row alone": [alone],
        "rows share": [shared],
        f"rows share, {LABELS} labels": [labelled(*shared, seed) for seed in range(DRAWS)],
        "stated": [(stated[~np.isnan(stated)], own[~np.isnan(stated)])],
    }


def labelled(confidence: Array, correct: Array, seed: int) -> Answers:
    """Return the calibrated confidences and grades of the other answers after `LABELS` labels, drawn at random."""
    answers = [Rated(float(c), bool(y), "") for c, y in zip(confidence, correct, strict=True)]
    chosen = [place for place, _ in at_random(answers, min(LABELS, len(answers) // 2), random.Random(seed))]
    state = LabelState.start().add([review_label(place, answers[place]) for place in chosen])
    rest = np.delete(np.arange(len(answers)), chosen)
    return np.array([state.rate("", answers[place].confidence).calibrated for place in rest]), correct[rest]


def numbers(tables: Sequence[Answers], alone: Answers) -> tuple[list[float], str]:
    """Return the mean of the numeric `MEASURES` over the tables, and the difference from each row alone."""
    several = []
    for confidence, correct in tables:
        best = measure(confidence, correct, resamples=0)
        curve = risk_coverage(confidence, correct)
        accepted = [max(curve.coverage[curve.risk <= risk], default=0.0) for risk in (0.05, 0.1)]
        several.append(
            [best.accuracy, best.mean_confidence, best.brier, best.ece, best.ece_floor, best.auroc, *accepted]
        )
    values = known_mean(several)
    (confidence, correct), base = tables[0], (alone[0] - alone[1]) ** 2
    if len(tables) > 1 or len(confidence) != len(base):
        return values, ""
    mean = float(((confidence - correct) ** 2 - base).mean())
    return values, f"{mean:+.3f}{difference((confidence - correct) ** 2, base)}"


def known_mean(several: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of each column without its nan; nan if a column has no other values."""
    return [*map(float, np.ma.masked_invalid(several).mean(axis=0).filled(np.nan))]


def skewed(records: Sequence[Record]) -> Iterator[tuple[str, list[Sequence[Record]]]]:
    """Yield, for each share, a stream for each class that has this share of the rows."""
    drawing = random.Random(58)
    by_class: dict[str, list[Record]] = {}
    for record in records:
        by_class.setdefault(str(record.question.reference), []).append(record)
    for share in SHARES:
        streams: list[Sequence[Record]] = []
        for frequent in sorted(by_class):
            others = [each for each in sorted(by_class) if each != frequent]
            classes = [frequent if drawing.random() < share else drawing.choice(others) for _ in range(DRAWN)]
            drawn = [drawing.choice(by_class[each]) for each in classes]
            streams.append([replace(record, position=position) for position, record in enumerate(drawn)])
        yield f"{share:.0%}", streams


if __name__ == "__main__":
    with in_a_sentence():
        main()
