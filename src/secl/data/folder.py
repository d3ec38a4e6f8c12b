"""Benchmark files in their official formats -> (place, row), where a row has the schema of the Hugging Face hub.

    <data>/gsm8k/train.jsonl                 {"question", "answer"} per line
    <data>/mmlu/test/<subject>_test.csv      question, A, B, C, D, letter; no header
    <data>/arc/ARC-Challenge-Test.jsonl      {"id", "question": {"stem", "choices": [{"text", "label"}]}, "answerKey"}
    <data>/truthfulqa/mc_task.json           [{"question", "mc1_targets": {text: 0 or 1}}]
    <data>/truthfulqa/TruthfulQA.csv         Question, Best Answer, Correct Answers, Incorrect Answers, ...

A place names the file and the line, for error messages. Every failure is a `DataError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from secl.data.rows import PlacedRow, Row
from secl.data.text_files import csv_rows, json_lines, read_json, read_text
from secl.errors import DataError

_CSV_COLUMNS = ("Question", "Best Answer", "Correct Answers", "Incorrect Answers")


def folder_rows(name: str, data: Path) -> Iterator[PlacedRow]:
    """The rows of the benchmark `name` in the folder `data`, in file order.

    Raises:
        DataError: the folder or a file is missing, or a line is broken.
    """
    if not data.is_dir():
        raise DataError(f"the data folder {data} does not exist; check --data or SECL_DATA.")
    return _READERS[name](data)


def _gsm8k(data: Path) -> Iterator[PlacedRow]:
    path = _present(data / "gsm8k" / "train.jsonl", data)
    for number, row in json_lines(path):
        yield f"{path}, line {number}", row


def _mmlu(data: Path) -> Iterator[PlacedRow]:
    folder = _present(data / "mmlu" / "test", data)
    files = sorted(folder.glob("*_test.csv"), key=lambda path: path.name.removesuffix("_test.csv"))
    if not files:
        raise DataError(f"{folder} holds no file *_test.csv; unpack the MMLU archive there.")
    for path in files:
        subject = path.name.removesuffix("_test.csv")
        for number, fields in csv_rows(path):
            place = f"{path}, line {number}"
            if len(fields) != 6 or fields[5].strip() not in tuple("ABCD"):
                raise DataError(f"{place} is not 'question,A,B,C,D,letter'; restore the official file.")
            answer = "ABCD".index(fields[5].strip())
            yield place, {"question": fields[0], "subject": subject, "choices": fields[1:5], "answer": answer}


def _arc(data: Path) -> Iterator[PlacedRow]:
    path = _present(data / "arc" / "ARC-Challenge-Test.jsonl", data)
    for number, row in json_lines(path):
        place = f"{path}, line {number}"
        yield place, _flat_arc(row, place)


def _flat_arc(row: Row, place: str) -> Row:
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
        raise DataError(f"{place} is no ARC question ({_reason(error)}); restore the official file.") from error


def _truthfulqa(data: Path) -> Iterator[PlacedRow]:
    path = _present(data / "truthfulqa" / "mc_task.json", data)
    items = read_json(read_text(path), str(path))
    if not isinstance(items, list):
        raise DataError(f"{path} is not a JSON list of questions; restore the official file.")
    for number, item in enumerate(items, start=1):
        place = f"{path}, item {number}"
        yield place, _flat_truthfulqa(item, place)


def _flat_truthfulqa(item: Any, place: str) -> Row:
    """The official file maps option to label; the hub has two lists."""
    try:
        targets = item["mc1_targets"]
        return {
            "question": item["question"],
            "mc1_targets": {"choices": list(targets), "labels": [targets[option] for option in targets]},
        }
    except (KeyError, TypeError) as error:
        raise DataError(f"{place} is no TruthfulQA question ({_reason(error)}); restore the official file.") from error


def _truthfulqa_gen(data: Path) -> Iterator[PlacedRow]:
    path = _present(data / "truthfulqa" / "TruthfulQA.csv", data)
    rows = csv_rows(path)
    _, header = next(rows)
    missing = [column for column in _CSV_COLUMNS if column not in header]
    if missing:
        raise DataError(f"{path}, line 1 lacks the column {missing[0]!r}; restore the official file.")
    for number, fields in rows:
        place = f"{path}, line {number}"
        if len(fields) != len(header):
            raise DataError(f"{place} has {len(fields)} fields instead of {len(header)}; restore the official file.")
        cells = dict(zip(header, fields, strict=True))
        yield (
            place,
            {
                "question": cells["Question"],
                "best_answer": cells["Best Answer"],
                "correct_answers": cells["Correct Answers"].split(";"),
                "incorrect_answers": cells["Incorrect Answers"].split(";"),
            },
        )


def _present(path: Path, data: Path) -> Path:
    if not path.exists():
        raise DataError(
            f"{path} does not exist; put the official file there, or choose another data folder than {data}."
        )
    return path


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else "it has another shape"


_READERS: dict[str, Callable[[Path], Iterator[PlacedRow]]] = {
    "gsm8k": _gsm8k,
    "mmlu": _mmlu,
    "arc": _arc,
    "truthfulqa": _truthfulqa,
    "truthfulqa_gen": _truthfulqa_gen,
}
