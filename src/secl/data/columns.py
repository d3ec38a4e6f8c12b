"""Names and meanings of the columns of a question file, and templates that make questions from columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from secl.errors import DataError, ParameterError
from secl.question import LETTERS

MEANINGS = (
    "question", "options", "reference", "references", "reference_index", "domain", "id", "form", "grader", "context",
    "system", "history", "answer", "correct", "rivals",
)  # fmt: skip
"""Meanings that a column can have (`secl.data.question_files`), besides the letter of an option: "A", "B", ..."""

SYNONYMS = {
    "prompt": "question",
    "query": "question",
    "choices": "options",
    "ground_truth": "reference",
    "gold": "reference",
    "correct_answer": "reference",
    "correct_option": "reference",
    "answer_key": "reference",
    "answerkey": "reference",
    "aliases": "references",
    "passage": "context",
    "system_prompt": "system",
}
"""Meanings of other common names of columns. secl ignores such a name if another column already has the meaning."""


def check_mapping(columns: Mapping[str, str]) -> None:
    """Check a mapping from meanings to names of columns, such as {"reference": "gold"}."""
    for key, name in columns.items():
        if key not in MEANINGS:
            raise ParameterError(
                f"columns has {key!r}, but the meanings are {', '.join(MEANINGS)}; write MEANING=NAME, as in "
                "reference=gold."
            )
        if list(columns.values()).count(name) > 1:
            raise ParameterError(f"columns gives two meanings to {name!r}; keep one.")


def meanings(
    names: Sequence[str], columns: Mapping[str, str], *, question_needed: bool = True
) -> dict[str, str | None]:
    """Return the meaning of each column: one of `MEANINGS`, an option's letter, or None.

    Two names are equal if their `plain` forms are equal.

    Args:
        columns: the user's mapping from meanings to names, such as {"reference": "gold"}.
        question_needed: whether a column must hold the question; False if a template makes the questions.

    Raises:
        DataError: no column holds the question, two columns have the same meaning, or the letters of the options have
            a gap. The caller adds the location.

    >>> meanings(["Prompt", "choices", "Year"], {})
    {'Prompt': 'question', 'choices': 'options', 'Year': None}
    """
    mapped = {plain(name): key for key, name in columns.items()}
    by_name: dict[str, str | None] = {}
    for name in names:
        own = plain(name) if plain(name) in MEANINGS and plain(name) not in columns else None
        by_name[name] = mapped.get(plain(name), own)
    letters = {name: letter for name in names if by_name[name] is None and (letter := _letter(name))}
    if "A" in letters.values():
        by_name |= letters
    taken = {*by_name.values()}
    for name in names:
        meaning = SYNONYMS.get(plain(name))
        if by_name[name] is None and meaning not in taken:
            by_name[name] = meaning
    _check(by_name)
    if question_needed and "question" not in by_name.values():
        raise DataError(
            f"has no column {columns.get('question', 'question')!r}; its columns are {', '.join(map(repr, names))}; "
            "name the column of questions with --columns question=NAME, or make questions from columns with --template."
        )
    return by_name


def plain(name: str) -> str:
    """Return a name in lower case, with "_" between its words."""
    return "_".join(name.casefold().replace("-", " ").split())


def _letter(name: str) -> str | None:
    """Return the option letter that the name of a column gives, or None for any other name.

    >>> [_letter(name) for name in ("A", "a", "Option B", "choice-3", "option_30", "7")]
    ['A', None, 'B', 'C', None, None]
    """
    if len(name.strip()) == 1:
        letter = name.strip()
    else:
        found = re.fullmatch(r"(?:option|choice)_([a-z]|[1-9]\d?)", plain(name))
        place = found[1].upper() if found else ""
        letter = LETTERS[int(place) - 1 : int(place)] if place.isdecimal() else place
    return letter if letter and letter in LETTERS else None


def _check(by_name: Mapping[str, str | None]) -> None:
    name_of: dict[str, str] = {}
    for name, meaning in by_name.items():
        if meaning in name_of:
            raise DataError(
                f"has {name_of[meaning]!r} and {name!r}, which both mean {meaning!r}; choose one with --columns "
                f"{meaning}=NAME, or remove one of them."
            )
        if meaning is not None:
            name_of[meaning] = name
    letters = sorted(meaning for meaning in name_of if meaning in LETTERS)
    if letters and "options" in name_of:
        raise DataError(f"has both 'options' and the column {letters[0]!r}; keep one way to give options.")
    if "".join(letters) != LETTERS[: len(letters)]:
        raise DataError(f"has the option columns {', '.join(letters)}; name them A, B, C, ... without a gap.")


_HINTS = {"answers": "references", "target": "reference", "gold_answer": "reference", "text": "question"}

_CLASSES = ("label", "class", "category")
"""Frequent names of the column that holds the right class."""


def unread(extras: Iterable[str], *, classes: bool = False, asked: bool = False) -> list[str]:
    """Return a sentence for each unread column whose name suggests that secl should read the column.

    Args:
        extras: names of the unread columns.
        classes: whether the caller gave options for all rows, for classification.
        asked: whether a template makes the questions.

    >>> unread(["domains", "year"])
    ["secl stores the column 'domains' but does not read it; if it is the domain, add --columns 'domain=domains'"]
    >>> unread(["a", "b", "c"])[0].split("; ")[1]
    'if they are options, name them in capitals'
    """
    extras, sentences = list(extras), []
    if {"a", "b"} <= {*extras} and not classes:
        sentences.append("secl does not read the columns 'a' and 'b'; if they are options, name them in capitals")
    for name in dict.fromkeys(extras):
        key = _HINTS.get(plain(name)) or next(iter(difflib.get_close_matches(plain(name), MEANINGS, 1, 0.85)), None)
        if classes and plain(name) in _CLASSES:
            key = "reference"
        if key is not None and not (asked and key == "question") and name.isprintable():
            sentences.append(
                f"secl stores the column {name!r} but does not read it; if it is the {key}, add "
                f"--columns '{key}={name}'"
            )
    return sentences


_BRACES = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|[{}])")


def _unescape(part: str) -> str:
    return part[:1] if part in ("{{", "}}") else part


@dataclass(frozen=True, slots=True)
class Template:
    """A text with the names of columns in braces. "{{" and "}}" stand for the braces "{" and "}".

    Raises:
        ParameterError: the text has an unmatched brace, or names no column.

    >>> Template("Which team? {subject}").fill({"Subject": "Login fails"}, {"subject": "Subject"})
    'Which team? Login fails'
    """

    text: str

    def __post_init__(self) -> None:
        if any(part in ("{", "}") for part in self._parts):
            raise ParameterError(
                f"the template {self.text[:80]!r} has an unmatched brace; write {{column}} for a column, and "
                "{{ or }} for a brace."
            )
        if not self.names:
            raise ParameterError(f"the template {self.text[:80]!r} names no column; write {{column}}.")

    @property
    def _parts(self) -> list[str]:
        return _BRACES.split(self.text)

    @property
    def names(self) -> list[str]:
        return [part[1:-1] for part in self._parts if part[:1] == "{" and part[-1:] == "}"]

    @property
    def frame(self) -> tuple[str, str]:
        """Return the text before the first column and after the last, which all questions share.

        >>> Template("Which team? {subject}: {body}").frame
        ('Which team? ', '')
        """
        columns = [place for place, part in enumerate(self._parts) if part[:1] == "{" and part[-1:] == "}"]
        before, after = self._parts[: columns[0]], self._parts[columns[-1] + 1 :]
        return "".join(map(_unescape, before)), "".join(map(_unescape, after))

    def columns(self, columns: Sequence[str]) -> dict[str, str]:
        """Map each name in the template to the column with this name, or else with the same `plain` form."""
        by_plain = {plain(column): column for column in reversed(columns)}
        for name in self.names:
            if name not in columns and plain(name) not in by_plain:
                known = ", ".join(map(repr, columns))
                raise ParameterError(f"the template names {name!r}, which is not a column; the columns are {known}.")
        return {name: name if name in columns else by_plain[plain(name)] for name in self.names}

    def fill(self, values: Mapping[str, object], column_of: Mapping[str, str]) -> str:
        """Return the question of a row, with empty texts for empty cells."""
        cells = {name: values.get(column) for name, column in column_of.items()}
        if all(cell in (None, "") for cell in cells.values()):
            raise DataError(f"has no value in the template's columns ({', '.join(map(repr, cells))}); fill one in.")
        filled = {f"{{{name}}}": "" if cell is None else str(cell) for name, cell in cells.items()}
        return "".join(filled.get(part, _unescape(part)) for part in self._parts)
