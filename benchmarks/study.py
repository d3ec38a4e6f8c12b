"""What the studies share: bad input in one sentence, and tables in Markdown."""

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


def heading(*cells: object) -> str:
    """The first two lines of a table.

    >>> print(heading("risk", "coverage"))
    | risk | coverage |
    |---|---|
    """
    return f"{row(*cells)}\n{'|---' * len(cells)}|"


def row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"
