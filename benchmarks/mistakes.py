"""Mistakes of whoever calls a benchmark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from secl.errors import SeclError


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Say what is wrong in a sentence instead of a traceback, and exit with 2 as `secl` does.

    Raises:
        SystemExit: bad input.
    """
    try:
        yield
    except SeclError as problem:
        print(f"error: {problem}", file=sys.stderr)
        raise SystemExit(2) from problem
