"""Cells of tables: convert values for JSON; keep spreadsheets from reading texts as formulas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import TypeVar

from secl.errors import DataError

T = TypeVar("T")

MOST_BITS = 13_000
"""Maximum number of bits of a whole number. Python refuses to write a number with more than 4300 digits."""

_FORMULA = re.compile(r"'*(\s*[=+\-@]|[\t\r])")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)*|\.\d+)([eE][+-]?\d+)?%?")


def harmless(value: T) -> T | str:
    """Return a value, with an apostrophe before a text that a spreadsheet would read as a formula.

    The first character of a formula is =, +, -, @, a tab or a carriage return.

    >>> harmless("=1+1"), harmless("-5"), harmless(-5), harmless("- 5 apples"), harmless("a=b")
    ("'=1+1", '-5', -5, "'- 5 apples", 'a=b')
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value.strip()):
        return f"'{value}"
    return value


def joined(texts: Sequence[str]) -> str:
    """Join texts as "a | b", or as a JSON list if "a | b" would be ambiguous.

    >>> joined(["Rome", "Paris"]), joined(["f | g", "h"])
    ('Rome | Paris', '["f | g", "h"]')
    """
    line = " | ".join(texts)
    plain = [text.strip() for text in line.split("|")] == list(texts) and not line.startswith(("[", "{"))
    return line if plain and all(texts) else json.dumps(list(texts), ensure_ascii=False)


def as_json(value: object) -> object:
    """Convert a value for JSON: NaN to None, NumPy values to Python values, dates and decimals to texts.

    A whole float becomes an integer, because pandas stores integers as floats if their column has an empty cell.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise DataError("holds a number with thousands of digits; write it as a text.")
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, date | time):
        return None if value != value else value.isoformat()  # pandas' NaT is not equal to itself
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):  # a number or an array of NumPy, or a column of pandas
        return as_json(value.tolist())
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)
