"""What a verification finds, and what it lets pass: a changed cell, and what another processor rounds."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from secl.evidence import EvidenceKind
from secl.model import ModelAnswer
from secl.question import Question
from secl.server.closeness import ARITHMETIC, furthest
from secl.server.online.factory import open_service, serving_settings
from secl.server.recompute import Computed, environment_changes, load_recorded_model, rederive, verify
from secl.server.store import ServerStore
from secl.server.verify import examine
from secl.testing import ScriptedModel, toy_stream
from secl.writing import Writing
from tests.server.conftest import MakeService
from tests.server.folders import spoiled
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import ask_all, close


@dataclass(frozen=True)
class Pair:
    number: float
    texts: tuple[str, ...]


def test_values_of_one_shape_are_as_far_apart_as_their_farthest_numbers() -> None:
    assert furthest(Pair(0.5, ("a",)), Pair(0.25, ("a",))) == 0.25
    assert furthest([1000.0, None, True], [1001.0, None, True]) == pytest.approx(1 / 1001)
    assert furthest(math.nan, math.nan) == 0.0
    for now, then in [(1, 2), (True, 1), ("a", "b"), (None, 0.0), ([1.0], [1.0, 2.0]), ({"a": 1}, {"b": 1})]:
        assert furthest(now, then) == math.inf
    assert furthest(math.inf, 1.0) == furthest(math.nan, 1.0) == math.inf


@pytest.fixture(scope="module")
def learned(share_service: MakeService) -> Path:
    """The folder of a server that has learned, and heard of an answer."""
    service = share_service()
    ask_all(service, toy_stream(21))
    service.state.add_feedback(3, False, 1.0)
    service.ask(toy_stream(22)[21], 20)
    return close(service)


@pytest.fixture(scope="module")
def weighed(share_service: MakeService) -> Path:
    """The folder of a server that reports posteriors."""
    service = share_service("weighed", model=Mixed(), method="posterior")
    ask_all(service, mixed_stream(15))
    return close(service)


def cell(column: str, table: str, position: int) -> str:
    return f"UPDATE {table} SET {column} = {column} + {{}} WHERE position = {position}"


def inside(path: str, position: int) -> str:
    """A number inside the JSON of a record."""
    changed = f"json_set(body, '$.{path}', json_extract(body, '$.{path}') + {{}})"
    return f"UPDATE records SET body = {changed} WHERE position = {position}"


LEARNED = [
    cell("confidence", "records", 12),
    cell("frozen_confidence", "records", 12),
    cell("signal", "records", 4),
    cell("entropy", "decisions", 12),
    cell("statistic", "decisions", 20),
    cell("reported", "served", 12),
    cell("confidence", "labels", 3),
    cell("reported", "labels", 3),
    inside("reply.bins[8]", 12),
    inside("frozen.bins[8]", 12),
    inside("reply.entropy", 12),
    inside("labelled.confidence", 21),
    inside("labelled.low", 21),
    inside("signal", 4),
]


def test_a_cell_that_was_changed_by_a_thousandth_is_found(learned: Path, tmp_path: Path) -> None:
    for number, statement in enumerate(LEARNED):
        with ServerStore(spoiled(learned, tmp_path / str(number), statement.format(1e-3))) as state:
            assert examine(state).findings, statement


@pytest.mark.parametrize(("by", "found"), [(1e-12, False), (1e-6, True)])
def test_posteriors_and_labels_may_be_rounded_as_another_processor_does(
    weighed: Path, learned: Path, tmp_path: Path, by: float, found: bool
) -> None:
    # What is reported is copied beside the record, and stays equal; so a candidate that is not reported is changed.
    for folder, statement, check in (
        (weighed, inside("posterior.probabilities[2]", 12), "posterior"),
        (learned, inside("labelled.low", 21), "labels"),
        (learned, cell("statistic", "decisions", 20), "gate"),
    ):
        with ServerStore(spoiled(folder, tmp_path / check, statement.format(by))) as state:
            found_now = examine(state)
        assert any(finding.check == check for finding in found_now.findings) == found
        if not found:
            assert found_now.findings == []
            assert 0 < found_now.largest[check] < ARITHMETIC


WAYS = [
    Writing(max_tokens=40, or_fewer=True),
    Writing(max_tokens=12, temperature=1.0, seed=5),
    Writing(max_tokens=12, temperature=1.5, top_p=0.9, seed=7, n=3),
]


def test_ordinary_chats_leave_nothing_to_report(tiny_llama: Path, tmp_path: Path) -> None:
    """Limits, draws and stops of requests do not matter: the text is rated as it is stored."""
    service = open_service(tmp_path / "state", serving_settings(model=str(tiny_llama), method="stated"))
    service.start()
    for way in WAYS:
        service.write(Question("Say something.", form="text", system="Be brief."), way, lambda _: None).result(120)
    service.ask(Question("Name a fruit.", form="short"), 120)
    service.ask(toy_stream(1)[0], 120)
    with ServerStore(close(service)) as state:
        outcome = verify(state, state.latest(40), load_recorded_model(state))
        assert len(outcome.rederived) == 5 + 2
        assert outcome.findings == ()
        assert set(outcome.matches) <= {"same", "rounding"}
        assert outcome.largest["confidence"] < 1e-5


@pytest.mark.parametrize(("second", "settled"), [(0.405, False), (0.2, True)])
def test_a_close_choice_of_letters_that_came_out_otherwise_is_left_open(
    make_service: MakeService, second: float, settled: bool
) -> None:
    record = make_service().ask(toy_stream(1)[0], 20).record
    stored = replace(record.reply, option_log_p=(math.log(0.41), math.log(second), math.log(0.1), math.log(0.05)))
    record = replace(record, reply=stored)
    other = "B" if stored.text == "A" else "A"
    answer = ModelAnswer(reply=replace(stored, text=other, answer=other), frozen=record.frozen, plain_tokens=1.0)
    now = Computed(answer, record.evidence.candidates)
    assert (now.unsettled(record, 0.05) == "") == settled


def test_answers_that_are_drawn_otherwise_leave_the_evidence_open(make_service: MakeService) -> None:
    record = make_service(model=Mixed(), method="posterior").ask(mixed_stream(2)[1], 20).record
    stored = record.evidence.candidates
    assert stored is not None
    redrawn = replace(stored, candidates=(*stored.candidates[:-1], "another"))
    answer = ModelAnswer(reply=record.reply, frozen=record.frozen, plain_tokens=1.0)
    assert Computed(answer, stored).is_same(record)
    assert "other answers" in Computed(answer, redrawn).unsettled(record, 0.05)
    sure = replace(record.reply, bins=(*(0.0,) * 9, 1.0))
    assert Computed(replace(answer, reply=sure), redrawn).unsettled(record, 0.05) == ""


class Elsewhere(ScriptedModel):
    """Computes on another machine."""

    @property
    def environment(self) -> dict[str, str | int]:
        return {"processor": "Z80"}


def test_another_machine_is_named(make_service: MakeService) -> None:
    state = make_service(model=Elsewhere()).state
    assert environment_changes(state, Elsewhere()) == []
    assert environment_changes(state, ScriptedModel()) == ["processor: Z80 there, another here"]


class Rewording(ScriptedModel):
    """Writes other words by itself, as on another processor, and rates what is written already as before."""

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
    ) -> ModelAnswer:
        answer = super().answer(question, evidence=evidence, written=written)
        if question.options or written is not None:
            return answer
        return replace(answer, reply=replace(answer.reply, text="something else", answer="something else"))


def test_a_short_answer_that_is_worded_otherwise_elsewhere_is_rated_as_it_is_stored(make_service: MakeService) -> None:
    service = make_service()
    service.ask(Question("Name a fruit.", form="short"), 20)
    served = service.state.served(0)
    model = Rewording()
    model.answer_weights = "frozen"  # so that it can rate what was written
    assert rederive(service.state, model, served, 1e-4, exact=True).match == "differs"
    assert rederive(service.state, model, served, 1e-4, exact=False).match == "same"
