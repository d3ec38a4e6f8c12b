"""history, show and verify of a folder, and rollback, pause and resume of a running server, from the shell."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl.question import Question, Turn
from secl.runs import loading
from secl.runs.folder import FILE
from secl.server.online.service import Service
from secl.server.redaction import Keep
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.cli.conftest import Shell
from tests.server import conftest as serving
from tests.server.waiting import ask_all, close

pytestmark = pytest.mark.heavy

make_service = serving.make_service
TEXT = "plus"
"""Stands in every question."""


def serve(make_service: serving.Make, count: int = 40, keep_text: Keep = "full") -> Service:
    """A server that has answered, one after the other, each with its lesson held."""
    service = make_service(keep_text=keep_text)
    ask_all(service, toy_stream(count))
    return service


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the folder of the server is kept that the first test has asked."""
    return tmp_path_factory.mktemp("answered") / "state"


@pytest.fixture
def state(make_service: serving.Make, answered: Path, tmp_path: Path) -> Path:
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


def test_history_show_and_verify_tell_versions_events_and_why_an_answer_got_its_number(
    shell: Shell, state: Path, loads_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(command: str, *arguments: object) -> tuple[str, dict[str, Any]]:
        ended = shell(command, state, *arguments)
        assert (ended.code, ended.err) == (0, "")
        return ended.out, json.loads(shell(command, state, *arguments, "--json").out)

    with ServerStore(state, writable=True) as opened:
        opened.add_event("pause", 10, "too hot")
    out, found = told("history")
    assert all(words in out for words in ("40 answers", "learning is paused: too hot", "* 10")), out
    assert (found["answers"], found["version"], found["paused"]) == (40, 10, "too hot")
    assert found["lessons"] == {"trained": 10, "idle": 30}
    assert [event["kind"] for event in found["events"]] == ["pause"]

    out, found = told("show", "3")
    for words in ("What is 3 plus 4?", "stated confidence  0.7375", "version 4", "P(True)", "Confidence:", "bin 7"):
        assert words in out, out
    assert shell("show", state, found["record_id"]).out == out
    assert found["record"]["update"]["version"] == 4
    assert found["record"]["reply"]["stated"] == pytest.approx(0.7375)

    monkeypatch.setattr(loading, "load_model", lambda _recipe: ScriptedModel())
    out, found = told("verify", "--last", 40)
    assert "every decision is as stored" in out
    assert "all tables agree" in out
    assert "40 answers computed again: 40 the same to the last digit" in out
    _, found = told("verify", "--record", "7")
    assert (found["agrees"], found["examined"], found["matches"], found["findings"]) == (True, 40, {"same": 1}, [])
    assert (found["rederived"][0]["position"], found["rederived"][0]["version"]) == (7, 7)
    assert told("verify")[1]["matches"] == {"same": 20}


def test_without_texts_show_and_verify_say_what_they_cannot_do(
    shell: Shell, make_service: serving.Make, loads_nothing: None
) -> None:
    folder = close(serve(make_service, 12, "none"))
    shown = shell("show", folder, "3")
    assert shown.code == 0
    assert "texts were not kept (keep-text none)" in shown.out
    assert TEXT not in shown.out
    ended = shell("verify", folder)
    assert (ended.code, ended.err) == (3, "")
    assert "12 not verifiable" in ended.out


def test_verify_ends_with_1_where_something_does_not_agree_or_is_damaged(
    shell: Shell, state: Path, loads: None
) -> None:
    def altered(statement: str) -> None:
        with closing(sqlite3.connect(state / FILE)) as db, db:
            db.execute(statement)

    altered("UPDATE records SET body = json_set(body, '$.decision.statistic', 3.0) WHERE position = 30")
    altered("UPDATE versions SET weights = (SELECT weights FROM versions WHERE version = 2) WHERE version = 10")
    ended = shell("verify", state, "--last", 3)
    assert (ended.code, ended.err) == (1, "")
    assert "gate of record 30: the gate decides" in ended.out
    assert "confidence of record 39: asked again it gives confidence" in ended.out
    found = json.loads(shell("verify", state, "--last", 3, "--json").out)
    assert (found["agrees"], found["matches"], len(found["findings"])) == (False, {"differs": 3}, 4)
    altered("UPDATE records SET body = json_remove(body, '$.decision') WHERE position = 30")
    ended = shell("verify", state)
    assert (ended.code, ended.err) == (1, "")
    assert "no answer computed again" in ended.out
    assert "integrity" in ended.out
    assert shell("verify", state, "--record", 5).code == 1
    assert shell("show", state, 30).code == 2


def test_mistakes_are_one_sentence(refused: Any, state: Path, tmp_path: Path, loads_nothing: None) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for command in (("history",), ("show", "3"), ("verify",)):
        refused((command[0], plain, *command[1:]), plain, "no server's state")
        refused((command[0], tmp_path / "nosuch", *command[1:]), "nosuch is no server's state", "secl serve")
    refused(("show", state, "rec_4x"), "rec_4x", "there is no record")
    refused(("show", state, "40"), "no record 40")
    refused(("verify", state, "--record", "40"), "no record 40")
    refused(("verify", state, "--record", "3", "--last", 4), "--last and --record")
    refused(("verify", state, "--last", -1), "--last")


def test_what_people_sent_is_shown_with_what_was_said_before_and_cannot_steer_the_terminal(
    shell: Shell, make_service: serving.Make, loads_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    service.ask(Question("red \x1b[31m \x9b2J and \u202eback?", form="sentence"), 10)
    history = (Turn("user", "Who are you?"), Turn("assistant", "Anna, a gardener."))
    service.ask(Question("Name a fruit.", form="short", system="You are Anna.", history=history), 10)
    folder = close(service)
    with ServerStore(folder, writable=True) as opened:
        opened.add_event("pause", 0, "hot \x1b[2J")
    for command in (("show", "0"), ("history",)):
        out = shell(command[0], folder, *command[1:]).out
        assert not any(character in out for character in "\x1b\x9b\u202e")
    monkeypatch.setattr(sys, "stdin", io.StringIO("s\nq\n"))  # questions come in an order of their own
    lines = shell("label", folder).out.splitlines()
    begin = lines.index("system: You are Anna.")
    assert lines[begin + 1 : begin + 4] == ["user: Who are you?", "assistant: Anna, a gardener.", "user: Name a fruit."]


def test_labels_from_the_shell_leave_nothing_to_verify(
    shell: Shell, state: Path, loads_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\nn\nu\ny\nq\n"))
    assert shell("label", state).code == 0
    with ServerStore(state) as opened:
        assert len(opened.label_log()) == 4
    ended = shell("verify", state, "--last", 0)
    assert (ended.code, ended.err) == (0, "")
