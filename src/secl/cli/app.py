"""The shell's front door itself: the application, what its commands share, and how mistakes end."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from secl.errors import SeclError


class Commands(TyperGroup):
    """All commands: Ctrl-C in any of them ends in one sentence, where typer would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("stopped.")


app = typer.Typer(
    cls=Commands,
    help="Make a language model's stated confidence mean what it says, without labels, while it works.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

RUN = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]
MODEL = Annotated[str | None, typer.Option(help="Preset, hub id, folder or GGUF file.", show_default="smollm2")]
DEVICE = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.", show_default="auto")]
DTYPE = Annotated[str | None, typer.Option(help="Body of the network: auto, bf16, fp16 or fp32.", show_default="auto")]


def flag(text: str, default: str | bool = False) -> Any:
    return typer.Option(help=text, show_default=default)


def main() -> None:
    """Entry point: a mistake of the user ends in one sentence and exit code 2, a warning is one line."""
    warnings.showwarning = lambda message, *_args, **_kwargs: print(f"secl: {message}", file=sys.stderr)  # noqa: T201
    try:
        app(standalone_mode=True)
    except SeclError as problem:
        fail(str(problem))


def fail(sentence: str) -> NoReturn:
    print(f"secl: {sentence}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


def console() -> Any:
    """Where tables and paths are printed."""
    from rich.console import Console

    return Console(markup=False)  # paths and domains may hold brackets
