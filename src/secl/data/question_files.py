"""A user's own questions, from a .jsonl or .csv file.

JSONL: one object per line with the key "question" and, optionally, "options" (a list), "reference" (a letter, the
exact text of an option, or a free text or number; "answer" means the same), "references" ({"correct": [...],
"incorrect": [...]}), "domain", "id" and "form".

CSV: a header with the same names. Options are in columns A, B, C, ... (a row may leave the last ones empty) or in
one column `options`, separated by "|"; `references` holds the JSON object. An empty cell is an absent value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from secl.data.grading import parse_number
from secl.data.text_files import csv_rows, json_lines, parse_json
from secl.errors import DataError, QuestionError
from secl.records import FORMS, LETTERS, Question, References

KEYS = ("question", "options", "reference", "answer", "references", "domain", "id", "form")
"""The keys of a question; "answer" is another word for "reference"."""


def read_questions(path: str | Path) -> list[Question]:
    """The questions of a .jsonl or .csv file, in order.

    Defaults: the id is `<file stem>-<line, four digits>`, the domain is the file stem, and the form is "choice" with
    options, "sentence" with references, and "short" otherwise.

    Raises:
        DataError: the file cannot be read, is empty or of another kind, or a line is not usable; it names the line.
    """
    path = Path(path)
    reader = {".jsonl": json_lines, ".csv": _csv_objects}.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} ends in {path.suffix!r}; give a question file that ends in .jsonl or .csv.")
    questions: list[Question] = []
    lines: dict[str, int] = {}
    for number, values in reader(path):
        question = _question(values, path, number)
        if question.id in lines:
            raise DataError(
                f"{path}, line {number} repeats the id {question.id!r} of line {lines[question.id]}; "
                "give every question its own id."
            )
        lines[question.id] = number
        questions.append(question)
    if not questions:
        raise DataError(f"{path} holds no question; add a line below its header.")
    return questions


def _csv_objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """The rows of a CSV file as JSONL objects."""
    rows = csv_rows(path)
    header_line, header = next(rows)
    columns = [name.strip() for name in header]
    letters = _check_header(columns, f"{path}, line {header_line}")
    for number, fields in rows:
        location = f"{path}, line {number}"
        if len(fields) != len(columns):
            raise DataError(
                f"{location} has {len(fields)} fields but the header has {len(columns)}; put quotes around commas."
            )
        cells = {name: cell.strip() for name, cell in zip(columns, fields, strict=True) if cell.strip()}
        if not cells:
            continue
        yield number, _with_options(cells, letters, location)


def _check_header(columns: list[str], location: str) -> tuple[str, ...]:
    """The option columns of a valid header.

    Raises:
        DataError: an unknown, repeated or missing column.
    """
    letters = tuple(name for name in columns if len(name) == 1 and name in LETTERS)
    for name in columns:
        if name not in KEYS and name not in letters:
            raise DataError(
                f"{location} has the unknown column {name!r}; the columns are {', '.join(KEYS)}, "
                "and A, B, C, ... for options."
            )
        if columns.count(name) > 1:
            raise DataError(f"{location} has the column {name!r} twice; remove one.")
    if "question" not in columns:
        raise DataError(f"{location} has no column 'question'; add a header with it.")
    if letters and "options" in columns:
        raise DataError(f"{location} has both 'options' and the column {letters[0]!r}; keep one way to give options.")
    if "".join(sorted(letters)) != LETTERS[: len(letters)]:
        raise DataError(
            f"{location} has the option columns {', '.join(letters)}; name them A, B, C, ... without a gap."
        )
    return tuple(sorted(letters))


def _with_options(cells: dict[str, str], letters: tuple[str, ...], location: str) -> dict[str, object]:
    values: dict[str, object] = {name: cell for name, cell in cells.items() if name not in letters}
    filled = [letter for letter in letters if letter in cells]
    if filled != list(letters[: len(filled)]):
        gap = next(letter for letter in letters if letter not in cells)
        raise DataError(f"{location} leaves the option {gap} empty but fills a later one; fill the options from A on.")
    if filled:
        values["options"] = [cells[letter] for letter in filled]
    if "options" in cells:
        values["options"] = [option.strip() for option in cells["options"].split("|")]
    if "references" in cells:
        values["references"] = parse_json(cells["references"], f"{location}, column 'references'")
    return values


def _question(values: Mapping[str, object], path: Path, number: int) -> Question:
    location = f"{path}, line {number}"
    unknown = [key for key in values if key not in KEYS]
    if unknown:
        raise DataError(f"{location} has the unknown key {unknown[0]!r}; the keys are {', '.join(KEYS)}.")
    text = _text(values, "question", location)
    if text is None:
        raise DataError(f"{location} has no 'question'; give its text.")
    options = _options(values, location)
    reference = _reference(values, options, location)
    form = _text(values, "form", location) or _default_form(options, reference)
    if form not in FORMS:
        raise DataError(f"{location} asks for the unknown form {form!r}; the forms are {', '.join(FORMS)}.")
    if form == "number" and isinstance(reference, str) and parse_number(reference) is None:
        raise DataError(
            f"{location} asks for a number but its reference {reference!r} holds none; use the form 'short'."
        )
    try:
        return Question(
            text,
            options=options,
            reference=reference,
            domain=_text(values, "domain", location) or path.stem,
            id=_text(values, "id", location) or f"{path.stem}-{number:04d}",
            form=form,
        )
    except QuestionError as error:
        raise DataError(f"{location}: {error}") from error


def _default_form(options: tuple[str, ...], reference: str | References | None) -> str:
    if options:
        return "choice"
    return "sentence" if isinstance(reference, References) else "short"


def _text(values: Mapping[str, object], key: str, location: str) -> str | None:
    """The value of `key` as a text without outer spaces; numbers become texts, null and "" become None."""
    value = values.get(key)
    if value is None:
        return None
    return _as_text(value, f"{location} has a {key!r}") or None


def _as_text(value: object, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{what} that is neither text nor number ({str(value)[:40]}); write it in quotes.")
    return str(value).strip()


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DataError(f'{what} that is not a list; write ["...", "..."].')
    texts = tuple(_as_text(item, f"{what} with a member") for item in value)
    if not all(texts):
        raise DataError(f"{what} with an empty member; remove it or fill it in.")
    return texts


def _options(values: Mapping[str, object], location: str) -> tuple[str, ...]:
    if values.get("options") is None:
        return ()
    return _texts(values["options"], f"{location} has 'options'")


def _reference(values: Mapping[str, object], options: tuple[str, ...], location: str) -> str | References | None:
    keys = [key for key in ("reference", "answer", "references") if values.get(key) not in (None, "")]
    if len(keys) > 1:
        raise DataError(f"{location} has both {keys[0]!r} and {keys[1]!r}; keep one.")
    if not keys:
        return None
    if keys[0] == "references":
        if options:
            raise DataError(f"{location} has 'options' and 'references'; give 'reference' with a letter instead.")
        return _references(values["references"], location)
    reference = _text(values, keys[0], location)
    return _letter(reference, options, location) if reference and options else reference


def _references(value: object, location: str) -> References:
    what = f"{location} has 'references'"
    if not isinstance(value, dict) or set(value) - {"correct", "incorrect"} or not value.get("correct"):
        raise DataError(f'{what} of another shape; write {{"correct": ["..."], "incorrect": ["..."]}}.')
    incorrect = value.get("incorrect", [])
    return References(_texts(value["correct"], f"{what}/correct"), _texts(incorrect, f"{what}/incorrect"))


def _letter(reference: str, options: tuple[str, ...], location: str) -> str:
    """The letter of a reference, which is a letter or the exact text of an option."""
    if len(options) > len(LETTERS):
        raise DataError(f"{location} has {len(options)} options but only {len(LETTERS)} letters exist; split it.")
    letters = LETTERS[: len(options)]
    by_text = letters[options.index(reference)] if reference in options else None
    by_letter = reference.upper() if len(reference) == 1 and reference.upper() in letters else None
    if by_text and by_letter == reference and by_text != by_letter:
        raise DataError(
            f"{location} has the reference {reference!r}, which is the text of option {by_text} and also a letter; "
            f"write the letter, and rename the option."
        )
    letter = by_text or by_letter
    if letter is None:
        raise DataError(
            f"{location} has the reference {reference!r}, which is neither a letter of its {len(options)} options "
            "nor the exact text of one; correct it."
        )
    return letter
