"""Conversion of official benchmark files to rows in the schema of the Hugging Face hub, and of rows to questions.

    <data>/gsm8k/train.jsonl                 {"question", "answer"} per line
    <data>/mmlu/test/<subject>_test.csv      question, A, B, C, D, letter; no header
    <data>/arc/ARC-Challenge-Test.jsonl      {"id", "question": {"stem", "choices": [{"text", "label"}]}, "answerKey"}
    <data>/truthfulqa/mc_task.json           [{"question", "mc1_targets": {text: 0 or 1}}]
    <data>/truthfulqa/TruthfulQA.csv         Question, Best Answer, Correct Answers, Incorrect Answers, ...

A reader takes the data folder and yields the rows in file order. A reader raises `DataError`s that name file and line.
`read_mmlu` reads MMLU, and `read_file` reads every other benchmark. `hub_rows` reads the same rows from the hub.

A builder makes a question from one row. Line breaks become `\\n`, and texts lose spaces at both ends. For an invalid
row, a builder raises KeyError, IndexError, TypeError, ValueError or QuestionError. The caller adds the row's location.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from secl.data.tables import csv_rows, open_table
from secl.errors import DataError, needs
from secl.question import LETTERS, Question, References

BenchmarkRow = Mapping[str, Any]

LocatedRow = tuple[str, BenchmarkRow]
"""The location of a row, such as "q.csv, line 3", and the row."""

NumberedRow = tuple[int, LocatedRow]
"""The index of a row among the rows of its subject (from 0), and the row."""

T = TypeVar("T")


def by_subject(rows: Iterable[LocatedRow]) -> list[list[NumberedRow]]:
    """Return a list of numbered rows for each subject, sorted by subject. Rows without a subject form one list."""
    subjects: defaultdict[str, list[NumberedRow]] = defaultdict(list)
    for location, row in rows:
        members = subjects[str(row.get("subject"))]
        members.append((len(members), (location, row)))
    return [subjects[subject] for subject in sorted(subjects)]


def round_robin(groups: Iterable[Sequence[T]]) -> list[T]:
    """Return the first row of each group, then the second row of each group, and so on.

    >>> round_robin(["abc", "x"])
    ['a', 'x', 'b', 'c']
    """
    return [row for turn in zip_longest(*groups) for row in turn if row is not None]


def read_mmlu(data: Path) -> Iterator[LocatedRow]:
    """Yield rows {question, subject, choices, answer}, subject by subject in sorted order."""
    folder = data / "mmlu" / "test"
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


def arc_row(row: BenchmarkRow) -> BenchmarkRow:
    """Convert a row of AI2's file to the hub's schema."""
    choices = row["question"]["choices"]
    return {
        "id": row["id"],
        "question": row["question"]["stem"],
        "choices": {"text": [c["text"] for c in choices], "label": [c["label"] for c in choices]},
        "answerKey": row["answerKey"],
    }


def truthfulqa_row(row: BenchmarkRow) -> BenchmarkRow:
    """Convert a row of `mc_task.json` to the hub's schema, with options and labels as two lists."""
    targets = row["mc1_targets"]
    labels = [targets[option] for option in targets]
    return {"question": row["question"], "mc1_targets": {"choices": list(targets), "labels": labels}}


def truthfulqa_gen_row(row: BenchmarkRow) -> BenchmarkRow:
    """Convert a row of `TruthfulQA.csv` to the hub's schema, with right and wrong answers as lists."""
    return {
        "question": row["Question"],
        "best_answer": row["Best Answer"],
        "correct_answers": row["Correct Answers"].split(";"),
        "incorrect_answers": row["Incorrect Answers"].split(";"),
    }


def read_file(
    data: Path, name: str, flat: Callable[[BenchmarkRow], BenchmarkRow] = lambda row: row
) -> Iterator[LocatedRow]:
    """Yield the rows of a file in a data folder; `flat` converts a row to the schema of the hub."""
    for row in open_table(data / name):
        if not isinstance(row.values, dict):
            raise DataError(f"{row.location} {row.values}")
        try:
            yield row.location, flat({name: value for name, value in row.values.items() if value is not None})
        except (KeyError, TypeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else "its structure is wrong"
            raise DataError(f"{row.location} is not a valid question ({reason}); restore the official file.") from error


def gsm8k_question(row: BenchmarkRow, index: int, _seed: int) -> Question:
    """Return a question of GSM8K from {question, answer}; the answer is a solution that ends in "#### number"."""
    reference = clean(row["answer"]).rpartition("####")
    if not reference[1]:
        raise ValueError("its answer has no '####'")
    number = reference[2].strip().replace(",", "")
    return Question(clean(row["question"]), (), number, "gsm8k", f"gsm8k-{index:04d}", "number")


def mmlu_question(row: BenchmarkRow, index: int, _seed: int) -> Question:
    """Return a question of MMLU from {question, subject, choices, answer}; `answer` is a position from 0."""
    options, name = _options(row["choices"]), f"mmlu-{row['subject']}-{index:04d}"
    return Question(clean(row["question"]), options, LETTERS[int(row["answer"])], "mmlu", name)


def arc_question(row: BenchmarkRow, _index: int, _seed: int) -> Question:
    """Return a question of ARC from {id, question, choices: {text, label}, answerKey}.

    The first option gets the letter A, whether its label is "A" or "1".
    """
    labels = [clean(label) for label in row["choices"]["label"]]
    reference = LETTERS[labels.index(clean(row["answerKey"]))]
    options = _options(row["choices"]["text"])
    return Question(clean(row["question"]), options, reference, "arc", f"arc-{clean(row['id'])}")


def truthfulqa_question(row: BenchmarkRow, index: int, seed: int, *, shuffled: bool = True) -> Question:
    """Return a question of TruthfulQA MC1 from {question, mc1_targets: {choices, labels}}.

    In the data, the first option is right. If `shuffled`, the seed and the question's index determine the order of its
    options.
    """
    labels = [int(label) for label in row["mc1_targets"]["labels"]]
    options = _options(row["mc1_targets"]["choices"])
    if labels.count(1) != 1 or len(labels) != len(options):
        raise ValueError("its mc1_targets do not mark exactly one option as right")
    order = list(range(len(options)))
    if shuffled:
        random.Random(f"truthfulqa-{seed}-{index}").shuffle(order)
    arranged, reference = tuple(options[position] for position in order), LETTERS[order.index(labels.index(1))]
    return Question(clean(row["question"]), arranged, reference, "truthfulqa", f"truthfulqa-{index:04d}")


def truthfulqa_gen_question(row: BenchmarkRow, index: int, _seed: int) -> Question:
    """Return an open question of TruthfulQA from {question, best_answer, correct_answers, incorrect_answers}.

    The best answer is the first of the right answers.
    """
    best = clean(row["best_answer"])
    # Drop the empty answer that a ';' at the end of a list gives.
    correct, incorrect = (tuple(filter(None, _options(row[f"{kind}_answers"]))) for kind in ("correct", "incorrect"))
    if not best or not incorrect:
        raise ValueError("it lacks a best answer or incorrect answers")
    references = References((best, *(answer for answer in correct if answer != best)), incorrect)
    name = f"truthfulqa_gen-{index:04d}"
    return Question(clean(row["question"]), (), references, "truthfulqa_gen", name, "sentence")


def clean(text: object) -> str:
    """Return a text with `\\n` for every line break, and without spaces at both ends."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a text")
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _options(texts: object) -> tuple[str, ...]:
    if not isinstance(texts, list | tuple):
        raise TypeError("its options are not a list")
    return tuple(clean(text) for text in texts)


def hub_rows(benchmark: str, repository: str, configuration: str, split: str) -> Iterator[LocatedRow]:
    """Yield the rows of a dataset on the hub with their locations.

    Raises:
        DataError: `datasets` is not installed, or neither the hub nor the cache has the data.
    """
    try:
        import datasets
    except ImportError as error:
        raise DataError(needs(f"the benchmark {benchmark!r} without --data FOLDER", "datasets", "hub")) from error
    try:
        with silent_retries():
            dataset = datasets.load_dataset(repository, configuration, split=split)
    except Exception as error:  # requests, httpx, the hub's client, the cache and the disk have different errors
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        raise DataError(
            f"the benchmark {benchmark!r} ({repository}) cannot be fetched from the Hugging Face hub "
            f"({type(error).__name__}: {reason}); check the network, "
            "or name a folder with its official files by --data or SECL_DATA."
        ) from error
    for index, row in enumerate(dataset):
        yield f"{repository} ({configuration}, {split}), row {index}", row


@contextmanager
def silent_retries() -> Iterator[None]:
    """Within the block, the hub's client logs no warning about a failed attempt."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
