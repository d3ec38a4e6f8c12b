"""Exports: everything about a question is in them, they are read back as the same questions, and no cell computes."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from secl.data.question_files import read_rows
from secl.data.tables import open_table
from secl.errors import ParameterError
from secl.model import Model, ModelAnswer
from secl.question import Question
from secl.runs import export
from secl.runs.runner import start_run
from secl.runs.settings import Recipe, RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel

ROWS: list[dict[str, Any]] = [
    {"question": "=1+1", "options": ["f | g", "=SUM(A1)", "-5"], "reference": "B", "@name": "=cmd|' /C calc'!A0"},
    {
        "question": "日本の\n首都は?",
        "references": ["東京", "a | b"],
        "confidence": "0.1",
        "label": "+x",
        "form": "short",
    },
    {"question": "'=quoted", "reference": "-5", "context": 'One.\n\tTwo, "three"', "system": "@all: be brief"},
    {
        "question": "Say",
        "references": {"correct": ["a b"], "incorrect": ["c"]},
        "year": 1868,
        "domain": "=d",
        "id": "+1",
    },
    {"question": "How many?", "form": "number", "reference": "1,234", "low": "- none"},
    {"question": "Unknown?", "options": {"A": "[x", "B": "{y"}},
    {"question": "Grade?", "options": ["X", "Y", "Z"], "reference_index": 1},
    {
        "question": "Italy?",
        "history": [{"role": "user", "content": "=France?"}, {"role": "assistant", "content": "Paris"}],
    },
]


def load(_: Recipe) -> Model:
    return ScriptedModel()


@pytest.fixture
def store(tmp_path: Path) -> Any:
    file = tmp_path / "q.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    run = start_run(RunSettings.of({"stream.questions": str(file), "method": "norm_p_true"}), tmp_path / "run", load)
    with run.store:
        run.proceed()
        yield run.store


@pytest.mark.parametrize("format", ["csv", "parquet", "xlsx"])
def test_the_rows_of_an_export_are_a_table_of_questions_with_answers(store: Store, format: str, tmp_path: Path) -> None:
    path = export.write(store, format, tmp_path / f"back.{format}")
    assert path is not None
    file = read_rows(path, skip_bad=True)
    assert [reason for _, reason in file.skipped] == []
    rows, records = file.rows, list(store.records())
    assert [row.question.text for row in rows[3:]] == [record.question.text for record in records[3:]]
    assert rows[5].question.options == records[5].question.options
    said = [(record.answer and record.question.text_of(record.answer), record.correct) for record in records[3:]]
    assert [(row.answer, row.correct) for row in rows[3:]] == said
    assert [name for name, _ in rows[0].question.row][-5:] == ["answer", "confidence", "low", "high", "correct"]


def test_no_cell_of_a_spreadsheet_is_a_formula_and_numbers_are_numbers(store: Store, tmp_path: Path) -> None:
    export.write(store, "csv", tmp_path / "f.csv")
    with (tmp_path / "f.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.reader(stream))
    suspicious = {cell for row in table for cell in row if cell.lstrip()[:1] in tuple("=+-@\t\r")}
    assert "-5" in suspicious
    assert not [cell for cell in suspicious if not re.fullmatch(r"[+-][\d.e-]+", cell)]
    assert "'=cmd|' /C calc'!A0" in {cell for row in table for cell in row}
    export.write(store, "xlsx", tmp_path / "f.xlsx")
    sheet: Any = openpyxl.load_workbook(tmp_path / "f.xlsx").active
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert not [cell for cell in cells if cell.data_type == "f"]
    names = [cell.value for cell in next(sheet.iter_rows())]
    confidences = [row[names.index("confidence")].value for row in list(sheet.iter_rows())[1:]]
    assert confidences == [record.confidence for record in store.records()]


def test_an_export_gives_the_own_table_back_with_the_results_behind_it(store: Store, tmp_path: Path) -> None:
    export.write(store, "csv", tmp_path / "f.csv")
    with (tmp_path / "f.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    own = [*dict.fromkeys(name for row in ROWS for name in row)]
    names = [{"confidence": "given_confidence", "low": "given_low", "@name": "'@name"}.get(name, name) for name in own]
    assert [*rows[0]] == [*names, "answer", "confidence", "low", "high", "correct"]
    assert rows[0]["options"] == '["f | g", "=SUM(A1)", "-5"]'
    assert rows[0]["answer"].removeprefix("'") in ROWS[0]["options"]
    assert (rows[1]["given_confidence"], rows[1]["label"]) == ("0.1", "'+x")
    assert (rows[3]["year"], rows[4]["year"], rows[4]["given_low"]) == ("1868", "", "'- none")
    assert json.loads(rows[3]["references"]) == {"correct": ["a b"], "incorrect": ["c"]}
    columns, full = export.to_table(store.records(), full=True)
    first, record = dict(zip(columns, full[0], strict=True)), store.record(0)
    assert (first["reply.text"], first["reply.stated"]) == (record.reply.text, record.reply.stated)
    frame = export.to_frame(store.records())
    assert [*frame][-5:] == ["answer", "confidence", "low", "high", "correct"]
    assert frame["year"][3] == 1868


def test_a_text_that_no_cell_of_a_workbook_holds_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "a", "context": "\u0001" + "x" * 40_000}))
    run = start_run(RunSettings.of({"stream.questions": str(file), "method": "stated"}), tmp_path / "run", load)
    with run.store:
        run.proceed()
        with pytest.raises(ParameterError, match="40,001 characters does not fit into a cell"):
            export.write(run.store, "xlsx", tmp_path / "f.xlsx")
        assert not list(tmp_path.glob("f.xlsx*"))
        export.write(run.store, "parquet", tmp_path / "f.parquet")


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A run with a reply that ends in half a character and has no log-probability, as servers may answer."""
    answer = ScriptedModel.answer

    def broken(model: ScriptedModel, question: Question, **how: Any) -> ModelAnswer:
        answered = answer(model, question, **how)
        reply = replace(answered.reply, text="so \ud83d", answer="so \ud83d", log_probability=math.nan)
        return replace(answered, reply=reply)

    monkeypatch.setattr(ScriptedModel, "answer", broken)
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "Who?"}\n', encoding="utf-8")
    run = start_run(RunSettings.of({"stream.questions": str(path), "method": "stated"}), tmp_path / "run", load)
    with run.store:
        run.proceed()
        yield run.store


def test_jsonl_is_json_whatever_a_server_answered(half: Store, tmp_path: Path) -> None:
    path = export.write(half, "jsonl", tmp_path / "f.jsonl")
    assert path is not None

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    (line,) = path.read_text(encoding="utf-8").splitlines()
    reply = json.loads(line, parse_constant=refused)["reply"]
    assert (reply["text"], reply["log_probability"]) == ("so \ud83d", None)


@pytest.mark.parametrize("format", ["csv", "parquet", "xlsx"])
def test_half_a_character_is_written_as_its_escape(half: Store, format: str, tmp_path: Path) -> None:
    path = export.write(half, format, tmp_path / f"f.{format}", full=True)
    assert path is not None
    (row,) = open_table(path).rows
    assert isinstance(row.values, dict)
    assert (row.values["reply.text"], row.values["answer"]) == ("so \\ud83d", "so \\ud83d")


@pytest.mark.parametrize("out", ["", "/"])
@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "xlsx"])
def test_a_place_without_a_name_is_no_file(store: Store, format: str, out: str) -> None:
    with pytest.raises(ParameterError, match=r"is a folder; name a file with --out"):
        export.write(store, format, Path(out))
