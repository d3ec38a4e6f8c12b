"""Tables from files and from memory, as lists of `Row`s.

.jsonl, .ndjson   one JSON object per line
.json             a list of objects, or {"questions": [...]} or {"data": [...]}
.csv, .tsv        a header and rows; the delimiter of a .csv is the one of "," ";" or tab that gives the needed columns
.parquet, .xlsx   need the extra `tables`; secl reads a workbook's first sheet, whose first row is the header

An unreadable file raises a `DataError` with its name and, if known, the row. Other sources raise a `ParameterError`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from zipfile import ZipFile

from secl.data.cells import as_json, as_seen
from secl.errors import DataError, ParameterError, check_depth, needs
from secl.question import Question


class Tabular(Protocol):
    """A DataFrame of pandas or polars, an Arrow table, or a `datasets.Dataset`."""

    @property
    def shape(self) -> Any: ...


Rows: TypeAlias = str | Path | Tabular | Iterable[str | Question | Mapping[str, object]]
"""Path of a file, a table, or texts, questions or dictionaries."""

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx")
HEADED = (".csv", ".tsv", ".parquet", ".xlsx")
"""Formats in which all rows have the same columns."""

LISTS = ("questions", "data")
"""Keys under which the object of a .json file may hold the list of rows."""

MAX_ROWS, MAX_COLUMNS, MAX_TEXT, EMPTY = 100_000, 50, 5_000, 11
"""Largest workbook: number of filled rows, mean number of columns and of unpacked bytes of these rows, and number of
all rows for each of these rows. Parquet files may have ten times as many rows."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        number: number of the row or line, from 1.
        location: place of the row in messages, such as "q.csv, line 3".
        values: JSON values by column, with None for empty cells. Or a question, from a list of questions. Or a text:
            the reason why the row is unreadable.
    """

    number: int
    location: str
    values: dict[str, object] | Question | str


ColumnCheck = Callable[[tuple[str, ...]], object]
"""Function that raises a DataError if it cannot use these columns. The message omits the location."""


def columns_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return the names of all columns, in order of appearance."""
    names = (name for row in rows if isinstance(row.values, dict) for name in row.values)
    return tuple(dict.fromkeys(names))


def short_texts(rows: Iterable[Row]) -> dict[str, str]:
    """Return the short texts of each column, one per line; numbers among them show which decimal mark they have."""
    texts: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.values.items() if isinstance(row.values, dict) else ():
            if isinstance(value, str) and len(value) <= 40:
                texts.setdefault(name, []).append(value)
    return {name: "\n".join(lines) for name, lines in texts.items()}


def open_table(path: Path, check: ColumnCheck | None = None) -> list[Row]:
    """Return the rows of the table in a file, without empty rows. The suffix determines the format.

    `check` checks the columns of a format in `HEADED`.

    Raises:
        DataError: the file cannot be read, is empty or has an unknown suffix, or its columns fail the check.
        ParameterError: the package for the format is not installed.
    """
    suffix, content = path.suffix.lower(), _content(path)
    if suffix in (".jsonl", ".ndjson"):
        return list(_json_lines(path, _decode(path, content)))
    if suffix == ".json":
        return _items(_json_list(path, _decode(path, content)), str(path), "item")
    if suffix in (".csv", ".tsv"):
        text = _decode(path, content)
        delimiter = "\t" if suffix == ".tsv" else max(_DELIMITERS, key=lambda mark: _fit(path, text, mark, check))
        return list(_below_header(csv_rows(path, text, delimiter), f"{path}, line", check, _DELIMITERS[delimiter]))
    if suffix == ".xlsx":
        return list(_below_header(_sheet(path, content), f"{path}, row", check))
    if suffix == ".parquet":
        pandas = pandas_for(str(path), "pyarrow")
        with _reading(path, "Parquet file"):
            _check_size(path, import_module("pyarrow.parquet").read_metadata(io.BytesIO(content)).num_rows, 10)
            frame = pandas.read_parquet(io.BytesIO(content), engine="pyarrow", dtype_backend="pyarrow")
        _checked(check, tuple(map(str, frame.columns)), str(path))
        return _items(_records(frame), str(path), "row")
    raise DataError(
        f"{path} ends in {path.suffix!r}; give a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
    )


def rows_of(source: object, name: str) -> list[Row]:
    """Return the rows of a table in memory.

    `source` is a DataFrame (pandas or polars), an Arrow table, a `datasets.Dataset`, or an iterable of dictionaries,
    texts or `Question`s.
    """
    table: Any = source
    if isinstance(source, Mapping):
        keys = ", ".join(repr(key) for key in list(source)[:5])
        raise ParameterError(
            f"the rows are a dictionary with the keys {keys}; give the value of one of these keys, if it is a table, "
            "or a list of rows."
        )
    if hasattr(source, "to_dicts"):
        items: Iterable[object] = table.to_dicts()  # polars
    elif hasattr(source, "to_pylist"):
        items = table.to_pylist()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):
        if not table.columns.is_unique:
            raise ParameterError("this table has two columns with the same name; rename one.")
        items = _records(table)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        items = source
    else:
        raise ParameterError(
            f"{str(source)[:40]!r} is not a table; give a DataFrame, a dataset or a list of dictionaries."
        )
    return _items(items, name, "row")


def parse_json(text: str) -> object:
    """Return the value of a JSON text. Messages of errors omit the location, as in "is broken JSON (...)"."""
    try:
        return check_depth(json.loads(text))
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise DataError(f"is broken JSON ({error.msg.removesuffix(' at')} at {position}); correct it.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"is JSON that Python cannot read ({error}); simplify it.") from error


def text_of(path: Path) -> str:
    """Return the text of a UTF-8 file. Raise a DataError if the file is empty."""
    return _decode(path, _content(path))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; check the path.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a readable file.") from error


def _decode(path: Path, content: bytes) -> str:
    """Return the text of a UTF-8 file without a byte-order mark, with unchanged line breaks."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line} is not UTF-8; save the file as UTF-8.") from error
    if not text.strip():
        raise DataError(f"{path} is empty; fill it.")
    return text


def _json_lines(path: Path, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            values: dict[str, object] | str = "is not a JSON object; write one {...} on each line."
            try:
                if isinstance(value := parse_json(line), dict):
                    values = _cells(value)
            except DataError as problem:
                values = str(problem)
            yield Row(number, f"{path}, line {number}", values)


def _json_list(path: Path, text: str) -> list[object]:
    try:
        value = parse_json(text)
    except DataError as problem:
        if text.lstrip().startswith("{") and "Extra data" in str(problem):
            raise DataError(
                f"{path} holds several JSON values; if each has its own line, rename the file to end in .jsonl."
            ) from None
        raise DataError(f"{path} {problem}") from problem
    if isinstance(value, dict):
        value = next((value[key] for key in LISTS if isinstance(value.get(key), list)), value)
    if not isinstance(value, list):
        raise DataError(
            f'{path} is not a list of objects; write [{{"question": ...}}, ...], or such a list under the key '
            f"{' or '.join(map(repr, LISTS))}."
        )
    return value


def _items(items: Iterable[object], name: str, unit: str) -> list[Row]:
    return [Row(number, f"{name}, {unit} {number}", _item(item)) for number, item in enumerate(items, start=1)]


def _item(item: object) -> dict[str, object] | Question | str:
    if isinstance(item, Question):
        return item
    try:
        if isinstance(item, str | Mapping):
            return _cells({"question": item} if isinstance(item, str) else check_depth(item))
    except DataError as problem:
        return str(problem)
    except RecursionError as problem:
        return f"has {problem}; simplify it."
    return "is neither a text nor an object of names and values."


def csv_rows(path: Path, text: str | None = None, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each row of a CSV file, without blank lines.

    A row over several lines has the number of its first line; numbers start at 1. `text` is the content of the file;
    None reads the file.
    """
    text = text_of(path) if text is None else text
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {start} is broken CSV ({error}); check its quotes.") from error


def _fit(path: Path, text: str, delimiter: str, check: ColumnCheck | None) -> tuple[bool, bool, int, bool]:
    """Return how well a delimiter fits a CSV file, for a comparison with other delimiters.

    The criteria are, in order: the columns pass the check; the first rows have as many fields as a header of several
    columns; the number of columns; the first rows have one field, as the header does.
    """
    try:
        header, *rows = [fields for _, fields in islice(csv_rows(path, text, delimiter), 20)]
        names = tuple(name.strip() for name in header)
        fits = all(len(fields) == len(names) for fields in rows)
    except DataError:
        return False, False, 0, False
    try:
        if check is not None:
            check(names)
    except DataError:
        return False, fits and len(names) > 1, len(names), fits
    return True, fits and len(names) > 1, len(names), fits


def _below_header(
    rows: Iterator[tuple[int, Sequence[object]]], source: str, check: ColumnCheck | None, delimiters: str = ""
) -> Iterator[Row]:
    """Yield the rows below the header, which is the first row. A nameless column becomes "column 3", for example.

    A row must have as many cells as the header. `delimiters` names the delimiter ("commas") in the message; "" omits
    this check.
    """
    number, names = next(rows)
    header = tuple(str(_filled(name) or f"column {column}") for column, name in enumerate(names, start=1))
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{source} {number} has the column {name!r} twice; remove one.")
    _checked(check, header, f"{source} {number}")
    for number, cells in rows:
        values: dict[str, object] | str
        if delimiters and len(cells) != len(header):
            values = (
                f"has {len(cells)} fields but the header has {len(header)}; put quotes around fields that contain "
                f"{delimiters}."
            )
        else:
            values = _cells({name: _filled(cell) for name, cell in zip(header, cells, strict=True)})
            if all(value is None for value in values.values()):
                continue
        yield Row(number, f"{source} {number}", values)


def _checked(check: ColumnCheck | None, columns: tuple[str, ...], location: str) -> None:
    try:
        if check is not None:
            check(columns)
    except DataError as problem:
        raise DataError(f"{location} {problem}") from problem


def _filled(cell: object) -> object:
    """Return a cell without spaces at both ends; None for an empty cell."""
    return cell.strip() or None if isinstance(cell, str) else cell


def _sheet(path: Path, content: bytes) -> Iterator[tuple[int, list[object]]]:
    """Return the number and the cells of each row in a workbook's first sheet, without empty rows."""
    pandas_for(str(path), "openpyxl")
    rows: dict[int, list[object]] = {}
    width = 0
    with _reading(path, "workbook"):
        _check_size(path, sum(part.file_size for part in ZipFile(io.BytesIO(content)).infolist()) // MAX_TEXT)
        how = {"read_only": True, "data_only": True, "keep_links": False}
        with closing(import_module("openpyxl").load_workbook(io.BytesIO(content), **how)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            for number, row in enumerate(sheet.iter_rows(), start=1):
                cells = [_cell(cell) for cell in row]
                last = max((place for place, cell in enumerate(cells, start=1) if cell not in (None, "")), default=0)
                if last:
                    rows[number], width = cells[:last], max(width, last)
                _check_size(path, max(len(rows), len(rows) * width // MAX_COLUMNS, number // EMPTY))
    if not rows:
        raise DataError(f"{path} is empty; fill it.")
    return ((number, cells + [None] * (width - len(cells))) for number, cells in rows.items())


def _check_size(path: Path, rows: int, times: int = 1) -> None:
    """Raise a DataError for more than `times` MAX_ROWS rows. A small packed file may hold any number of rows."""
    if rows > times * MAX_ROWS:
        raise DataError(f"{path} is larger than {times * MAX_ROWS:,} rows; save it as CSV, or split it.")


def _cell(cell: Any) -> object:
    """Return the value of a workbook's cell as people see it; None for an empty cell and for an error such as #N/A."""
    return None if cell.value is None or cell.data_type == "e" else as_seen(cell.value, cell.number_format)


def _records(frame: Any) -> Iterable[dict[object, object]]:
    """Return the rows of a DataFrame of pandas; 0.1 in a column of 32 bits stays 0.1."""
    for name in frame.columns[[str(kind).casefold() in ("float32", "float[pyarrow]") for kind in frame.dtypes]]:
        frame = frame.assign(**{name: [as_json(value) for value in frame[name].to_numpy("float32")]})
    records: Iterable[dict[object, object]] = frame.to_dict("records")
    return records


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as problem:  # pandas and openpyxl may raise any exception for a broken file
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")
        raise DataError(f"{path} is not a {kind} that can be read ({reason}).") from problem


def pandas_for(what: str, *engine: str) -> Any:
    packages = ("pandas", *engine)
    try:
        pandas, *_ = map(import_module, packages)
        return pandas
    except ImportError as problem:
        raise ParameterError(needs(what, " and ".join(packages), "tables")) from problem


def _cells(values: Mapping[Any, object]) -> dict[str, object]:
    return {str(name): as_json(value) for name, value in values.items()}
