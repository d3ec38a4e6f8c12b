"""The command that converts folders of an older version: upgrade."""

from __future__ import annotations

from pathlib import Path

from secl.cli.app import app, console


@app.command
def upgrade(folder: Path, /) -> None:
    """Convert a run or a server's state of an older version to this one's format; the old file is kept beside it.

    Args:
        folder: A run folder, or the state folder of a server.
    """
    from secl.runs.upgrade import KEPT, upgrade

    changed = upgrade(folder)
    message = f"{folder} is upgraded; the old file is {KEPT}." if changed else f"{folder} needs no upgrade."
    console().print(message, soft_wrap=True)
