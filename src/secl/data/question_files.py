"""People's own questions from files and tables: one row each, whatever the format.

    question         the text; the one column that is needed, unless a template makes the question from others
    options          a list, "a | b", an object of label and text, or the columns A, B, C, ... (`option_a`)
    reference        what is right: a letter or the text of an option, or a free text or number
    references       several right answers: a list, "a | b", or {"correct": [...], "incorrect": [...]}
    reference_index  the right option's number, counted from 0
    context, system  a passage beside the question, and the system text
    history          what was said before: [{"role": "user", "content": "..."}, ...]
    domain, id, form, grader  as in `secl.Question`
    answer, correct  an answer that somebody gave, and whether it is right; `secl score` rates it
    rivals           other answers to an open question, which it is compared with: a list, or "a | b"

A question keeps its whole row (`Question.row`). An empty cell is an absent value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from secl.data.cells import joined
from secl.data.columns import check_mapping, meanings, plain, unread
from secl.data.question_values import build_question, check_options, text, texts, truth, with_options
from secl.data.tables import Row, Table, open_table, table_of
from secl.data.template import Template
from secl.errors import DataError
from secl.question import Cell, GivenAnswer, Grader, Question

LEAVE_OUT = "To leave such rows out: --skip-bad (in Python: skip_bad=True)."
"""What else can be done about a row that cannot be used."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question, and what its row says beside it.

    Attributes:
        location: its file and its line, row or item there, for messages; "" for a benchmark.
        answer: an answer that somebody gave, as written: with options a letter or a text; else None.
        correct: whether that answer is right, as far as the row says.
    """

    question: Question
    location: str = ""
    answer: str | None = None
    correct: bool | None = None
    rivals: tuple[str, ...] = ()

    def given(self) -> GivenAnswer:
        """The answer with its question, to be rated.

        Raises:
            QuestionError: there is none, or it cannot be rated.
        """
        return GivenAnswer(self.question, self.answer or "", self.rivals, self.correct)


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The questions of a file, a table or benchmarks.

    Attributes:
        rows: those that can be used, in order.
        skipped: where the others are, and what is wrong with each.
        notes: sentences about columns that were perhaps meant to be read.
    """

    rows: tuple[QuestionRow, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> list[Question]:
        """The questions, in order."""
        return [row.question for row in self.rows]

    def without(self, ids: Collection[str]) -> QuestionFile:
        """The same without some questions."""
        return replace(self, rows=tuple(row for row in self.rows if row.question.id not in ids))


def read_rows(
    source: object,
    *,
    name: str = "questions",
    skip_bad: bool = False,
    columns: Mapping[str, str] | None = None,
    grader: Grader = "auto",
    options: Sequence[str] = (),
    template: str | None = None,
) -> QuestionFile:
    """The questions of a file or of a table in memory, in order.

    Defaults: the id is `<name>-<line, four digits>`, the domain is the name, and the form is "choice" with options,
    "sentence" where right and wrong answers are listed, and "short" otherwise.

    Args:
        source: path of a file of a format of `secl.data.tables`; or a DataFrame (pandas or polars), an Arrow table, a
            `datasets.Dataset`, or a list of texts, dictionaries or questions.
        name: of a table in memory; a file's is its stem.
        skip_bad: leave out rows that cannot be used, and say why.
        columns: names of columns by their meaning, such as {"question": "prompt"}.
        grader: of the open questions that bring none: by name, by form or by wrong answers.
        options: the same for every row, for classification; their order gives the letters.
        template: makes the question of each row from its columns, such as "Which team? {subject}: {body}"; it comes
            before a column with the question.

    Raises:
        DataError: the file cannot be read, is empty or of another kind, or a row is not usable; the message names it.
        ParameterError: `columns` maps what means nothing, the options or the template cannot be used, or the source is
            no table.

    >>> tickets = [{"subject": "Login", "body": "It fails."}]
    >>> (row,) = read_rows(tickets, options=["bug", "feature"], template="Which team? {subject}: {body}").rows
    >>> row.question.text, row.question.options
    ('Which team? Login: It fails.', ('bug', 'feature'))
    """
    check_mapping(columns or {})
    check_options(options)
    made_by = Template(template) if template else None
    path = Path(source) if isinstance(source, str | Path) else None
    table, name = (table_of(source, name), name) if path is None else (open_table(path), path.stem)
    reader = _Reader(table, name, str(path or name), columns or {}, grader, tuple(options), made_by)
    return reader.read(skip_bad)


def read_questions(
    source: object, *, name: str = "questions", skip_bad: bool = False, columns: Mapping[str, str] | None = None
) -> list[Question]:
    """The questions of a file or a table in memory; see `read_rows`.

    >>> read_questions([{"question": "Capital of Peru?", "reference": "Lima", "year": 1535}])[0].row
    (('question', 'Capital of Peru?'), ('reference', 'Lima'), ('year', 1535))
    """
    return read_rows(source, name=name, skip_bad=skip_bad, columns=columns).questions


@dataclass(frozen=True)
class _Reader:
    """Reads the questions of a table called `name`; `source` names it in messages. The rest as for `read_rows`."""

    table: Table
    name: str
    source: str
    columns: Mapping[str, str]
    grader: Grader
    options: tuple[str, ...]
    template: Template | None

    @functools.cached_property
    def meaning_of(self) -> Callable[[tuple[str, ...]], dict[str, str | None]]:
        """The meaning of each of some columns."""
        return functools.cache(partial(meanings, columns=self.columns, question_needed=self.template is None))

    @functools.cached_property
    def filling(self) -> dict[str, str]:
        """The columns that fill the template, by their names there."""
        return self.template.columns(self.table.columns) if self.template else {}

    def read(self, skip_bad: bool) -> QuestionFile:
        """All rows; see `read_rows`."""
        header, source = self.table.header, self.source
        if header is not None:
            try:
                self.meaning_of(header)
            except DataError as problem:
                raise DataError(f"{self.table.location} {problem}") from problem
        if not self.table.rows:
            raise DataError(f"{source} holds no question; add {'a line below its header' if header else 'one'}.")
        rows: list[QuestionRow] = []
        skipped: list[tuple[str, str]] = []
        location_of: dict[str, str] = {}
        for raw in self.table.rows:
            try:
                row = self._row(raw)
                if earlier := row.question.id and location_of.get(row.question.id):
                    raise DataError(f"repeats the id {row.question.id!r} of {earlier}; give every question its own id.")
            except DataError as problem:
                if not skip_bad:
                    raise DataError(f"{raw.location} {problem} {LEAVE_OUT}") from problem
                skipped.append((raw.location, str(problem)))
                continue
            location_of[row.question.id] = raw.location.rpartition(", ")[2]
            rows.append(row)
        if not rows:
            raise DataError(f"{source} holds no question that can be used: {skipped[0][0]} {skipped[0][1]}")
        self._check_mapped()
        notes = unread(self._extras(), classes=bool(self.options), asked=self.template is not None)
        return QuestionFile(tuple(rows), tuple(skipped), tuple(f"{source}: {note}." for note in notes))

    def _row(self, raw: Row) -> QuestionRow:
        """The question of a row."""
        if isinstance(raw.values, str):
            raise DataError(raw.values)
        if isinstance(raw.values, Question):
            return QuestionRow(with_options(raw.values, self.options), raw.location)
        meaning_of = self.meaning_of(self.table.header or tuple(raw.values))
        values = {meaning: value for column, value in raw.values.items() if (meaning := meaning_of[column])}
        if self.template is not None:
            values["question"] = self.template.fill(raw.values, self.filling)
        cells = tuple((column, _cell(value)) for column, value in raw.values.items())
        return QuestionRow(
            build_question(values, cells, self.name, raw.number, self.grader, self.options),
            raw.location,
            text(values, "answer"),
            truth(values, "correct"),
            texts(values, "rivals"),
        )

    def _extras(self) -> Iterator[str]:
        """The columns that are read as nothing and are not empty."""
        for row in self.table.rows:
            if isinstance(row.values, dict):
                with suppress(DataError):
                    meaning_of = self.meaning_of(self.table.header or tuple(row.values))
                    yield from (
                        name for name, value in row.values.items() if value is not None and not meaning_of[name]
                    )

    def _check_mapped(self) -> None:
        present = self.table.columns
        for key, name in self.columns.items():
            if plain(name) not in map(plain, present):
                raise DataError(
                    f"{self.source} has no column {name!r}, which columns gives as the {key}; its columns are "
                    f"{', '.join(map(repr, sorted(present)))}."
                )


def _cell(value: object) -> Cell:
    """A value as a question keeps it: lists and objects as a text."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return joined(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
