"""Tables that a package has to read: Parquet, workbooks, and the folders of `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from secl.data.table_rows import Table, TableRow, clean_row
from secl.data.text_files import check_readable
from secl.errors import DataError, ParameterError


def parquet(path: Path) -> Table:
    """The rows of a Parquet file.

    Raises:
        DataError: it cannot be read.
        ParameterError: pyarrow is not installed.
    """
    check_readable(path)
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as problem:
        raise ParameterError(f'{path} needs pyarrow; run: pip install "secl[tables]".') from problem
    try:
        file = parquet.ParquetFile(path)
        header = tuple(file.schema_arrow.names)
    except (ArrowException, OSError) as problem:
        raise DataError(f"{path} is no Parquet file that can be read ({_first_line(problem)}).") from problem

    def items() -> Iterator[dict[str, Any]]:
        try:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
        except (ArrowException, OSError) as problem:
            raise DataError(f"{path} is damaged ({_first_line(problem)}).") from problem

    return Table(_rows(items, path), header, str(path))


def dataset_folder(path: Path) -> Table:
    """The rows of a folder that `datasets.Dataset.save_to_disk` has written.

    Raises:
        DataError: it is another folder, or several datasets.
        ParameterError: datasets is not installed.
    """
    if not (path / "state.json").exists():
        splits = sorted(each.parent.name for each in path.glob("*/state.json"))
        remedy = f"name one of its datasets: {', '.join(str(path / split) for split in splits)}"
        raise DataError(
            f"{path} is a folder; {remedy if splits else 'give a file, or a folder written by save_to_disk'}."
        )
    try:
        import datasets
    except ImportError as problem:
        raise ParameterError(f'{path} needs datasets; run: pip install "secl[hub]".') from problem
    try:
        dataset = datasets.load_from_disk(str(path))
    except Exception as problem:
        raise DataError(f"{path} is no dataset that can be read ({_first_line(problem)}).") from problem
    return Table(_rows(lambda: iter(dataset), path), tuple(dataset.column_names), str(path))


def workbook(path: Path) -> Table:
    """The rows of the first sheet of a workbook (.xlsx); its first row that is not empty is the header.

    Raises:
        DataError: it cannot be read, is empty, or a column has no name.
        ParameterError: openpyxl is not installed.
    """
    check_readable(path)
    try:
        import openpyxl
    except ImportError as problem:
        raise ParameterError(f'{path} needs openpyxl; run: pip install "secl[tables]".') from problem
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [(number, [*cells]) for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1)]
        book.close()
    except Exception as problem:  # whatever a broken archive makes it raise
        raise DataError(f"{path} is no workbook that can be read ({_first_line(problem)}).") from problem
    rows = [(number, cells) for number, cells in rows if any(cell not in (None, "") for cell in cells)]
    if not rows:
        raise DataError(f"{path} is empty; put at least one question into it.")
    number, fields = rows[0]
    location = f"{path}, row {number}"
    names = [None if name is None else str(name).strip() for name in fields]
    for name in names:
        if name is not None and names.count(name) > 1:
            raise DataError(f"{location} has the column {name!r} twice; remove one.")
    return Table(_sheet_rows(rows[1:], names, path), tuple(name for name in names if name), location)


def _sheet_rows(rows: list[tuple[int, list[Any]]], names: list[str | None], path: Path) -> Iterator[TableRow]:
    for number, cells in rows:
        location = f"{path}, row {number}"
        named = list(zip(names, cells, strict=False))
        if any(name is None and cell not in (None, "") for name, cell in named):
            yield TableRow(number, location, DataError(f"{location} fills a column that has no name; name it."))
            continue
        values = {name: cell.strip() if isinstance(cell, str) else cell for name, cell in named if name}
        yield TableRow(number, location, clean_row({name: cell for name, cell in values.items() if cell != ""}))


def _rows(items: Callable[[], Iterator[dict[str, Any]]], path: Path) -> Iterator[TableRow]:
    for number, item in enumerate(items(), start=1):
        yield TableRow(number, f"{path}, row {number}", clean_row(item))


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")
