"""What a table is read as, whatever its format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any

from secl.errors import DataError


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


def clean_row(values: Mapping[Any, object]) -> dict[str, object]:
    """The values of a row that are there, as plain JSON values under text names."""
    cleaned = {str(name): clean(value) for name, value in values.items()}
    return {name: value for name, value in cleaned.items() if value is not None}


def clean(value: object) -> object:
    """A value as JSON has it: NaN is None, NumPy's values are Python's, dates and decimals are texts."""
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, date | time):
        return None if value != value else value.isoformat()  # pandas' "not a time" is not equal to itself
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): clean(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if hasattr(value, "tolist"):  # a number, an array or a column of NumPy
        return clean(value.tolist())
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)
