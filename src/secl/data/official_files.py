"""Benchmark files in their official formats -> rows in the schema of the Hugging Face hub, each with its location.

    <data>/gsm8k/train.jsonl                 {"question", "answer"} per line
    <data>/mmlu/test/<subject>_test.csv      question, A, B, C, D, letter; no header
    <data>/arc/ARC-Challenge-Test.jsonl      {"id", "question": {"stem", "choices": [{"text", "label"}]}, "answerKey"}
    <data>/truthfulqa/mc_task.json           [{"question", "mc1_targets": {text: 0 or 1}}]
    <data>/truthfulqa/TruthfulQA.csv         Question, Best Answer, Correct Answers, Incorrect Answers, ...

Each reader takes the data folder and yields the rows in file order. Every failure is a `DataError` that names the file
and the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from secl.data.rows import LocatedRow, Row
from secl.data.text_files import csv_rows, json_lines, parse_json, read_text
from secl.errors import DataError

_TRUTHFULQA_COLUMNS = ("Question", "Best Answer", "Correct Answers", "Incorrect Answers")


def read_gsm8k(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, answer}."""
    path = _existing(data / "gsm8k" / "train.jsonl", data)
    for number, row in json_lines(path):
        yield f"{path}, line {number}", row


def read_mmlu(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, subject, choices, answer}, subject by subject in sorted order."""
    folder = _existing(data / "mmlu" / "test", data)
    files = sorted(folder.glob("*_test.csv"), key=lambda path: path.name.removesuffix("_test.csv"))
    if not files:
        raise DataError(f"{folder} holds no file *_test.csv; unpack the MMLU archive there.")
    for path in files:
        subject = path.name.removesuffix("_test.csv")
        for number, fields in csv_rows(path):
            location = f"{path}, line {number}"
            if len(fields) != 6 or fields[5].strip() not in tuple("ABCD"):
                raise DataError(f"{location} is not 'question,A,B,C,D,letter'; restore the official file.")
            answer = "ABCD".index(fields[5].strip())
            yield location, {"question": fields[0], "subject": subject, "choices": fields[1:5], "answer": answer}


def read_arc(data: Path) -> Iterator[LocatedRow]:
    """Rows {id, question, choices: {text, label}, answerKey}."""
    path = _existing(data / "arc" / "ARC-Challenge-Test.jsonl", data)
    for number, row in json_lines(path):
        location = f"{path}, line {number}"
        yield location, _flat_arc(row, location)


def _flat_arc(row: Row, location: str) -> Row:
    """AI2 nests a stem and choices in the question; the hub has them side by side."""
    try:
        choices = row["question"]["choices"]
        return {
            "id": row["id"],
            "question": row["question"]["stem"],
            "choices": {"text": [c["text"] for c in choices], "label": [c["label"] for c in choices]},
            "answerKey": row["answerKey"],
        }
    except (KeyError, TypeError) as error:
        raise DataError(f"{location} is no ARC question ({_reason(error)}); restore the official file.") from error


def read_truthfulqa(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, mc1_targets: {choices, labels}}."""
    path = _existing(data / "truthfulqa" / "mc_task.json", data)
    items = parse_json(read_text(path), str(path))
    if not isinstance(items, list):
        raise DataError(f"{path} is not a JSON list of questions; restore the official file.")
    for number, item in enumerate(items, start=1):
        location = f"{path}, item {number}"
        yield location, _flat_truthfulqa(item, location)


def _flat_truthfulqa(item: Row, location: str) -> Row:
    """The official file maps option to label; the hub has two lists."""
    try:
        targets = item["mc1_targets"]
        return {
            "question": item["question"],
            "mc1_targets": {"choices": list(targets), "labels": [targets[option] for option in targets]},
        }
    except (KeyError, TypeError) as error:
        message = f"{location} is no TruthfulQA question ({_reason(error)}); restore the official file."
        raise DataError(message) from error


def read_truthfulqa_gen(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, best_answer, correct_answers, incorrect_answers}."""
    path = _existing(data / "truthfulqa" / "TruthfulQA.csv", data)
    lines = csv_rows(path)
    _, header = next(lines)
    missing = [column for column in _TRUTHFULQA_COLUMNS if column not in header]
    if missing:
        raise DataError(f"{path}, line 1 lacks the column {missing[0]!r}; restore the official file.")
    for number, fields in lines:
        location = f"{path}, line {number}"
        if len(fields) != len(header):
            raise DataError(f"{location} has {len(fields)} fields instead of {len(header)}; restore the official file.")
        cells = dict(zip(header, fields, strict=True))
        row = {
            "question": cells["Question"],
            "best_answer": cells["Best Answer"],
            "correct_answers": cells["Correct Answers"].split(";"),
            "incorrect_answers": cells["Incorrect Answers"].split(";"),
        }
        yield location, row


def _existing(path: Path, data: Path) -> Path:
    if not path.exists():
        raise DataError(
            f"{path} does not exist; put the official file there, or choose another data folder than {data}."
        )
    return path


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else "it has another shape"
