"""Documents to read: texts in a column of a table, text files of a folder, or texts in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secl.data.tables import Row, Table, open_table, table_of, text_of
from secl.display import excerpt
from secl.errors import DataError

ENDINGS = (".txt", ".md")
"""Suffixes of files that are documents."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to read.

    Attributes:
        location: its file and its line, row or item there, for messages.
        row: all cells of its row by column, the text included.
        problem: why it cannot be used; empty if it can.
    """

    text: str
    location: str
    row: Mapping[str, object]
    problem: str = ""


def read_documents(source: object, column: str = "text", *, skip_bad: bool = False) -> list[Document]:
    """Return the documents of a file, a folder or a table in memory, in order.

    Args:
        source: path of a file of a format of `secl.data.tables`, of a text file, or of a folder of text files
            (`ENDINGS`); or a DataFrame, a list of texts or of mappings.
        column: the name of the column with the texts.
        skip_bad: return rows that cannot be used with their problem.

    Raises:
        DataError: the file cannot be read or lacks the column, or a row cannot be used.

    >>> [document.row for document in read_documents(["A letter.", {"text": "A note."}])]
    [{'text': 'A letter.'}, {'text': 'A note.'}]
    """
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and (path.is_dir() or path.suffix.lower() in ENDINGS):
        table, column = _text_files(path), "text"
    elif path is not None:
        table = open_table(path)
    else:
        if isinstance(source, list | tuple):
            source = [{column: item} if isinstance(item, str) else item for item in source]
        table = table_of(source, "documents")
    if table.columns and column not in table.columns:
        known = ", ".join(map(repr, table.columns))
        raise DataError(f"{path or 'the table'} has no column {column!r} but {known}; name the column with the texts.")
    documents = [_document(row, column) for row in table.rows]
    if not documents:
        raise DataError(f"{path or 'the list of documents'} holds no document; add one.")
    for document in () if skip_bad else documents:
        if document.problem:
            raise DataError(f"{document.location} {document.problem}")
    return documents


def _document(row: Row, column: str) -> Document:
    if not isinstance(row.values, dict):
        reason = row.values if isinstance(row.values, str) else "is a question; give the text of a document."
        return Document("", row.location, {}, reason)
    text = row.values.get(column)
    if isinstance(text, str) and text.strip():
        return Document(text, row.location, row.values)
    given = "is empty" if text in (None, "") else f"holds {excerpt(repr(text), 40)}"
    return Document("", row.location, row.values, f"has a column {column!r} that {given}; give the text of a document.")


def _text_files(path: Path) -> Table:
    """Return a text file, or the text files in a folder in order of their names, as a table."""
    if not path.is_dir():
        return Table([Row(1, str(path), {"file": path.name, "text": text_of(path)})])
    rows: list[Row] = []
    for file in sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file()):
        values: dict[str, object] | str
        try:
            values = {"file": str(file.relative_to(path)), "text": text_of(file)}
        except DataError as problem:
            values = str(problem).removeprefix(str(file)).lstrip(", ")
        rows.append(Row(len(rows) + 1, str(file), values))
    if not rows:
        raise DataError(f"{path} holds no file that ends in {' or '.join(ENDINGS)}; add one, or name a table.")
    return Table(rows)
