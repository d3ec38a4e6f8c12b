"""The service: order, versions, restarts, failures of disk and lessons, and a real network."""

import ctypes
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import torch

from secl.data.benchmarks import quiz
from secl.errors import ClosingError, NotFiniteError, ParameterError, RunError, StorageError
from secl.gates import EntropyShift, replay
from secl.machine import release_memory
from secl.question import Question
from secl.records import Reply, Update
from secl.runs.folder import FILE
from secl.runs.settings import Recipe
from secl.server.online import learner
from secl.server.online import service as service_module
from secl.server.online.queue import QueuedRequest
from secl.server.online.service import STORAGE, Service, open_service, serving_settings
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from secl.writing import SamplingParameters
from tests.server.conftest import Make, Patch, raising
from tests.server.waiting import Slow, Texts, ask_all, close, examined, settled, until

GATE = EntropyShift(burst=10, warmup=5)


def test_the_gate_sees_the_replies_of_many_clients_in_the_order_of_the_records(make_service: Make) -> None:
    service = make_service()
    with ThreadPoolExecutor(8) as clients:
        said = list(clients.map(lambda question: service.ask(question, 60), toy_stream(200)))
    assert sorted(each.record.position for each in said) == list(range(200))
    assert max(served.batch for served in service.state.latest(200)) > 1
    assert all(each.stored for each in said)
    records = [served.record for served in service.state.latest(200)]
    assert [r.decision for r in records] == replay(GATE, [r.reply.entropy for r in records])
    for each in said:
        assert records[each.record.position].reply == each.record.reply


def test_a_server_that_comes_back_has_the_same_weights_gate_and_lessons_to_hold(make_service: Make) -> None:
    twin = Slow()
    first = make_service(twin=twin)
    for question in toy_stream(9):
        first.ask(question, 60)
    threading.Timer(0.1, twin.go.set).start()
    first.stop()
    left = first.state.counts().get("waiting", 0)
    first.state.close()
    second = make_service(start=False)
    assert second.state.counts().get("waiting", 0) == left
    second.start()
    assert second.position == 9
    settled(second)
    ask_all(second, toy_stream(40)[9:])
    whole = make_service(second.state.folder.parent / "whole")
    ask_all(whole, toy_stream(40))
    for one, other in zip(second.state.latest(40), whole.state.latest(40), strict=True):
        assert one.record.decision == other.record.decision
        assert (one.record.update is None) == (other.record.update is None)
    # Lessons run one after the other, so the weights do not depend on their times.
    assert second.learner.trained.snapshot() == whole.learner.trained.snapshot()


def test_what_was_asked_before_the_end_is_answered(make_service: Make) -> None:
    model = Slow()
    service = make_service(model=model)
    asked = [service.submit(question) for question in toy_stream(30)]
    ending = threading.Thread(target=service.stop)
    ending.start()
    until(lambda: not service.ready)
    with pytest.raises(ClosingError):
        service.submit(toy_stream(1)[0])
    model.go.set()
    assert [future.result(60).record.position for future in asked] == list(range(30))
    ending.join(60)
    assert not ending.is_alive()
    for full in (False, True):
        with pytest.raises(ClosingError, match="is stopping"):
            service._queue.put(QueuedRequest(asked=toy_stream(1)[0]), full=full)


def test_freed_memory_goes_back_to_the_system_from_time_to_time(make_service: Make, monkeypatch: Patch) -> None:
    service, released = make_service(settings={"gate.name": "never"}), list[int]()

    def release() -> None:
        before = psutil.Process().memory_info().rss
        release_memory()
        released.append(before - psutil.Process().memory_info().rss)

    monkeypatch.setattr(service_module, "release_memory", release)
    ask_all(service, toy_stream(2))
    assert released == []
    held = [bytes(4096) for _ in range(20_000)]
    last = held.pop()  # on top of the heap, so that the heap cannot shrink by itself
    held.clear()
    monkeypatch.setattr(service_module, "TIDY", 0.0)
    ask_all(service, toy_stream(1))
    until(lambda: released)
    assert len(last) == 4096
    assert released[0] > 2**25 or not hasattr(ctypes.CDLL(None), "malloc_trim")


def test_lessons_beyond_the_backlog_cost_the_answers_no_transaction(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(learner, "BACKLOG", 3)
    service = make_service(settings={"gate.name": "always"})
    writers: list[str] = []
    add_lesson = service.state.add_lesson

    def noted(*arguments: Any, **named: Any) -> None:
        writers.append(threading.current_thread().name)
        add_lesson(*arguments, **named)

    monkeypatch.setattr(service.state, "add_lesson", noted)
    with service.learner._model_free:  # no lesson runs meanwhile
        waiting = [service.submit(question) for question in toy_stream(10)]
        answered = [each.result(20).record.outcome for each in waiting]
    assert answered.count("waiting") in (3, 4)  # the learner may have taken the first lesson
    assert answered.count("dropped") == 10 - answered.count("waiting")
    settled(service)
    assert service.state.counts()["dropped"] == answered.count("dropped")
    assert "secl-answers" not in writers
    assert examined(service.state)[1] == []


def test_answers_go_on_while_another_process_has_locked_the_store(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "always"})
    assert service.ask(toy_stream(1)[0], 60).stored
    settled(service)
    other = sqlite3.connect(service.state.folder / FILE)
    other.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    said = service.ask(toy_stream(1)[0], 60)
    assert not said.stored
    assert time.monotonic() - began < 10
    assert "locked" in service.problems[STORAGE]
    other.close()
    assert service.ask(toy_stream(1)[0], 60).record.position == 1


def test_a_lesson_that_the_disk_refuses_is_held_again_later(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service(settings={"gate.name": "always"})
    usual = service.state.add_lesson
    refused: list[int] = []

    def full(*given: Any, **more: Any) -> None:
        if len(refused) < 2:
            refused.append(service.learner.version)
            raise StorageError("no space left.")
        usual(*given, **more)

    monkeypatch.setattr(service.state, "add_lesson", full)
    service.ask(toy_stream(1)[0], 60)
    until(lambda: service.learner.problems)
    settled(service)
    assert refused == [1, 1]
    assert service.learner.version == 1
    assert service.learner.problems == {}


def test_after_a_rollback_the_same_question_gets_the_same_confidence_to_the_last_digit(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "always"})
    asked = toy_stream(1)[0]
    before = {}
    for question in toy_stream(12):
        _, said = ask_all(service, [question, asked])
        before[said.reply.version] = said.reply
    latest, chosen = max(before), sorted(before)[4]
    service.learner.pause("to compare")
    service.learner.rollback(chosen)
    assert service.ask(asked, 60).record.reply == before[chosen]
    assert [event.kind for event in service.state.events()] == ["pause", "rollback"]
    service.learner.resume()
    ask_all(service, [asked])
    # secl never reuses the number of a version.
    assert service.learner.version > latest
    service.learner.rollback(0)
    assert service.ask(asked, 60).record.reply.version == 0
    with pytest.raises(RunError, match="does not keep adapter version 999"):
        service.learner.rollback(999)


def test_a_rollback_ends_the_present_lesson_and_drops_those_that_wait(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(service_module, "SHARE", 0.0)
    service = make_service(settings={"gate.name": "always"})
    said = service.ask(toy_stream(1)[0], 60)
    settled(service)
    with service.scheduler.answering():  # the next lesson stops at its first layer
        service.learner.enqueue([said.record] * 5)
        until(lambda: service.learner._model_free.locked())
        service.learner.rollback(0)
        assert service.learner.waiting == 0
    settled(service)
    assert service.learner.version == 0
    assert service.state.counts()["dropped"] > 0


@pytest.mark.parametrize("noticed", [True, False])
def test_a_failed_update_is_taken_back_and_said(make_service: Make, noticed: bool) -> None:
    class Exploding(ScriptedModel):
        def learn(self, question: Question, reply: Reply, target: float) -> Update:
            if noticed:
                raise NotFiniteError("the loss of a lesson is nan.")
            return replace(super().learn(question, reply, target), after=float("nan"))

    service = make_service(twin=Exploding(), settings={"gate.name": "always"})
    service.ask(toy_stream(1)[0], 60)
    settled(service)
    assert service.state.counts() == {"failed": 1}
    (record,) = service.state.records()
    assert record.update is None
    assert record.signal is not None  # the evidence for the lesson is kept
    assert record.evidence.p_true is not None
    assert service.learner.version == 0
    (event,) = service.state.events()
    assert event.kind == "failed_update"
    assert "not finite" in event.detail
    assert service.ask(toy_stream(1)[0], 60).record.reply.version == 0


def test_learning_out_of_bounds_freezes_itself_and_raises_an_alert(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(learner, "MAX_DRIFT", 0.05)
    service = make_service(settings={"gate.name": "always"})
    for question in toy_stream(40):
        service.ask(question, 60)
        until(lambda: service.learner.waiting == 0)
    assert service.learner.paused is not None
    assert [event.kind for event in service.state.events()] == ["pause"]
    assert service.ask(toy_stream(1)[0], 60).record.outcome == "idle"


def test_texts_that_may_not_be_kept_are_nowhere_on_disk_and_lessons_are_held_all_the_same(make_service: Make) -> None:
    service = make_service(keep_text="none", settings={"gate.name": "always"})
    texts: dict[str, Any] = {"context": "Q4711", "system": "Q4711", "row": (("note", "Q4711"),)}
    secret = Question("a secret of Q4711", options=("yes Q4711", "no Q4711"), reference="A", id="1", **texts)
    opened = Question("another of Q4711", reference="Q4711", id="2")
    for question in (secret, opened):
        assert service.ask(question, 60).record.question == question
    settled(service)
    assert service.state.counts() == {"trained": 2}
    folder = close(service)
    assert not any(b"Q4711" in path.read_bytes() for path in folder.iterdir())
    again = make_service(folder, keep_text="none", settings={"gate.name": "always"})
    assert again.state.served(0).record.reply.answer in ("A", "B")
    assert again.learner.version == 2


WAYS = [
    SamplingParameters(max_tokens=40, or_fewer=True),
    SamplingParameters(max_tokens=12, temperature=1.0, seed=5),
    SamplingParameters(max_tokens=12, temperature=1.5, top_p=0.9, seed=7, n=3),
]


def test_ordinary_chats_leave_nothing_to_report(tiny_llama: Path, tmp_path: Path) -> None:
    """Limits, draws and stops of requests do not matter, because secl rates the stored text."""
    settings = {"model.name": str(tiny_llama), "model.dtype": "fp32", "method": "stated"}
    service = open_service(tmp_path / "state", serving_settings(settings))
    service.start()
    for way in WAYS:
        Texts(service, Question("Say something.", form="text", system="Be brief."), way).answers()
    service.ask(Question("Name a fruit.", form="short"), 120)
    service.ask(toy_stream(1)[0], 120)
    with ServerStore(close(service)) as state:
        assert examined(state) == (5 + 2, [])


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

    ours, theirs = weights(service.model), weights(service.learner.calibrator.model)
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
    assert other.learner.trained.snapshot() == service.learner.trained.snapshot()


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
