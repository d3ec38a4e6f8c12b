"""History, explanation and verification, read off state folders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from secl.evidence import EvidenceKind
from secl.model import ModelAnswer
from secl.question import Question
from secl.server.explain import explain
from secl.server.history import bursts, history, version_now, versions
from secl.server.recompute import Verification, rederive, verify
from secl.server.settings import Limits
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import MakeService
from tests.server.folders import spoiled
from tests.server.waiting import ask_all, close, examined, settled


@pytest.fixture(scope="module")
def folder(share_service: MakeService) -> Path:
    """The state of a stopped server: 40 answers, one burst with 10 lessons."""
    service = share_service()
    ask_all(service, toy_stream(40))
    service.state.add_feedback(3, True)
    return close(service)


def test_history_tells_what_the_records_tell(folder: Path) -> None:
    with ServerStore(folder) as state:
        past = history(state)
        records = list(state.store.records())
    assert (past["answers"], past["labelled"], past["version"], past["paused"]) == (40, 1, 10, None)
    assert past["lessons"] == Counter(record.outcome for record in records) == {"trained": 10, "idle": 30}
    (burst,) = past["bursts"]
    assert (burst["first"], burst["last"], burst["alarm"], burst["remaining"]) == (0, 9, True, 0)
    assert (burst["lessons"], burst["versions"]) == ({"trained": 10}, (1, 10))
    assert [version["number"] for version in past["versions"]] == list(range(11))
    for version in past["versions"]:
        mine = [record for record in records if record.reply.version == version["number"]]
        assert version["answers"] == len(mine)
        assert version["shift"] == pytest.approx(np.mean([r.reply.confidence - r.frozen.confidence for r in mine]))
        assert version["position"] == (mine[0].position if version["number"] else None)
        assert (version["drift"] == 0.0) == (version["number"] == 0)
    assert 0 <= past["ended"] - past["began"] < 60
    json.dumps(past, allow_nan=False)


def test_an_alarm_right_after_a_burst_opens_another_one(folder: Path, tmp_path: Path) -> None:
    alarm = "UPDATE decisions SET alarm = 1, in_burst = 1, remaining = 3, statistic = 9.5 WHERE position = 10"
    with ServerStore(spoiled(folder, tmp_path, alarm)) as state:
        assert [(b["first"], b["last"], b["statistic"], b["remaining"]) for b in bursts(state)] == [
            (0, 9, None, 0),
            (10, 10, 9.5, 3),
        ]


def test_the_version_of_learning_follows_lessons_and_rollbacks(make_service: MakeService) -> None:
    service = make_service()
    questions = toy_stream(20)
    ask_all(service, questions[:6])
    assert version_now(service.state) == service.learner.model.version == 6
    service.learner.rollback(2)
    assert version_now(service.state) == 2
    assert [each["number"] for each in versions(service.state) if each["current"]] == [2]
    ask_all(service, questions[6:8])
    assert version_now(service.state) == service.learner.model.version == 8
    service.learner.rollback(0)
    assert version_now(service.state) == 0


def test_an_answer_is_explained_from_its_prompt_to_its_lesson(folder: Path) -> None:
    with ServerStore(folder) as state:
        explanation, quiet = explain(state, 3), explain(state, 30)
        record = state.served(3).record
    assert explanation.served.record == record
    assert explanation.served.correct is True
    assert explanation.prompt is not None
    assert [role for role, _ in explanation.prompt] == ["user", "assistant"]
    assert explanation.prompt[0][1].startswith("Question: What is 3 plus 4?\nA. 7\nB. 6\n")
    assert explanation.prompt[1][1] == f"Answer: {record.reply.answer}\nConfidence: "
    assert record.update is not None
    assert record.signal is not None
    why = " ".join(explanation.why)
    assert f"(bin {int(record.update.before * 10)}) against the signal {record.signal:.3f}" in why
    assert "against the threshold 8" in " ".join(quiet.why)
    assert "It made version 4" in why or "it made version 4" in why
    assert "Lesson: idle, because it lies outside the bursts." in quiet.why
    plain = json.loads(json.dumps(explanation.to_json(), allow_nan=False))
    assert plain["record_id"] == "rec_00000003"
    assert plain["reply"]["confidence"] == record.reply.confidence


def test_a_question_of_a_burst_without_a_lesson_is_told_why(make_service: MakeService) -> None:
    service = make_service()
    questions = toy_stream(6)
    ask_all(service, questions[:2])
    service.learner.pause("maintenance")
    service.ask(questions[2], 10)
    service.learner.resume()
    ask_all(service, questions[3:4])
    assert "Lesson: idle, because learning was paused: maintenance." in explain(service.state, 2).why
    assert "made version" in " ".join(explain(service.state, 3).why)


SPOILS = {
    "UPDATE decisions SET entropy = -1 WHERE position = 20": ("integrity", "its entropy is"),
    "UPDATE decisions SET alarm = 1, in_burst = 1, remaining = 9 WHERE position = 30": ("gate", "stored is alarm"),
    "DELETE FROM decisions WHERE position = 20": ("integrity", "jump from 19 to 21"),
    "DELETE FROM decisions WHERE position = 39": ("integrity", "in the table records, but not in decisions"),
    "UPDATE records SET body = json_set(body, '$.position', 99) WHERE position = 39": (
        "integrity",
        "jump from 38 to 99",
    ),
    "DELETE FROM served WHERE position = 20": ("integrity", "in the table records, but not in served"),
    "DELETE FROM records WHERE position = 20": ("integrity", "jump from 19 to 21"),
    "DELETE FROM records WHERE position = 39": ("integrity", "but not in records"),
    "DELETE FROM updates WHERE version = 5": ("integrity", "an update of it is missing"),
    "UPDATE updates SET version = 50 WHERE version = 5": ("integrity", "not above the 50"),
    "DELETE FROM versions WHERE version = 10": ("integrity", "version 10, which answered, is not kept"),
    "UPDATE records SET version = 3 WHERE position = 1": ("integrity", "made by no earlier question"),
    "UPDATE records SET outcome = 'trained' WHERE position = 20": ("integrity", "its outcome is idle"),
    "UPDATE records SET body = '{}' WHERE position = 20": ("integrity", "cannot be read"),
    "UPDATE records SET body = json_set(body, '$.position', 2) WHERE position = 20": ("integrity", "jump"),
}


def test_whatever_is_changed_in_the_tables_is_found(folder: Path, tmp_path: Path) -> None:
    for number, (statement, (check, words)) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(folder, tmp_path / str(number), statement)) as state:
            _, findings = examined(state)
        assert any(finding.check == check and words in finding.detail for finding in findings), (statement, findings)


class Rounding(ScriptedModel):
    """A model whose passes over several questions round differently, as real ones do."""

    def __init__(self, by: float, wording: bool = False) -> None:
        super().__init__()
        self.by, self.wording = by, wording
        self.batch = 1

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],  # noqa: ARG002
        *,
        weights_fixed: bool,  # noqa: ARG002
        written: Sequence[str | None] = (),  # noqa: ARG002
    ) -> None:
        self.batch = len(questions)

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
    ) -> ModelAnswer:
        answered = super().answer(question, evidence=evidence, written=written)
        if self.batch == 1:
            return answered
        bins = list(answered.reply.bins)
        bins[0], bins[8] = bins[0] + self.by, bins[8] - self.by
        text = "D" if self.wording else answered.reply.text
        return replace(answered, reply=replace(answered.reply, bins=tuple(bins), text=text, answer=text))


def batched(make_service: MakeService, model: ScriptedModel) -> ServerStore:
    """The state of a server that answered one question alone and twelve in passes."""
    service = make_service(model=model, start=False, limits=Limits(batch=4))
    futures = [service.submit(question) for question in toy_stream(13)]
    service.start()
    for future in futures:
        future.result(10)
    settled(service)
    return service.state


def outcome(state: ServerStore, model: ScriptedModel) -> Verification:
    return verify(state, state.latest(100), model)


def test_answers_come_out_the_same_to_the_last_digit(make_service: MakeService) -> None:
    state = batched(make_service, ScriptedModel())
    assert outcome(state, ScriptedModel()).matches == {"same": 13}


def test_answers_of_a_pass_come_out_within_the_tolerance(make_service: MakeService) -> None:
    state = batched(make_service, Rounding(0.004))
    verification = outcome(state, Rounding(0.004))
    assert verification.matches == {"same": 1, "rounding": 12}
    assert verification.tolerance == 0.05
    assert max(each.difference or 0 for each in verification.rederived) == pytest.approx(0.004)


@pytest.mark.parametrize("model", [Rounding(0.2), Rounding(0.0, wording=True)])
def test_a_pass_that_rounds_far_is_asked_again_as_a_pass(make_service: MakeService, model: Rounding) -> None:
    state = batched(make_service, model)
    assert outcome(state, model).matches == {"same": 13}


def test_a_changed_confidence_and_changed_weights_are_found(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    ask_all(service, toy_stream(20))
    folder = close(service)
    with ServerStore(folder) as state:
        served = state.served(15)
        before = replace(served.record.reply, bins=(*served.record.reply.bins[:9], 0.5))
        forged = replace(served, record=replace(served.record, reply=before))
        assert rederive(state, ScriptedModel(), served, 0.05).match == "same"
        assert rederive(state, ScriptedModel(), forged, 0.05).match == "differs"
    swap = "UPDATE versions SET weights = (SELECT weights FROM versions WHERE version = 2) WHERE version = 10"
    with ServerStore(spoiled(folder, tmp_path / "swapped", swap)) as state:
        assert rederive(state, ScriptedModel(), state.served(15), 0.05).match == "differs"
    with ServerStore(spoiled(folder, tmp_path, "DELETE FROM versions WHERE version = 10")) as state:
        lost = rederive(state, ScriptedModel(), state.served(15), 0.05)
    assert lost.match == "differs"
    assert "does not keep adapter version 10" in lost.detail
