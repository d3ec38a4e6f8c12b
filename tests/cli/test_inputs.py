"""Files of all kinds through `secl run` and `secl check`, and `secl ask` as part of a pipe."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from secl.runs.manifest import Manifest
from secl.runs.store import Store
from tests.cli.conftest import Shell

GOOD = {"question": "Capital of Peru?", "options": ["Lima", "Quito"], "reference": "Lima"}


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_questions_that_cannot_be_used_are_skipped_and_named(shell: Shell, tiny_llama: Path, tmp_path: Path) -> None:
    bad = ("{oops", GOOD, {"question": "a?", "options": ["b"]}, {"question": "word " * 3000, "id": "long"})
    file = jsonl(tmp_path / "q.jsonl", GOOD, *bad, {"question": "c?"})
    options = ("--model", tiny_llama, "--method", "stated", "--questions", file)
    refused = shell("run", "--out", tmp_path / "out", *options)
    assert (refused.code, f"{file}, line 2 is broken JSON" in refused.err) == (2, True)
    ended = shell("run", "--out", tmp_path / "out", *options, "--skip-bad")
    assert ended.code == 0
    first, second, third = ended.err.splitlines()
    assert first.startswith(f"skipped: {file}, line 2 is broken JSON")
    assert second.startswith(f"skipped: {file}, line 4 cannot be asked: question 'a?' has a single option")
    assert re.match("skipped: question 'long' takes .* more than the", third)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["questions"], summary["skipped"], summary["complete"]) == (3, 3, True)
    assert "Questions left out" in (tmp_path / "out" / "report.html").read_text()
    with Store(tmp_path / "out") as store:
        manifest, records = Manifest.of(store), list(store.records())
    assert manifest.unanswerable == ("long",)
    assert [record.question.id for record in records] == ["q-0001", "q-0003", "q-0006"]
    again = shell("run", "--resume", tmp_path / "out")
    assert (again.code, len(again.err.splitlines())) == (0, 3)
    for rows, said in (([{"question": "word " * 3000}], "can answer none of the questions"), (["{", "[]"], "line 1")):
        jsonl(file, *rows)
        none = shell("run", "--out", tmp_path / "none", *options, "--skip-bad")
        assert (none.code, said in none.err, none.err.count("\n")) == (2, True, 1)


def test_answers_are_no_references_and_a_warning_says_so(shell: Shell, tiny_llama: Path, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "q.jsonl", {"prompt": "Capital of Peru?", "Answer": "Lima", "refrence": "Lima", "year": 5})
    options = ("--model", tiny_llama, "--method", "stated", "--questions", file)
    ended = shell("run", "--out", tmp_path / "out", *options)
    assert ended.code == 0
    near, answers = ended.err.splitlines()
    assert near.startswith(f"warning: {file}: the column 'refrence' is carried along and not read")
    assert "no references" in answers
    assert "secl score" in answers
    with Store(tmp_path / "out") as store:
        (record,) = store.records()
    assert (record.question.reference, record.correct) == (None, None)
    assert dict(record.question.row) == {"prompt": "Capital of Peru?", "Answer": "Lima", "refrence": "Lima", "year": 5}
    said = shell("run", "--out", tmp_path / "two", *options, "--columns", "reference=answer,domain=year")
    assert (said.code, len(said.err.splitlines())) == (0, 1)
    with Store(tmp_path / "two") as store:
        (record,) = store.records()
    assert (record.question.reference, record.question.domain) == ("Lima", "5")
    assert shell("run", "--resume", tmp_path / "two").code == 0


def test_a_question_comes_from_a_pipe_and_the_answer_as_json(
    shell: Shell, refused: Any, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Which is a planet?\n"))
    options = ("--option", "Mars", "--option", "a\x1b[31m", "--model", tiny_llama)
    passage = ("--context", "Mars is one.\nYes.", "--system", "Be brief.")
    ended = shell("ask", "-", *options, *passage, "--accept", 0.0, "--json").fine
    found = json.loads(ended.out)
    question, options_asked = found["question"], ["Mars", "a\x1b[31m"]
    assert (question["text"], question["options"]) == ("Which is a planet?", options_asked)
    assert found["text"] == options_asked["AB".index(found["letter"])]
    probability = dict(found["candidates"])
    assert found["confidence"] == probability[found["text"]]
    assert found["low"] < found["confidence"] < found["high"]
    assert sum(found["reply"]["bins"]) == pytest.approx(1.0)
    assert found["accepted"] is True
    assert all(isinstance(each, str) for each in found["warnings"])
    plain = shell("ask", "Which is a planet?", *options, "--full")
    assert "\x1b" not in plain.out
    assert r"a\x1b[31m" in plain.out
    given = shell("ask", "Which is a planet?", *options, *passage, "--full")
    assert (given.code, given.out != plain.out) == (0, True)
    long = ("ask", "Which is a planet?", *options, "--context", "word " * 3000)
    refused(long, "takes", "more than the 2048 that the model can read")


def test_a_mistyped_flag_and_nothing_are_no_questions(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell("ask", "--jsn").err == "secl: ask has no option --jsn; secl ask --help lists those that it has.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "has no text" in shell("ask", "-").err
    assert "--install-completion" in shell("--help").out
