"""A run's records as files and data frames for other tools, and its adapter versions as folders that PEFT loads."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from secl.data.cells import harmless, joined
from secl.data.columns import plain
from secl.errors import ParameterError, RunError, StorageError, needs
from secl.evaluation.json_values import json_value
from secl.records import Record
from secl.runs.encoding import to_export, to_row
from secl.runs.folder import check_outside
from secl.runs.labelling import current_records
from secl.runs.store import Store

FORMATS = ("jsonl", "csv", "parquet", "xlsx")
ROWS = 5000
"""Rows of a parquet file that are in memory as Python objects at once."""

PREFIX = "extra_"
"""Before the name of an extra column that is called like one of an export."""

LONGEST_CELL = 32_767
"""Characters in a cell of a workbook."""

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def to_frame(records: Iterable[Record]) -> Any:
    """A data frame of pandas: a row for each record, as in an exported CSV.

    Raises:
        ParameterError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as problem:
        raise ParameterError("a data frame needs pandas; run: pip install pandas.") from problem
    return pandas.DataFrame([to_row(record) for record in records])


def write(store: Store, format: str, out: Path | None = None) -> Path | None:
    """Write the records of a run.

    Args:
        format: "jsonl" (complete records), "csv", "parquet" or "xlsx" (one flat row each).
        out: the file; None for `records.FORMAT` in the run folder, "-" for standard output.

    Returns:
        the file written, or None for standard output.

    Raises:
        ParameterError: an unknown format, one whose package is not installed, or no file that can hold it.
        RunError: the file belongs to a run.
        StorageError: the file cannot be written.
    """
    if format not in FORMATS:
        raise ParameterError(f"format {format!r} is not one of {', '.join(FORMATS)}.")
    if out is not None and str(out) == "-":
        if format in ("parquet", "xlsx"):
            raise ParameterError(f"{format} is not text; name a file with --out.")
        _write_text(sys.stdout, store, format)
        return None
    path = out or store.folder / f"records.{format}"
    check_outside(path, store.folder)
    if not path.name:
        raise ParameterError(f"{str(out)!r} is a folder; name a file with --out.")
    unfinished = path.with_name(f"{path.name}.new")
    try:
        if format == "parquet":
            _write_parquet(unfinished, store)
        elif format == "xlsx":
            _write_workbook(unfinished, store)
        else:
            with unfinished.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
                _write_text(stream, store, format)
        unfinished.rename(path)
    except OSError as problem:
        raise StorageError(f"cannot write {path}: {problem.strerror or problem}.") from problem
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return path


def _write_text(stream: IO[str], store: Store, format: str) -> None:
    if format == "jsonl":
        for record in current_records(store):
            stream.write(json.dumps(json_value(to_export(record)), allow_nan=False, ensure_ascii=False) + "\n")
        return
    columns, rows = _table(store)
    writer = csv.writer(stream)
    if columns:
        writer.writerow(map(harmless, columns))
    writer.writerows(map(_cell, row) for row in rows)


def _table(store: Store) -> tuple[list[str], Iterator[list[object]]]:
    """The columns of a run's flat rows, extra columns of its questions behind the rest, and the rows."""
    first = next(store.records(), None)
    if first is None:
        return [], iter(())
    own = to_row(first)
    names = (name for record in store.records() for name, _ in record.question.extra)
    extras = _extra_columns(names, own)

    def rows() -> Iterator[list[object]]:
        for record in current_records(store):
            extra = dict(record.question.extra)
            yield [*map(_encodable, to_row(record).values()), *(extra.get(name) for name in extras)]

    return [*own, *extras.values()], rows()


def _encodable(value: object) -> object:
    """Replace half characters, which a server may answer with, by their escapes."""
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _extra_columns(extras: Iterable[str], own: Iterable[str]) -> dict[str, str]:
    """The column of each extra column of the questions: its own name, with `PREFIX` where an export has one like it."""
    taken, columns = {*map(plain, own)}, dict[str, str]()
    for name in dict.fromkeys(extras):
        column = name
        while plain(column) in taken:
            column = PREFIX + column
        taken.add(plain(column))
        columns[name] = column
    return columns


def _cell(value: object) -> object:
    """A value as a cell of a spreadsheet: lists as one text, and no text a formula."""
    if isinstance(value, list):
        value = joined([item if isinstance(item, str) else repr(item) for item in value])
    return harmless(value)


def _write_parquet(path: Path, store: Store) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as problem:
        raise ParameterError(needs("parquet", "pyarrow", "tables")) from problem
    columns, rows = _table(store)
    # In columns from the start: as Python objects the rows of a long run take gigabytes.
    parts = [
        pyarrow.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in part])
        for part in iter(lambda: list(islice(rows, ROWS)), [])
    ]
    table = pyarrow.concat_tables(parts, promote_options="permissive") if parts else pyarrow.table({})
    pyarrow.parquet.write_table(table, path)


def _write_workbook(path: Path, store: Store) -> None:
    try:
        import openpyxl
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    except ImportError as problem:
        raise ParameterError(needs("xlsx", "openpyxl", "tables")) from problem

    def cell(value: object) -> object:
        value = _cell(value)
        if isinstance(value, str) and len(value) > LONGEST_CELL:
            raise ParameterError(
                f"a text of {len(value):,} characters does not fit into a cell of a workbook, which holds "
                f"{LONGEST_CELL:,}; export as csv or parquet."
            )
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return ILLEGAL_CHARACTERS_RE.sub("\ufffd", value) if isinstance(value, str) else value

    columns, rows = _table(store)
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("records")
    lines: Iterator[Sequence[object]] = chain([columns], rows)
    with closing(sheet):
        for line in lines:
            sheet.append([cell(value) for value in line])
    book.save(path)


def write_version(store: Store, version: int, out: Path | None = None) -> Path:
    """Write a kept adapter version of a run.

    Returns:
        the folder, for `peft.PeftModel.from_pretrained`.

    Raises:
        RunError: that version was not kept, or the folder is a run's.
        StorageError: the folder cannot be written.
        ParameterError: standard output, which is no folder.
    """
    if out is not None and str(out) == "-":
        raise ParameterError("an adapter is a folder and no text; name a folder with --out.")
    folder = out or store.folder / f"adapter-{version}"
    check_outside(folder, store.folder)
    try:
        write_folder(folder, store, version)
    except OSError as problem:
        raise StorageError(f"cannot write {folder}: {problem.strerror or problem}.") from problem
    return folder


def write_folder(folder: Path, store: Store, version: int) -> None:
    """The same, letting the errors of the disk through."""
    weights, config = store.weights(version), store.manifest.get("adapter")
    if config is None:
        raise RunError(f"{store.folder} does not hold the configuration of its adapter.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / WEIGHTS).write_bytes(weights)
