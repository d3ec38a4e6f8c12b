"""The user's questions, from files and from tables in memory, and documents. A row is a question, with the columns:

    question         the text; the only necessary column, unless a template makes the question from other columns
    options          a list, "a | b", an object of label and text, or the columns A, B, C, ... (`option_a`)
    reference        the right answer: the letter or the text of an option; without options, a text or a number
    references       several right answers: a list, "a | b", or {"correct": [...], "incorrect": [...]}
    reference_index  the right option's number, counted from 0
    context, system  a passage before the question, and the system text
    history          earlier turns: [{"role": "user", "content": "..."}, ...]
    domain, id, form, grader  attributes of `secl.Question`
    answer, correct  an answer for `secl score` to rate, and whether it is right
    rivals           other answers to an open question, to compare with `answer`: a list, or "a | b"

A question keeps its whole row (`Question.row`). An empty cell means that the row lacks the value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from secl.data.cells import joined
from secl.data.columns import Template, check_mapping, meanings, plain, unread
from secl.data.question_values import build_question, check_options, text, texts, truth, with_options
from secl.data.tables import HEADED, Row, columns_of, open_table, rows_of, short_texts, text_of
from secl.display import excerpt
from secl.errors import DataError, QuestionError
from secl.grading.numbers import decimal_mark, whole_number, with_points
from secl.question import CellValue, GivenAnswer, Grader, Question

LEAVE_OUT = "To leave such rows out: --skip-bad (in Python: skip_bad=True)."
"""Remedy for an unusable row."""

ANSWERS_ALONE = (
    "secl grades no answer, because the column {name!r} has answers to rate, not references; rate these answers with "
    "secl score, or make them references with --columns reference={name}"
)
"""Note on a file with answers but no references. Its author may have meant the answers as references."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The questions of a file, a table or benchmarks.

    Attributes:
        questions: the usable questions, in order.
        given: an answer to rate for each question; None if the model writes the answers.
        skipped: location and problem of each skipped row.
        notes: sentences on repeated options, `unread` columns, and answers without references (`ANSWERS_ALONE`).
    """

    questions: tuple[Question, ...]
    given: tuple[GivenAnswer, ...] | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, questions: Iterable[Question]) -> Self:
        """Return a copy of the file with only these questions, in this order. Ids of questions must be unique."""
        chosen = tuple(questions)
        answers = {answer.question.id: answer for answer in self.given or ()}
        given = None if self.given is None else tuple(answers[question.id] for question in chosen)
        return replace(self, questions=chosen, given=given)

    def without(self, ids: Collection[str]) -> Self:
        return self.of(question for question in self.questions if question.id not in ids)


def read_rows(
    source: object,
    *,
    name: str = "questions",
    skip_bad: bool = False,
    columns: Mapping[str, str] | None = None,
    grader: Grader = "auto",
    options: Sequence[str] = (),
    template: str | None = None,
    rate: bool = False,
) -> QuestionFile:
    """Return the questions of a file or of a table in memory, in order.

    The default id has `name` and the row's number, as in "questions-0007". The default domain is `name`. The default
    form is "choice" with options, "sentence" with right and wrong answers, and "short" otherwise.

    Args:
        source: path of a file in a format of `secl.data.tables`; or a DataFrame (pandas or polars), an Arrow table, a
            `datasets.Dataset`, or a list of texts, dictionaries or questions.
        name: name of a table in memory. A file has its stem as name.
        skip_bad: skip unusable rows, and record the reasons in `QuestionFile.skipped`.
        columns: mapping from meanings to names of columns, such as {"question": "prompt"}.
        grader: grader of open questions whose grader would otherwise be "auto".
        options: common options of all rows, for classification. The first option gets the letter A.
        template: text that makes the question from a row's columns, such as "Which team? {subject}: {body}". secl
            then ignores the column of questions.
        rate: fill `QuestionFile.given` with the answers to rate. Each row needs an answer.

    Raises:
        DataError: the file cannot be read, is empty or has an unknown suffix, or a row is unusable. The message names
            the row.
        ParameterError: `columns` has an unknown meaning, the options or the template are invalid, or the source is no
            table.

    >>> tickets = [{"subject": "Login", "body": "It fails."}]
    >>> file = read_rows(tickets, options=["bug", "feature"], template="Which team? {subject}: {body}")
    >>> file.questions[0].text, file.questions[0].options
    ('Which team? Login: It fails.', ('bug', 'feature'))
    """
    columns = columns or {}
    check_mapping(columns)
    check_options(options)
    made_by = Template(template) if template else None
    path = Path(source) if isinstance(source, str | Path) else None
    meaning_of = functools.cache(partial(meanings, columns=columns, question_needed=made_by is None))
    table, name = (rows_of(source, name), name) if path is None else (open_table(path, meaning_of), path.stem)
    place = str(path or name)
    written = functools.cache(lambda: short_texts(table))
    filling = functools.cache(lambda: made_by.columns(columns_of(table)) if made_by else {})

    def read(raw: Row) -> tuple[str, Question | GivenAnswer]:
        if isinstance(raw.values, str):
            raise DataError(raw.values)
        if isinstance(raw.values, Question):
            question = with_options(raw.values, options)
            return question.id, _make_given(question, None) if rate else question
        meaning = meaning_of(tuple(raw.values))
        values = {key: value for column, value in raw.values.items() if (key := meaning[column])}
        if made_by is not None:
            values["question"] = made_by.fill(raw.values, filling())
        cells = tuple((column, cell_of(value)) for column, value in raw.values.items())
        question = build_question(values, cells, name, raw.number, grader, tuple(options))
        if reference_column := next((column for column, key in meaning.items() if key == "reference"), None):
            question = _use_points(question, written().get(reference_column, ""))
        answer, correct, rivals = text(values, "answer"), truth(values, "correct"), texts(values, "rivals")
        if answer and not rate:
            with_answer.append(question)
        return question.id, _make_given(question, answer, rivals, correct) if rate else question

    if not table:
        headed = path is not None and path.suffix.lower() in HEADED
        raise DataError(f"{place} holds no question; add {'a line below its header' if headed else 'one'}.")
    skipped: list[tuple[str, str]] = []
    with_answer: list[Question] = []  # questions whose rows have an answer that secl does not rate
    rows = list(usable(table, read, skipped, kind="question", skip_bad=skip_bad))
    if not rows:
        raise DataError(f"{place} holds no question that can be used: {skipped[0][0]} {skipped[0][1]}")
    _check_mapped(columns_of(table), columns, place)
    notes = unread(_extras(table, meaning_of), classes=bool(options), asked=made_by is not None)
    questions = tuple(row if isinstance(row, Question) else row.question for row in rows)
    twice = [question for question in questions if len({*question.options}) < len(question.options)]
    if twice:
        more = f" (further questions with equal options: {len(twice) - 1})" if len(twice) > 1 else ""
        notes.append(f"{twice[0].mention} has the same option twice{more}; secl counts equal options as one")
    if with_answer and all(question.reference is None for question in questions):
        notes.append(ANSWERS_ALONE.format(name=columns.get("answer", "answer")))
    given = tuple(row for row in rows if isinstance(row, GivenAnswer)) if rate else None
    return QuestionFile(questions, given, tuple(skipped), tuple(f"{place}: {note}." for note in notes))


def _use_points(question: Question, column: str) -> Question:
    """Return a question whose numeric reference has a decimal point, if the texts of its column have decimal commas."""
    reference = question.reference
    if question.options or not isinstance(reference, str) or decimal_mark(column) != ",":
        return question
    return replace(question, reference=with_points(reference)) if whole_number(reference, noun=True) else question


def _make_given(
    question: Question, answer: str | None, rivals: tuple[str, ...] = (), correct: bool | None = None
) -> GivenAnswer:
    if answer is None:
        raise DataError("has no 'answer' to rate; give one.")
    try:
        return GivenAnswer(question, answer, rivals, correct)
    except QuestionError as problem:
        raise DataError(f"cannot be rated: {problem}") from problem


def read_given(source: object) -> list[GivenAnswer]:
    """Return answers to rate, from a list of `GivenAnswer`s or of pairs (question, answer), or from a table."""
    if isinstance(source, list | tuple) and all(isinstance(row, GivenAnswer | tuple) for row in source):
        return [row if isinstance(row, GivenAnswer) else GivenAnswer(Question.of(row[0]), *row[1:]) for row in source]
    return list(read_rows(source, rate=True).given or ())


def usable(
    rows: Iterable[Row],
    read: Callable[[Row], tuple[str, R]],
    skipped: list[tuple[str, str]],
    *,
    kind: str,
    skip_bad: bool,
) -> Iterator[R]:
    """Yield what `read` makes of each usable row, such as a question.

    Args:
        read: returns an id and a question or document from a row, or raises a DataError or QuestionError.
        skipped: gets the location of each unusable row, with the reason.
        kind: noun in messages, such as "question" for the result of a row.

    Raises:
        DataError: without `skip_bad`, a row is unusable or repeats an id. The message begins with the row's location.
    """
    location_of: dict[str, str] = {}
    for row in rows:
        try:
            name, result = read(row)
            if earlier := name and location_of.get(name):
                raise DataError(f"repeats the id {name!r} of {earlier}; give every {kind} its own id.")
        except (DataError, QuestionError) as problem:
            if not skip_bad:
                raise DataError(f"{row.location} {problem} {LEAVE_OUT}") from problem
            skipped.append((row.location, str(problem)))
            continue
        location_of[name] = row.location.rpartition(", ")[2]
        yield result


def _extras(rows: Iterable[Row], meaning_of: Callable[[tuple[str, ...]], dict[str, str | None]]) -> Iterator[str]:
    """Yield the name of each filled cell's column, if the column has no meaning."""
    for row in rows:
        if isinstance(row.values, dict):
            with suppress(DataError):
                meaning = meaning_of(tuple(row.values))
                yield from (name for name, value in row.values.items() if value is not None and not meaning[name])


def _check_mapped(known: Sequence[str], columns: Mapping[str, str], source: str) -> None:
    for key, name in columns.items():
        if plain(name) not in map(plain, known):
            raise DataError(
                f"{source} has no column {name!r}, which `columns` gives as the {key}; its columns are "
                f"{', '.join(map(repr, sorted(known)))}."
            )


def cell_of(value: object) -> CellValue:
    """Convert a value for `Question.row`: lists and objects become texts."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return joined(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


ENDINGS = (".txt", ".md")
"""Suffixes of text files."""


def read_documents(source: object, column: str = "text") -> list[Row]:
    """Return a row for each document of a file, a folder or a table in memory. `read_document` checks a row.

    Args:
        source: path of a table (`secl.data.tables`), of a text file, or of a folder of text files (`ENDINGS`); or a
            table in memory, such as a DataFrame, a list of texts or a list of dictionaries.
        column: name of the column with the texts.

    Raises:
        DataError: the file cannot be read, lacks the column, or holds no document.
        ParameterError: the source is no table, or the package for the format is not installed.
    """
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None:
        is_text = path.is_dir() or path.suffix.lower() in ENDINGS
        rows = _text_files(path, column) if is_text else open_table(path)
    else:
        if isinstance(source, list | tuple | Iterator):
            source = [{column: item} if isinstance(item, str) else item for item in source]
        rows = rows_of(source, "documents")
    columns = columns_of(rows)
    if columns and column not in columns:
        known = ", ".join(map(repr, columns))
        raise DataError(
            f"{path or 'the table'} has no column {column!r}, only {known}; name the column of the texts with --text "
            "(in Python: text=)."
        )
    if not rows:
        raise DataError(f"{path or 'the list of documents'} holds no document; add one.")
    return rows


def read_document(row: Row, column: str) -> tuple[str, dict[str, object]]:
    """Return the text of a document and all cells of its row, or raise a DataError without the row's location."""
    if not isinstance(row.values, dict):
        raise DataError(row.values if isinstance(row.values, str) else "is a question, not a document; give a text.")
    text = row.values.get(column)
    if isinstance(text, str) and text.strip():
        return text, row.values
    given = "is empty" if text in (None, "") else f"holds {excerpt(repr(text), 40)}"
    raise DataError(f"has a column {column!r} that {given}; give the text of a document.")


def texts_in(source: object, column: str) -> list[str]:
    """Return the texts of all documents; `source`, `column` and errors are as for `read_documents`.

    >>> texts_in(["A letter.", {"text": "A note."}], "text")
    ['A letter.', 'A note.']
    """
    texts = []
    for row in read_documents(source, column):
        try:
            texts.append(read_document(row, column)[0])
        except DataError as problem:
            raise DataError(f"{row.location} {problem}") from problem
    return texts


def _text_files(path: Path, column: str) -> list[Row]:
    """Return a row for a text file, or for each text file of a folder and its subfolders, sorted by path."""
    if not path.is_dir():
        return [Row(1, str(path), {"file": path.name, column: text_of(path)})]
    rows: list[Row] = []
    for file in sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file()):
        values: dict[str, object] | str
        try:
            values = {"file": str(file.relative_to(path)), column: text_of(file)}
        except DataError as problem:
            values = str(problem).removeprefix(str(file)).lstrip(", ")
        rows.append(Row(len(rows) + 1, str(file), values))
    if not rows:
        raise DataError(f"{path} holds no file that ends in {' or '.join(ENDINGS)}; add one, or name a table.")
    return rows
