"""Files of all kinds through `secl run` and `secl check`: what is said, skipped, counted and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from secl.runs.manifest import Manifest
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from tests.cli.conftest import Shell

GOOD = {"question": "Capital of Peru?", "options": ["Lima", "Quito"], "reference": "Lima"}


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_questions_that_cannot_be_used_are_skipped_named_counted_and_stay_out(
    shell: Shell, tiny_llama: Path, tmp_path: Path
) -> None:
    long = {"question": "word " * 3000, "id": "long"}
    file = jsonl(
        tmp_path / "q.jsonl", GOOD, "{oops", GOOD, {"question": "a?", "options": ["b"]}, long, {"question": "c?"}
    )
    options = ("--model", tiny_llama, "--method", "stated", "--questions", file)
    refused = shell("run", "--out", tmp_path / "out", *options)
    assert (refused.code, f"{file}, line 2 is broken JSON" in refused.err) == (2, True)
    ended = shell("run", "--out", tmp_path / "out", *options, "--skip-bad")
    assert ended.code == 0
    first, second, third = ended.err.splitlines()
    assert first.startswith(f"skipped: {file}, line 2 is broken JSON")
    assert second.startswith(f"skipped: {file}, line 4 cannot be asked: question 'a?' has a single option")
    assert third.startswith("skipped: question 'long' takes ")
    assert "more than the" in third
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["questions"], summary["skipped"], summary["complete"]) == (3, 3, True)
    assert "Questions left out" in (tmp_path / "out" / "report.html").read_text()
    with Store(tmp_path / "out") as store:
        manifest, records = Manifest.of(store), list(store.records())
    assert manifest.unanswerable == ("long",)
    assert [record.question.id for record in records] == ["q-0001", "q-0003", "q-0006"]
    again = shell("run", "--resume", tmp_path / "out")
    assert (again.code, len(again.err.splitlines())) == (0, 3)


def test_a_file_of_which_nothing_can_be_asked_is_refused(
    refused: Any, run_of: Any, tiny_llama: Path, tmp_path: Path
) -> None:
    file = jsonl(tmp_path / "q.jsonl", {"question": "word " * 3000})
    refused(run_of(tiny_llama, "--questions", file, "--skip-bad"), "can be asked none of the questions", "q-0001")
    jsonl(file, "{", "[]")
    refused(run_of(tiny_llama, "--questions", file, "--skip-bad"), "no question that can be used", "line 1")


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


def test_ask_takes_a_passage_and_a_system_text(shell: Shell, tiny_llama: Path, refused: Any) -> None:
    question = ("ask", "Why?", "--option", "x", "--option", "y", "--model", tiny_llama)
    plain, given = shell(*question), shell(*question, "--context", "It rains.\nA lot.", "--system", "Be brief.")
    assert (plain.code, given.code) == (0, 0)
    assert plain.out != given.out
    refused((*question, "--context", "word " * 3000), "takes", "more than the 2048 that the model can read")


def test_a_recipe_names_columns_in_a_table_or_a_list() -> None:
    for columns in ({"question": "Frage", "domain": "Thema"}, ["question=Frage,domain=Thema"]):
        stream = RunSettings.of({"stream.questions": "q.csv", "stream.columns": columns}).stream
        assert stream.named_columns == {"question": "Frage", "domain": "Thema"}
