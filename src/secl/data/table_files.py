"""Rows of named values from files of any kind that people keep questions in, and from tables in memory.

.jsonl, .ndjson   one JSON object per line
.json             a list of objects, or {"questions": [...]} or {"data": [...]}
.csv, .tsv        a header and rows; in a .csv the header tells whether "," ";" or tabs stand between cells
.parquet          needs pyarrow
.xlsx             the first sheet, its first row the header; needs openpyxl
a folder          written by `datasets.Dataset.save_to_disk`; needs datasets
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from secl.data import binary_tables
from secl.data.columns import is_known
from secl.data.table_rows import Table, TableRow, clean_row
from secl.data.text_files import check_readable, csv_rows, first_fields, parse_json, read_text
from secl.errors import DataError, ParameterError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx")
LISTS = ("questions", "data")
"""Keys under which a .json file may hold its list."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def open_table(path: Path) -> Table:
    """The rows of a file, by its suffix, or of a dataset's folder.

    Raises:
        DataError: the file cannot be read, is empty or of another kind; also raised by the rows.
        ParameterError: a package that reads the format is not installed.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        return binary_tables.dataset_folder(path)
    if suffix in (".jsonl", ".ndjson"):
        return Table(_json_lines(path))
    if suffix == ".json":
        return Table(_json_items(path))
    if suffix in (".csv", ".tsv"):
        return _csv_table(path, "\t" if suffix == ".tsv" else _delimiter(path))
    if suffix == ".parquet":
        return binary_tables.parquet(path)
    if suffix == ".xlsx":
        return binary_tables.workbook(path)
    check_readable(path)
    raise DataError(
        f"{path} ends in {path.suffix!r}; give a question file that ends in {', '.join(SUFFIXES[:-1])} or "
        f"{SUFFIXES[-1]}."
    )


def table_of(rows: object, name: str) -> Table:
    """The rows of a DataFrame (pandas or polars), an Arrow table, a `datasets.Dataset`, or any number of dictionaries.

    Args:
        rows: the table.
        name: of it, for messages.

    Raises:
        ParameterError: it is none of these.
    """
    given: Any = rows
    if isinstance(rows, Mapping):
        keys = ", ".join(repr(key) for key in list(rows)[:5])
        raise ParameterError(f"these rows are a dictionary with the keys {keys}; give one of its tables, or a list.")
    if hasattr(rows, "to_dicts"):
        items: Iterable[object] = given.to_dicts()
    elif hasattr(rows, "to_pylist"):
        items = given.to_pylist()
    elif hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        if not given.columns.is_unique:
            raise ParameterError("these rows have two columns of one name; rename one.")
        items = given.to_dict("records")
    elif isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        items = rows
    else:
        raise ParameterError(f"{str(rows)[:40]!r} is no table; give a DataFrame, a dataset or a list of dictionaries.")
    return Table(_items(items, name, "row"))


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
    return clean_row(value)


def _json_items(path: Path) -> Iterator[TableRow]:
    text = read_text(path)
    try:
        value = parse_json(text, str(path))
    except DataError as problem:
        if text.lstrip().startswith("{") and "Extra data" in str(problem):
            raise DataError(f"{path} holds several JSON texts; if there is one on each line, call it .jsonl.") from None
        raise
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
        location = f"{name}, {unit} {number}"
        if isinstance(item, Mapping):
            yield TableRow(number, location, clean_row(item))
        else:
            yield TableRow(number, location, DataError(f"{location} is not an object of names and values."))


def _delimiter(path: Path) -> str:
    """What stands between the names of a header: whatever gives most known names, then most names, the comma first."""
    text = read_text(path)
    headers = {each: first_fields(text, each) for each in _DELIMITERS}
    return max(headers, key=lambda each: (sum(map(is_known, headers[each])), len(headers[each])))


def _csv_table(path: Path, delimiter: str) -> Table:
    rows = csv_rows(path, delimiter)
    number, fields = next(rows)
    header, location = tuple(name.strip() for name in fields), f"{path}, line {number}"
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{location} has the column {name!r} twice; remove one.")
    return Table(_cells(rows, header, path, delimiter), header, location)


def _cells(
    rows: Iterator[tuple[int, list[str]]], header: tuple[str, ...], path: Path, delimiter: str
) -> Iterator[TableRow]:
    for number, fields in rows:
        location = f"{path}, line {number}"
        if len(fields) != len(header):
            yield TableRow(
                number,
                location,
                DataError(
                    f"{location} has {len(fields)} fields but the header has {len(header)}; put quotes around "
                    f"{_DELIMITERS[delimiter]}."
                ),
            )
            continue
        cells = ((name, cell.strip()) for name, cell in zip(header, fields, strict=True))
        values: dict[str, object] = {name: cell for name, cell in cells if cell}
        if values:
            yield TableRow(number, location, values)
