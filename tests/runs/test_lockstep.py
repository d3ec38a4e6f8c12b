"""Runs in lockstep: the records of each alone, and the frozen model is asked once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from secl import Question, Record, RunSettings, Store
from secl.backends.local.asking.answers import Answering, SharedAnswers
from secl.backends.local.model import LocalModel
from secl.errors import ParameterError, StorageError
from secl.runs.lockstep import run_here
from secl.runs.sweep import Job, groups, is_finished, plan, run_job
from tests.runs.conftest import LEARNING
from tests.runs.test_sweep import records_of

VARIANTS: list[dict[str, Any]] = [
    {},
    {"loop.alpha": 0.9},  # its answers change between bursts, too, behind prompts that were read for another
    {"adapter.layers": "last:2"},  # its trunk is another
    {"gate.name": "always", "gate.warmup": None, "gate.threshold": None, "gate.burst": None, "loop.alpha": 0.9},
    {"paper": True},
]


def jobs_of(model: Path, out: Path, variants: Sequence[dict[str, Any]] = VARIANTS) -> list[Job]:
    """Over more than a window of questions, with options and without."""
    questions, choice = out.parent / "questions.jsonl", {"options": ["a number", "a name", "a letter"]}
    rows = [
        {"question": f"What is {n} called?", "reference": "a number", **({} if n in (1, 3, 16) else choice)}
        for n in range(17)
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = {"model.name": str(model), "stream.questions": str(questions), **LEARNING}
    weights = {"model.answer_weights": "adapted", "adapter.layers": "last:1"}
    return plan([RunSettings.of({**common, **weights, **each}) for each in variants], out)


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


def test_runs_have_the_records_of_each_alone(alone: list[list[Record]], tiny_llama: Path, tmp_path: Path) -> None:
    jobs = jobs_of(tiny_llama, tmp_path)
    run_here(jobs)
    assert [records_of(job) for job in jobs] == alone
    assert all(map(is_finished, jobs))


@pytest.mark.slow
def test_also_after_an_interruption(alone: list[list[Record]], tiny_llama: Path, tmp_path: Path) -> None:
    jobs = jobs_of(tiny_llama, tmp_path)[:3]

    def interrupt(job: Job, done: int, _total: int) -> None:
        if job == jobs[1] and done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_here(jobs, interrupt)
    assert [len(records_of(job)) for job in jobs[:2]] == [16, 7]
    run_here(jobs)
    assert [records_of(job) for job in jobs] == alone[:3]


def test_the_frozen_model_answers_a_window_once_and_models_of_another_precision_share_nothing(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedAnswers()
    for dtype in ("fp32", "bf16"):
        models = [LocalModel.load(str(tiny_llama), dtype=dtype, shared=each) for each in (None, shared, shared)]
        question = Question(text="Which is a planet?", options=("Mars", "the Moon"))
        alone, *others = [model.answer(question, evidence=["p_true"]) for model in models]
        assert others == [alone, alone]
    asked: list[int] = []
    original = Answering._read_choices

    def counted(self: Answering, cases: Any) -> None:
        asked.append(len(cases))
        original(self, cases)

    monkeypatch.setattr(Answering, "_read_choices", counted)
    run_here(jobs_of(tiny_llama, tmp_path, [{"loop.alpha": alpha} for alpha in (0.2, 0.3, 0.4)]))
    assert sum(asked) == 14  # of 17 questions those with options


@pytest.mark.slow
def test_one_that_fails_is_named_and_the_others_end(
    alone: list[list[Record]], tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_of(tiny_llama, tmp_path, [*VARIANTS[:3], {"adapter.layers": "99"}])
    original = Store.add

    def refuse(self: Store, record: Record, *arguments: Any, **named: Any) -> None:
        if self.folder == jobs[1].folder and record.position == 5:
            raise StorageError("the disk is full.")
        original(self, record, *arguments, **named)

    monkeypatch.setattr(Store, "add", refuse)
    with pytest.raises(ParameterError, match=r"^the run .*layers '99' do not fit .* \(1 more failed.\)"):
        run_here(jobs)
    assert [is_finished(job) for job in jobs] == [True, False, True, False]
    monkeypatch.undo()
    with pytest.raises(ParameterError, match="layers '99'"):
        run_here(jobs)
    assert [records_of(job) for job in jobs[:3]] == alone[:3]


def test_runs_of_one_model_and_stream_go_together_in_the_order_of_the_models(tmp_path: Path) -> None:
    shared: dict[str, object] = {"stream.benchmarks": ["capitals:2"]}
    here = [
        {**shared, "seed": seed, "model.name": model, "loop.alpha": alpha}
        for seed in (1, 2)
        for model in ("x/b", "x/a")
        for alpha in (0.2, 0.3)
    ]
    endpoint = {"method": "stated", "model.engine": "openai", "model.endpoint": "http://x", "model.name": "c"}
    behind = [{**shared, **endpoint, "seed": seed} for seed in (1, 2)]
    jobs = plan([RunSettings.of(each) for each in (*here, *behind)], tmp_path)
    shown = [[(job.settings.model.name, job.settings.seed) for job in group] for group in groups(jobs)]
    together = [[(model, seed)] * 2 for model in ("x/b", "x/a") for seed in (1, 2)]
    assert shown == [*together, [("c", 1)], [("c", 2)]]
