"""One row of an official benchmark -> one `Question`.

A row has the schema of the Hugging Face hub. The readers of official files (`secl.data.official_files`) convert to it,
so that files and hub give equal questions. Line breaks become `\\n` and spaces around a text are dropped; nothing else
changes. A row that does not fit raises KeyError, IndexError, TypeError, ValueError or QuestionError; the caller knows
its location and raises a `DataError`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from secl.question import LETTERS, Question, References

Row = Mapping[str, Any]

LocatedRow = tuple[str, Row]
"""A location for error messages, such as a file and a line, and the row there."""

NumberedRow = tuple[int, LocatedRow]
"""A row with its index in its file or subject, from 0."""

T = TypeVar("T")


def by_subject(rows: Iterable[LocatedRow]) -> list[list[NumberedRow]]:
    """The rows of each subject, in sorted order of the subjects, and numbered inside; one group if they have none."""
    subjects: defaultdict[str, list[NumberedRow]] = defaultdict(list)
    for location, row in rows:
        members = subjects[str(row.get("subject"))]
        members.append((len(members), (location, row)))
    return [subjects[subject] for subject in sorted(subjects)]


def round_robin(groups: Iterable[Sequence[T]]) -> list[T]:
    """The first row of each group, then the second of each, and so on.

    >>> round_robin(["abc", "x"])
    ['a', 'x', 'b', 'c']
    """
    return [row for turn in zip_longest(*groups) for row in turn if row is not None]


def gsm8k_question(row: Row, index: int, _seed: int) -> Question:
    """GSM8K: {question, answer}, the answer a solution that ends in "#### number".

    >>> gsm8k_question({"question": "1000 + 234?", "answer": "Add.\\n#### 1,234"}, 0, 42).reference
    '1234'
    """
    reference = clean(row["answer"]).rpartition("####")
    if not reference[1]:
        raise ValueError("its answer has no '####'")
    return Question(
        clean(row["question"]),
        reference=reference[2].strip().replace(",", ""),
        domain="gsm8k",
        id=f"gsm8k-{index:04d}",
        form="number",
    )


def mmlu_question(row: Row, index: int, _seed: int) -> Question:
    """MMLU: {question, subject, choices, answer}, the answer a position from 0; `index` counts inside the subject."""
    return Question(
        clean(row["question"]),
        options=_options(row["choices"]),
        reference=LETTERS[int(row["answer"])],
        domain="mmlu",
        id=f"mmlu-{row['subject']}-{index:04d}",
        form="choice",
    )


def arc_question(row: Row, _index: int, _seed: int) -> Question:
    """ARC: {id, question, choices: {text, label}, answerKey}; labels A-E or 1-5 become letters by position."""
    labels = [clean(label) for label in row["choices"]["label"]]
    return Question(
        clean(row["question"]),
        options=_options(row["choices"]["text"]),
        reference=LETTERS[labels.index(clean(row["answerKey"]))],
        domain="arc",
        id=f"arc-{clean(row['id'])}",
        form="choice",
    )


def truthfulqa_question(row: Row, index: int, seed: int, *, shuffled: bool = True) -> Question:
    """TruthfulQA MC1: {question, mc1_targets: {choices, labels}}, the first option is right in the data.

    The options are `shuffled` by (seed, index), so their order does not depend on how many questions are loaded.
    """
    labels = [int(label) for label in row["mc1_targets"]["labels"]]
    options = _options(row["mc1_targets"]["choices"])
    if labels.count(1) != 1 or len(labels) != len(options):
        raise ValueError("its mc1_targets do not mark exactly one option as right")
    order = list(range(len(options)))
    if shuffled:
        random.Random(f"truthfulqa-{seed}-{index}").shuffle(order)
    return Question(
        clean(row["question"]),
        options=tuple(options[position] for position in order),
        reference=LETTERS[order.index(labels.index(1))],
        domain="truthfulqa",
        id=f"truthfulqa-{index:04d}",
        form="choice",
    )


def truthfulqa_gen_question(row: Row, index: int, _seed: int) -> Question:
    """TruthfulQA generation: {question, best_answer, correct_answers, incorrect_answers}; the best comes first."""
    best = clean(row["best_answer"])
    correct = _answers(row["correct_answers"])
    incorrect = _answers(row["incorrect_answers"])
    if not best or not incorrect:
        raise ValueError("it lacks a best answer or incorrect answers")
    return Question(
        clean(row["question"]),
        reference=References((best, *(answer for answer in correct if answer != best)), incorrect),
        domain="truthfulqa_gen",
        id=f"truthfulqa_gen-{index:04d}",
        form="sentence",
    )


def clean(text: object) -> str:
    """The text with `\\n` as its only line break and without spaces around it.

    >>> clean(" one\\r\\ntwo ")
    'one\\ntwo'
    """
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a text")
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _options(texts: object) -> tuple[str, ...]:
    if not isinstance(texts, list | tuple):
        raise TypeError("its options are not a list")
    return tuple(clean(text) for text in texts)


def _answers(texts: object) -> tuple[str, ...]:
    """Answers without the empty ones that a trailing ';' leaves behind."""
    return tuple(answer for answer in _options(texts) if answer)
