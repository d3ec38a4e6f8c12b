"""Commands about a server: its history, records, verification, backup and API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType

from secl.cli.app import AsJson, app, console, echo, print_json
from secl.cli.server_pages import explanation_page, history_page, verification_page
from secl.errors import ParameterError, check_whole
from secl.reports.formatting import counted
from secl.reports.table import listing
from secl.server import recompute
from secl.server.explain import explain
from secl.server.folder import backup as copy_state
from secl.server.http.api_keys import Keys
from secl.server.records import history as history_of
from secl.server.store import ServerStore

StateFolder = Annotated[Path, Parameter(help="State folder of the server, which may be running.")]
CONTRADICTS, UNKNOWN = 1, 3
"""Exit codes of `secl verify`: a mismatch; or no mismatch, but answers that cannot be computed again."""


@app.command
def history(state: StateFolder, /, *, as_json: AsJson = False) -> None:
    """Show what a server has learned: lessons, events, and versions with their distance from the frozen weights."""
    with ServerStore(state) as store:
        past = history_of(store)
    _print(past if as_json else history_page(past))


@app.command
def show(state: StateFolder, record: str, /, *, as_json: AsJson = False) -> None:
    """Explain the confidence of one answer: its prompt, evidence, gate, lesson, labels and versions.

    Args:
        record: Id or position of the answer.
    """
    with ServerStore(state) as store:
        served = store.find(record)
        explained = explain(store, served)
    _print(explained if as_json else explanation_page(served, explained))


@app.command
def verify(
    state: StateFolder, /, *, last: int | None = None, record: str | None = None, as_json: AsJson = False
) -> int:
    """Compute the decisions, posteriors and answers of a server again, and compare them with its records.

    Another processor may round differently; secl prints the largest difference.

    Exit codes: 0 all agree; 1 a mismatch; 2 unusable input;
    3 some answers cannot be computed again, for example without their texts.

    Args:
        last: Number of the latest answers to compute again; 20 by default, 0 for none.
        record: Id or position of the only answer to compute again.
    """
    if last is not None and record is not None:
        raise ParameterError("--last and --record are both given; name one of them.")
    count = 20 if last is None else last
    check_whole("number of answers (--last)", count, 0)
    with ServerStore(state) as store:
        records = recompute.choose(store, count, record)
        model = recompute.load_recorded_model(store) if records and store.keep_text == "full" else None
        outcome = recompute.verify(store, records, model)
    _print(outcome.to_json() if as_json else verification_page(outcome))
    return CONTRADICTS if outcome.findings else UNKNOWN if any(each.agrees is None for each in outcome.rederived) else 0


@app.command
def backup(state: StateFolder, out: Annotated[Path, Parameter(help="A folder that does not exist yet.")], /) -> None:
    """Copy the state of a server while it runs; a server can start from the copy."""
    records = copy_state(state, out)
    console().print(f"{out} holds {counted(records, 'record')}; check it with: secl verify {out}", soft_wrap=True)


keys = App(name="keys", help="Make, list and remove the API keys of a server.")
app.command(keys)


@keys.command(name="add")
def add_key(state: StateFolder, name: str, /, *, role: str = "ask") -> None:
    """Make an API key and print it once; the server keeps only its hash.

    Args:
        name: Name of the person or program that gets the key.
        role: ask, read (also all records), review (also labels of drawn answers) or admin (also roll back and pause).
    """
    echo(Keys(state).add(name, role))


@keys.command(name="list")
def list_keys(state: StateFolder, /) -> None:
    """List the names and roles of all keys."""
    if not state.is_dir():
        raise ParameterError(f"there is no folder {state}; name the one of secl serve.")
    console().print(listing(("name", "role"), [(key.name, key.role) for key in Keys(state).all()]))


@keys.command(name="remove")
def remove_key(state: StateFolder, name: str, /) -> None:
    """Remove an API key; a running server refuses it from now on.

    Args:
        name: Name of the key.
    """
    api_keys = Keys(state)
    api_keys.remove(name)
    if not api_keys.all():
        echo(
            f"That was the last key: the server now refuses every request. To do without keys, remove {api_keys.path}.",
            error=True,
        )


def _print(what: Mapping[str, object] | Sequence[RenderableType]) -> None:
    """Print one JSON object, or the parts of a page."""
    if isinstance(what, Mapping):
        print_json({**what})
        return
    screen = console()
    for part in what:
        screen.print(part, soft_wrap=isinstance(part, str))
