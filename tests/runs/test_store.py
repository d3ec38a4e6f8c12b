"""Stores return what was written; other folders are no runs; exports are complete, without formulas in cells."""

import csv
import io
import json
import math
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl import Question, References, read_rows
from secl.data.tables import open_table
from secl.errors import ParameterError, RunError, StorageError
from secl.evidence import FactEvidence
from secl.model import ModelAnswer
from secl.question import Form
from secl.records import Record
from secl.runs import RunSettings, Store, export, start_run
from secl.runs.folder import FILE
from secl.runs.store import FORMAT, Version
from secl.testing import ScriptedModel

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
WORD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Draw a question with options, with a reference of either kind, or without a reference."""
    options = draw(st.just([]) | st.lists(WORD, min_size=2, max_size=26).filter(lambda texts: len({*texts}) > 1))
    reference: str | References | None = None
    if options:
        reference = draw(st.none() | st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)]))
    else:
        several = st.lists(WORD, min_size=1, max_size=3).map(tuple)
        reference = draw(st.none() | WORD | st.builds(References, several, several))
    open_forms: list[Form] = ["number", "short", "sentence"]
    form: Form = "choice" if options else draw(st.sampled_from(open_forms))
    return Question(draw(WORD), tuple(options), reference, draw(TEXT), draw(TEXT), form)


# Every other field of a record, and of what it holds, is drawn by its type.
st.register_type_strategy(Question, questions())
st.register_type_strategy(str, TEXT)
st.register_type_strategy(int, st.integers(0, 2**40))
FINITE = st.floats(-1e300, 1e300)  # ten of them have a sum
st.register_type_strategy(float, FINITE)
st.register_type_strategy(FactEvidence, st.builds(FactEvidence, alone=FINITE))  # the default nan equals no other nan


@given(record=st.from_type(Record).map(lambda record: replace(record, position=0)))
@settings(max_examples=40, deadline=None)
def test_any_record_comes_back_from_the_store_exactly(record: Record) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Store.create(Path(folder), {}) as store:
            store.add(record, 0.1)
        with Store(Path(folder)) as store:
            assert list(store.records()) == [record]


def test_a_store_has_one_writer_that_overwrites_nothing(run_folder: Path, records: list[Record]) -> None:
    with Store(run_folder, writable=True) as store:
        with pytest.raises(RunError, match="run is in use by another process"):
            Store(run_folder, writable=True)
        with pytest.raises(sqlite3.IntegrityError):
            store.add(records[3], 0.1)
        assert list(store.records()) == records
        store.keep(Version(9, b"last"))
        store.keep(Version(9, b"never overwritten"))
        assert store.versions() == [2, 4, 9]
        assert (store.weights(2), store.weights(9)) == (b"weights 2", b"last")
        with pytest.raises(RunError, match="does not keep adapter version 3; the kept versions are 2, 4, 9"):
            store.weights(3)
    Store(run_folder, writable=True).close()


def test_a_reader_sees_whole_questions_while_another_connection_writes(tmp_path: Path, records: list[Record]) -> None:
    with Store.create(tmp_path / "run", {}) as writer, Store(tmp_path / "run") as reader:
        for done, record in enumerate(records):
            assert list(reader.records()) == records[:done]
            walk = reader.records()
            first = next(walk, None)
            writer.add(record, 0.1)
            assert [first, *walk][:done] == records[:done]
        assert len(reader) == len(records)


def test_a_file_that_is_no_run_is_refused_by_name_and_left_alone(run_folder: Path) -> None:
    path = run_folder / FILE
    alter(run_folder, "UPDATE manifest SET value = '9' WHERE key = 'format'")
    for _ in range(2):  # a refusal lets go of the lock
        with pytest.raises(
            RunError, match=f"format 9, but this version of secl reads format {FORMAT}; begin a new folder"
        ):
            Store(run_folder, writable=True)
    whole = path.read_bytes()
    for content, writable in product((b"garbage " * 1000, b"", whole[: int(len(whole) * 0.6)]), (False, True)):
        path.write_bytes(content)
        with pytest.raises(RunError, match=f"{path} is damaged"), Store(run_folder, writable=writable) as store:
            [*store.records(), store.snapshot(), *map(store.weights, store.versions())]
        assert path.read_bytes() == content


def test_a_damaged_record_or_label_is_refused_and_not_skipped(run_folder: Path) -> None:
    with pytest.raises(sqlite3.Error):  # SQLite reads the columns of a record from its JSON
        alter(run_folder, "UPDATE records SET body = '{not json' WHERE position = 5")
    with Store(run_folder, writable=True) as store:
        store.add_feedback(3, False, drawn=True)
        assert [label.correct for label in store.labels()] == [False]
    whole = (run_folder / FILE).read_bytes()
    for change in (
        "records SET body = json_set(body, '$.question.text', '')",
        "records SET body = json_remove(body, '$.reply.text')",
        *(f"labels SET {set_to}" for set_to in ("confidence = 'much'", "correct = '7'", "time = 'now'", "source = ''")),
    ):
        (run_folder / FILE).write_bytes(whole)
        alter(run_folder, f"UPDATE {change}")
        with Store(run_folder) as store, pytest.raises(RunError, match=f"{run_folder / FILE} is damaged"):
            [*store.records(), *store.labels()]


def test_a_place_that_holds_something_takes_no_new_run(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"exists and is not empty; continue it with --resume {run_folder}, or name"):
        Store.create(run_folder, {})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    for folder in (tmp_path / "other", tmp_path / "other" / "letter.txt"):
        with pytest.raises(RunError, match=r"exists and is (not empty|a file); please name another folder"):
            Store.create(folder, {})
    with pytest.raises(StorageError, match=r"cannot write to .*letter.txt/run"):
        Store.create(tmp_path / "other" / "letter.txt" / "run", {})
    (run_folder / "lock").unlink()
    (run_folder / "lock").mkdir()
    with pytest.raises(StorageError, match="cannot write to"):
        Store(run_folder, writable=True)


def test_on_a_full_disk_a_question_is_refused_whole_and_the_run_goes_on(tmp_path: Path, records: list[Record]) -> None:
    folder = tmp_path / "run"
    with Store.create(folder, {}) as store:
        store.add(records[0], 0.1, snapshot=b"small")
        (pages,) = store.db.execute("PRAGMA page_count").fetchone()
        store.db.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(StorageError, match=f"full; free disk .* permissions, then go on with --resume {folder}"):
            store.add(records[1], 0.1, snapshot=bytes(50_000), kept=Version(2, bytes(50_000)))
        assert (list(store.records()), store.snapshot(), store.versions()) == (records[:1], b"small", [])
    with Store(folder, writable=True) as store:
        for record in records[1:]:
            store.add(record, 0.1, snapshot=bytes(50_000))
    with Store(folder) as store:
        assert list(store.records()) == records


def alter(folder: Path, statement: str) -> None:
    """Damage a run from outside."""
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        db.execute(statement)


def test_a_run_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        Store.create(tmp_path / "run", {"unstorable": object()})
    assert list((tmp_path / "run").iterdir()) == []
    Store.create(tmp_path / "run", {}).close()

    class Refusing(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("disk I/O error")

    connect = sqlite3.connect

    def refuse(path: Path, **settings: object) -> sqlite3.Connection:
        """Open an existing file with a time limit, and a new file without."""
        return connect(path, factory=Refusing) if settings else connect(path)

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with pytest.raises(StorageError, match="disk I/O error; free disk space or correct the permissions"):
        Store.create(tmp_path / "full", {})
    assert not (tmp_path / "full" / FILE).exists()


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
    path = export.write(store, format, tmp_path / f"back.{format}").path
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
    others = {"@name": "'@name"} | {name: f"given_{name}" for name in ("confidence", "low", "label")}
    names = [others.get(name, name) for name in own]
    results = ["record_id", "answer", "confidence", "low", "high", "correct"]
    assert [*rows[0]] == [*names, *results]
    assert rows[0]["options"] == '["f | g", "=SUM(A1)", "-5"]'
    assert rows[0]["answer"].removeprefix("'") in ROWS[0]["options"]
    assert (rows[1]["given_confidence"], rows[1]["given_label"]) == ("0.1", "'+x")
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
    """Draw a reply of a server, possibly without a log-probability."""
    answer = ScriptedModel.answer

    def broken(model: ScriptedModel, question: Question, **how: Any) -> ModelAnswer:
        answered = answer(model, question, **how)
        reply = replace(answered.reply, text="so \ud83d", answer="so \ud83d", log_probability=math.nan)
        return replace(answered, reply=reply)

    monkeypatch.setattr(ScriptedModel, "answer", broken)
    with run_over(tmp_path, {"question": "Who?"}) as half:
        path = export.write(half, "jsonl", tmp_path / "f.jsonl").path
        assert path is not None
        reply = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)["reply"]
        assert (reply["text"], reply["log_probability"]) == ("so \ud83d", None)
        for format in ("csv", "parquet", "xlsx"):
            path = export.write(half, format, tmp_path / f"f.{format}", export.Content(full=True)).path
            assert path is not None
            (row,) = open_table(path)
            assert isinstance(row.values, dict)
            assert (row.values["reply.text"], row.values["answer"]) == ("so \\ud83d", "so \\ud83d")


def test_a_place_without_a_name_is_no_file(store: Store) -> None:
    for format, out in product(("jsonl", "csv", "parquet", "xlsx"), ("", "/")):
        with pytest.raises(ParameterError, match=r"is a folder; name a file with --out"):
            export.write(store, format, Path(out))
