"""Question files and tables of every format: accepted contents, and one sentence for every other content."""

import contextlib
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl import GivenAnswer, Question, References, read_rows
from secl.data import tables
from secl.errors import DataError, ParameterError, SeclError


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


ROWS: list[dict[str, Any]] = [
    {"Question": "¿Capital del Perú?", "options": "Lima | Cuzco", "reference": "lima", "answer": "B", "correct": False},
    {"Question": "日本の首都は?\n一語で。", "references": "東京 | Tokyo", "year": 1868, "context": '1.\n\n\tTwo: "x"'},
    {"Question": "7 * 8, please; now", "reference": "56", "form": "number", "system": "Be brief."},
]
NAMES = tuple(dict.fromkeys(name for row in ROWS for name in row))
EXPECTED = [
    Question("¿Capital del Perú?", ("Lima", "Cuzco"), "A", "q", "1"),
    Question("日本の首都は?\n一語で。", (), References(("東京", "Tokyo"), ()), "q", "2", context='1.\n\n\tTwo: "x"'),
    Question("7 * 8, please; now", (), "56", "q", "3", "number", system="Be brief."),
]
for number, row in enumerate(ROWS, start=1):
    row["ID"] = str(number)
FULL = [{name: row.get(name) for name in (*NAMES, "ID")} for row in ROWS]


def as_workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    for cells in ([], list(FULL[0]), *(list(row.values()) for row in FULL)):
        book.worksheets[0].append(cells)
    book.create_sheet("other").append(["nothing"])
    book.save(path)


def as_json(path: Path, key: str | None = None) -> None:
    path.write_text(json.dumps({"version": 1, key: ROWS} if key else ROWS), encoding="utf-8")


TABLES: dict[str, Callable[[Any], Any]] = {
    "rows": iter,
    "pandas": lambda rows: pd.DataFrame(rows, dtype=object),
    "arrow": pa.Table.from_pylist,
}
WRITERS: dict[str, Callable[[Path], object]] = {
    "q.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8"),
    "q.json": as_json,
    "questions/q.json": lambda path: as_json(path, "questions"),
    "q.csv": lambda path: pd.DataFrame(FULL, dtype=object).to_csv(path, index=False, encoding="utf-8-sig"),
    "semicolons/q.csv": lambda path: pd.DataFrame(FULL, dtype=object).to_csv(path, index=False, sep=";"),
    "q.tsv": lambda path: pd.DataFrame(FULL, dtype=object).to_csv(path, index=False, sep="\t"),
    "q.parquet": lambda path: pyarrow.parquet.write_table(pa.Table.from_pylist(FULL), path),
    "q.xlsx": as_workbook,
}


@pytest.mark.parametrize("name", [*WRITERS, *TABLES])
def test_every_format_and_every_table_in_memory_gives_the_same_questions(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if name in WRITERS:
        WRITERS[name](path)
    file = read_rows(path) if name in WRITERS else read_rows(TABLES[name](FULL), name="q")
    assert [replace(question, row=()) for question in file.questions] == EXPECTED
    assert [str(dict(question.row).get("year") or "") for question in file.questions] == ["", "1868", ""]
    if len(file.questions[0].row) == len(FULL[0]):  # a table whose rows have all columns
        assert [[name for name, _ in question.row] for question in file.questions] == [[*FULL[0]]] * 3
    rated = read_rows(path if name in WRITERS else TABLES[name](FULL), name="q", rate=True, skip_bad=True)
    assert rated.given == (GivenAnswer(file.questions[0], "B", correct=False),)
    assert not file.notes
    assert not file.skipped


PICK, SAY = {"question": "Pick", "options": ["x", "Y", "Y"]}, {"question": "Say"}
READ: list[tuple[dict[str, object], Question]] = [
    ({**PICK, "reference": "A", "domain": "d", "id": 4}, Question("Pick", ("x", "Y", "Y"), "A", "d", "4")),
    ({**PICK, "reference": "y"}, Question("Pick", ("x", "Y", "Y"), "B")),
    ({"question": "Pick", "options": [1, 2.5, 40], "reference": 40}, Question("Pick", ("1", "2.5", "40"), "C")),
    ({**PICK, "options": {"1": "x", "2": "y"}, "reference": 2}, Question("Pick", ("x", "y"), "B")),
    ({**PICK, "options": {"text": ["x", "y"], "label": ["1", "2"]}, "gold": "1"}, Question("Pick", ("x", "y"), "A")),
    ({"Question": "Pick", "Option 1": "x", "Option 2": "y", "Correct answer": "y"}, Question("Pick", ("x", "y"), "B")),
    ({**SAY, "reference": 8, "form": "number"}, Question("Say", (), "8", form="number")),
    ({**SAY, "reference": " Oslo ", "options": None, "form": None, "domain": ""}, Question("Say", (), "Oslo")),
    ({**SAY, "references": ["x"]}, Question("Say", (), "x")),
    ({**SAY, "references": "x | y"}, Question("Say", (), References(("x", "y"), ()))),
    ({**SAY, "references": '["x", "a | b"]'}, Question("Say", (), References(("x", "a | b"), ()))),
    (
        {**SAY, "references": {"correct": ["x"], "incorrect": ["y"]}},
        Question("Say", (), References(("x",), ("y",)), form="sentence"),
    ),
]


@pytest.mark.parametrize(("row", "question"), READ)
def test_every_key_of_a_row_is_understood(row: dict[str, object], question: Question, tmp_path: Path) -> None:
    (found,) = read_rows(str(written(tmp_path / "default.JSONL", json.dumps({"id": "", **row})))).questions
    assert replace(found, id=question.id, row=()) == question
    assert found.id == (question.id or "default-0001")


def test_csv_takes_options_in_letter_columns_or_in_one(tmp_path: Path) -> None:
    letters = '\ufeffquestion,A,B,C,reference\n"One,\r\ntwo?",x,y,,y\r\n,,,,\nOpen?,,,,some text\nZ?,p,q,r,C\n'
    found = read_rows(written(tmp_path / "l.csv", letters)).questions
    assert [replace(question, row=()) for question in found] == [
        Question("One,\r\ntwo?", ("x", "y"), "B", "l", "l-0002"),
        Question("Open?", (), "some text", "l", "l-0005"),
        Question("Z?", ("p", "q", "r"), "C", "l", "l-0006"),
    ]
    one, two = read_rows(
        written(tmp_path / "p.csv", "id,question,options,reference\na,1?,x | y|z,z\nb,2?,,\n")
    ).questions
    assert (one.options, one.reference, one.id, two.options, two.id) == (("x", "y", "z"), "C", "a", (), "b")


BAD_FIELDS = [
    ('"id": true', "has a value in 'id' that is neither text nor number"),
    ('"grader": "fuzzy"', "unknown grader 'fuzzy'"),
    ('"reference": "(", "grader": "regex"', "not a regular expression"),
    ('"options": 5', "has a value in 'options' that is not a list"),
    ('"options": ["x", ""]', "has a value in 'options' with an empty member"),
    ('"options": ["x", "y"], "reference": "C"', "names no option: the answer 'C'"),
    ('"options": ["B", "A"], "reference": "A"', "is the letter of one option and the text of another"),
    ('"form": "poem"', "asks for the unknown form 'poem'"),
    ('"form": "number", "reference": "many"', "asks for a number, but its reference 'many'"),
    ('"reference": "b", "references": ["b"]', "has both 'reference' and 'references'"),
    ('"gold": "b", "ground_truth": "c"', "has 'gold' and 'ground_truth', which both mean"),
    ('"answer": ["b"]', "has an 'answer' that is a list; right answers go into 'references'"),
    ('"answer": "b", "correct": "maybe"', "has 'maybe' in 'correct'"),
    ('"options": ["x", "y"], "reference": 1', ".*may count from 0 or from 1; give a letter"),
    ('"options": ["x", "y"], "reference_index": 2', ".*a number from 0 .* to 1"),
    ('"references": {"right": ["b"]}', "has a value in 'references' of unknown form"),
    ('"options": ["x", "y"], "references": ["x", "y"]', "has 'options' and several references"),
]
"""Fields of a row beside its question, and the messages about them."""

BAD_FILES: list[tuple[str, str | bytes, str]] = [
    ("f.jsonl", '{"question": "a"}\n{"question": ', "line 2 is broken JSON"),
    ("f.jsonl", '["question"]', "line 1 is not a JSON object"),
    ("f.jsonl", '{"id": "a"}', "line 1 has no column 'question'; its columns are 'id'"),
    ("f.jsonl", '{"question": "  "}', "line 1 has no 'question'"),
    ("f.jsonl", '{"question": "a", "id": "x"}\n{"question": "b", "id": "x"}', "line 2 repeats the id 'x' of line 1"),
    ("f.jsonl", "", "is empty"),
    ("f.jsonl", b'{"question": "ok"}\n{"question": "caf\xe9"}', "line 2 is not UTF-8"),
    ("f.jsonl", "[" * 200_000, "line 1 is JSON that Python cannot read"),
    ("f.jsonl", json.dumps({"question": "a", "options": [str(k) for k in range(27)]}), "line 1 .*has 27 options"),
    (
        "f.csv",
        "text,A,B\na,b,c\n",
        "line 1 has no column 'question'; its columns are 'text', 'A', 'B'; name the column",
    ),
    ("f.csv", "question,A,options\na,b,c\n", "line 1 has both 'options' and the column 'A'"),
    ("f.csv", "question,A,C\na,b,c\n", "line 1 has the option columns A, C"),
    ("f.csv", "question,A,B,C\na,x,,z\n", "line 2 has no option B but a later option"),
    ("f.csv", "question,A,B\na,x\n", "line 2 has 2 fields but the header has 3"),
    ("f.csv", 'question\n"a\nb"\n"c', "line 4 is broken CSV"),
    ("f.csv", 'question,references\na,"{x"\n', "line 2 has a 'references' that is broken JSON"),
    ("f.csv", "question\n", r"holds no question; add a line below its header\.$"),
    ("f.json", "[]", r"holds no question; add one\.$"),
    ("f.csv", "", "is empty"),
    ("f.json", '[{"question": "a"}, {"questoin": "b"}]', "item 2 has no column 'question'"),
    ("f.json", '[{"question": "a"}, 3]', "item 2 is neither a text nor an object"),
    ("f.json", '{"question": {"0": "a"}}', "is not a list of objects"),
    (
        "f.json",
        '{"question": "a"}\n{"question": "b"}',
        r"holds several JSON values; .* rename the file to end in \.jsonl",
    ),
    ("f.json", '[{"question": ', "is broken JSON"),
    ("f.json", '[{"question": "a\n', r"is broken JSON \(Invalid control character at line 1"),
    ("f.csv", "question;A;B\na;b\n", "put quotes around fields that contain semicolons"),
    ("f.tsv", "question\tid\na\n", "line 2 has 1 fields .* that contain tabs"),
    ("f.txt", "a", r"ends in '\.txt'.*\.jsonl, .* or \.xlsx"),
    ("f.parquet", "PAR1 but no more", "is not a Parquet file that can be read"),
    ("f.xlsx", "PK no", "is not a workbook that can be read"),
    *(("f.jsonl", f'{{"question": "a", {fields}}}', f"line 1.*{message}") for fields, message in BAD_FIELDS),
]


def test_a_bad_file_is_refused_in_one_sentence_with_its_place(tmp_path: Path) -> None:
    for name, content, message in BAD_FILES:
        with pytest.raises(DataError, match=rf"{re.escape(name)}.*{message}") as caught:
            read_rows(written(tmp_path / name, content))
        assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["b.csv", "b.jsonl"]))
def test_no_content_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str) -> None:
    path = written(tmp_path_factory.mktemp("any") / name, content)
    with contextlib.suppress(DataError):
        assert read_rows(path).questions


def test_an_answer_is_an_answer_and_no_reference(tmp_path: Path) -> None:
    read: list[tuple[dict[str, object], tuple[str, bool | None, str | None]]] = [
        ({"question": "City?", "answer": " Oslo "}, ("Oslo", None, None)),
        ({"question": "City?", "answer": 7, "correct": False, "reference": "Oslo"}, ("7", False, "Oslo")),
        ({"question": "Pick", "options": ["x", "y"], "answer": "Y", "correct": "YES"}, ("B", True, None)),
        ({"question": "One?", "answer": "2", "correct": 1.0}, ("2", True, None)),
    ]
    path = written(tmp_path / "a.jsonl", "\n".join(json.dumps(row) for row, _ in read))
    file = read_rows(path, rate=True)
    given = file.given or ()
    assert [(each.answer, each.correct, each.question.reference) for each in given] == [found for _, found in read]
    assert tuple(each.question for each in given) == file.questions == read_rows(path).questions
    for row in ({"question": "None?", "answer": "", "correct": None}, {"question": "One?", "correct": 1.0}):
        assert read_rows([row]).given is None
        with pytest.raises(DataError, match="row 1 has no 'answer' to rate"):
            read_rows([row], rate=True)
    rows = [json.dumps(row) for row in ({"question": "Who?", "answer": "Ann"}, {"question": "When?"})]
    for name, text, place in (
        ("f.json", f"[{', '.join(rows)}]", "item 2"),
        ("f.jsonl", "\n\n".join(rows), "line 3"),
        ("f.csv", "question,answer\nWho?,Ann\nWhen?,\n", "line 3"),
    ):
        path = written(tmp_path / name, text)
        with pytest.raises(DataError, match=f"{path}, {place} has no 'answer' to rate"):
            read_rows(path, rate=True)
        assert [where for where, _ in read_rows(path, rate=True, skip_bad=True).skipped] == [f"{path}, {place}"]


def test_rows_that_cannot_be_used_are_skipped_and_named_if_asked_for(tmp_path: Path) -> None:
    broken = '{"question": "a"}\n{"question": \n{"question": "b", "options": ["x"]}\n{"question": "c"}\n'
    for name, text, bad, good in (
        ("f.jsonl", broken, (2, 3), (1, 4)),
        ("f.csv", "question,A,B\na,,\nb,x\nc,x,\nd,x,y\n", (3, 4), (2, 5)),
    ):
        path = written(tmp_path / name, text)
        with pytest.raises(DataError, match=rf"line {bad[0]}.*To leave such rows out: --skip-bad"):
            read_rows(path)
        file = read_rows(path, skip_bad=True)
        assert [question.id for question in file.questions] == [f"f-{number:04d}" for number in good]
        assert [where for where, _ in file.skipped] == [f"{path}, line {number}" for number in bad]
        assert all(str(path) not in reason for _, reason in file.skipped)
    with pytest.raises(DataError, match=r"holds no question that can be used: .*line 1 is broken JSON"):
        read_rows(written(tmp_path / "none.jsonl", "{"), skip_bad=True)


def test_columns_of_workbooks_and_parquet_files_may_lack_a_name_or_a_cell(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for cells in (["question", None, "reference"], ["a", None, "b"], ["c", "d", "e"]):
        book.worksheets[0].append(cells)
    book.save(tmp_path / "f.xlsx")
    questions = read_rows(tmp_path / "f.xlsx").questions
    with pytest.raises(DataError, match="row 2 has no 'answer' to rate"):
        read_rows(tmp_path / "f.xlsx", rate=True)
    assert [question.reference for question in questions] == ["b", "e"]
    assert [dict(question.row)["column 2"] for question in questions] == [None, "d"]
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(DataError, match=r"empty\.xlsx is empty"):
        read_rows(tmp_path / "empty.xlsx")
    choice = {"question": "a", "A": "x", "B": "y", "reference": "B"}  # the file declares its columns
    pyarrow.parquet.write_table(pa.Table.from_pylist([choice, {**choice, "A": None}]), tmp_path / "gap.parquet")
    with pytest.raises(DataError, match="row 2 has no option A but a later option"):
        read_rows(tmp_path / "gap.parquet")


SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)


def rows_of_sheet(*numbers: int, more: str = "") -> str:
    cells = "".join(f'<row r="{n}"><c r="A{n}" t="inlineStr"><is><t>question</t></is></c>{more}</row>' for n in numbers)
    return SHEET.format(cells)


BOMBS = {
    "rows": rows_of_sheet(*range(1, 103)),
    "columns": rows_of_sheet(1, 2, more='<c r="XFD1"><v>1</v></c>'),
    "empty rows": SHEET.format('<row r="1"><c r="A1"><v>1</v></c></row>' + "<row/>" * 1_200),
    "bytes": rows_of_sheet(1) + " " * 600_000,
}


@pytest.mark.parametrize("sheet", BOMBS.values(), ids=BOMBS)
def test_a_small_file_with_endless_rows_is_refused_before_it_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sheet: str
) -> None:
    monkeypatch.setattr(tables, "MAX_ROWS", 100)
    openpyxl.Workbook().save(tmp_path / "whole.xlsx")
    path = tmp_path / "f.xlsx"
    with ZipFile(tmp_path / "whole.xlsx") as whole, ZipFile(path, "w", ZIP_DEFLATED) as bomb:
        for part in whole.infolist():
            bomb.writestr(part, sheet if part.filename == "xl/worksheets/sheet1.xml" else whole.read(part))
    with pytest.raises(DataError, match=rf"{path} is larger than 100 rows; save it as CSV, or split it\."):
        read_rows(path)
    pd.DataFrame({"question": ["q"] * 1_001}).to_parquet(tmp_path / "f.parquet")
    with pytest.raises(DataError, match=r"f\.parquet is larger than 1,000 rows; save it as CSV, or split it\."):
        read_rows(tmp_path / "f.parquet")


@pytest.mark.parametrize("depth", [101, 300, 900, 990, 100_000])
def test_values_that_are_nested_too_deeply_are_refused_in_one_sentence(tmp_path: Path, depth: int) -> None:
    """Also depths that Python can read at first, and not again inside more calls."""
    deep = "[" * depth + "]" * depth
    call = {"type": "function", "function": {"name": "f", "arguments": f'{{"a": {deep}}}'}}
    turns = json.dumps([{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "x"}])
    for row in (f'"history": {turns}', f'"options": {deep}', f'"more": {deep}'):
        with pytest.raises(DataError, match=r"levels of|turn of the conversation|recursion") as refusal:
            read_rows(written(tmp_path / "deep.jsonl", f'{{"question": "a", {row}}}'))
        assert "line 1" in str(refusal.value)
    value: object = 1
    for _ in range(depth):
        value = [value]
    with pytest.raises(DataError, match="row 1 has more than 100 levels of lists and objects; simplify it"):
        read_rows([{"question": "a", "more": value}])


def test_a_missing_file_and_a_missing_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.csv").mkdir()
    written(tmp_path / "f.xlsx", "x")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for name, said in (
        ("gone.csv", r"gone\.csv does not exist"),
        ("folder.csv", r"folder\.csv cannot be read .Is a directory.; give a readable file"),
        ("f.xlsx", r"f\.xlsx needs pandas and openpyxl; run: pip install .*\[tables\]"),
    ):
        with pytest.raises(SeclError, match=said):
            read_rows(tmp_path / name)


def test_columns_are_read_by_the_names_that_people_give_them(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "Frage,Lösung,Thema,prompt\na,b,c,d\n")
    plain = written(tmp_path / "q.csv", "question,reference\nx,y\n")
    columns = {"question": "frage", "reference": "Lösung", "domain": "Thema"}
    (asked,) = read_rows(path, columns=columns).questions
    cells = (("Frage", "a"), ("Lösung", "b"), ("Thema", "c"), ("prompt", "d"))
    assert asked == Question("a", (), "b", "c", "f-0002", row=cells)
    choice = {"question": "a", "choices": ["x", "y"], "answer": 0}
    (question,) = read_rows([choice], columns={"reference_index": "answer"}).questions  # an index counts from 0
    assert (question.reference, read_rows([choice]).questions[0].reference) == ("A", None)
    file = read_rows([{"question": "a", "refrence": "b", "answers": ["c"], "year": 1}])
    assert [note.split("'")[1] for note in file.notes] == ["refrence", "answers"]
    assert file.notes[1].endswith("add --columns 'references=answers'.")
    for source, wrong, said in (
        (path, {"reference": "Antwort"}, r"no column 'Antwort', which `columns` gives as the reference"),
        (path, {"title": "Frage"}, r"columns has 'title', but the meanings are question, "),
        (path, {"question": "Frage", "id": "Frage"}, r"columns gives two meanings to 'Frage'"),
        (plain, {"question": "nope"}, r"line 1 has no column 'nope'; its columns are 'question', 'reference'; name"),
        ([{"question": "x"}], {"question": "nope"}, r"row 1 has no column 'nope'; its columns are 'question'; name"),
    ):
        with pytest.raises(SeclError, match=said) as caught:
            read_rows(source, columns=wrong)
        assert isinstance(caught.value, ParameterError if said.startswith("columns") else DataError)


def test_numbers_dates_and_lists_of_a_frame_are_plain_values_and_whole_numbers_stay_whole(tmp_path: Path) -> None:
    values = ["a", np.array(["x", "y"]), "y", pd.Timestamp("2024-05-01"), np.float32(0.5), [1, 2]]
    gaps = ["b", ["1", "2"], 2, pd.NaT, math.nan, None]
    frame = pd.DataFrame([values, gaps], columns=["question", "options", "reference", "when", "score", "many"])
    one, two = read_rows(frame).questions
    assert (one.options, one.reference, two.reference) == (("x", "y"), "B", "B")
    plain = {"options": "x | y", "reference": "y", "when": "2024-05-01", "score": 0.5, "many": "[1, 2]"}
    assert dict(one.row[1:]) == plain
    assert two.row[3:] == (("when", None), ("score", None), ("many", None))
    assert (one.domain, one.id, two.id) == ("questions", "questions-0001", "questions-0002")
    whole = [["When?", 12, 1535, None, None, 1868], ["How many?", *[None] * 5], ["Pick", 14, None, 1, 2.5, 1e300]]
    frame = pd.DataFrame(whole, columns=["question", "id", "reference", "A", "B", "year"])
    frame.to_parquet(tmp_path / "f.parquet")
    frame.to_excel(tmp_path / "f.xlsx", index=False)
    frame.to_json(tmp_path / "f.jsonl", orient="records", lines=True)
    for source in (frame, *(tmp_path / f"f{suffix}" for suffix in (".parquet", ".xlsx", ".jsonl"))):
        first, second, third = read_rows(source, name="f").questions
        assert (first.id, first.reference, dict(first.row)["year"]) == ("12", "1535", 1868)
        assert (second.id[:2], second.reference) == ("f-", None)
        assert (third.id, third.options, dict(third.row)["year"]) == ("14", ("1", "2.5"), 1e300)
    truths = pd.DataFrame({"question": ["a", "b"], "answer": ["x", "y"], "correct": [1.0, None]})
    assert [each.correct for each in read_rows(truths, rate=True).given or ()] == [True, None]
    index = read_rows([{"question": "x", "options": [1.0, 2.0], "reference_index": 1.0}]).questions[0]
    assert (index.options, index.reference) == (("1", "2"), "B")


def test_a_number_or_a_pattern_that_python_cannot_hold_is_refused_by_its_row() -> None:
    for column, value in product(("reference", "id", "reference_index", "year", "options"), (10**5000, [10**5000, 1])):
        rows: list[dict[str, Any]] = [{"question": "x"}, {"question": "y", column: value}]
        with pytest.raises(DataError, match=r"questions, row 2 holds a number with thousands of digits"):
            read_rows(rows)
        assert len(read_rows(rows, skip_bad=True).questions) == 1
    for pattern in ("(" * 5000 + ")" * 5000, "a{99999999999999999999}", "a{" + "9" * 5000 + "}", "("):
        with pytest.raises(DataError, match="is not a regular expression"):
            read_rows([{"question": "x", "reference": pattern, "grader": "regex"}])


def test_an_option_that_stands_twice_gives_a_warning() -> None:
    rows = [
        {"question": "Where?", "options": ["Rome", "Rome", "Bern"]},
        {"question": "Who?", "options": ["a", "b", "a"]},
    ]
    (note,) = read_rows(rows).notes
    assert note.endswith(
        "'questions-0001' has the same option twice (further questions with equal options: 1); secl counts equal "
        "options as one."
    )
