"""Cells of tables: convert values to what people see; keep spreadsheets from reading texts as formulas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar

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
    """Convert a value for JSON: NaN to None, NumPy values to Python values, dates, times and decimals to texts.

    A whole float becomes an integer, because pandas stores integers as floats if their column has an empty cell. A
    midnight becomes a date, because pandas and workbooks store dates as midnights.

    >>> as_json(datetime(2026, 4, 2)), as_json(datetime(2026, 4, 2, 10, 30)), as_json(timedelta(hours=26)), as_json(3.0)
    ('2026-04-02', '2026-04-02 10:30:00', '26:00:00', 3)
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise DataError("holds a number with thousands of digits; write it as a text.")
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, date | time | timedelta):
        return None if value != value else _clock(value)  # pandas' NaT is not equal to itself
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):  # a number or an array of NumPy, or a column of pandas
        return as_json(_listed(value))
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)


def _listed(numbers: Any) -> object:
    """Return the Python values of a number or an array of NumPy: dates, not nanoseconds; 0.1 for 0.1 of 32 bits."""
    kind = str(numbers.dtype)
    if kind.startswith(("datetime64", "timedelta64")):
        return numbers.astype(f"{kind.partition('[')[0]}[us]").tolist()
    return (numbers.astype(str).astype(float) if kind in ("float16", "float32") else numbers).tolist()


def _clock(value: date | time | timedelta) -> str:
    """Return a date, a time or a duration as text; a midnight is a date."""
    if isinstance(value, timedelta):
        minutes, seconds = divmod(abs(value).total_seconds(), 60)
        sign = "-" if value < timedelta(0) else ""
        return f"{sign}{int(minutes) // 60}:{int(minutes) % 60:02}:{seconds:02.0f}"
    if not isinstance(value, datetime):
        return value.isoformat()
    midnight = value.tzinfo is None and value.time() == time()
    return value.date().isoformat() if midnight else value.isoformat(" ")


_MONEY = re.compile(r"\[\$([^\]-]+)[^\]]*\]|([$€£¥₹])")


def as_seen(value: object, number_format: str) -> object:
    """Return a value of a workbook as people see it: with 15 digits, percent sign, currency or leading zeros, and with
    seconds only if the format has seconds.

    >>> as_seen(0.25, "0%"), as_seen(1234.5, '"$"#,##0.00'), as_seen(7, "00000"), as_seen(0.1 + 0.2, "General")
    ('25%', '$1234.50', '00007', 0.3)
    """
    if isinstance(value, datetime | time) and "s" not in number_format.lower() and (value.hour or value.minute):
        return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else f"{value:%H:%M}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    value = float(f"{value:.15g}")
    code = number_format.partition(";")[0]
    if "%" in code:
        return f"{value * 100:.15g}%"
    if re.fullmatch("00+", code) and value.is_integer() and value >= 0:
        return f"{int(value):0{len(code)}}"
    money = _MONEY.search(code)
    if money is None:
        return value
    symbol, places = money[1] or money[2], re.search(r"\.(0+)", code)
    digits = f"{abs(value):.{len(places[1]) if places else 0}f}"
    digits = digits if float(digits) == abs(value) else f"{abs(value):.15g}"
    first = re.search("[0#?]", code)
    before = first is not None and money.start() < first.start()
    return "-" * (value < 0) + (f"{symbol}{digits}" if before else f"{digits} {symbol}")
