"""GPU-hours from recorded tokens: the arithmetic, on scripted runs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.hours import Tokens, hours
from secl_paper.compare import FinishedRun
from secl_paper.reproduce import Reproduction, find
from secl_paper.setup import Setup


def test_a_run_costs_its_questions_times_their_tokens(
    learned: FinishedRun, baseline: FinishedRun, tmp_path: Path
) -> None:
    tokens = Tokens.of(baseline.records, learned.records)
    ledgers = [record.ledger for record in learned.records]
    assert tokens.baselines == pytest.approx(fmean(record.ledger.total for record in baseline.records))
    assert tokens.answer == pytest.approx(fmean(ledger.answering + ledger.adapting for ledger in ledgers))
    assert tokens.lesson == pytest.approx(fmean(ledger.scoring + ledger.learning for ledger in ledgers))
    setup = Setup.of({"model": "llama-3.2-3b", "benchmarks": ("capitals", "science"), "per_domain": 10})
    jobs = Reproduction.plan(find(["main", "gating"]), setup, tmp_path).jobs
    spent: dict[str, tuple[float, float]] = {run.name: tokens.spent(job.settings) for run, job in jobs.items()}
    assert spent["baselines"] == (20 * tokens.baselines, 20 * tokens.baselines)
    most = 20 * (tokens.answer + tokens.lesson)
    assert spent["secl"] == (20 * tokens.answer, most)
    assert spent["always"] == (most, most)


def test_hours_are_two_operations_for_each_token_and_parameter() -> None:
    assert hours(1e6, 3e9, 1e12) == pytest.approx(2 * 3e9 * 1e6 / 1e12 / 3600)
