"""Results as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from secl.metrics.intervals import Difference, Interval

HIDDEN = "hidden from JSON"
"""Key in the metadata of a dataclass field that JSON leaves out."""


def defined(value: float | None) -> float | None:
    """Return a finite number; None for nan, infinity and None.

    >>> defined(0.5), defined(math.nan), defined(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def json_value(value: object) -> Any:
    """Return a result as JSON values: fields by name, intervals as [low, high], and None for undefined numbers.

    >>> json_value(Difference(0.25, 0.5, Interval(math.nan, math.nan)))
    {'a': 0.25, 'b': 0.5, 'difference': 0.25, 'interval': None}
    """
    if isinstance(value, Interval):
        return None if math.isnan(value.low) else [value.low, value.high]
    if isinstance(value, Difference):
        return json_value({name: getattr(value, name) for name in ("a", "b", "difference", "interval")})
    if isinstance(value, float):
        return defined(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if is_dataclass(value):
        shown = [each.name for each in fields(value) if not each.metadata.get(HIDDEN)]
        return {name: json_value(getattr(value, name)) for name in shown}
    return value
