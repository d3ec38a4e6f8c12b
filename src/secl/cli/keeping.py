"""Commands about what a server's state folder keeps: prune and backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import app, console
from secl.cli.audit import KeyFile, Server, StateFolder
from secl.errors import ParameterError


@app.command
def prune(
    *,
    server: Server,
    key_file: KeyFile = None,
    keep_records: str | None = None,
    keep_versions: int | None = None,
) -> None:
    """Have a running server prune old records and adapter versions; secl serve does so by itself with these flags.

    Args:
        keep_records: How many of the latest records are kept (100000), or of how many days (30d).
        keep_versions: How many of the newest adapter versions are kept, beside those that answered a kept record.
    """
    from secl.reports.formatting import counted
    from secl.server import client
    from secl.server.entries import record_id
    from secl.server.retention import Pruned, Retention

    policy = Retention.of(keep_records, keep_versions)
    if not policy:
        raise ParameterError("nothing would be pruned; say what is kept with --keep-records or --keep-versions.")
    body = {"keep_records": keep_records, "keep_versions": keep_versions}
    records = versions = 0
    pruned = Pruned(0, 0, 0, done=False)
    while not pruned.done:
        pruned = Pruned(**client.send_command(server, "prune", body, key_file))
        records, versions = records + pruned.records, versions + pruned.versions
    console().print(
        f"pruned {counted(records, 'record')} and {counted(versions, 'adapter version')}; the records from "
        f"{record_id(pruned.first)} on are kept.",
        soft_wrap=True,
    )


@app.command
def backup(out: Annotated[Path, Parameter(help="A folder that does not exist yet.")], /, *, state: StateFolder) -> None:
    """Copy a server's state while it runs, into a folder that a server can go on from."""
    from secl.reports.formatting import counted
    from secl.server.folder import backup

    records = backup(state, out)
    console().print(
        f"{out} holds {counted(records, 'record')}; check it with: secl verify --state {out}", soft_wrap=True
    )
