"""Commands about a server: its history, records, verification, backup and API keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from secl.cli.app import AsJson, app, console, echo, print_json
from secl.display import UNDEFINED, counted, number, terminal_lines
from secl.errors import ParameterError
from secl.reports.console import evidence_tables, marked_text
from secl.reports.table import listing, to_rich
from secl.reports.texts import facts_table
from secl.runs.labelling import labelled
from secl.server.entries import JsonObject, Served, answer_text, moment
from secl.server.explain import Explained, explain_served
from secl.server.http.api_keys import Keys
from secl.server.records import history as history_of
from secl.server.retention import backup as copy_state
from secl.server.store import ServerStore, open_folder
from secl.server.verify import Verification, examine

StateFolder = Annotated[Path, Parameter(help="State folder of the server, which may be running.")]


@app.command
def history(state: StateFolder, /, *, as_json: AsJson = False) -> None:
    """Show what a server has learned: lessons, events, and versions with their distance from the frozen weights."""
    with ServerStore(state) as store:
        past = history_of(store)
    _print(past if as_json else history_page(past))


@app.command
def show(state: StateFolder, record: str, /, *, as_json: AsJson = False) -> None:
    """Explain the confidence of one answer of a server: its prompt, evidence, gate, lesson, labels and versions.

    Args:
        record: Id or position of the answer.
    """
    with ServerStore(state) as store:
        served = store.find(record)
        served = replace(served, record=labelled(served.record, store.verdicts(served.record.position)))
        explained = explain_served(store, served)
    _print(explained if as_json else explanation_page(served, explained))


@app.command
def verify(
    folder: Annotated[Path, Parameter(help="Folder of a run, or state folder of a server, which may be running.")],
    /,
    *,
    head: str | None = None,
    gate: str | None = None,
    as_json: AsJson = False,
) -> int:
    """Find changed rows of a run or a server, by their hashes, and recompute the confidences from the stored evidence.

    Exit codes: 0 all agree; 1 a mismatch; 2 unusable input.

    Args:
        head: Last hash that an earlier `secl verify` printed; secl then also finds changes by a forger of hashes.
        gate: The gate of the run if it is a file (FILE.py:CLASS), which secl then executes.
    """
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise ParameterError(f"--head is {head[:80]!r}; give the 64 digits that secl verify printed.")
    with open_folder(folder) as store:
        outcome = examine(store, gate, head)
    _print(outcome.to_json() if as_json else verification_page(outcome))
    return 1 if outcome.findings else 0


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
        role: ask; read (ask, and read all records); review (read, and label drawn answers); or admin (all rights).
    """
    echo(Keys(state).add(name, role))


@keys.command(name="list")
def list_keys(state: StateFolder, /) -> None:
    """List the names and roles of all keys."""
    if not state.is_dir():
        raise ParameterError(f"there is no folder {state}; name the state folder of secl serve.")
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


MAX_ROWS = 20
"""Number of the latest rows that a table shows. The JSON output has all rows."""

MAX_FINDINGS = 50
"""Maximum number of findings to print."""


def history_page(past: JsonObject) -> list[RenderableType]:
    """Return a summary of `secl.server.records.history`, with tables of versions and events."""
    learning = "on" if past["learns"] else "off, because this method does not learn"
    if past["paused"] is not None:
        learning = f"paused: {terminal_lines(past['paused'])}"
    period = "" if past["began"] is None else f" from {_time(past['began'])} to {_time(past['ended'])}"
    parts: list[RenderableType] = [
        f"{past['model']}: {counted(past['answers'], 'answer')}{period}",
        f"adapter version {past['version']}; learning is {learning}",
    ]
    if past["first"]:
        parts.append(f"the records before number {past['first']} were pruned")
    of_facts = past["labels"] != past["labelled"]
    labelled = counted(past["labelled"], "answer") + (f" ({counted(past['labels'], 'label')})" if of_facts else "")
    lessons = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(past["lessons"].items()))
    parts.append(f"lessons: {lessons or 'none'}; {labelled} labelled by people")
    versions = [
        (
            f"{'*' if each['version'] == past['version'] else ' '} {each['version']}",
            str(each["position"]),
            _time(each["time"]),
            UNDEFINED if each["drift"] is None else f"{each['drift']:.4f}",
        )
        for each in reversed(past["versions"])
    ]
    events = [
        (
            _time(event["time"]),
            event["kind"],
            UNDEFINED if event["position"] is None else str(event["position"]),
            str(event["version"]),
            terminal_lines(event["detail"]),
        )
        for event in past["events"]
    ]
    of_versions = ("version", "first answer", "at", "drift of the weights")
    return [
        *parts,
        *_section("Versions (* marks the current one)", of_versions, versions),
        *_section("Events", ("time", "event", "after record", "version", ""), events),
    ]


def _section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[RenderableType]:
    if not rows:
        return []
    earlier = f"  (the latest {MAX_ROWS} of {len(rows)})" if len(rows) > MAX_ROWS else ""
    return ["", Text(f"{title}{earlier}", style="bold"), listing(headings, rows[-MAX_ROWS:])]


def _time(seconds: float | None) -> str:
    return UNDEFINED if seconds is None else f"{moment(seconds)}Z"


def explanation_page(served: Served, explained: Explained) -> list[RenderableType]:
    """Return the explanation of a confidence, from the question to the lesson."""
    record = served.record
    question, reply = record.question, record.reply
    did = f"{'rated' if record.kind == 'given' else 'answered'} {_time(served.time)}"
    title = f"{served.id} (record {record.position}), {did} by version {reply.version} in a batch of {served.batch}"
    chat: RenderableType = f"texts were not kept (keep-text {explained['keep_text']}); question: {question.text}"
    if explained["keep_text"] == "full":
        turns = [*((turn.role, turn.text) for turn in question.history), ("user", question.text)]
        read = [(turn["role"], turn["content"]) for turn in explained["prompt"] or ()]
        chat = Table.grid(padding=(0, 2))
        for role, text in read or turns:
            chat.add_row(Text(role, style="dim"), Text(terminal_lines(text)))
    answer = answer_text(record) if record.answer else "no readable answer"
    bold = Text(terminal_lines(answer), style="bold")
    shows_facts = bool(record.parts) and explained["keep_text"] == "full"
    bold = marked_text(record) if shows_facts else bold
    parts: list[RenderableType] = [Text(title, style="bold"), "", chat, "", bold]
    parts.append(f"reported confidence  {number(record.confidence, 4)} ({explained['source']})")
    parts += map(terminal_lines, explained["why"])
    if shows_facts:
        parts += ["", to_rich(facts_table(record.parts or (), None))]
    for table in evidence_tables(record):
        parts += ["", table]
    return parts


def verification_page(outcome: Verification) -> list[RenderableType]:
    """Return the results of a verification, with the findings at the end."""
    counts = Counter[str](finding.check for finding in outcome.findings)
    records = counted(outcome.examined, "record")
    agreeing = {
        "chain": "every row has its hash",
        "gate": f"replayed over {records}: every decision is as stored",
        "posterior": "every posterior is as stored",
        "labels": "every confidence after labels is as stored",
        "integrity": f"{records} examined: all tables agree",
    }
    parts: list[RenderableType] = [
        f"{check:12}{counted(counts[check], 'difference') if counts[check] else all_well}{_explain(outcome, check)}"
        for check, all_well in agreeing.items()
    ]
    if outcome.first:
        parts.append(f"pruned      the records before number {outcome.first}; secl checked the kept records")
    parts.append(f"head        {outcome.head}")
    for finding in outcome.findings[:MAX_FINDINGS]:
        where = "" if finding.position is None else f" of record {finding.position}"
        parts.append(terminal_lines(f"{finding.check}{where}: {finding.detail}"))
    if len(outcome.findings) > MAX_FINDINGS:
        parts.append(f"... and {len(outcome.findings) - MAX_FINDINGS} more; see --json")
    return parts


def _explain(outcome: Verification, check: str) -> str:
    """Return the largest difference between numbers that agree, in words; "" without a difference."""
    largest = outcome.largest.get(check)
    return f" (numbers at most {largest:.1g} apart)" if largest else ""
