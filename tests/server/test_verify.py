"""History, explanation and examination of state folders: found changes, and allowed rounding."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from secl.server.records import history
from secl.server.store import ServerStore
from secl.server.verify import ARITHMETIC, examine
from secl.testing import toy_stream
from tests.server.conftest import Make
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import ask_all, close, examined, explained, spoiled


@pytest.fixture(scope="module")
def learned(share_service: Make) -> Path:
    """The folder of a server with 40 answers, ten lessons and one label."""
    service = share_service()
    ask_all(service, toy_stream(21))
    service.state.add_feedback(3, False, 1.0)
    ask_all(service, toy_stream(40)[21:])
    return close(service)


@pytest.fixture(scope="module")
def weighed(share_service: Make) -> Path:
    """The folder of a server that reports posteriors."""
    service = share_service("weighed", model=Mixed(), settings={"method": "posterior"})
    ask_all(service, mixed_stream(15))
    return close(service)


def cell(column: str, table: str, position: int) -> str:
    return f"UPDATE {table} SET {column} = {column} + {{}} WHERE position = {position}"


def changed(body: str, position: int) -> str:
    return f"UPDATE records SET body = {body} WHERE position = {position}"


def inside(path: str, position: int) -> str:
    """A number inside the JSON of a record."""
    return changed(f"json_set(body, '$.{path}', json_extract(body, '$.{path}') + {{}})", position)


SPOILS = {
    cell("reported", "served", 12).format(1e-3): ("integrity", "missing or contradicts the record"),
    cell("confidence", "labels", 3).format(1e-3): ("labels", "have different confidences or domains"),
    inside("signal", 4).format(1e-3): ("integrity", "its signal does not follow from its evidence"),
    changed("json_set(body, '$.learning.decision.alarm', json('true'))", 30): ("gate", "the record has alarm"),
    changed("json_set(body, '$.position', 99)", 39): ("integrity", "should be 39, but is 99"),
    "DELETE FROM served WHERE position = 20": ("integrity", 'the table "served" is missing'),
    "DELETE FROM records WHERE position = 20": ("integrity", "should be 20, but is 21"),
    "DELETE FROM records WHERE position = 39": ("integrity", 'the table "served" has this record'),
    changed("json_set(body, '$.learning.update', NULL)", 4): ("integrity", "contradict each other"),
    changed("json_set(body, '$.learning.update.version', 50)", 4): ("integrity", "not higher than the version"),
    "DELETE FROM versions WHERE version = 10": ("integrity", "the adapter version that answered is not stored"),
    changed("json_set(body, '$.reply.version', 3)", 1): ("integrity", "no earlier record made the adapter version"),
    changed("json_set(body, '$.learning.outcome', 'trained')", 20): ("integrity", "contradict each other"),
    changed("json_remove(body, '$.reply.text')", 20): ("integrity", "cannot be read"),
    changed("json_set(body, '$.position', 2)", 20): ("integrity", "should be 20, but is 2."),
    "UPDATE labels SET correct = 1 - correct": ("labels", "the labels known at this answer give"),
    "DELETE FROM labels": ("labels", "the labels known at this answer give"),
    "UPDATE labels SET position = 99": ("integrity", "does not exist"),
}


def test_changes_of_the_tables_are_found(learned: Path, tmp_path: Path) -> None:
    for number, (statement, (check, words)) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(learned, tmp_path / str(number), statement)) as state:
            _, findings = examined(state)
        assert any(finding.check == check and words in finding.detail for finding in findings), (statement, findings)


@pytest.mark.parametrize(("by", "found"), [(1e-12, False), (1e-6, True)])
def test_rounding_is_no_change(weighed: Path, learned: Path, tmp_path: Path, by: float, found: bool) -> None:
    # A reported number also has a copy in another table, so the changed candidate is not the reported one.
    for folder, statement, check in (
        (weighed, inside("posterior.probabilities[2]", 12), "posterior"),
        (learned, inside("labelled.low", 21), "labels"),
        (learned, inside("learning.decision.statistic", 20), "gate"),
    ):
        with ServerStore(spoiled(folder, tmp_path / check, statement.format(by))) as state:
            found_now = examine(state)
        assert {finding.check for finding in found_now.findings} - {"integrity"} == {"chain", *[check] * found}
        if not found:
            assert 0 < found_now.largest[check] < ARITHMETIC


def test_history_tells_what_the_records_tell(learned: Path) -> None:
    with ServerStore(learned) as state:
        past = history(state)
        records = list(state.records())
    assert (past["answers"], past["labelled"], past["version"], past["paused"]) == (40, 1, 10, None)
    assert past["lessons"] == Counter(record.outcome for record in records) == {"trained": 10, "idle": 30}
    assert [version["version"] for version in past["versions"]] == list(range(10, 0, -1))
    for version in past["versions"]:
        mine = [record for record in records if record.reply.version == version["version"]]
        assert version["position"] == mine[0].position
        assert version["drift"] > 0.0
    assert 0 <= past["ended"] - past["began"] < 60
    json.dumps(past, allow_nan=False)


def test_an_answer_is_explained_from_its_prompt_to_its_lesson(learned: Path) -> None:
    with ServerStore(learned) as state:
        served, found, quiet = state.served(3), explained(state, 3), explained(state, 30)["why"]
    record: Any
    record, (asked, replied) = served.record, found["prompt"] or []
    assert (found["record_id"], found["label"]) == (served.id, False)
    assert (asked["role"], replied["role"]) == ("user", "assistant")
    assert asked["content"].startswith("Question: What is 3 plus 4?\nA. 7\nB. 6\n")
    assert replied["content"] == f"Answer: {record.reply.answer}\nConfidence: "
    why = " ".join(found["why"])
    assert f"(bin {int(record.update.before * 10)}) against the signal {record.signal:.3f}" in why
    assert "against the threshold 8" in " ".join(quiet)
    assert "the update made version 4" in why
    assert "Lesson: idle, because the question is outside a burst." in quiet
    plain = json.loads(json.dumps(found, allow_nan=False))
    assert plain["record"]["reply"]["stated"] == record.reply.stated


def test_a_question_of_a_burst_without_a_lesson_is_told_why(make_service: Make) -> None:
    service = make_service()
    questions = toy_stream(6)
    ask_all(service, questions[:2])
    service.learner.pause("maintenance")
    service.ask(questions[2], 10)
    service.learner.resume()
    ask_all(service, questions[3:4])
    assert "Lesson: idle, because learning was paused: maintenance." in explained(service.state, 2)["why"]
    assert "made version" in " ".join(explained(service.state, 3)["why"])
