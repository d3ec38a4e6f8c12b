"""Rows of named values from files of any kind that people keep questions in, and from tables in memory.

.jsonl, .ndjson   one JSON object per line
.json             a list of objects, or {"questions": [...]} or {"data": [...]}
.csv, .tsv        a header and rows; in a .csv the header tells whether "," ";" or tabs stand between cells
.parquet          needs pyarrow
.xlsx             the first sheet, its first row the header; needs openpyxl
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from secl.data.text_files import check_readable, csv_rows, parse_json, read_text
from secl.errors import DataError, ParameterError, needs

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx")
LISTS = ("questions", "data")
"""Keys under which a .json file may hold its list."""

MOST_BITS = 13_000
"""Bits of a whole number; Python writes none of more than 4300 digits."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row, or why it cannot be read.

    Attributes:
        line: its number, from 1, in the way of its format: the line where it starts, or the number of the item.
        location: file and number in words, for messages.
        values: JSON values by name, absent ones left out; where the row is broken, what is wrong with it.
    """

    line: int
    location: str
    values: dict[str, object] | str


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file.

    Attributes:
        rows: in order; empty ones are left out.
        header: the names of all columns where a first row or the format declares them, else None.
        location: of that row, or the file; for messages.
    """

    rows: Iterator[TableRow]
    header: tuple[str, ...] | None = None
    location: str = ""


def open_table(path: Path) -> Table:
    """The rows of a file, by its suffix.

    Raises:
        DataError: the file cannot be read, is empty or of another kind; also raised by the rows.
        ParameterError: a package that reads the format is not installed.
    """
    suffix = path.suffix.lower()
    check_readable(path)
    if suffix in (".jsonl", ".ndjson"):
        return Table(_json_lines(path))
    if suffix == ".json":
        return Table(_json_items(path))
    if suffix in (".csv", ".tsv"):
        delimiter = "\t" if suffix == ".tsv" else _delimiter(path)
        return _with_header(csv_rows(path, delimiter), f"{path}, line", _DELIMITERS[delimiter])
    if suffix == ".parquet":
        return _parquet(path)
    if suffix == ".xlsx":
        return _with_header(_sheet(path), f"{path}, row")
    raise DataError(
        f"{path} ends in {path.suffix!r}; give a question file that ends in {', '.join(SUFFIXES[:-1])} or "
        f"{SUFFIXES[-1]}."
    )


def table_of(rows: object, name: str) -> Table:
    """The rows of a DataFrame (pandas or polars), an Arrow table, a `datasets.Dataset`, or any number of dictionaries.

    Raises:
        ParameterError: it is none of these.
    """
    table: Any = rows
    if isinstance(rows, Mapping):
        keys = ", ".join(repr(key) for key in list(rows)[:5])
        raise ParameterError(f"these rows are a dictionary with the keys {keys}; give one of its tables, or a list.")
    if hasattr(rows, "to_dicts"):
        items: Iterable[object] = table.to_dicts()
    elif hasattr(rows, "to_pylist"):
        items = table.to_pylist()
    elif hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        if not table.columns.is_unique:
            raise ParameterError("these rows have two columns of one name; rename one.")
        items = table.to_dict("records")
    elif isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        items = rows
    else:
        raise ParameterError(f"{str(rows)[:40]!r} is no table; give a DataFrame, a dataset or a list of dictionaries.")
    return Table(_items(items, name, "row"))


def _json_lines(path: Path) -> Iterator[TableRow]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield TableRow(number, f"{path}, line {number}", _json_object(line))


def _json_object(text: str) -> dict[str, object] | str:
    try:
        value = parse_json(text)
    except DataError as problem:
        return str(problem)
    return _present(value) if isinstance(value, dict) else "is not a JSON object; write one {...} on each line."


def _json_items(path: Path) -> Iterator[TableRow]:
    text = read_text(path)
    try:
        value = parse_json(text)
    except DataError as problem:
        if text.lstrip().startswith("{") and "Extra data" in str(problem):
            raise DataError(f"{path} holds several JSON texts; if there is one on each line, call it .jsonl.") from None
        raise DataError(f"{path} {problem}") from problem
    if isinstance(value, dict):
        value = next((value[key] for key in LISTS if isinstance(value.get(key), list)), value)
    if not isinstance(value, list):
        raise DataError(
            f'{path} is no list of objects; write [{{"question": ...}}, ...], or such a list under the key '
            f"{' or '.join(map(repr, LISTS))}."
        )
    yield from _items(value, str(path), "item")


def _items(items: Iterable[object], name: str, unit: str) -> Iterator[TableRow]:
    for number, item in enumerate(items, start=1):
        try:
            values = _present(item) if isinstance(item, Mapping) else "is not an object of names and values."
        except DataError as problem:
            values = str(problem)
        yield TableRow(number, f"{name}, {unit} {number}", values)


def _delimiter(path: Path) -> str:
    """What stands most often in the header, the comma first."""
    header = read_text(path).lstrip().partition("\n")[0]
    return max(_DELIMITERS, key=header.count)


def _with_header(rows: Iterator[tuple[int, Sequence[object]]], source: str, delimiters: str = "") -> Table:
    """The rows below the first one, which names the columns; a column without a name is called by its number.

    Args:
        source: the file and what is counted, for messages.
        delimiters: what stands between cells, where a wrong number of them means that some are not quoted.
    """
    number, names = next(rows)
    header = tuple(str(_cell(name) or f"column {column}") for column, name in enumerate(names, start=1))
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{source} {number} has the column {name!r} twice; remove one.")

    def below() -> Iterator[TableRow]:
        for number, cells in rows:
            location = f"{source} {number}"
            if delimiters and len(cells) != len(header):
                problem = f"has {len(cells)} fields but the header has {len(header)}; put quotes around {delimiters}."
                yield TableRow(number, location, problem)
                continue
            named = zip(header, map(_cell, cells), strict=True)
            if values := _present({name: cell for name, cell in named if cell != ""}):
                yield TableRow(number, location, values)

    return Table(below(), header, f"{source} {number}")


def _cell(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _sheet(path: Path) -> Iterator[tuple[int, list[object]]]:
    """Numbers and cells of the rows of a workbook's first sheet that are not empty, all of one length."""
    openpyxl = _package("openpyxl", path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = [list(cells) for cells in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except Exception as problem:  # whatever a broken archive makes it raise
        raise DataError(f"{path} is no workbook that can be read ({_first_line(problem)}).") from problem
    if not any(cell not in (None, "") for cells in rows for cell in cells):
        raise DataError(f"{path} is empty; put at least one question into it.")
    width = max(map(len, rows))
    for number, cells in enumerate(rows, start=1):
        if any(cell not in (None, "") for cell in cells):
            yield number, cells + [None] * (width - len(cells))


def _parquet(path: Path) -> Table:
    pyarrow = _package("pyarrow", path)
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(path).read()
        rows: list[dict[str, object]] = table.to_pylist()
    except (pyarrow.ArrowException, OSError) as problem:
        raise DataError(f"{path} is no Parquet file that can be read ({_first_line(problem)}).") from problem
    return Table(_items(rows, str(path), "row"), tuple(table.column_names), str(path))


def _package(name: str, path: Path) -> ModuleType:
    """A package that reads a format."""
    try:
        return import_module(name)
    except ImportError as problem:
        raise ParameterError(needs(str(path), name, "tables")) from problem


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")


def _present(values: Mapping[object, object]) -> dict[str, object]:
    """The values of a row that are there, as plain JSON values under text names."""
    plain = {str(name): _plain(value) for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: object) -> object:
    """Convert a value to JSON's: NaN to None, NumPy's values to Python's, dates and decimals to texts.

    Whole floats become integers, as pandas turns the integers of a column into floats where one is absent.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else None if math.isnan(value) else float(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise DataError("holds a number of thousands of digits; write it as a text.")
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, date | time):
        return None if value != value else value.isoformat()  # pandas' "not a time" is not equal to itself
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # a number, an array or a column of NumPy
        return _plain(value.tolist())
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)
