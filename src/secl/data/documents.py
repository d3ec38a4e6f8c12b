"""Documents to read from files and tables: one row each, the text in one column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from secl.data.tables import open_table, table_of
from secl.display import excerpt
from secl.errors import DataError


@dataclass(frozen=True, slots=True)
class Document:
    """A text to read.

    Attributes:
        location: its file and its line, row or item there, for messages.
        row: all cells of its row by column, the text included.
    """

    text: str
    location: str
    row: dict[str, object]


def read_documents(source: object, column: str = "text") -> list[Document]:
    """Return the documents of a file or of a table in memory, in order.

    Args:
        source: path of a file of a format of `secl.data.tables`; or a DataFrame, a list of texts or of mappings.
        column: the name of the column with the texts.

    Raises:
        DataError: the file cannot be read, a row lacks the column, or its cell is empty or no text.

    >>> [document.text for document in read_documents(["A letter.", {"text": "A note."}])]
    ['A letter.', 'A note.']
    """
    path = Path(source) if isinstance(source, str | Path) else None
    table = table_of(source, "documents") if path is None else open_table(path)
    if not table.rows:
        raise DataError(f"{path or 'the list of documents'} holds no document; add one.")
    documents = []
    for row in table.rows:
        if not isinstance(row.values, dict):
            reason = row.values if isinstance(row.values, str) else "is a question, not a document."
            raise DataError(f"{row.location} {reason}")
        name = "question" if path is None and [*row.values] == ["question"] else column
        text = row.values.get(name)
        if name not in row.values:
            known = ", ".join(map(repr, row.values))
            raise DataError(f"{row.location} has no column {column!r} but {known}; name the column with the texts.")
        if not isinstance(text, str) or not text.strip():
            given = "is empty" if text is None or text == "" else f"holds {excerpt(repr(text), 40)}"
            raise DataError(f"{row.location}: the column {column!r} {given}; give the text of a document.")
        documents.append(Document(text, row.location, row.values))
    return documents
