"""Attributes of the current span of OpenTelemetry, for programs that trace their requests."""

from __future__ import annotations

import math
import sys


def mark_span(**values: str | float | None) -> None:
    """Set the attributes `secl.NAME` of the current span, without None and nan.

    Without a span, as in a program that does not use OpenTelemetry, this function does nothing.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return
    for name, value in values.items():
        if value is not None and not (isinstance(value, float) and math.isnan(value)):
            trace.get_current_span().set_attribute(f"secl.{name}", value)
