"""The folder of a server from the shell: history, show, verify, labels, exports, backups."""

import csv
import io
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl import Message, Question
from secl.runs import chain
from secl.runs.folder import FILE
from secl.server.entries import Keep
from secl.server.retention import Retention
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.cli.conftest import Shell, Use
from tests.server import conftest as serving
from tests.server.waiting import ask_all, close, filled, prune

pytestmark = pytest.mark.heavy

make_service = serving.make_service
TEXT = "plus"
"""A word of every question."""


def serve(make_service: serving.Make, count: int = 40, keep_text: Keep = "full") -> Path:
    """Return the folder of a stopped server that has answered questions one by one, each with its lesson."""
    service = make_service(keep_text=keep_text)
    ask_all(service, toy_stream(count))
    return close(service)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place of the server's folder that the first test makes."""
    return tmp_path_factory.mktemp("answered") / "state"


@pytest.fixture
def state(make_service: serving.Make, answered: Path, tmp_path: Path) -> Path:
    """The folder of a stopped server, copied for each test."""
    if not answered.exists():
        shutil.move(serve(make_service), answered)
    return shutil.copytree(answered, tmp_path / "state")


@pytest.fixture
def loads_nothing(use: Use) -> None:
    use(AssertionError("no model is needed for this"))


def test_history_show_and_verify_explain_a_confidence(shell: Shell, use: Use, state: Path, loads_nothing: None) -> None:
    def told(command: str, *arguments: object) -> tuple[str, dict[str, Any]]:
        ended = shell(command, state, *arguments).fine
        return ended.out, json.loads(shell(command, state, *arguments, "--json").out)

    with ServerStore(state, writable=True) as opened:
        opened.add_event("pause", 10, "too hot")
    out, found = told("history")
    assert [words for words in ("40 answers", "learning is paused: too hot", "* 10") if words not in out] == []
    assert (found["answers"], found["version"], found["paused"]) == (40, 10, "too hot")
    assert found["lessons"] == {"trained": 10, "idle": 30}
    assert [event["kind"] for event in found["events"]] == ["pause"]

    out, found = told("show", "3")
    words = ("What is 3 plus 4?", "stated confidence", "0.7375", "version 4", "P(True)", "Confidence:", "bin 7")
    assert [each for each in words if each not in out] == []
    assert shell("show", state, found["record_id"]).out == out
    assert found["record"]["learning"]["update"]["version"] == 4
    assert found["record"]["reply"]["stated"] == pytest.approx(0.7375)

    out, found = told("verify")
    lines = (
        "every row has its hash",
        "every decision is as stored",
        "all tables agree",
        f"head        {found['head']}",
    )
    assert [each for each in lines if each not in out] == []
    assert (found["agrees"], found["examined"], found["findings"]) == (True, 40, [])


@pytest.mark.usefixtures("loads_nothing")
def test_without_texts_show_and_verify_say_so(shell: Shell, make_service: serving.Make) -> None:
    folder = serve(make_service, 12, "none")
    shown = shell("show", folder, "3").fine
    assert "texts were not kept (keep-text none)" in shown.out
    assert TEXT not in shown.out
    assert "replayed over 12 records" in shell("verify", folder).fine.out


def altered(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        assert db.execute(statement).rowcount > 0


@pytest.mark.usefixtures("loads_nothing")
def test_verify_ends_with_1_where_something_does_not_agree_or_is_damaged(shell: Shell, state: Path) -> None:
    altered(state, "UPDATE records SET body = json_set(body, '$.learning.decision.statistic', 3.0) WHERE position = 30")
    altered(state, "UPDATE versions SET weights = (SELECT weights FROM versions WHERE version = 2) WHERE version = 10")
    ended = shell("verify", state)
    assert (ended.code, ended.err) == (1, "")
    assert "gate of record 30: the gate now decides" in ended.out
    assert "chain of record 30: the row 30 of the table records was changed" in ended.out
    assert "chain: the row 10 of the table versions was changed" in ended.out
    found = json.loads(shell("verify", state, "--json").out)
    assert (found["agrees"], len(found["findings"])) == (False, 3)
    altered(state, "UPDATE records SET body = json_remove(body, '$.learning.frozen') WHERE position = 30")
    ended = shell("verify", state)
    assert (ended.code, ended.err) == (1, "")
    assert "the record cannot be read or replayed" in ended.out
    assert shell("show", state, 30).code == 2


@pytest.mark.usefixtures("loads_nothing")
def test_a_noted_head_finds_a_rewritten_chain_and_an_older_copy(shell: Shell, state: Path, tmp_path: Path) -> None:
    def head(folder: Path) -> str:
        noted: str = json.loads(shell("verify", folder, "--json").out)["head"]
        return noted

    older = shutil.copytree(state, tmp_path / "older")
    early = head(state)
    with ServerStore(state, writable=True) as opened:
        opened.add_feedback(3, True)
    late = head(state)
    for noted in (early, late):
        assert shell("verify", state, "--head", noted).fine
    forged = shutil.copytree(state, tmp_path / "forged")
    altered(forged, "UPDATE labels SET correct = 1 - correct")
    with ServerStore(forged, writable=True) as opened, opened.db:  # a forger who knows the chain
        opened.db.execute("DELETE FROM chain WHERE name = 'labels'")
        chain.extend(opened.db, "labels", 1)
    assert shell("verify", forged).fine
    for folder in (older, forged):
        ended = shell("verify", folder, "--head", late)
        assert (ended.code, "the chain has no entry with this hash" in ended.out) == (1, True)


def test_mistakes_are_one_sentence(refused: Any, state: Path, tmp_path: Path, loads_nothing: None) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for command, *more in (("history",), ("show", "3")):
        refused((command, plain, *more), plain, "not a server's state folder")
        refused((command, tmp_path / "nosuch", *more), "nosuch is not a server's state folder", "secl serve")
    refused(("show", state, "rec_4x"), "rec_4x", "there is no record")
    refused(("show", state, "40"), "no record 40")
    for folder in (plain, tmp_path / "nosuch"):
        refused(("verify", folder), folder, "is not a run folder")
    for noted in ("", "0" * 63, "g" * 64):
        refused(("verify", state, "--head", noted), "--head", "64 digits")


def test_what_people_sent_is_shown_in_its_chat_and_cannot_steer_the_terminal(
    shell: Shell, make_service: serving.Make, loads_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    service.ask(Question("red \x1b[31m \x9b2J and \u202eback?", form="sentence"), 10)
    history = (Message("user", "Who are you?"), Message("assistant", "Anna, a gardener."))
    service.ask(Question("Name a fruit.", form="short", system="You are Anna.", history=history), 10)
    folder = close(service)
    with ServerStore(folder, writable=True) as opened:
        opened.add_event("pause", 0, "hot \x1b[2J")
    for command, *more in (("show", "0"), ("history",)):
        assert not {*shell(command, folder, *more).out} & {*"\x1b\x9b\u202e"}
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\nu\ns\ny\n"))  # questions come in an order of their own
    lines = shell("label", folder).out.splitlines()
    begin = lines.index("system: You are Anna.")
    assert lines[begin + 1 : begin + 4] == ["user: Who are you?", "assistant: Anna, a gardener.", "user: Name a fruit."]
    with ServerStore(folder) as opened:
        assert len(opened.label_log()) == 4  # no, undone, skipped, yes
    assert shell("verify", folder).fine  # labels from the shell leave nothing to verify


LABELS = {2: True, 3: False, 5: False, 8: False}


@pytest.fixture
def rated(make_service: serving.Make) -> Path:
    """The folder of a stopped server with four answers rated by people."""
    service = make_service()
    for question in toy_stream(12):
        service.ask(replace(question, reference=None), 10)
    folder = close(service)
    with ServerStore(folder, writable=True) as state:
        for position, correct in LABELS.items():
            state.add_feedback(position, correct)
    return folder


def test_labels_are_in_the_exports_and_the_report_of_a_server(shell: Shell, rated: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shell("export", rated, "--format", "csv", "--out", "-").out)))
    said = {position: str(correct) for position, correct in LABELS.items()}
    assert {position: row["label"] for position, row in enumerate(rows) if row["label"]} == said
    assert all(row["correct"] == row["label"] for row in rows)
    lines = [json.loads(line) for line in shell("export", rated, "--out", "-").out.splitlines()]
    assert {position: line["label"] for position, line in enumerate(lines) if line["label"] is not None} == LABELS
    assert all(line["correct"] == line["label"] for line in lines)
    shell("report", rated, "--out", tmp_path / "page")
    summary = json.loads((tmp_path / "page" / "summary.json").read_text(encoding="utf-8"))
    assert summary["estimators"]["stated"]["n"] == len(LABELS)
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "label the other 8 and ask 38 more questions" in page


def test_a_backup_is_verified_and_pruned_like_any_state(shell: Shell, tmp_path: Path) -> None:
    state, copy = filled(tmp_path / "state", 100), tmp_path / "copy"
    ended = shell("backup", state, copy)
    assert (ended.code, ended.out) == (0, f"{copy} holds 100 records; check it with: secl verify {copy}\n")
    with ServerStore(copy, writable=True) as opened:
        assert prune(opened, Retention(records=30)) == 70
    found = json.loads(shell("verify", copy, "--json").out)
    assert (found["agrees"], found["examined"], found["first"]) == (True, 30, 70)
    again = shell("verify", copy).fine
    assert "the records before number 70; secl checked the kept records" in again.out
    assert "was pruned, like all records before 70" in shell("show", copy, "3").err
    ended = shell("export", copy, "--out", tmp_path / "x.csv", "--format", "csv")
    assert ended.err == f"The records 0 to 69 of {copy} were pruned.\n"
