"""Text, JSON and CSV; every failure is a `DataError`, which names the file and the line where it knows them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from secl.errors import DataError


def check_readable(path: Path) -> None:
    """Check that there is a file to read."""
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; check the path.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a readable file.") from error


def read_text(path: Path) -> str:
    """The text of a UTF-8 file that is not empty, with or without a byte-order mark, line breaks untouched."""
    check_readable(path)
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line} is not UTF-8; save the file as UTF-8.") from error
    if not text.strip():
        raise DataError(f"{path} is empty; put at least one question into it.")
    return text


def parse_json(text: str) -> object:
    """The value of one JSON text; the DataError of broken JSON begins with a verb, as in "is broken JSON (...)".

    >>> parse_json('{"a": 1}')
    {'a': 1}
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise DataError(f"is broken JSON ({error.msg} at {position}); correct it.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"is JSON that Python cannot hold ({error}); simplify it.") from error


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1) at which a row starts, and its fields, quoted ones with line breaks; no blank lines."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {start} is broken CSV ({error}); check its quotes.") from error
