"""Reading documents from a column of a table, from the text files of a folder, or from texts in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from secl.data.tables import Row, columns_of, open_table, rows_of, text_of
from secl.display import excerpt
from secl.errors import DataError

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
