"""The command that repeats the paper's tables: reproduce."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from rich.console import Console

from secl.cli.app import Flag, app, console, echo, fail
from secl.cli.sweep import HERE, check_place, overview, perform, print_whole
from secl.reports.formatting import counted
from secl.reports.table import to_rich
from secl.runs.sweep import question_counts
from secl.settings.groups import FLAT
from secl_paper.check import disagreements
from secl_paper.compare import FilledTable
from secl_paper.output import as_table
from secl_paper.paper import read_paper
from secl_paper.reproduce import Reproduction, find
from secl_paper.setup import Setup


@app.command
def reproduce(
    *table: str,
    setup: Annotated[Setup | None, FLAT] = None,
    out: Path = Path("runs/reproduce"),
    on: str = HERE,
    workers: int | None = None,
    dry_run: Annotated[bool, Flag] = False,
    check: Path | None = None,
) -> int:
    """Repeat the paper's tables: do the missing runs, and print the paper's numbers, ours, and the differences.

    Settings default to the paper's, with 500 questions of each benchmark.
    The values of a setting that a table varies override the flag.

    Args:
        table: Tables by name; all if none is named.
        out: Folder of runs and tables; finished runs are not repeated.
        on: Where to run: here, ray (workers on this machine), or ray://HOST:PORT (a cluster).
        workers: Parallel processes with --on ray; 2 by default.
        dry_run: List the runs without doing them.
        check: Only compare the stored numbers of the paper with this LaTeX source; exit code 1 for a difference.
    """
    if check is not None:
        return _check(check, {each.paper or each.key for each in find(table)})
    check_place(on, workers)
    reproduction = Reproduction.plan(find(table), setup or Setup(), out)
    if dry_run:
        _show_plan(reproduction)
        return 0
    try:
        tables = list(reproduction.fill(lambda jobs: perform(jobs, on, workers)))
    except KeyboardInterrupt:
        fail(f"stopped; finished work is kept in {out}, and the same command continues.")
    screen = console()
    for each in tables:
        _print(each, screen)
    screen.print(f"tables: {out / 'README.md'}", soft_wrap=True)
    return 0


def _check(source: Path, keys: set[str]) -> int:
    total, wrong = disagreements(source, keys)
    if not total:
        fail("the paper has no numbers in these tables; name other tables, or no table for all.")
    for line in wrong:
        echo(line)
    echo(f"{total - len(wrong):,} of {total:,} stored numbers of the paper's tables agree with {source}")
    return 1 if wrong else 0


def _show_plan(reproduction: Reproduction) -> None:
    """Print the runs of a reproduction with their progress, and the column of the paper to compare with."""
    screen, missing, compared = console(), reproduction.missing, reproduction.compared
    print_whole(overview(reproduction.runs), screen)
    runs, tables = counted(len(reproduction.runs), "run"), counted(len(reproduction.tables), "table")
    questions = counted(sum(question_counts(missing).values()), "question")
    column = "no column of the paper" if compared.name is None else f"the paper's {read_paper().models[compared.name]}"
    screen.print(f"{runs} for {tables}, {len(reproduction.runs) - len(missing)} finished; {questions} left to ask")
    screen.print(f"compared with {column}: {compared.why}", soft_wrap=True)


def _print(table: FilledTable, screen: Console) -> None:
    screen.print(f"{table.key}: {table.title}", style="bold", soft_wrap=True)
    print_whole(to_rich(replace(as_table(table), notes=())), screen)
    for note in table.notes:
        screen.print(note, style="dim", soft_wrap=True)
    screen.print()
