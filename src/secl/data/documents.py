"""Documents to read: texts in a column of a table, text files of a folder, or texts in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from secl.data.tables import Row, columns_of, open_table, rows_of, text_of
from secl.display import excerpt
from secl.errors import DataError

ENDINGS = (".txt", ".md")
"""Suffixes of files that are documents."""


def read_documents(source: object, column: str = "text") -> list[Row]:
    """Return the documents of a file, a folder or a table in memory as rows, in order, not yet checked.

    Args:
        source: path of a table (`secl.data.tables`), of a text file, or of a folder of text files (`ENDINGS`); or a
            DataFrame, or texts or mappings.
        column: name of the column with the texts.

    Raises:
        DataError: the file cannot be read, lacks the column, or holds no document.
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
        raise DataError(f"{path or 'the table'} has no column {column!r}, only {known}; name the column of the texts.")
    if not rows:
        raise DataError(f"{path or 'the list of documents'} holds no document; add one.")
    return rows


def read_document(row: Row, column: str) -> tuple[str, dict[str, object]]:
    """Return the text of a document and all cells of its row; messages of a DataError omit the location."""
    if not isinstance(row.values, dict):
        raise DataError(row.values if isinstance(row.values, str) else "is a question; give the text of a document.")
    text = row.values.get(column)
    if isinstance(text, str) and text.strip():
        return text, row.values
    given = "is empty" if text in (None, "") else f"holds {excerpt(repr(text), 40)}"
    raise DataError(f"has a column {column!r} that {given}; give the text of a document.")


def texts_in(source: object, column: str) -> list[str]:
    """Return the texts of all documents. Arguments and errors are those of `read_documents`.

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
    """Return a row for a text file, or for each text file in a folder, in order of their names."""
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
