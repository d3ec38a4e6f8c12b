"""The command that says whether there is something to learn from: check."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secl.cli.app import DEVICE, DTYPE, MODEL, app, console, fail, flag

if TYPE_CHECKING:
    from secl.evaluation.adaptation_check import Gap
    from secl.runs.check_run import CheckRun

CODES = {"adapt": 0, "do not adapt": 3, "cannot tell": 4}
"""Exit codes by verdict; 2 is a mistake, as everywhere."""


@app.command()
def check(
    model: MODEL = None,
    questions: Annotated[str | None, flag("Your own questions with right answers, JSONL or CSV.")] = None,
    benchmarks: Annotated[str | None, flag("Benchmarks in place of --questions, for example mmlu,arc.")] = None,
    per_domain: Annotated[int | None, flag("Questions of each benchmark.", "all")] = None,
    data: Annotated[str | None, flag("Folder with the benchmarks' official files.", "SECL_DATA, else the hub")] = None,
    tau: Annotated[float | None, flag("Temperature of normalised P(True).", "the model's")] = None,
    dtype: DTYPE = None,
    device: DEVICE = None,
    seed: Annotated[int | None, flag("Of everything random.", "42")] = None,
    out: Annotated[
        Path | None, flag("Keep the answers as a run in this folder; go on with it, or reuse it.", "kept nowhere")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Check on labelled questions whether adapting can help: is normalised P(True) better than what is stated?

    Exit codes: 0 adapt, 3 do not adapt, 4 cannot tell, 2 a mistake.
    """
    from secl.evaluation.adaptation_check import measure_gap
    from secl.validation import check_finite

    if tau is not None:
        check_finite("temperature tau", tau, tau > 0, "be above 0")
    names = ("model", "questions", "per_domain", "data", "dtype", "device", "seed")
    given = locals()
    settings: dict[str, Any] = {name: given[name] for name in names if given[name] is not None}
    if benchmarks is not None:
        settings["benchmarks"] = [benchmarks]
    if out is None:
        with TemporaryDirectory(prefix="secl-check-") as place:
            asked = _ask(settings, Path(place) / "run", "nothing is kept without --out.")
    else:
        asked = _ask(settings, out, f"all of them recorded; go on with: secl check --out {out}")
    run = asked.manifest.settings
    gap = measure_gap(asked.records, tau or asked.manifest.tau, run.evidence.formula, seed=run.seed)
    _print(gap, run.model.name, as_json)
    raise typer.Exit(CODES[gap.verdict])


def _ask(settings: dict[str, Any], folder: Path, hint: str) -> CheckRun:
    """Get the answers, with a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from secl.runs.check_run import ask

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    screen = Console(stderr=True, markup=False)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("loading model and questions", total=None)

        def show(done: int, total: int, _record: Any) -> None:
            bar.update(task, completed=done, total=total, description="asking")

        try:
            return ask(settings, folder, show)
        except KeyboardInterrupt:
            bar.stop()
            done, total = bar.tasks[0].completed, bar.tasks[0].total
            if total is None:
                fail("stopped before the first question.")
            fail(f"stopped after {done:g} of {total:g} questions, {hint}")


def _print(gap: Gap, model: str, as_json: bool) -> None:
    """The report of a check, the verdict last."""
    from secl.reports.adaptation_report import gap_json, gap_table, notes, sentence, sweep_table
    from secl.reports.table import to_rich

    if as_json:
        plain = {"model": model, **gap_json(gap), "exit_code": CODES[gap.verdict]}
        typer.echo(json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=2))
        return
    screen = console()
    for table in (sweep_table(gap), gap_table(gap)) if gap.n else ():
        screen.print(to_rich(table))
        screen.print()
    for line in (*notes(gap), sentence(gap)):
        screen.print(line)
