"""Records and adapter versions for other tools; files of all kinds as questions; `secl ask` as part of a pipe."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from secl.records import Record
from secl.runs.encoding import from_plain
from secl.runs.export import to_table
from secl.runs.labelling import row_id
from secl.runs.manifest import Manifest
from secl.runs.store import Store, Version
from tests.answers import stored
from tests.cli.conftest import Shell

FILES = ("adapter_config.json", "adapter_model.safetensors")


def test_an_export_has_records_or_flat_rows(shell: Shell, run: Path, records: list[Record], tmp_path: Path) -> None:
    ended = shell("export", run, "--out", tmp_path / "all.jsonl")
    assert (ended.code, ended.out.strip()) == (0, str(tmp_path / "all.jsonl"))
    text = (tmp_path / "all.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for line, record in zip(lines, records, strict=True):
        for values, reply in ((line["reply"], record.reply), (line["learning"]["frozen"], record.frozen)):
            assert (values["stated"], values["stated_hard"]) == (reply.stated, reply.stated_hard)
    assert [from_plain(line) for line in lines] == records
    assert shell("export", run, "--out", "-").out == text
    assert shell("export", run).out.strip() == str(run / "records.jsonl")
    assert (run / "records.jsonl").read_text(encoding="utf-8") == text
    (run / "records.jsonl").unlink()
    for full in ([], ["--full"]):
        columns, rows = to_table(records, full=bool(full))
        said = shell("export", run, "--format", "csv", "--out", "-", *full).out
        assert [name for name in next(csv.reader(io.StringIO(said))) if name != "record_id"] == columns
        shell("export", run, "--format", "parquet", "--out", tmp_path / "all.parquet", *full)
        found = pyarrow.parquet.read_table(tmp_path / "all.parquet").to_pylist()
        assert [row.pop("record_id") for row in found] == [row_id(record) for record in records]
        assert found == [dict(zip(columns, row, strict=True)) for row in rows]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl", "all.parquet"]


def test_the_last_version_of_a_run_and_every_kept_one_can_be_written(shell: Shell, run: Path, tmp_path: Path) -> None:
    copy, folder = tmp_path / "run", tmp_path / "deep" / "adapter"
    shutil.copytree(run, copy)
    with Store(copy, writable=True) as store:
        store.keep(Version(1, b"earlier weights"))
        last = store.versions()[-1]
    for version in (1, last):
        ended = shell("export", copy, "--version", version, "--out", folder)
        assert (ended.code, ended.out.strip()) == (0, str(folder))
        assert ((folder / FILES[1]).read_bytes() == b"earlier weights") == (version == 1)
    for file in FILES:
        assert (folder / file).read_bytes() == (run / "adapter" / file).read_bytes()


def test_what_cannot_be_exported_is_refused_and_no_run_is_spoiled(refused: Any, run: Path, tmp_path: Path) -> None:
    with Store(run) as store:
        *_, last = versions = store.versions()
    kept = f"the kept versions are {', '.join(map(str, versions))}"
    for version in (0, 99):
        refused(("export", run, "--version", version), f"does not keep adapter version {version}", kept)
    refused(("export", run, "--version", 1, "--format", "csv"), "leave --format or --version out")
    refused(("export", run, "--version", 1, "--out", "-"), "name a folder with --out")
    (tmp_path / "file").write_text("x")
    refused(("export", run, "--version", last, "--out", tmp_path / "file"), tmp_path / "file", "cannot write")
    other = shutil.copytree(run, tmp_path / "other")
    files = [path for folder in (run, other) for path in folder.rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}
    for target in (run / "run.sqlite", run / "summary.json", run / "lock", other / "records.csv"):
        refused(("export", run, "--format", "csv", "--out", target), "belongs to a run")
    for target in (run, other, run / "adapter", other / "adapter"):
        refused(("export", run, "--version", last, "--out", target), "belongs to a run")
    assert {path: path.read_bytes() for path in contents} == contents


def test_ctrl_c_in_any_command_ends_in_one_sentence(shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "__enter__", interrupted)
    ended = shell("export", run)
    assert (ended.code, ended.out, ended.err) == (2, "", "secl: stopped.\n")


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
    assert re.match("skipped: question 'long' takes .* but the model", third)
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
    assert near.startswith(f"warning: {file}: secl stores the column 'refrence' but does not read it")
    assert "column 'answer' has answers to rate, not references" in answers
    assert "secl score" in answers
    (record,) = stored(tmp_path / "out")
    assert (record.question.reference, record.correct) == (None, None)
    assert dict(record.question.row) == {"prompt": "Capital of Peru?", "Answer": "Lima", "refrence": "Lima", "year": 5}
    said = shell("run", "--out", tmp_path / "two", *options, "--columns", "reference=answer,domain=year")
    assert (said.code, len(said.err.splitlines())) == (0, 1)
    (record,) = stored(tmp_path / "two")
    assert (record.question.reference, record.question.domain) == ("Lima", "5")
    assert shell("run", "--resume", tmp_path / "two").code == 0


def test_ask_is_part_of_a_pipe(shell: Shell, refused: Any, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    refused(long, "takes", "but the model can read 2048")


def test_a_mistyped_flag_and_nothing_are_no_questions(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell("ask", "--jsn").err == "secl: ask has no option --jsn; secl ask --help lists its options.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "has no text" in shell("ask", "-").err
    assert "--install-completion" in shell("--help").out
