"""Cells keep what people see in them, from workbooks, CSV files and tables in memory."""

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

from secl.data.cells import as_json
from secl.data.question_files import read_rows
from secl.errors import DataError
from secl.grading.rules import grade
from secl.question import Question, letter_of

SEEN = (
    (date(1976, 7, 4), "", "1976-07-04"),
    (datetime(2026, 4, 2), "", "2026-04-02"),
    (datetime(2026, 4, 2, 10, 30), "", "2026-04-02 10:30:00"),
    (datetime(2026, 4, 2, 10, 30), "dd/mm/yyyy hh:mm", "2026-04-02 10:30"),
    (time(10, 30), "", "10:30:00"),
    (time(10, 30), "h:mm", "10:30"),
    (timedelta(hours=26), "", "26:00:00"),
    (6.022e23, "", "6.022e+23"),
    (1e22, "", "1e+22"),
    (0.1 + 0.2, "", "0.3"),
    (3.0, "", "3"),
    (12, "", "12"),
    (0.25, "0%", "25%"),
    (0.07, "0.0%", "7%"),
    (1234.5, '"$"#,##0.00', "$1234.50"),
    (-5, "$0.00", "-$5.00"),
    (1234.5, "#,##0.00\\ [$€-407]", "1234.50 €"),
    (123, "00000", "00123"),
    ("00123", "", "00123"),
    ("3.10", "", "3.10"),
    (True, "", "True"),
)
"""Value and number format ("" for the default) of a workbook's cell, and the text that secl reads as the reference."""


def test_a_cell_of_a_workbook_is_read_as_people_see_it(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.worksheets[0]
    sheet.append(["question", "reference"])
    for row, (value, number_format, _) in enumerate(SEEN, start=2):
        sheet.append([f"What is {row}?", value])
        if number_format:
            sheet.cell(row, 2).number_format = number_format
    book.save(tmp_path / "q.xlsx")
    assert [question.reference for question in read_rows(tmp_path / "q.xlsx").questions] == [seen for *_, seen in SEEN]


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (np.datetime64("2026-04-02T00:00:00.000000000"), "2026-04-02"),
        (np.datetime64("2026-04-02"), "2026-04-02"),
        (np.datetime64("NaT"), None),
        (np.timedelta64(90, "m"), "1:30:00"),
        (pd.Timestamp("2026-04-02 10:30"), "2026-04-02 10:30:00"),
        (pd.Timestamp("2026-04-02", tz="UTC"), "2026-04-02 00:00:00+00:00"),
        (pd.Timedelta(-90, "min"), "-1:30:00"),
        (pd.NaT, None),
        (pd.NA, None),
        (float("nan"), None),
        (np.float32(0.1), 0.1),
        (np.array([0.1, 2], "float32"), [0.1, 2]),
        (np.int8(3), 3),
        (np.bool_(True), True),
        (np.float64(3), 3),
        (6.022e23, 6.022e23),
        (Decimal("12.50"), "12.50"),
        (Decimal("NaN"), None),
        (b"Lima", "Lima"),
    ],
)
def test_a_value_of_numpy_or_pandas_becomes_what_it_shows(value: object, seen: object) -> None:
    assert as_json(value) == seen
    assert type(as_json(value)) is type(seen)
    json.dumps(as_json(value))


def test_a_column_of_32_bits_keeps_its_short_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"question": ["a", "b"], "reference": np.array([0.1, np.nan], "float32")})
    frame.to_parquet(tmp_path / "q.parquet")
    for source in (frame, tmp_path / "q.parquet"):
        assert [question.reference for question in read_rows(source).questions] == ["0.1", None]


def test_true_and_false_can_be_options_and_references(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    rows = [["question", "A", "B", "reference"], ["Is it?", True, False, True], ["Was it?", True, False, "FALSE"]]
    for row in rows:
        book.worksheets[0].append(row)
    book.save(tmp_path / "q.xlsx")
    (tmp_path / "q.csv").write_text("question,A,B,reference\nIs it?,TRUE,FALSE,true\nWas it?,TRUE,FALSE,FALSE\n")
    listed = [
        {"question": "Is it?", "options": [True, False], "reference": True},
        {"question": "Was it?", "options": ["True", "False"], "reference": False},
    ]
    (tmp_path / "q.json").write_text(json.dumps(listed))
    frame = pd.DataFrame(rows[1:], columns=rows[0])
    for source in (tmp_path / "q.xlsx", tmp_path / "q.csv", tmp_path / "q.json", listed, frame):
        first, second = read_rows(source).questions
        assert [option.casefold() for option in first.options] == ["true", "false"]
        assert (first.reference, second.reference) == ("A", "B")


@pytest.mark.parametrize(
    ("word", "truth"),
    [("1.0", True), ("0.0", False), ("1", True), ("TRUE", True), ("WAHR", True), ("FAUX", False), ("yes", True)],
)
def test_truth_values_are_read_as_programs_write_them(word: str, truth: bool, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"question,answer,correct\nWho?,Ann,{word}\nWho else?,Bo,\n")
    given = read_rows(tmp_path / "a.csv", rate=True).given
    assert given is not None
    assert [answer.correct for answer in given] == [truth, None]


def test_a_half_labelled_column_is_read_from_the_csv_file_of_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"question": ["a", "b", "c"], "answer": ["x", "y", "z"], "correct": [True, False, None]})
    frame["correct"] = frame["correct"].astype(float)
    frame.to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.csv"):
        given = read_rows(source, rate=True).given
        assert given is not None
        assert [answer.correct for answer in given] == [True, False, None]


@pytest.mark.parametrize(
    "text",
    [
        "question;reference;comment (a, b, c)\nWho?;Ann;x\n",
        '"question";"reference";"comment (a, b, c)"\n"Who?";"Ann";"x, y"\n',
        "question\treference\tnotes; more, a, b\nWho?\tAnn\t;\n",
        '"question","reference","a; b; c; d"\n"Who?","Ann","x;y"\n',
        "reference;question, with a comma;question\nAnn;x;Who?\n",
        "question,reference\nWho?,Ann\n",
        "question,reference\nWho?,Ann\n\n",
    ],
)
def test_the_delimiter_is_the_one_that_gives_the_needed_columns(text: str, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(text)
    (question,) = read_rows(tmp_path / "q.csv").questions
    assert (question.text, question.reference) == ("Who?", "Ann")


def test_a_header_without_the_needed_columns_is_named_with_its_columns(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("frage;antwort (a, b)\nWer?;Ann\n")
    with pytest.raises(DataError, match=r"has no column 'question'; its columns are 'frage', 'antwort \(a, b\)'"):
        read_rows(tmp_path / "q.csv")


@pytest.mark.parametrize(("option", "answer"), [("Café", "Cafe\u0301"), ("Cafe\u0301", "Café"), ("가", "\u1100\u1161")])
def test_composed_and_separate_accents_name_the_same_option(option: str, answer: str) -> None:
    assert letter_of(Question("Which?", options=(option, "Tea")), answer) == "A"
    rows = [{"question": "Which?", "options": [option, "Tea"], "reference": answer}]
    assert read_rows(rows).questions[0].reference == "A"


def test_the_numbers_of_a_column_show_its_decimal_mark(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(
        "question;reference;form\nHow long?;1.234;number\nHow wide?;0,5;number\nHow far?;1,250;short\nWho?;Ann;\n"
    )
    questions = read_rows(tmp_path / "q.csv").questions
    assert [question.reference for question in questions] == ["1234", "0,5", "1.250", "Ann"]
    answers = ["1234", "0.5", "1.25", "Ann"]
    assert all(grade(question, answer) for question, answer in zip(questions, answers, strict=True))


def test_a_reference_that_is_not_one_number_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("question,reference,form\nHow many?,3,number\nHow long?,3 to 5 days,number\n")
    with pytest.raises(DataError, match=r"q\.csv, line 3 cannot be asked: .*'3 to 5 days' is not one number; give a"):
        read_rows(tmp_path / "q.csv")
