"""The verdict of `secl check` on simulated models whose truth is known."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

from secl.errors import DataError, ParameterError
from secl.evaluation.adaptation_check import (
    FOLDS,
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
from tests.reports.conftest import MakeRecord, record, reply

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
    gap = measure_gap(simulated(200, overconfident, 1), 1.0)
    assert gap.verdict == "adapt"
    assert gap.fitted["ece"].falls
    assert 0.3 <= gap.best <= 0.85
    assert set(gap.folds) <= {0.315, 0.4, 0.5, 0.63, 0.8}
    assert (gap.n, gap.unlabelled, gap.unrated, gap.needed) == (200, 0, 0, None)
    assert gap == measure_gap(simulated(200, overconfident, 1), 1.0)


def test_an_honest_model_with_a_blind_signal_should_not_adapt() -> None:
    gap = measure_gap(simulated(200, honest, 1), 1.0)
    assert gap.verdict == "do not adapt"
    assert gap.fitted["brier"].rises
    assert gap.fitted["auroc"].falls
    assert any("may cost ranking" in note for note in notes(gap))


def test_without_a_gap_adapting_is_rarely_advised() -> None:
    verdicts = Counter(measure_gap(simulated(60, even, seed), 1.0, resamples=200).verdict for seed in range(30))
    assert verdicts["adapt"] <= 1


def test_a_constant_at_the_base_rate_does_not_beat_a_confidence_that_knows_something() -> None:
    """All P(True) are equal, so the signal is 1/4, and 1/4 of the answers are right: its ECE is nearly 0."""

    def knowing(generator: Generator, signal: float) -> tuple[float, bool]:
        chance = float(generator.choice([0.05, 0.65], p=[2 / 3, 1 / 3]))
        return min(0.95, chance + 0.1), bool(generator.random() < chance)

    flat = [
        dataclasses.replace(
            plain,
            evidence=Evidence(PTrue(candidates=tuple("ABCD"), probabilities=(0.3,) * 4, distractor_source="options")),
        )
        for plain in simulated(400, knowing, 2)
    ]
    gap = measure_gap(flat, 0.7)
    assert gap.fitted["ece"].b < gap.fitted["ece"].a
    assert gap.verdict == "do not adapt"
    assert (gap.best, set(gap.folds)) == (0.7, {0.7})  # of a tie the one in use


def test_a_fold_s_own_grades_do_not_choose_its_tau() -> None:
    records = simulated(60, overconfident, 5)
    fold = np.random.default_rng(0).permutation(60) % FOLDS
    turned = [
        dataclasses.replace(plain, correct=not plain.correct, frozen_correct=not plain.correct)
        if fold[i] == 2
        else plain
        for i, plain in enumerate(records)
    ]
    before, after = measure_gap(records, 1.0).folds, measure_gap(turned, 1.0).folds
    assert before[2] == after[2]
    assert before != after


def test_the_sweep_is_the_signal_at_every_tau_over_the_usable_questions() -> None:
    records = simulated(50, overconfident, 6)
    gap = measure_gap(records, 0.7)
    assert (TAUS[0], TAUS[-1], len(TAUS)) == (0.05, 5.0, 21)
    assert [row.tau for row in gap.sweep] == sorted([*TAUS, 0.7])
    grades = [bool(plain.correct) for plain in records]
    p_true = [plain.evidence.p_true.probabilities for plain in records if plain.evidence.p_true]
    signals = {row.tau: np.array([normalised_p_true(each, row.tau) for each in p_true]) for row in gap.sweep}
    for row in gap.sweep:
        assert row.brier == pytest.approx(np.mean((signals[row.tau] - grades) ** 2))
    assert gap.best == min(gap.sweep, key=lambda row: row.brier).tau
    stated = [plain.frozen.confidence for plain in records]
    assert gap.used == paired_differences(stated, grades, signals[0.7], grades)


def test_what_cannot_be_used_does_not_count_and_is_said() -> None:
    records = simulated(60, overconfident, 7)
    silent, alone = Evidence(), Evidence(PTrue(candidates=("A",), probabilities=(0.5,), distractor_source="none"))
    holed = [dataclasses.replace(plain, correct=None, frozen_correct=None) for plain in records[:5]]
    holed += [dataclasses.replace(plain, evidence=silent if i < 7 else alone) for i, plain in enumerate(records[5:14])]
    holed += records[14:]
    gap = measure_gap(holed, 1.0)
    assert (gap.questions, gap.unlabelled, gap.unrated, gap.n) == (60, 5, 9, 46)
    whole = measure_gap(records[14:], 1.0)
    assert (gap.used, gap.fitted, gap.folds) == (whole.used, whole.fitted, whole.folds)
    assert notes(gap)[:2] == [
        "5 of 60 questions have no reference and do not count.",
        "9 answers have no normalised P(True) (unreadable, or no distractor) and do not count.",
    ]
    unrated = measure_gap(holed[5:12], 1.0)
    assert (unrated.n, unrated.verdict) == (0, "cannot tell")
    assert math.isnan(unrated.best)
    json.dumps(gap_json(unrated), allow_nan=False)


def test_no_reference_at_all_is_refused(make_record: MakeRecord) -> None:
    records = [make_record(i, correct=None, frozen_correct=None, p_true=(0.7, 0.2)) for i in range(30)]
    with pytest.raises(DataError, match="none of the 30 questions has a reference"):
        measure_gap(records, 1.0)
    with pytest.raises(ParameterError, match="tau"):
        measure_gap(simulated(3, even, 0), -1.0)


def test_a_few_right_answers_have_no_verdict_however_large_the_gain() -> None:
    """What is stated is 0.9, and a constant near the base rate has a lower ECE and Brier score for sure."""
    flat = Evidence(PTrue(candidates=tuple("ABCD"), probabilities=(0.3,) * 4, distractor_source="options"))

    def gap(right: int) -> Gap:
        grades = iter([True] * right + [False] * (40 - right))
        records = simulated(40, lambda g, s: (0.9, next(grades)), 3)
        return measure_gap([dataclasses.replace(plain, evidence=flat) for plain in records], 1.0)

    assert [gap(right).verdict for right in (2, 4, 5)] == ["cannot tell", "cannot tell", "adapt"]
    assert "4 of 40 usable answers are right" in sentence(gap(4))
    assert gap_json(gap(4))["fitted"] == {}
    assert any("no better than chance (AUROC 0.5" in note for note in notes(gap(5)))


def difference(low: float, high: float) -> Difference:
    return Difference(0.5, 0.5 + (low + high) / 2, Interval(low, high))


@pytest.mark.parametrize(
    ("ece", "brier", "verdict"),
    [
        ((-0.3, -0.1), (-0.2, -0.1), "adapt"),
        ((-0.015, -0.005), (-0.2, -0.1), "adapt"),
        ((-0.3, 0.0), (-0.2, -0.1), "cannot tell"),
        ((-0.3, -0.1), (-0.2, 0.1), "cannot tell"),
        ((-0.3, -0.1), (0.01, 0.1), "do not adapt"),
        ((-MIN_GAIN + 0.001, 0.3), (-0.1, 0.1), "do not adapt"),
        ((-MIN_GAIN - 0.001, 0.3), (-0.1, 0.1), "cannot tell"),
        ((0.1, 0.2), (-0.2, -0.1), "do not adapt"),
    ],
)
def test_the_verdict_follows_from_the_intervals(
    ece: tuple[float, float], brier: tuple[float, float], verdict: str
) -> None:
    assert decide({"ece": difference(*ece), "brier": difference(*brier)}) == verdict


def test_a_signal_that_only_knows_the_base_rate_is_called_that() -> None:
    """All P(True) are equal, and so is what is stated: 0.9 where 0.25 would be right."""
    flat = Evidence(PTrue(candidates=tuple("ABCD"), probabilities=(0.3,) * 4, distractor_source="options"))
    records = simulated(80, lambda g, s: (0.9, bool(g.random() < 0.25)), 3)
    gap = measure_gap([dataclasses.replace(plain, evidence=flat) for plain in records], 1.0)
    assert gap.verdict == "adapt"
    assert any("no better than chance (AUROC 0.500)" in note for note in notes(gap))


def test_the_tables_fit_80_columns_and_mark_the_taus() -> None:
    gap = measure_gap(simulated(60, overconfident, 1), 0.7)
    text = screen(sweep_table(gap)) + screen(gap_table(gap))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = " ".join(text.split())
    stated, signal = gap.floors
    assert f"ECE of {stated.mean:.3f} (in 95% of cases up to {stated.upper:.3f}) by chance" in words
    assert f"the signal of {signal.mean:.3f} (in 95% of cases up to {signal.upper:.3f})" in words
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert lines["0.7"].split()[-2:] == ["in", "use"]
    assert lines[f"{gap.best:g}"].split()[-1] == "best"


def test_the_json_has_every_number_and_is_strict() -> None:
    gap = measure_gap(simulated(60, overconfident, 1), 0.7)
    plain = json.loads(json.dumps(gap_json(gap), allow_nan=False))
    assert plain["verdict"] == gap.verdict
    assert plain["sentence"] == sentence(gap)
    assert plain["fitted"]["ece"]["interval"] == [gap.fitted["ece"].interval.low, gap.fitted["ece"].interval.high]
    assert plain["used"]["brier"]["b"] == gap.used["brier"].b
    assert [row["tau"] for row in plain["sweep"]] == [row.tau for row in gap.sweep]
    assert {field.name for field in dataclasses.fields(gap)} | {"notes", "sentence"} == plain.keys()
