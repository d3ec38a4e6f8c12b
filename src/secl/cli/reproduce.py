"""The command that repeats the paper: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from secl.cli.app import app, console, fail, progress_bar
from secl.settings import FLAT
from secl_paper.setup import Setup

if TYPE_CHECKING:
    from rich.console import Console

    from secl.runs.sweep import Job
    from secl_paper.compare import FilledTable
    from secl_paper.reproduce import Reproduction


@app.command
def reproduce(*table: str, setup: Annotated[Setup | None, FLAT] = None, out: Path = Path("runs/reproduce")) -> None:
    """Run what is missing of the paper's tables, and print each: the paper's number, ours, the difference.

    Args:
        table: Tables by name, or Python files with your own; all if none is named.
        out: Folder of runs and tables; what is finished there is not repeated.
    """
    from secl_paper.reproduce import Reproduction, find

    reproduction = Reproduction.plan(find(table), setup or Setup(), out)
    try:
        _show(reproduction)
    except KeyboardInterrupt:
        fail(f"stopped; what is done is kept in {out}, and the same command goes on from there.")


def _show(reproduction: Reproduction) -> None:
    """Print every table when it is ready, under it what is being asked."""
    screen, missing = console(), reproduction.missing()
    with progress_bar(screen, hidden=not missing) as bar:
        overall = bar.add_task(f"{len(missing)} runs", total=sum(missing.values()))
        current = bar.add_task("", total=None)
        done_of: dict[str, int] = {}

        def watch(job: Job, done: int, total: int) -> None:
            done_of[job.name] = done
            bar.update(overall, completed=sum(done_of.values()))
            bar.update(current, completed=done, total=total, description=job.name[:48])

        for table in reproduction.fill(watch):
            _print(table, screen)
    screen.print(f"tables: {reproduction.out / 'README.md'}", soft_wrap=True)


def _print(table: FilledTable, screen: Console) -> None:
    from secl_paper.output import screen_tables

    screen.print(f"{table.key}: {table.title}", style="bold", soft_wrap=True)
    for part in screen_tables(table, screen.width):
        screen.print(part)
    for note in table.notes:
        screen.print(note, style="dim")
    screen.print()
