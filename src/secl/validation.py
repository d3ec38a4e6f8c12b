"""Validation of numbers in arguments: one sentence that names the number and the rule."""

from __future__ import annotations

import math

from secl.errors import ParameterError


def check_whole(name: str, value: object, least: int) -> None:
    """Validate a whole number of at least `least`.

    Raises:
        ParameterError: the value is anything else.

    >>> check_whole("number of bins", 0, least=1)
    Traceback (most recent call last):
    secl.errors.ParameterError: the number of bins must be a whole number of at least 1, not 0.
    """
    if not isinstance(value, int) or value < least:
        raise ParameterError(f"the {name} must be a whole number of at least {least}, not {value}.")


def check_finite(name: str, value: float, fits: bool, rule: str) -> None:
    """Validate a finite number that satisfies its rule.

    Raises:
        ParameterError: `fits` is false, or the number is infinite or nan.

    >>> check_finite("temperature", -1.0, False, "be above 0")
    Traceback (most recent call last):
    secl.errors.ParameterError: the temperature must be above 0 and be finite, not -1.0.
    """
    if not (fits and math.isfinite(value)):
        raise ParameterError(f"the {name} must {rule} and be finite, not {value}.")
