"""A run's records as files for other tools."""

from __future__ import annotations

import csv
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from secl.errors import ParameterError, StorageError
from secl.runs.encoding import to_export, to_row
from secl.runs.folder import check_outside
from secl.runs.labelling import current_records
from secl.runs.store import Store

FORMATS = ("jsonl", "csv", "parquet")


def write(store: Store, format: str, out: Path | None = None) -> Path | None:
    """Write the records of a run.

    Args:
        store: an open run.
        format: "jsonl" (complete records), "csv" or "parquet" (one flat row each).
        out: the file; None for `records.FORMAT` in the run folder, "-" for standard output.

    Returns:
        the file written, or None for standard output.

    Raises:
        ParameterError: an unknown format, or parquet without pyarrow or to standard output.
        RunError: the file belongs to a run.
        StorageError: the file cannot be written.
    """
    if format not in FORMATS:
        raise ParameterError(f"format {format!r} is not one of {', '.join(FORMATS)}.")
    if out is not None and str(out) == "-":
        if format == "parquet":
            raise ParameterError("parquet is not text; name a file with --out.")
        _write_text(sys.stdout, store, format)
        return None
    path = out or store.folder / f"records.{format}"
    check_outside(path, store.folder)
    unfinished = path.with_name(f"{path.name}.new")
    try:
        if format == "parquet":
            _write_parquet(unfinished, store)
        else:
            with unfinished.open("w", encoding="utf-8", newline="") as stream:
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
            stream.write(json.dumps(to_export(record), ensure_ascii=False) + "\n")
        return
    writer = None
    for record in current_records(store):
        row = to_row(record)
        if writer is None:
            writer = csv.DictWriter(stream, list(row))
            writer.writeheader()
        writer.writerow(row)


def _write_parquet(path: Path, store: Store) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as problem:
        raise ParameterError('parquet needs pyarrow; run: pip install "secl[parquet]".') from problem
    rows: list[dict[str, Any]] = [to_row(record) for record in current_records(store)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
