"""The cyclopts application, parameters that commands share, and error messages."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import App, CycloptsError, Group, Parameter, UnknownOptionError
from pydantic import Field
from rich.console import Console

from secl.errors import SeclError
from secl.machine import set_defaults
from secl.reports.formats import TableForm
from secl.settings.groups import (
    FLAT,
    HIDDEN,
    EvidenceSettings,
    LoopSettings,
    ModelSettings,
    PosteriorSettings,
    PromptSettings,
    Seed,
    Settings,
)
from secl.settings.names import OF_MODEL, SETTINGS, flag_of

app = App(
    name="secl",
    help="Give every answer of a language model the probability that it is correct, without labels.",
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable=()),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(help="Install tab completion for this shell.")

ASK, STUDY, SERVE, BACK, LISTS = (
    Group(name, sort_key=order) for order, name in enumerate(("Ask", "Study", "Serve", "Look back", "Lists"))
)
"""Groups of commands in `secl --help`."""

RunFolder = Annotated[Path, Parameter(help="A run folder, or the state folder of a server.")]
FURTHER_SETTINGS = "Further settings have flags too, for example --evidence.tau 0.7 (docs/reference/settings.md)."
"""Last sentence in the help of commands that take all settings."""

Flag = Parameter(negative=(), show_default=False)
"""A boolean flag without a `--no-` variant."""

AsJson = Annotated[bool, Flag, Parameter(name="--json", help="Print one JSON object only.")]
AsTable = Annotated[
    TableForm | None,
    Parameter(name="--table", help="Print the table for a paper only: latex (package booktabs), csv or markdown."),
]
Full = Annotated[bool, Flag, Parameter(help="Print all tables, not only the result.")]


class AskedSettings(Settings):
    """Settings that `secl check`, `score` and `extract` share; these commands have no flag for the method."""

    model: Annotated[ModelSettings, FLAT, OF_MODEL] = ModelSettings()
    prompts: Annotated[PromptSettings, FLAT, OF_MODEL] = PromptSettings()
    evidence: Annotated[EvidenceSettings, HIDDEN] = EvidenceSettings()
    posterior: Annotated[PosteriorSettings, HIDDEN] = PosteriorSettings()
    loop: Annotated[LoopSettings, HIDDEN] = LoopSettings()
    paper: Annotated[bool, HIDDEN] = False
    seed: Seed = Field(42, description="Seed of all random choices.")


def main() -> None:
    """Run the command line. If the user made a mistake, print one sentence and exit with code 2."""
    set_defaults()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # escape what the terminal cannot encode
    warnings.showwarning = lambda message, *_args, **_kwargs: print(f"secl: {message}", file=sys.stderr)  # noqa: T201
    try:
        code = app(sys.argv[1:], exit_on_error=False, print_error=False)
    except SeclError as problem:
        fail(str(problem))
    except UnknownOptionError as problem:
        fail(_unknown(" ".join(str(problem).split())))
    except CycloptsError as problem:
        fail(" ".join(str(problem).split()))
    except KeyboardInterrupt:
        fail("stopped.")
    except BrokenPipeError:  # head or a pager has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    except OSError as problem:  # a path is too long, or the user lacks permissions
        if problem.filename is None:
            raise
        name = str(problem.filename)
        fail(f"{name if len(name) < 100 else f'{name[:100]}...'}: {problem.strerror}; give another path.")
    raise SystemExit(code or 0)


def _unknown(complaint: str) -> str:
    """Return cyclopts' complaint about an unknown option; a setting's key, such as --tau, stands for the setting."""
    option = re.search(r"--(?:no-)?([a-z_.-]+[a-z_])", complaint)
    names = {key: name for name in SETTINGS for key in (name, name.rpartition(".")[2].replace("_", "-"))}
    name = names.get(option[1]) if option else None
    if name is None or f"{flag_of(name)}." in complaint:  # a flag of other commands
        return complaint
    return f"{complaint.partition(' Did you')[0]} Did you mean {flag_of(name)}?"


def fail(sentence: str) -> NoReturn:
    print(f"secl: {sentence}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


def echo(text: str, *, error: bool = False, end: str = "\n") -> None:
    print(text, file=sys.stderr if error else sys.stdout, end=end, flush=True)


def print_json(values: dict[str, object]) -> None:
    echo(json.dumps(values, allow_nan=False, ensure_ascii=False, indent=2))


def console(*, stderr: bool = False) -> Console:
    return Console(markup=False, stderr=stderr)  # brackets in paths and domains are not markup
