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

from collections.abc import Callable, Iterator
from pathlib import Path

from secl.data.rows import LocatedRow, Row
from secl.data.tables import csv_lines, open_table
from secl.errors import DataError


def read_gsm8k(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, answer}."""
    return _rows(data, "gsm8k", "train.jsonl")


def read_mmlu(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, subject, choices, answer}, subject by subject in sorted order."""
    folder = data / "mmlu" / "test"
    files = sorted(folder.glob("*_test.csv"), key=lambda path: path.name.removesuffix("_test.csv"))
    if not files:
        raise DataError(f"{folder} holds no file *_test.csv; unpack the MMLU archive there.")
    for path in files:
        subject = path.name.removesuffix("_test.csv")
        for number, fields in csv_lines(path):
            location = f"{path}, line {number}"
            if len(fields) != 6 or fields[5].strip() not in tuple("ABCD"):
                raise DataError(f"{location} is not 'question,A,B,C,D,letter'; restore the official file.")
            answer = "ABCD".index(fields[5].strip())
            yield location, {"question": fields[0], "subject": subject, "choices": fields[1:5], "answer": answer}


def read_arc(data: Path) -> Iterator[LocatedRow]:
    """Rows {id, question, choices: {text, label}, answerKey}."""

    def flat(row: Row) -> Row:
        """AI2 nests a stem and choices in the question; the hub has them side by side."""
        choices = row["question"]["choices"]
        return {
            "id": row["id"],
            "question": row["question"]["stem"],
            "choices": {"text": [c["text"] for c in choices], "label": [c["label"] for c in choices]},
            "answerKey": row["answerKey"],
        }

    return _rows(data, "arc", "ARC-Challenge-Test.jsonl", flat=flat)


def read_truthfulqa(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, mc1_targets: {choices, labels}}."""

    def flat(row: Row) -> Row:
        """The official file maps option to label; the hub has two lists."""
        targets = row["mc1_targets"]
        return {
            "question": row["question"],
            "mc1_targets": {"choices": list(targets), "labels": [targets[option] for option in targets]},
        }

    return _rows(data, "truthfulqa", "mc_task.json", flat=flat)


def read_truthfulqa_gen(data: Path) -> Iterator[LocatedRow]:
    """Rows {question, best_answer, correct_answers, incorrect_answers}."""

    def flat(row: Row) -> Row:
        return {
            "question": row["Question"],
            "best_answer": row["Best Answer"],
            "correct_answers": row["Correct Answers"].split(";"),
            "incorrect_answers": row["Incorrect Answers"].split(";"),
        }

    return _rows(data, "truthfulqa", "TruthfulQA.csv", flat=flat)


def _rows(data: Path, *parts: str, flat: Callable[[Row], Row] = lambda row: row) -> Iterator[LocatedRow]:
    """The rows of a file, each as the hub has it."""
    for row in open_table(data.joinpath(*parts)).rows:
        if not isinstance(row.values, dict):
            raise DataError(f"{row.location} {row.values}")
        try:
            yield row.location, flat({name: value for name, value in row.values.items() if value is not None})
        except (KeyError, TypeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else "it has another shape"
            raise DataError(
                f"{row.location} is no question of this benchmark ({reason}); restore the official file."
            ) from error
