"""Answers that are computed again, and services around a real network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from secl.data.quiz import quiz
from secl.errors import ParameterError, RunError
from secl.model import ModelAnswer
from secl.question import Question
from secl.runs.settings import Recipe
from secl.server.online.factory import open_service, serving_settings
from secl.server.online.service import Service
from secl.server.recompute import environment_changes, load_recorded_model, rederive, rounding_reason, verify
from secl.server.settings import Limits
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from secl.writing import Writing
from tests.server.conftest import Make, raising
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import Texts, ask_all, close, settled, spoiled

WAYS = [
    Writing(max_tokens=40, or_fewer=True),
    Writing(max_tokens=12, temperature=1.0, seed=5),
    Writing(max_tokens=12, temperature=1.5, top_p=0.9, seed=7, n=3),
]


def test_ordinary_chats_leave_nothing_to_report(tiny_llama: Path, tmp_path: Path) -> None:
    """Limits, draws and stops of requests do not matter, because secl rates the stored text."""
    # Keys and values that were computed step by step differ from those of one pass by rounding.
    settings = {"model.name": str(tiny_llama), "model.dtype": "fp32", "method": "stated"}
    service = open_service(tmp_path / "state", serving_settings(settings))
    service.start()
    for way in WAYS:
        Texts(service, Question("Say something.", form="text", system="Be brief."), way).answers()
    service.ask(Question("Name a fruit.", form="short"), 120)
    service.ask(toy_stream(1)[0], 120)
    with ServerStore(close(service)) as state:
        outcome = verify(state, state.latest(40), load_recorded_model(state))
        assert len(outcome.rederived) == 5 + 2
        assert outcome.findings == []
        assert all(each.agrees for each in outcome.rederived)
        assert outcome.largest["confidence"] < 1e-5


@pytest.mark.parametrize(("second", "settled"), [(0.405, False), (0.2, True)])
def test_a_close_choice_that_came_out_otherwise_is_left_open(make_service: Make, second: float, settled: bool) -> None:
    record = make_service().ask(toy_stream(1)[0], 20).record
    stored = replace(record.reply, option_log_p=(math.log(0.41), math.log(second), math.log(0.1), math.log(0.05)))
    record = replace(record, reply=stored)
    other = "B" if stored.text == "A" else "A"
    now = replace(record, reply=replace(stored, text=other, answer=other))
    assert (rounding_reason(now, record, 0.05) == "") == settled


def test_answers_that_are_drawn_otherwise_leave_the_evidence_open(make_service: Make) -> None:
    record = make_service(model=Mixed(), settings={"method": "posterior"}).ask(mixed_stream(2)[1], 20).record
    stored: Any = record.evidence.candidates
    redrawn = replace(stored, candidates=(*stored.candidates[:-1], "another"))
    now = replace(record, evidence=replace(record.evidence, candidates=redrawn))
    assert "other answers" in rounding_reason(now, record, 0.05)
    assert rounding_reason(replace(now, reply=replace(record.reply, bins=(*(0.0,) * 9, 1.0))), record, 0.05) == ""


class Elsewhere(ScriptedModel):
    """A model on another machine."""

    @property
    def environment(self) -> dict[str, str | int]:
        return {"processor": "Z80"}


def test_another_machine_is_named(make_service: Make) -> None:
    state = make_service(model=Elsewhere()).state
    assert environment_changes(state, Elsewhere()) == []
    assert environment_changes(state, ScriptedModel()) == ["processor: Z80 there, another here"]


class Rewording(ScriptedModel):
    """Writes other words, as on another processor, and rates given words as before."""

    def answer(self, question: Question, **how: Any) -> ModelAnswer:
        answer = super().answer(question, **how)
        if question.options or how["written"] is not None:
            return answer
        return replace(answer, reply=replace(answer.reply, text="something else", answer="something else"))


def test_a_short_answer_that_is_worded_otherwise_elsewhere_is_rated_as_it_is_stored(make_service: Make) -> None:
    service = make_service()
    service.ask(Question("Name a fruit.", form="short"), 20)
    served = service.state.served(0)
    model = Rewording()
    model.answer_weights = "frozen"  # so that it rates stored texts
    assert rederive(service.state, model, served, 1e-4, exact=True).agrees is False
    assert rederive(service.state, model, served, 1e-4, exact=False).difference == 0


class Rounding(ScriptedModel):
    """A model whose passes over several questions round differently, as real ones do."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by
        self.batch = 1

    def prefetch(self, questions: Sequence[Question], *_: Any, **__: Any) -> None:
        self.batch = len(questions)

    def answer(self, question: Question, **how: Any) -> ModelAnswer:
        answered = super().answer(question, **how)
        if self.batch == 1:
            return answered
        bins = list(answered.reply.bins)
        bins[0], bins[8] = bins[0] + self.by, bins[8] - self.by
        return replace(answered, reply=replace(answered.reply, bins=tuple(bins)))


def test_answers_of_a_pass_come_out_within_the_tolerance(make_service: Make) -> None:
    service = make_service(model=Rounding(0.004), start=False, limits=Limits(batch=4))
    futures = [service.submit(question) for question in toy_stream(13)]
    service.start()
    for future in futures:
        future.result(60)
    settled(service)
    verification = verify(service.state, service.state.latest(100), Rounding(0.004))
    assert all(each.agrees for each in verification.rederived)
    assert sum(each.difference == 0 for each in verification.rederived) == 1
    assert verification.tolerance == 0.05
    assert max(each.difference or 0 for each in verification.rederived) == pytest.approx(0.004)


def test_a_changed_confidence_and_changed_weights_are_found(make_service: Make, tmp_path: Path) -> None:
    service = make_service()
    ask_all(service, toy_stream(20))
    folder = close(service)
    with ServerStore(folder) as state:
        served = state.served(15)
        reply = replace(served.record.reply, bins=(*served.record.reply.bins[:9], 0.5))
        forged = replace(served, record=replace(served.record, reply=reply))
        assert rederive(state, ScriptedModel(), served, 0.05).difference == 0
        assert rederive(state, ScriptedModel(), forged, 0.05).agrees is False
    swap = "UPDATE versions SET weights = (SELECT weights FROM versions WHERE version = 2) WHERE version = 10"
    with ServerStore(spoiled(folder, tmp_path / "swapped", swap)) as state:
        assert rederive(state, ScriptedModel(), state.served(15), 0.05).agrees is False
    with ServerStore(spoiled(folder, tmp_path, "DELETE FROM versions WHERE version = 10")) as state:
        lost = rederive(state, ScriptedModel(), state.served(15), 0.05)
    assert lost.agrees is False
    assert "does not keep adapter version 10" in lost.detail


SETTINGS = {"method": "secl", "gate.name": "always", "loop.bin_gate": "off", "adapter.learning_rate": 0.001}


@pytest.fixture
def recipe(tiny_llama: Path) -> Recipe:
    return serving_settings({"model.name": str(tiny_llama), **SETTINGS})


@pytest.fixture
def service(recipe: Recipe, tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path / "state", recipe)
    opened.start()
    yield opened
    close(opened)


def test_the_twin_shares_all_weights_but_those_that_learn(service: Service) -> None:
    def weights(model: object) -> dict[str, torch.Tensor]:
        return dict(model.adapter.peft.named_parameters())  # type: ignore[attr-defined]

    ours, theirs = weights(service.model), weights(service.learner.model)
    apart = {name for name in ours if ours[name].data_ptr() != theirs[name].data_ptr()}
    assert apart
    assert all("lora" in name for name in apart)
    assert len(apart) == len(service.model.adapter.parameters)  # type: ignore[attr-defined]


def test_interrupted_learning_gives_the_weights_of_learning(service: Service, recipe: Recipe, tmp_path: Path) -> None:
    """A lesson that is interrupted and repeated gives the same weights."""
    asked = quiz("science", 5, 1)
    for question in asked:
        service.ask(question, 60)
        service.scheduler.interrupt()
    settled(service)
    other = open_service(tmp_path / "other", recipe)
    other.start()
    for question in asked:
        other.ask(question, 60)
    settled(other)
    close(other)
    assert other.learner.model.snapshot() == service.learner.model.snapshot()


def test_a_state_belongs_to_its_settings(service: Service, recipe: Any, tiny_llama: Path, tmp_path: Path) -> None:
    close(service)
    other = serving_settings({"model.name": str(tiny_llama), **SETTINGS, "loop.alpha": 0.25})
    no_model = raising(AssertionError("a model was loaded for nothing"))
    with pytest.raises(RunError, match=r"begun with other settings \(loop.alpha: 0.5 there, 0.25 here\)"):
        open_service(tmp_path / "state", other, load=no_model)
    with pytest.raises(RunError, match="keep_text: full there, none here"):
        open_service(tmp_path / "state", recipe, keep_text="none", load=no_model)
    with pytest.raises(ParameterError, match="accumulate is 'question'"):
        serving_settings({"loop.accumulate": "question"})
    open_service(tmp_path / "state", recipe).state.close()
