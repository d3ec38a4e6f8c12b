"""The command line itself: the application, what its commands share, and how mistakes end."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Parameter

from secl.cli.machine import set_defaults
from secl.errors import SeclError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

app = App(
    name="secl",
    help="Make a language model's stated confidence mean what it says, without labels, while it works.",
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable=()),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(help="Install tab completion for this shell.")

RunFolder = Annotated[Path, Parameter(help="A run folder, or the state folder of a server.")]
AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON object and nothing else.")]
Full = Annotated[bool, Parameter(negative=(), help="Print all of it, and not the short answer alone.")]
Flag = Parameter(negative=())
"""A switch without an opposite."""


def main() -> None:
    """Run the command line: a mistake of the user ends in one sentence and exit code 2, a warning is one line."""
    set_defaults()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of few characters shows the others as \\uXXXX
    warnings.showwarning = lambda message, *_args, **_kwargs: print(f"secl: {message}", file=sys.stderr)  # noqa: T201
    try:
        code = app(sys.argv[1:], exit_on_error=False, print_error=False)
    except SeclError as problem:
        fail(str(problem))
    except CycloptsError as problem:
        fail(" ".join(str(problem).split()))
    except KeyboardInterrupt:
        fail("stopped.")
    except BrokenPipeError:  # whoever reads has had enough (head, a pager); nothing is to be flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    raise SystemExit(code or 0)


def fail(sentence: str) -> NoReturn:
    """Print why and end with the code for mistakes."""
    print(f"secl: {sentence}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


def echo(text: str, *, error: bool = False, end: str = "\n") -> None:
    """Print a text as it is."""
    print(text, file=sys.stderr if error else sys.stdout, end=end, flush=True)


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object."""
    echo(json.dumps(values, allow_nan=False, ensure_ascii=False, indent=2))


def console(*, stderr: bool = False) -> Console:
    """Where tables and paths are printed."""
    from rich.console import Console

    return Console(markup=False, stderr=stderr)  # paths and domains may hold brackets


def progress_bar(screen: Console, *, transient: bool = False, remaining: bool = False) -> Progress:
    """A bar with a description, a count and a clock; `remaining` adds the time to go."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    columns += [TimeRemainingColumn()] if remaining else []
    return Progress(*columns, console=screen, transient=transient)
