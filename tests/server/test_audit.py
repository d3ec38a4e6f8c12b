"""History, explanation and verification, read off state folders."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from secl.server.explain import explain
from secl.server.history import history, version_now
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.waiting import ask_all, close


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
    assert [version["version"] for version in past["versions"]] == list(range(10, 0, -1))
    for version in past["versions"]:
        mine = [record for record in records if record.reply.version == version["version"]]
        assert version["position"] == mine[0].position
        assert version["drift"] > 0.0
    assert 0 <= past["ended"] - past["began"] < 60
    json.dumps(past, allow_nan=False)


def test_the_version_of_learning_follows_lessons_and_rollbacks(make_service: MakeService) -> None:
    service = make_service()
    questions = toy_stream(20)
    ask_all(service, questions[:6])
    assert version_now(service.state) == service.learner.model.version == 6
    service.learner.rollback(2)
    assert version_now(service.state) == 2
    ask_all(service, questions[6:8])
    assert version_now(service.state) == service.learner.model.version == 8
    service.learner.rollback(0)
    assert version_now(service.state) == 0


def test_an_answer_is_explained_from_its_prompt_to_its_lesson(folder: Path) -> None:
    with ServerStore(folder) as state:
        explanation, quiet = explain(state, 3), explain(state, 30)
        record = state.served(3).record
    assert explanation.served.record == record
    assert explanation.served.label is True
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
    assert plain["record_id"] == explanation.served.id
    assert plain["record"]["reply"]["stated"] == record.reply.stated


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
