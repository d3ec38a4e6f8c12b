"""Commands about the API keys of a server: keys add, keys list and keys remove."""

from __future__ import annotations

from cyclopts import App

from secl.cli.app import app, console, echo
from secl.cli.serve import StateFolder

keys = App(name="keys", help="Make, list and remove the API keys of a server.")
app.command(keys)


@keys.command(name="add")
def add_key(name: str, /, *, state: StateFolder, role: str = "read") -> None:
    """Make an API key and print it, once: only a hash of it is kept.

    Args:
        name: Name of the person or program that gets it.
        role: read: ask and read; admin: also roll back, pause and resume.
    """
    from secl.server.http.api_keys import Keys

    echo(Keys(state).add(name, role))


@keys.command(name="list")
def list_keys(*, state: StateFolder) -> None:
    """List the names and roles of all keys."""
    from secl.reports.table import listing
    from secl.server.http.api_keys import Keys

    console().print(listing(("name", "role"), [(key.name, key.role) for key in Keys(state).all()]))


@keys.command(name="remove")
def remove_key(name: str, /, *, state: StateFolder) -> None:
    """Remove an API key; a running server refuses it from now on.

    Args:
        name: Name of the key.
    """
    from secl.server.http.api_keys import Keys

    api_keys = Keys(state)
    api_keys.remove(name)
    if not api_keys.all():
        echo("That was the last key: a server on a loopback address is now open to all of this machine.", error=True)
