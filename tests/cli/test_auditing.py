"""history, show and verify of a folder, and rollback, pause and resume of a running server, from the shell."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from secl.question import Question, Turn
from secl.runs import loading
from secl.runs.folder import FILE
from secl.server.online.factory import open_service, serving_settings
from secl.server.online.service import Service
from secl.server.redaction import Keep
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.cli.conftest import Shell
from tests.server import conftest as serving
from tests.server.folders import filled
from tests.server.waiting import close

pytestmark = pytest.mark.heavy

make_service = serving.make_service
TEXT = "plus"
"""Stands in every question."""


def serve(make_service: serving.MakeService, count: int = 40, keep_text: Keep = "full") -> Service:
    """A server that has answered, one after the other, each with its lesson held."""
    service = make_service(keep_text=keep_text)
    for question in toy_stream(count):
        service.ask(question, 10)
        settle(service)
    return service


def settle(service: Service) -> None:
    until = time.monotonic() + 30
    while service.learner.waiting or service.state.waiting():
        assert time.monotonic() < until
        time.sleep(0.001)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the folder of the server is kept that the first test has asked."""
    return tmp_path_factory.mktemp("answered") / "state"


@pytest.fixture
def state(make_service: serving.MakeService, answered: Path, tmp_path: Path) -> Path:
    """The folder of a server that has stopped; each test has a copy of its own."""
    folder = tmp_path / "state"
    if answered.exists():
        return shutil.copytree(answered, folder)
    close(serve(make_service))
    shutil.copytree(folder, answered)
    return folder


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted model is loaded in place of a real one."""
    monkeypatch.setattr(loading, "load_model", lambda _recipe: ScriptedModel())


@pytest.fixture
def loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_recipe: Any) -> None:
        raise AssertionError("no model is needed for this")

    monkeypatch.setattr(loading, "load_model", load)


def test_history_prints_bursts_versions_and_events(shell: Shell, state: Path, loads_nothing: None) -> None:
    with ServerStore(state, writable=True) as opened:
        opened.add_event("pause", 10, "too hot")
    ended = shell("history", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    for words in ("40 answers", "learning is paused: too hot", "0 to 9", "1 to 10", "* 10", "untouched model"):
        assert words in ended.out, ended.out
    told = json.loads(shell("history", "--state", state, "--json").out)
    assert (told["answers"], told["version"], told["paused"]) == (40, 10, "too hot")
    assert told["bursts"][0]["lessons"] == {"trained": 10}
    assert [event["kind"] for event in told["events"]] == ["pause"]


def test_a_long_history_shows_its_latest_rows_and_says_so(shell: Shell, state: Path) -> None:
    with ServerStore(state, writable=True) as opened:
        for _ in range(15):
            opened.add_event("pause", 10, "again")
            opened.add_event("resume", 10, "learning goes on")
    ended = shell("history", "--state", state)
    assert "Events  (the latest 20 of 30)" in ended.out
    assert len(json.loads(shell("history", "--state", state, "--json").out)["events"]) == 30


def test_show_tells_why_an_answer_got_its_number(shell: Shell, state: Path, loads_nothing: None) -> None:
    ended = shell("show", "rec_00000003", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    for words in ("What is 3 plus 4?", "stated confidence  0.7375", "version 4", "P(True)", "Confidence:", "bin 7"):
        assert words in ended.out, ended.out
    assert shell("show", "3", "--state", state).out == ended.out
    told = json.loads(shell("show", "3", "--state", state, "--json").out)
    assert (told["record_id"], told["position"], told["update"]["version"]) == ("rec_00000003", 3, 4)
    assert told["reply"]["confidence"] == pytest.approx(0.7375)


def test_show_says_that_texts_were_not_kept(shell: Shell, make_service: serving.MakeService) -> None:
    folder = close(serve(make_service, 12, "none"))
    ended = shell("show", "3", "--state", folder)
    assert ended.code == 0
    assert "texts were not kept (keep-text none)" in ended.out
    assert TEXT not in ended.out


def test_reading_works_while_the_server_runs(shell: Shell, make_service: serving.MakeService, loads: None) -> None:
    folder = serve(make_service).state.folder
    for arguments in (("history",), ("show", "3"), ("verify", "--last", 5)):
        ended = shell(*arguments, "--state", folder)
        assert (ended.code, ended.err) == (0, ""), arguments


def test_verify_says_that_all_agrees(shell: Shell, state: Path, loads: None) -> None:
    ended = shell("verify", "--state", state, "--last", 40)
    assert (ended.code, ended.err) == (0, "")
    assert "every decision is as stored" in ended.out
    assert "all tables agree" in ended.out
    assert "40 answers computed again: 40 the same to the last digit" in ended.out
    found = json.loads(shell("verify", "--state", state, "--record", "rec_00000007", "--json").out)
    assert (found["agrees"], found["examined"], found["matches"], found["findings"]) == (True, 40, {"same": 1}, [])
    assert (found["rederived"][0]["position"], found["rederived"][0]["version"]) == (7, 7)
    assert json.loads(shell("verify", "--state", state, "--json").out)["matches"] == {"same": 20}


def test_verify_without_answers_loads_no_model(shell: Shell, state: Path, loads_nothing: None) -> None:
    ended = shell("verify", "--state", state, "--last", 0)
    assert ended.code == 0
    assert "no answer computed again" in ended.out


def test_verify_without_texts_says_what_it_cannot_do(
    shell: Shell, make_service: serving.MakeService, loads_nothing: None
) -> None:
    folder = close(serve(make_service, 12, "none"))
    ended = shell("verify", "--state", folder)
    assert (ended.code, ended.err) == (3, "")
    assert "12 not verifiable, because their texts were not kept" in ended.out


def test_verify_ends_with_1_where_something_does_not_agree(shell: Shell, state: Path, loads: None) -> None:
    with sqlite3.connect(state / FILE) as db:
        db.execute("UPDATE decisions SET statistic = 3.0 WHERE position = 30")
        db.execute("UPDATE versions SET weights = (SELECT weights FROM versions WHERE version = 2) WHERE version = 10")
    db.close()
    ended = shell("verify", "--state", state, "--last", 3)
    assert (ended.code, ended.err) == (1, "")
    assert "gate rec_00000030: the gate decides" in ended.out
    assert "confidence rec_00000039: asked again it gives confidence" in ended.out
    found = json.loads(shell("verify", "--state", state, "--last", 3, "--json").out)
    assert (found["agrees"], found["matches"], len(found["findings"])) == (False, {"differs": 3}, 4)


@pytest.mark.parametrize("table", ["served", "decisions", "records"])
def test_a_damaged_record_is_a_finding_and_no_crash(shell: Shell, state: Path, table: str, loads: None) -> None:
    with sqlite3.connect(state / FILE) as db:
        db.execute(f"DELETE FROM {table} WHERE position = 30")
    db.close()
    ended = shell("verify", "--state", state)
    assert (ended.code, ended.err) == (1, "")
    assert "no answer can be computed again" in ended.out
    assert "integrity" in ended.out
    assert shell("verify", "--state", state, "--record", 5).code == 1
    assert shell("show", 30, "--state", state).code == 2


def test_verify_names_what_is_not_as_it_was(
    shell: Shell, state: Path, loads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(state / FILE) as db:
        db.execute("""UPDATE manifest SET value = '{"torch": "0.1", "dtype": "float32"}' WHERE key = 'environment'""")
    db.close()
    ended = shell("verify", "--state", state, "--last", 3)
    assert ended.code == 0
    assert "torch: 0.1 there" in ended.out
    monkeypatch.setattr(loading, "load_model", lambda _recipe: ScriptedModel(stated=0.6))
    assert "has changed since" in shell("verify", "--state", state).err


def test_a_version_after_a_rollback_takes_a_new_number(
    shell: Shell, make_service: serving.MakeService, loads: None
) -> None:
    service = serve(make_service, 6)
    service.learner.rollback(2)
    for question in toy_stream(8)[6:]:
        service.ask(question, 10)
        settle(service)
    assert service.learner.model.version == 8
    assert shell("verify", "--state", close(service), "--last", 8).code == 0


def test_mistakes_are_one_sentence(refused: Any, state: Path, tmp_path: Path, loads_nothing: None) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for command in (("history",), ("show", "3"), ("verify",)):
        refused((*command, "--state", plain), plain, "no server's state")
        refused((*command, "--state", tmp_path / "nosuch"), "nosuch is no server's state", "secl serve --state")
    refused(("show", "rec_4x", "--state", state), "rec_4x", "names no record")
    refused(("show", "40", "--state", state), "no record 40")
    refused(("verify", "--record", "40", "--state", state), "no record 40")
    refused(("verify", "--record", "3", "--last", 4, "--state", state), "--last and --record")
    refused(("verify", "--last", -1, "--state", state), "--last")


def test_what_people_sent_cannot_steer_the_terminal(
    shell: Shell, make_service: serving.MakeService, loads_nothing: None
) -> None:
    service = make_service()
    service.ask(Question("red \x1b[31m \x9b2J and \u202eback?", form="sentence"), 10)
    settle(service)
    folder = close(service)
    with ServerStore(folder, writable=True) as opened:
        opened.add_event("pause", 0, "hot \x1b[2J")
    for command in (("show", "0"), ("history",)):
        out = shell(*command, "--state", folder).out
        assert not any(character in out for character in "\x1b\x9b\u202e")


def real(folder: Path, **settings: Any) -> list[Any]:
    """Serve with a real model: some questions alone, some in a pass, with lessons between; and what was said."""
    recipe = serving_settings(gate="entropy-shift", burst=6, warmup=3, bin_gate="off", learning_rate=1e-3, **settings)
    service = open_service(folder, recipe)
    service.start()
    said = []
    questions = toy_stream(12)
    for question in questions[:5]:
        said.append(service.ask(question, 60))
        settle(service)
    said += [future.result(60) for future in [service.submit(question) for question in questions[5:]]]
    settle(service)
    close(service)
    return said


def test_answers_of_a_small_network_are_verified_and_brought_back(
    shell: Shell, tiny_llama: Path, tmp_path: Path
) -> None:
    check_real(shell, tmp_path / "state", model=str(tiny_llama))


@pytest.mark.slow
def test_answers_of_the_embedded_model_are_verified_and_brought_back(
    shell: Shell, smollm2: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECL_CACHE")
    check_real(shell, tmp_path / "state", model=smollm2)


def check_real(shell: Shell, folder: Path, **settings: Any) -> None:
    said = real(folder, **settings)
    alone = [each.record.position for each in said if each.batch == 1]
    assert len(alone) >= 5
    assert any(each.batch > 1 for each in said)
    assert said[4].record.reply.version > 0
    ended = shell("verify", "--state", folder, "--last", 50, "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["findings"], found["environment"]) == (0, [], [])
    matches = {each["position"]: each["match"] for each in found["rederived"]}
    assert [matches[position] for position in alone] == ["same"] * len(alone)
    assert set(matches.values()) <= {"same", "rounding", "together"}

    told = json.loads(shell("history", "--state", folder, "--json").out)
    norms = [used["drift"] for used in told["versions"]]
    assert norms[0] == 0
    assert all(norm > 0 for norm in norms[1:])

    old = said[3].record
    recipe = serving_settings(gate="entropy-shift", burst=6, warmup=3, bin_gate="off", learning_rate=1e-3, **settings)
    service = open_service(folder, recipe)
    service.start()
    service.learner.rollback(old.reply.version)
    assert service.ask(old.question, 60).record.reply == old.reply
    close(service)
    assert shell("verify", "--state", folder, "--last", 1).code == 0


def test_labels_from_the_shell_leave_nothing_to_verify(
    shell: Shell, state: Path, loads_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\nn\nu\ny\nq\n"))
    assert shell("label", state).code == 0
    with ServerStore(state) as opened:
        assert len(opened.label_log()) == 4
    ended = shell("verify", "--state", state, "--last", 0)
    assert (ended.code, ended.err) == (0, "")


def test_a_review_of_a_server_shows_what_was_said_before_the_question(
    shell: Shell, make_service: serving.MakeService, loads_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    history = (Turn("user", "Who are you?"), Turn("assistant", "Anna, a gardener."))
    service.ask(Question("Name a fruit.", form="short", system="You are Anna.", history=history), 10)
    settle(service)
    folder = close(service)
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    lines = shell("label", folder).out.splitlines()
    begin = lines.index("system: You are Anna.")
    assert lines[begin + 1 : begin + 4] == ["user: Who are you?", "assistant: Anna, a gardener.", "user: Name a fruit."]


@pytest.mark.parametrize(("method", "word"), [("posterior", "learning is off"), ("secl", "learning is on")])
def test_a_history_says_whether_the_server_learns_at_all(
    shell: Shell, tmp_path: Path, method: str, word: str, loads_nothing: None
) -> None:
    folder = filled(tmp_path / "served", 50, serving_settings(method=method))
    assert word in shell("history", "--state", folder).out
