"""Question files of every format: the same questions come out, and what is broken is said in one sentence."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from secl.data.question_files import read_questions, read_rows
from secl.errors import DataError, ParameterError
from secl.question import Question, References

ROWS: list[dict[str, Any]] = [
    {"Question": "¿Capital del Perú?", "options": "Lima | Cuzco", "reference": "lima", "answer": "B", "correct": False},
    {
        "Question": "日本の首都は?\n一語で。",
        "references": "東京 | Tokyo",
        "year": 1868,
        "context": 'One.\n\n\tTwo: "x"',
    },
    {"Question": "7 * 8, please; now", "reference": "56", "form": "number", "system": "Be brief."},
]
NAMES = tuple(dict.fromkeys(name for row in ROWS for name in row))
EXPECTED = [
    Question("¿Capital del Perú?", ("Lima", "Cuzco"), "A", "q", "1"),
    Question(
        "日本の首都は?\n一語で。",
        (),
        References(("東京", "Tokyo"), ()),
        "q",
        "2",
        context='One.\n\n\tTwo: "x"',
        extra=(("year", "1868"),),
    ),
    Question("7 * 8, please; now", (), "56", "q", "3", "number", system="Be brief."),
]
for number, row in enumerate(ROWS, start=1):
    row["ID"] = str(number)
FULL = [{name: row.get(name) for name in (*NAMES, "ID")} for row in ROWS]


def as_csv(path: Path, delimiter: str = ",") -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(FULL[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(FULL)
    path.write_text(stream.getvalue(), encoding="utf-8-sig")


def as_workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.append([])
    sheet.append(list(FULL[0]))
    for row in FULL:
        sheet.append([None if value is None else value for value in row.values()])
    book.create_sheet("other").append(["nothing"])
    book.save(path)


def as_json(path: Path, key: str | None = None) -> None:
    path.write_text(json.dumps({"version": 1, key: ROWS} if key else ROWS), encoding="utf-8")


WRITERS: dict[str, Callable[[Path], object]] = {
    "q.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8"),
    "q.json": as_json,
    "questions/q.json": lambda path: as_json(path, "questions"),
    "q.csv": as_csv,
    "semicolons/q.csv": lambda path: as_csv(path, ";"),
    "q.tsv": lambda path: as_csv(path, "\t"),
    "q.parquet": lambda path: pyarrow.parquet.write_table(pa.Table.from_pylist(FULL), path),
    "q.xlsx": as_workbook,
    "folder/q": lambda path: datasets.Dataset.from_list(FULL).save_to_disk(str(path)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_questions(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    WRITERS[name](path)
    file = read_rows(path)
    assert [row.question for row in file.rows] == EXPECTED
    assert [(row.answer, row.correct) for row in file.rows] == [("B", False), (None, None), (None, None)]
    assert not file.notes
    assert not file.skipped


@pytest.mark.parametrize("make", [iter, pd.DataFrame, pa.Table.from_pylist], ids=lambda make: str(make))
def test_every_table_in_memory_gives_the_same_questions(make: Callable[[Any], Any]) -> None:
    file = read_rows(make(FULL), name="q")
    years = [dict(question.extra).get("year") for question in EXPECTED]
    assert [row.question.text for row in file.rows] == [question.text for question in EXPECTED]
    assert [row.question.reference for row in file.rows] == [question.reference for question in EXPECTED]
    found = [dict(row.question.extra).get("year") for row in file.rows]
    assert found == [year and (year if make is not pd.DataFrame else "1868.0") for year in years]
    assert [row.correct for row in file.rows] == [False, None, None]


def test_numbers_dates_and_lists_of_a_frame_are_plain_values() -> None:
    frame = pd.DataFrame(
        {
            "question": ["a", "b"],
            "options": [np.array(["x", "y"]), ["1", "2"]],
            "reference": ["y", 2],
            "when": [pd.Timestamp("2024-05-01"), pd.NaT],
            "score": [np.float32(0.5), math.nan],
            "many": [[1, 2], None],
        }
    )
    one, two = read_questions(frame)
    assert (one.options, one.reference, two.reference, two.extra) == (("x", "y"), "B", "B", ())
    assert dict(one.extra) == {"when": "2024-05-01T00:00:00", "score": "0.5", "many": "[1, 2]"}
    assert (one.domain, one.id, two.id) == ("questions", "questions-0001", "questions-0002")


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


BROKEN = [
    ("f.json", '[{"question": "a"}, {"questoin": "b"}]', r"f\.json, item 2 has no 'question'"),
    ("f.json", '[{"question": "a"}, 3]', r"f\.json, item 2 is not an object"),
    ("f.json", '{"question": {"0": "a"}}', r"f\.json is no list of objects"),
    ("f.json", '{"question": "a"}\n{"question": "b"}', r"f\.json holds several JSON texts; .* call it \.jsonl"),
    ("f.json", '[{"question": ', r"f\.json is broken JSON"),
    ("f.csv", "question;A;B\na;b\n", r"f\.csv, line 2 has 2 fields but the header has 3; put quotes around semicolons"),
    ("f.tsv", "question\tid\na\n", r"f\.tsv, line 2 has 1 fields .* quotes around tabs"),
    ("f.parquet", "PAR1 but no more", r"f\.parquet is no Parquet file that can be read"),
    ("f.xlsx", "PK no", r"f\.xlsx is no workbook that can be read"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=[message for *_, message in BROKEN])
def test_a_broken_file_is_refused_in_one_sentence(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_rows(written(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_a_column_without_a_name_is_carried_along_by_its_number(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for cells in (["question", None, "reference"], ["a", None, "b"], ["c", "d", "e"]):
        sheet.append(cells)
    book.save(tmp_path / "f.xlsx")
    rows = read_rows(tmp_path / "f.xlsx").rows
    assert [(row.question.reference, row.question.extra) for row in rows] == [("b", ()), ("e", (("column 2", "d"),))]
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(DataError, match=r"empty\.xlsx is empty"):
        read_rows(tmp_path / "empty.xlsx")


def test_of_a_folder_of_several_datasets_one_must_be_named(tmp_path: Path) -> None:
    both = datasets.DatasetDict({name: datasets.Dataset.from_list(FULL) for name in ("train", "test")})
    both.save_to_disk(str(tmp_path / "both"))
    with pytest.raises(DataError, match=r"both is a folder; name one of its datasets: .*both/test, .*both/train"):
        read_rows(tmp_path / "both")
    assert len(read_rows(tmp_path / "both" / "test").rows) == 3


@pytest.mark.parametrize(
    ("package", "name", "extra"), [("openpyxl", "f.xlsx", "tables"), ("datasets", "folder", "hub")]
)
def test_a_missing_package_is_named(
    package: str, name: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "folder":
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
    else:
        (tmp_path / name).write_text("x")
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ParameterError, match=rf'needs {package}; run: pip install "secl\[{extra}\]"'):
        read_rows(tmp_path / name)


def test_an_index_of_the_right_option_counts_from_0_when_it_is_called_one() -> None:
    row = {"question": "a", "choices": ["x", "y"], "answer": 0}
    (question,) = read_questions([row], columns={"reference_index": "answer"})
    assert question.reference == "A"
    assert read_questions([row])[0].reference is None


def test_columns_are_read_by_the_names_that_people_give_them(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("Frage,Lösung,Thema,prompt\na,b,c,d\n", encoding="utf-8")
    columns = {"question": "frage", "reference": "Lösung", "domain": "Thema"}
    (row,) = read_rows(path, columns=columns).rows
    assert row.question == Question("a", (), "b", "c", "f-0002", extra=(("prompt", "d"),))
    with pytest.raises(DataError, match=r"has no column 'Antwort', which columns gives as the reference"):
        read_rows(path, columns={"question": "Frage", "reference": "Antwort"})
    with pytest.raises(ParameterError, match=r"columns maps 'title', which is none of question, "):
        read_rows(path, columns={"title": "Frage"})
    with pytest.raises(ParameterError, match=r"columns gives two meanings to 'Frage'"):
        read_rows(path, columns={"question": "Frage", "id": "Frage"})


def test_a_column_that_was_perhaps_meant_to_be_read_is_named() -> None:
    file = read_rows([{"question": "a", "refrence": "b", "answers": ["c"], "year": 1}])
    assert [note.split("'")[1] for note in file.notes] == ["refrence", "answers"]
    assert file.notes[1].endswith("say --columns 'references=answers'.")


@pytest.mark.parametrize(
    ("given", "reference", "form"),
    [
        (["x", "y"], References(("x", "y"), ()), "short"),
        (["x"], "x", "short"),
        ("x | y", References(("x", "y"), ()), "short"),
        ('["x", "a | b"]', References(("x", "a | b"), ()), "short"),
        ({"correct": ["x"], "incorrect": ["y"]}, References(("x",), ("y",)), "sentence"),
        ({"correct": ["x", "y"]}, References(("x", "y"), ()), "sentence"),
    ],
)
def test_several_right_answers_have_one_key(given: object, reference: str | References, form: str) -> None:
    (question,) = read_questions([{"question": "a", "references": given}])
    assert (question.reference, question.form) == (reference, form)
