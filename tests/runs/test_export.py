"""Exports: everything about a question is in them, they are read back as the same questions, and no cell computes."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from secl import Question, RunSettings, ScriptedModel, Store, read_rows, start_run
from secl.data.tables import open_table
from secl.errors import ParameterError
from secl.model import ModelAnswer
from secl.runs import export

ROWS: list[dict[str, Any]] = [
    {"question": "=1+1", "options": ["f | g", "=SUM(A1)", "-5"], "reference": "B", "@name": "=cmd|' /C calc'!A0"},
    {"question": "日本の\n首都は?", "references": ["東京", "a | b"], "confidence": "0.1", "label": "+x"},
    {"question": "'=quoted", "reference": "-5", "context": 'One.\n\tTwo, "three"', "system": "@all: be brief"},
    {"question": "Say", "references": {"correct": ["a b"], "incorrect": ["c"]}, "year": 1868, "domain": "=d", "id": 1},
    {"question": "How many?", "form": "number", "reference": "1,234", "low": "- none"},
    {"question": "Unknown?", "options": {"A": "[x", "B": "{y"}},
    {"question": "Grade?", "options": ["X", "Y", "Z"], "reference_index": 1},
    {"question": "Italy?", "history": [{"role": n, "content": f"={n}"} for n in ("user", "assistant")]},
]


def run_over(folder: Path, *rows: dict[str, Any], method: str = "stated") -> Store:
    """The store of a run that has answered these rows of a file."""
    file = folder / "q.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = RunSettings.of({"stream.questions": str(file), "method": method})
    run = start_run(settings, folder / "run", lambda _: ScriptedModel())
    run.proceed()
    return run.store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with run_over(tmp_path, *ROWS, method="norm_p_true") as store:
        yield store


@pytest.mark.parametrize("format", ["csv", "parquet", "xlsx"])
def test_the_rows_of_an_export_are_a_table_of_questions_with_answers(store: Store, format: str, tmp_path: Path) -> None:
    path = export.write(store, format, tmp_path / f"back.{format}")
    assert path is not None
    file = read_rows(path, skip_bad=True)
    assert [reason for _, reason in file.skipped] == []
    questions, records = file.questions, list(store.records())
    assert [question.text for question in questions[3:]] == [record.question.text for record in records[3:]]
    assert questions[5].options == records[5].question.options
    given = read_rows(path, skip_bad=True, rate=True).given or ()
    said = [(record.answer, record.correct) for record in records if record.answer is not None]
    assert [(each.answer, each.correct) for each in given][-5:] == said[-5:]
    assert [name for name, _ in questions[0].row][-5:] == ["answer", "confidence", "low", "high", "correct"]


def test_an_export_is_the_own_table_with_results_and_no_cell_is_a_formula(store: Store, tmp_path: Path) -> None:
    export.write(store, "csv", tmp_path / "f.csv")
    text = (tmp_path / "f.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    cells = {cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row}
    suspicious = {cell for cell in cells if cell.lstrip()[:1] in tuple("=+-@\t\r")}
    assert "-5" in suspicious
    assert not [cell for cell in suspicious if not re.fullmatch(r"[+-][\d.e-]+", cell)]
    assert "'=cmd|' /C calc'!A0" in cells
    own = [*dict.fromkeys(name for row in ROWS for name in row)]
    names = [{"confidence": "given_confidence", "low": "given_low", "@name": "'@name"}.get(name, name) for name in own]
    results = ["answer", "confidence", "low", "high", "correct"]
    assert [*rows[0]] == [*names, *results]
    assert rows[0]["options"] == '["f | g", "=SUM(A1)", "-5"]'
    assert rows[0]["answer"].removeprefix("'") in ROWS[0]["options"]
    assert (rows[1]["given_confidence"], rows[1]["label"]) == ("0.1", "'+x")
    assert (rows[3]["year"], rows[4]["year"], rows[4]["given_low"]) == ("1868", "", "'- none")
    assert json.loads(rows[3]["references"]) == {"correct": ["a b"], "incorrect": ["c"]}
    export.write(store, "xlsx", tmp_path / "f.xlsx")
    head, *body = openpyxl.load_workbook(tmp_path / "f.xlsx").worksheets[0].iter_rows()
    assert not [cell for row in (head, *body) for cell in row if cell.data_type == "f"]
    column = [cell.value for cell in head].index("confidence")
    assert [row[column].value for row in body] == [record.confidence for record in store.records()]
    assert {row[column].number_format for row in body} == {"0.000"}
    columns, full = export.to_table(store.records(), full=True)
    first, record = dict(zip(columns, full[0], strict=True)), store.record(0)
    assert (first["reply.text"], first["reply.stated"]) == (record.reply.text, record.reply.stated)


def test_a_text_that_no_cell_of_a_workbook_holds_is_refused(tmp_path: Path) -> None:
    with run_over(tmp_path, {"question": "a", "context": "\u0001" + "x" * 40_000}) as store:
        with pytest.raises(ParameterError, match="40,001 characters does not fit into a cell"):
            export.write(store, "xlsx", tmp_path / "f.xlsx")
        assert not list(tmp_path.glob("f.xlsx*"))
        export.write(store, "parquet", tmp_path / "f.parquet")


def test_half_a_character_is_an_escape_in_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers may answer so, and without a log-probability."""
    answer = ScriptedModel.answer

    def broken(model: ScriptedModel, question: Question, **how: Any) -> ModelAnswer:
        answered = answer(model, question, **how)
        reply = replace(answered.reply, text="so \ud83d", answer="so \ud83d", log_probability=math.nan)
        return replace(answered, reply=reply)

    monkeypatch.setattr(ScriptedModel, "answer", broken)
    with run_over(tmp_path, {"question": "Who?"}) as half:
        path = export.write(half, "jsonl", tmp_path / "f.jsonl")
        assert path is not None
        reply = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)["reply"]
        assert (reply["text"], reply["log_probability"]) == ("so \ud83d", None)
        for format in ("csv", "parquet", "xlsx"):
            path = export.write(half, format, tmp_path / f"f.{format}", full=True)
            assert path is not None
            (row,) = open_table(path)
            assert isinstance(row.values, dict)
            assert (row.values["reply.text"], row.values["answer"]) == ("so \\ud83d", "so \\ud83d")


def test_a_place_without_a_name_is_no_file(store: Store) -> None:
    for format, out in product(("jsonl", "csv", "parquet", "xlsx"), ("", "/")):
        with pytest.raises(ParameterError, match=r"is a folder; name a file with --out"):
            export.write(store, format, Path(out))
