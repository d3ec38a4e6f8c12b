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
    from secl.runs.store import Store
    from secl.runs.upgrade import KEPT, upgrade
    from secl.server.audit.migrations import upgrade_state

    kept = [KEPT] if upgrade(folder) else []
    with Store(folder) as store:
        is_server = store.is_server
    if is_server and (name := upgrade_state(folder)):
        kept = kept or [name]  # of two steps the first keeps what there was
    message = f"{folder} is upgraded; the old file is {kept[0]}." if kept else f"{folder} needs no upgrade."
    console().print(message, soft_wrap=True)
