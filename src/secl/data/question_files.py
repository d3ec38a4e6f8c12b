"""A user's own questions from files: one row each, whatever the format.

    question         the text; the one column that is needed
    options          a list, "a | b", an object of label and text, or the columns A, B, C, ... (`option_a`)
    reference        what is right: a letter or the text of an option, or a free text or number
    references       several right answers: a list, "a | b", or {"correct": [...], "incorrect": [...]}
    reference_index  the right option's number, counted from 0
    context, system  a passage beside the question, and the system text
    history          what was said before: [{"role": "user", "content": "..."}, ...]
    domain, id, form, grader  as in `secl.Question`
    answer, correct  an answer that somebody gave, and whether it is right; `secl score` rates it
    rivals           other answers to an open question, which it is compared with: a list, or "a | b"

Other columns are carried along (`Question.extra`). An empty cell is an absent value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secl.data.columns import check_mapping, meanings, plain, unread
from secl.data.question_values import build_question, text, texts, truth
from secl.data.tables import Table, TableRow, open_table, table_of
from secl.errors import DataError
from secl.question import Grader, Question

LEAVE_OUT = "To leave such rows out: --skip-bad (in Python: skip_bad=True)."
"""What else can be done about a row that cannot be used."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A row of a question file.

    Attributes:
        question: what is asked.
        answer: an answer that somebody gave, as written: with options a letter or a text; else None.
        correct: whether that answer is right, as far as the row says.
        location: its file and its line, row or item there, for messages.
        rivals: other answers to an open question.
    """

    question: Question
    answer: str | None
    correct: bool | None
    location: str
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """What a file of questions holds.

    Attributes:
        rows: those that can be used, in order.
        skipped: where the others are, and what is wrong with each.
        notes: sentences about columns that were perhaps meant to be read.
    """

    rows: tuple[QuestionRow, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def read_rows(
    source: object,
    *,
    name: str = "questions",
    skip_bad: bool = False,
    columns: Mapping[str, str] | None = None,
    grader: Grader = "auto",
) -> QuestionFile:
    """The rows of a question file or of a table in memory, in order.

    Defaults: the id is `<name>-<line, four digits>`, the domain is the name, and the form is "choice" with options,
    "sentence" where right and wrong answers are listed, and "short" otherwise.

    Args:
        source: path of a file of a format of `secl.data.tables`; or a DataFrame (pandas or polars), an Arrow table, a
            `datasets.Dataset`, or dictionaries.
        name: of a table in memory; a file's is its stem.
        skip_bad: leave out rows that cannot be used, and say why.
        columns: names of columns by their meaning, such as {"question": "prompt"}.
        grader: of the open questions that bring none: by name, by form or by wrong answers.

    Raises:
        DataError: the file cannot be read, is empty or of another kind, or a row is not usable; it names the row.
        ParameterError: `columns` maps what means nothing, or the source is no table.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        return _read(open_table(path), path.stem, str(path), skip_bad, columns or {}, grader)
    return _read(table_of(source, name), name, name, skip_bad, columns or {}, grader)


def read_questions(
    source: object, *, name: str = "questions", skip_bad: bool = False, columns: Mapping[str, str] | None = None
) -> list[Question]:
    """The questions of a file or a table in memory; see `read_rows`.

    >>> read_questions([{"question": "Capital of Peru?", "reference": "Lima", "year": 1535}])[0].extra
    (('year', '1535'),)
    """
    return [row.question for row in read_rows(source, name=name, skip_bad=skip_bad, columns=columns).rows]


def _read(
    table: Table, name: str, source: str, skip_bad: bool, columns: Mapping[str, str], grader: Grader
) -> QuestionFile:
    check_mapping(columns)
    named = functools.cache(lambda names: meanings(names, columns))
    header = table.header
    present = set(header or ())
    if header is not None:
        try:
            named(header)
        except DataError as problem:
            raise DataError(f"{table.location} {problem}") from problem
    rows: list[QuestionRow] = []
    skipped: list[tuple[str, str]] = []
    location_of: dict[str, str] = {}
    for raw in table.rows:
        try:
            if isinstance(raw.values, str):
                raise DataError(raw.values)
            present |= set(raw.values)
            row = _row(raw, raw.values, named(header or tuple(raw.values)), name, grader)
            if row.question.id in location_of:
                earlier = location_of[row.question.id]
                raise DataError(f"repeats the id {row.question.id!r} of {earlier}; give every question its own id.")
        except DataError as problem:
            if not skip_bad:
                raise DataError(f"{raw.location} {problem} {LEAVE_OUT}") from problem
            skipped.append((raw.location, str(problem)))
            continue
        location_of[row.question.id] = raw.location.rpartition(", ")[2]
        rows.append(row)
    if not rows:
        if skipped:
            raise DataError(f"{source} holds no question that can be used: {skipped[0][0]} {skipped[0][1]}")
        raise DataError(f"{source} holds no question; add {'one' if header is None else 'a line below its header'}.")
    _check_mapped(columns, present, source)
    extras = dict.fromkeys(key for row in rows for key, _ in row.question.extra)
    return QuestionFile(tuple(rows), tuple(skipped), tuple(f"{source}: {note}." for note in unread(extras)))


def _row(
    raw: TableRow, values: Mapping[str, object], meaning_of: Mapping[str, str | None], name: str, grader: Grader
) -> QuestionRow:
    by_meaning = {meaning: value for key, value in values.items() if (meaning := meaning_of[key])}
    extra = [(key, _plain_text(value)) for key, value in values.items() if meaning_of[key] is None]
    return QuestionRow(
        build_question(by_meaning, [(key, value) for key, value in extra if value], name, raw.line, grader),
        text(by_meaning, "answer"),
        truth(by_meaning, "correct"),
        raw.location,
        texts(by_meaning, "rivals"),
    )


def _plain_text(value: object) -> str:
    """A value of any kind as a text, "" for none; lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, list | dict | bool):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _check_mapped(columns: Mapping[str, str], present: set[str], source: str) -> None:
    plain_names = {plain(name) for name in present}
    for key, name in columns.items():
        if plain(name) not in plain_names:
            raise DataError(
                f"{source} has no column {name!r}, which columns gives as the {key}; its columns are "
                f"{', '.join(map(repr, sorted(present)))}."
            )
