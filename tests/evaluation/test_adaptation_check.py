"""The verdict of `secl check` on simulated models whose truth is known."""

from __future__ import annotations

import dataclasses
import io
import json
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

from secl.errors import DataError, ParameterError
from secl.evaluation.adaptation_check import (
    MIN_GAIN,
    TAUS,
    Gap,
    decide,
    measure_gap,
)
from secl.evidence import Evidence, PTrue
from secl.metrics.bootstrap import Interval
from secl.metrics.paired_bootstrap import Difference, paired_differences
from secl.metrics.probability import normalised_p_true
from secl.records import Record, Reply
from secl.reports.adaptation_report import gap_json, gap_table, notes, sentence, sweep_table
from secl.reports.table import Table, to_rich
from tests.reports.conftest import record, reply

Generator = np.random.Generator
Rule = Callable[[Generator, float], tuple[float, bool]]
"""From the signal at the right tau to what is stated and whether the answer is right."""


def stating(confidence: float) -> Reply:
    """A reply whose soft confidence is `confidence`, in [0.05, 0.95]."""
    low = min(int(confidence * 10 - 0.5), 8)
    share = confidence * 10 - 0.5 - low
    bins = tuple(1 - share if k == low else share if k == low + 1 else 0.0 for k in range(10))
    return dataclasses.replace(reply(0), bins=bins)


def simulated(count: int, rule: Rule, seed: int, tau: float = 0.5) -> list[Record]:
    """Records of a model whose P(True), normalised at `tau`, is what `rule` is told."""
    generator, records = np.random.default_rng(seed), []
    for i in range(count):
        scores = generator.normal([0.5, 0.0, 0.0, 0.0], 1.0)
        p_true = tuple(np.exp(scores - scores.max() - 0.2).tolist())
        stated, right = rule(generator, normalised_p_true(p_true, tau))
        answer = stating(min(max(stated, 0.05), 0.95))
        plain = record(i, correct=right, frozen_correct=right, p_true=p_true)
        records.append(dataclasses.replace(plain, reply=answer, frozen=answer))
    return records


def overconfident(generator: Generator, signal: float) -> tuple[float, bool]:
    """Says about 0.88 whatever it knows; the signal is calibrated."""
    return float(generator.normal(0.88, 0.03)), bool(generator.random() < signal)


def honest(generator: Generator, signal: float) -> tuple[float, bool]:
    """Says what is true; the signal knows nothing of it."""
    chance = float(generator.beta(2, 2))
    return chance, bool(generator.random() < chance)


def even(generator: Generator, signal: float) -> tuple[float, bool]:
    """Says what the signal says, and both are calibrated: there is no gap."""
    chance = min(max(signal, 0.05), 0.95)
    return chance, bool(generator.random() < chance)


def screen(table: Table) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(to_rich(table))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_an_overconfident_model_with_a_calibrated_signal_should_adapt() -> None:
    records = simulated(120, overconfident, 1)
    gap = measure_gap(records, 0.5, resamples=200)
    assert gap.verdict == "adapt"
    assert gap.measures["ece"].falls
    assert (gap.n, gap.unlabelled, gap.unrated) == (120, 0, 0)
    grades, stated = [bool(plain.correct) for plain in records], [plain.frozen.confidence for plain in records]
    p_true = [plain.evidence.p_true.probabilities for plain in records if plain.evidence.p_true]
    signals = {row.tau: np.array([normalised_p_true(each, row.tau) for each in p_true]) for row in gap.sweep}
    assert gap.measures == paired_differences(stated, grades, signals[0.5], grades, resamples=200)
    for row in gap.sweep:
        assert row.brier == pytest.approx(np.mean((signals[row.tau] - grades) ** 2))
    assert gap.best == min(gap.sweep, key=lambda row: row.brier).tau
    text = screen(sweep_table(gap)) + screen(gap_table(gap))
    assert max(map(len, text.splitlines())) <= 80
    plain = json.loads(json.dumps(gap_json(gap), allow_nan=False))
    assert (plain["verdict"], plain["sentence"]) == (gap.verdict, sentence(gap))
    assert plain["measures"]["ece"]["interval"] == [gap.measures["ece"].interval.low, gap.measures["ece"].interval.high]
    other = measure_gap(records, 0.7, resamples=50)
    assert [row.tau for row in other.sweep] == sorted([*TAUS, 0.7])
    assert any(f"lowest Brier score at tau {other.best:g}" in note for note in notes(other))


def test_an_honest_model_with_a_blind_signal_should_not_adapt() -> None:
    gap = measure_gap(simulated(120, honest, 1), 1.0, resamples=200)
    assert gap.verdict == "do not adapt"
    assert sentence(gap).endswith(": it is worse for sure.")
    assert any("may cost ranking" in note for note in notes(gap))


def test_without_a_gap_adapting_is_rarely_advised() -> None:
    verdicts = Counter(measure_gap(simulated(60, even, seed), 1.0, resamples=100).verdict for seed in range(12))
    assert verdicts["adapt"] <= 1


def test_what_cannot_be_used_does_not_count_and_is_said() -> None:
    records = simulated(60, overconfident, 7)
    silent, alone = Evidence(), Evidence(PTrue(candidates=("A",), probabilities=(0.5,), distractor_source="none"))
    holed = [dataclasses.replace(plain, correct=None, frozen_correct=None) for plain in records[:5]]
    holed += [dataclasses.replace(plain, evidence=silent if i < 7 else alone) for i, plain in enumerate(records[5:14])]
    holed += records[14:]
    gap = measure_gap(holed, 1.0, resamples=50)
    assert (gap.questions, gap.unlabelled, gap.unrated, gap.n) == (60, 5, 9, 46)
    assert gap.measures == measure_gap(records[14:], 1.0, resamples=50).measures
    assert notes(gap)[:2] == [
        "5 of 60 questions have no reference and do not count.",
        "9 answers have no normalised P(True) (unreadable, or no distractor) and do not count.",
    ]
    unrated = measure_gap(holed[5:12], 1.0)
    assert (unrated.n, unrated.verdict) == (0, "cannot tell")
    json.dumps(gap_json(unrated), allow_nan=False)
    with pytest.raises(DataError, match="none of the 5 questions has a reference"):
        measure_gap(holed[:5], 1.0)
    with pytest.raises(ParameterError, match="tau"):
        measure_gap(records, -1.0)


def test_a_few_right_answers_have_no_verdict_however_large_the_gain() -> None:
    """What is stated is 0.9, and a constant near the base rate has a lower ECE and Brier score for sure."""
    flat = Evidence(PTrue(candidates=tuple("ABCD"), probabilities=(0.3,) * 4, distractor_source="options"))

    def gap(right: int) -> Gap:
        grades = iter([True] * right + [False] * (40 - right))
        records = simulated(40, lambda g, s: (0.9, next(grades)), 3)
        return measure_gap([dataclasses.replace(plain, evidence=flat) for plain in records], 1.0, resamples=200)

    assert [gap(right).verdict for right in (2, 4, 5)] == ["cannot tell", "cannot tell", "adapt"]
    assert "4 of 40 usable answers are right" in sentence(gap(4))
    assert any("no better than chance (AUROC 0.5" in note for note in notes(gap(5)))


def difference(low: float, high: float) -> Difference:
    return Difference(0.5, 0.5 + (low + high) / 2, Interval(low, high))


@pytest.mark.parametrize(
    ("ece", "brier", "verdict"),
    [
        ((-0.3, -0.1), (-0.2, -0.1), "adapt"),
        ((-0.3, 0.0), (-0.2, -0.1), "cannot tell"),
        ((-0.3, -0.1), (0.01, 0.1), "do not adapt"),
        ((-MIN_GAIN + 0.001, 0.3), (-0.1, 0.1), "do not adapt"),
        ((-MIN_GAIN - 0.001, 0.3), (-0.1, 0.1), "cannot tell"),
    ],
)
def test_the_verdict_follows_from_the_intervals(
    ece: tuple[float, float], brier: tuple[float, float], verdict: str
) -> None:
    assert decide({"ece": difference(*ece), "brier": difference(*brier)}) == verdict
