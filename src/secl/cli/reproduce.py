"""The command that repeats the paper: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secl.cli.app import DEVICE, DTYPE, MODEL, app, console, fail, flag

if TYPE_CHECKING:
    from rich.console import Console

    from secl.runs.sweep import Job
    from secl_paper.compare import FilledTable
    from secl_paper.reproduce import Reproduction


@app.command()
def reproduce(
    table: Annotated[
        list[str] | None, typer.Argument(help="Tables by name, or Python files with your own; all if none is named.")
    ] = None,
    model: MODEL = None,
    per_domain: Annotated[int | None, flag("Questions of each benchmark.", "500")] = None,
    data: Annotated[str | None, flag("Folder with the benchmarks' official files.", "SECL_DATA, else the hub")] = None,
    benchmarks: Annotated[str | None, flag("Benchmarks in order.", "gsm8k,mmlu,arc,truthfulqa")] = None,
    dtype: DTYPE = None,
    device: DEVICE = None,
    tau: Annotated[float | None, flag("Temperature of normalised P(True).", "the model's")] = None,
    nli: Annotated[str | None, flag("NLI model of DINCO: hub id or folder.", "the model itself")] = None,
    gate: Annotated[str | None, flag("For SECL where a table names no gate.", "the paper's, page-hinkley")] = None,
    against: Annotated[str | None, flag("The paper's model to compare with.", "the same, else llama-3.2-3b")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of runs and tables; what is finished there is not repeated.")
    ] = Path("runs/reproduce"),
) -> None:
    """Run what is missing of the paper's tables, and print each: the paper's number, ours, the difference."""
    from secl_paper.reproduce import Reproduction, find
    from secl_paper.setup import Setup

    common: dict[str, Any] = {"data": data, "tau": tau, "nli": nli, "gate": gate, "against": against}
    common |= {"per_domain": per_domain, "benchmarks": None if benchmarks is None else [benchmarks]}
    common |= {"model": _without_none({"name": model, "dtype": dtype, "device": device})}
    setup = Setup.model_validate(_without_none(common))
    reproduction = Reproduction.plan(find(table or []), setup, out)
    try:
        _show(reproduction)
    except KeyboardInterrupt:
        fail(f"stopped; what is done is kept in {out}, and the same command goes on from there.")


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _show(reproduction: Reproduction) -> None:
    """Print every table when it is ready, under it what is being asked."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen, missing = console(), reproduction.missing()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, disable=not missing) as bar:
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
