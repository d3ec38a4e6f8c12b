"""The command that converts folders of an older version: upgrade."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secl.cli.app import app, console


@app.command()
def upgrade(
    folder: Annotated[Path, typer.Argument(help="A run folder, or the state folder of a server.", show_default=False)],
) -> None:
    """Convert a run or a server's state of an older version to this one's format; the old file is kept beside it."""
    from secl.runs.upgrade import KEPT, upgrade

    changed = upgrade(folder)
    message = f"{folder} is upgraded; the old file is {KEPT}." if changed else f"{folder} needs no upgrade."
    console().print(message, soft_wrap=True)
