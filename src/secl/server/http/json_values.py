"""Values as JSON has them."""

from __future__ import annotations


def finite(value: object) -> object:
    """A value for JSON, which has no nan and no infinity: they become None.

    >>> finite({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inside) for inside in value]
    return None if isinstance(value, float) and not -float("inf") < value < float("inf") else value
