"""Rows of named values from files of any kind that people keep questions in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from secl.data.text_files import csv_rows, parse_json, read_text
from secl.errors import DataError

SUFFIXES = (".jsonl", ".csv")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row, or why it cannot be read.

    Attributes:
        line: its number, from 1, in the way of its format: the line where it starts, or the number of the item.
        location: file and number in words, for messages.
        values: values by name, absent ones left out; an error where the row is broken, which the reader may skip.
    """

    line: int
    location: str
    values: dict[str, object] | DataError


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file.

    Attributes:
        rows: in order; empty ones are left out.
        header: the names of all columns where the file declares them, else None.
        location: where it does.
    """

    rows: Iterator[TableRow]
    header: tuple[str, ...] | None = None
    location: str = ""


def open_table(path: Path) -> Table:
    """The rows of a file, by its suffix.

    Raises:
        DataError: the file cannot be read, is empty or of another kind; also raised by the rows.
    """
    match path.suffix.lower():
        case ".jsonl":
            return Table(_json_lines(path))
        case ".csv":
            return _csv_table(path)
    raise DataError(
        f"{path} ends in {path.suffix!r}; give a question file that ends in {', '.join(SUFFIXES[:-1])} or "
        f"{SUFFIXES[-1]}."
    )


def _json_lines(path: Path) -> Iterator[TableRow]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            location = f"{path}, line {number}"
            yield TableRow(number, location, _object(line, location))


def _object(text: str, location: str) -> dict[str, object] | DataError:
    try:
        value = parse_json(text, location)
    except DataError as problem:
        return problem
    if not isinstance(value, dict):
        return DataError(f"{location} is not a JSON object; write one {{...}} on each line.")
    return value


def _csv_table(path: Path) -> Table:
    rows = csv_rows(path)
    number, fields = next(rows)
    header, location = tuple(name.strip() for name in fields), f"{path}, line {number}"
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{location} has the column {name!r} twice; remove one.")
    return Table(_cells(rows, header, path), header, location)


def _cells(rows: Iterator[tuple[int, list[str]]], header: tuple[str, ...], path: Path) -> Iterator[TableRow]:
    for number, fields in rows:
        location = f"{path}, line {number}"
        if len(fields) != len(header):
            problem = f"has {len(fields)} fields but the header has {len(header)}; put quotes around commas."
            yield TableRow(number, location, DataError(f"{location} {problem}"))
            continue
        values: dict[str, object] = {
            name: cell.strip() for name, cell in zip(header, fields, strict=True) if cell.strip()
        }
        if values:
            yield TableRow(number, location, values)
