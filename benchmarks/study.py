"""Shared code of the studies: commands, evidence in JSON lines, messages for bad input, and tables in Markdown."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from secl.errors import SeclError

WINDOW = 8
"""Number of questions that share forward passes."""

T = TypeVar("T")


def collect_or_report(
    about: str | None,
    collect: Callable[..., None],
    report: Callable[[Path], Iterable[str]],
    arguments: Sequence[str] | None = None,
    **options: float | str,
) -> None:
    """Run `collect MODEL EVIDENCE` or `report EVIDENCE`.

    Args:
        about: text of --help.
        collect: gets `model`, `evidence` and the options by their names.
        report: yields the lines to print.
        options: of `collect`, with their defaults.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting, reporting = commands.add_parser("collect"), commands.add_parser("report")
    collecting.add_argument("model")
    for each in (collecting, reporting):
        each.add_argument("evidence", type=Path)
    for name, default in options.items():
        collecting.add_argument(f"--{name}", type=type(default), default=default)
    given = vars(parser.parse_args(arguments))
    if given.pop("command") == "collect":
        collect(**given)
    else:
        print(*report(given["evidence"]), sep="\n")


def collect_lines(
    evidence: Path,
    asked: Sequence[T],
    minutes: float,
    lines_of: Callable[[Sequence[T]], Iterable[dict[str, Any]]],
    together: int = WINDOW,
) -> None:
    """Append a JSON line for each question that has none yet, `together` questions at a time, for some minutes."""
    began = time.monotonic()
    done = len(evidence.read_text(encoding="utf-8").splitlines()) if evidence.exists() else 0
    for first in range(done, len(asked), together):
        if time.monotonic() - began > 60 * minutes:
            break
        window, started = asked[first : first + together], time.monotonic()
        lines = [json.dumps(line) for line in lines_of(window)]
        with evidence.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        seconds = (time.monotonic() - started) / len(window)
        print(f"{first + len(window)} questions, {seconds:.1f} s each", flush=True)


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """On bad input, print a sentence instead of a traceback, and exit with code 2 like `secl`.

    Raises:
        SystemExit: bad input.
    """
    try:
        yield
    except SeclError as problem:
        print(f"error: {problem}", file=sys.stderr)
        raise SystemExit(2) from problem


def heading(*cells: object) -> str:
    """Return the first two lines of a table in Markdown.

    >>> print(heading("risk", "coverage"))
    | risk | coverage |
    |---|---|
    """
    return f"{row(*cells)}\n{'|---' * len(cells)}|"


def row(*cells: object) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"
