"""Runs in lockstep: the records of each alone, and the frozen model is asked once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from secl.backends.local.fast.shared_network import SharedNetwork
from secl.errors import ParameterError
from secl.records import Record
from secl.runs.lockstep import groups, run_here
from secl.runs.settings import RunSettings
from secl.runs.sweep import Job, is_finished, plan, run_job
from tests.runs.test_sweep import records_of

LEARNING = {"burst": 4, "warmup": 3, "threshold": 2.0, "bin_gate": "off", "learning_rate": 0.01}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"layers": "last:2"},  # its trunk is another
    {"gate": "always", "warmup": None, "threshold": None, "burst": None},
    {"gate": "always", "warmup": None, "threshold": None, "burst": None, "alpha": 0.9},
    {"p_true_prompt": "paper"},
]


def jobs_of(model: Path, out: Path, variants: Sequence[dict[str, Any]] = VARIANTS) -> list[Job]:
    """Over more than a window of questions, with options and without."""
    questions = out.parent / "questions.jsonl"
    rows: list[dict[str, object]] = [
        {"question": f"What is {number} called?", "reference": "a number"} for number in range(17)
    ]
    options = ["a number", "a name", "a letter"]
    rows = [row if number in (1, 3, 16) else {**row, "options": options} for number, row in enumerate(rows)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = {
        "model": str(model),
        "questions": str(questions),
        "answer_weights": "adapted",
        "layers": "last:1",
        **LEARNING,
    }
    return plan([RunSettings.of({**common, **each}) for each in variants], out)


@pytest.fixture(scope="module")
def alone(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[Record]]:
    """The records of each run, done by itself."""
    jobs = jobs_of(tiny_llama, tmp_path_factory.mktemp("alone"))
    for job in jobs:
        run_job(job)
    records = [records_of(job) for job in jobs]
    assert all(any(record.update for record in own) for own in records)
    texts = [record for own in records for record in own if not record.question.options]
    assert any(record.reply.text != record.frozen.text for record in texts)  # written anew, behind a shared prompt
    return records


def test_every_run_has_the_records_that_it_has_alone(
    alone: list[list[Record]], tiny_llama: Path, tmp_path: Path
) -> None:
    jobs = jobs_of(tiny_llama, tmp_path)
    run_here(jobs)
    assert [records_of(job) for job in jobs] == alone
    assert all(map(is_finished, jobs))


def test_also_after_an_interruption_in_the_middle_of_a_window(
    alone: list[list[Record]], tiny_llama: Path, tmp_path: Path
) -> None:
    jobs = jobs_of(tiny_llama, tmp_path)[:3]

    def interrupt(job: Job, done: int, _total: int) -> None:
        if job == jobs[1] and done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_here(jobs, interrupt)
    assert [len(records_of(job)) for job in jobs[:2]] == [16, 7]
    run_here(jobs)
    assert [records_of(job) for job in jobs] == alone[:3]


def test_what_the_frozen_model_reads_is_read_once(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = SharedNetwork.read

    def counted(self: SharedNetwork, trie: Any, sight: Any, cache: Any, known: int = 0) -> Any:
        read.append(len(trie.tokens) - known)
        return original(self, trie, sight, cache, known)

    monkeypatch.setattr(SharedNetwork, "read", counted)
    tokens = []
    for count in (1, 3):
        read.clear()
        run_here(jobs_of(tiny_llama, tmp_path / str(count), [{"alpha": 0.2 + 0.1 * each} for each in range(count)]))
        tokens.append(sum(read))
    assert tokens[1] < 2 * tokens[0]  # each of the three tries its path and writes some answers of its own


def test_runs_of_one_model_and_stream_go_together_in_the_order_of_the_models(tmp_path: Path) -> None:
    settings: list[dict[str, object]] = [
        {"benchmarks": ["capitals:2"], "seed": seed, "model": model, "alpha": alpha}
        for seed in (1, 2)
        for model in ("x/b", "x/a")
        for alpha in (0.2, 0.3)
    ]
    asked: dict[str, object] = {
        "benchmarks": ["capitals:2"],
        "method": "stated",
        "engine": "openai",
        "endpoint": "http://x",
        "model": "c",
    }
    behind = [{**asked, "seed": seed} for seed in (1, 2)]
    jobs = plan([RunSettings.of(each) for each in (*settings, *behind)], tmp_path)
    shown = [[(job.settings.model.name, job.settings.seed) for job in group] for group in groups(jobs)]
    together = [[(model, seed)] * 2 for model in ("x/b", "x/a") for seed in (1, 2)]
    assert shown == [*together, [("c", 1)], [("c", 2)]]


def test_a_run_that_cannot_begin_is_named(tiny_llama: Path, tmp_path: Path) -> None:
    jobs = jobs_of(tiny_llama, tmp_path, [{"layers": "99"}])
    with pytest.raises(ParameterError, match=r"the run .*layers '99' do not fit"):
        run_here(jobs)
