"""Templates of questions with columns of a table: "Which team should handle this? {subject}: {body}"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secl.data.columns import plain
from secl.errors import DataError, ParameterError

_BRACES = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|[{}])")


@dataclass(frozen=True, slots=True)
class Template:
    """A text with the names of columns in braces; "{{" and "}}" stand for braces.

    Raises:
        ParameterError: an unmatched brace, or no column.

    >>> Template("Which team? {subject}").fill({"Subject": "Login fails"}, {"subject": "Subject"})
    'Which team? Login fails'
    """

    text: str

    def __post_init__(self) -> None:
        if any(part in ("{", "}") for part in self._parts):
            raise ParameterError(
                f"the template {self.text[:80]!r} has a brace without its partner; write {{column}}, and {{{{ or }}}} "
                "for a brace itself."
            )
        if not self.names:
            raise ParameterError(
                f"the template {self.text[:80]!r} names no column, so every row would ask the same; write {{column}}."
            )

    @property
    def _parts(self) -> list[str]:
        return _BRACES.split(self.text)

    @property
    def names(self) -> list[str]:
        """The names in braces."""
        return [part[1:-1] for part in self._parts if part[:1] == "{" and part[-1:] == "}"]

    def columns(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the column of each name, without regard to case."""
        by_plain = {plain(column): column for column in reversed(columns)}
        for name in self.names:
            if name not in columns and plain(name) not in by_plain:
                known = ", ".join(map(repr, columns))
                raise ParameterError(f"the template names {name!r}, which is no column; the columns are {known}.")
        return {name: name if name in columns else by_plain[plain(name)] for name in self.names}

    def fill(self, values: Mapping[str, object], column_of: Mapping[str, str]) -> str:
        """Return the question of a row, in which empty cells become empty texts."""
        cells = {name: values.get(column) for name, column in column_of.items()}
        if all(cell in (None, "") for cell in cells.values()):
            raise DataError(f"leaves every column of the template empty ({', '.join(map(repr, cells))}); fill one in.")
        doubled = {"{{": "{", "}}": "}"}
        filled = {f"{{{name}}}": "" if cell is None else str(cell) for name, cell in cells.items()}
        return "".join((doubled | filled).get(part, part) for part in self._parts)
