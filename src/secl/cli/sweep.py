"""Commands for many runs: sweep and reproduce."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable

from secl.cli.app import AsTable, Flag, app, console, echo, fail
from secl.cli.run import follow
from secl.display import counted, percent
from secl.errors import ParameterError, RunError, check_whole
from secl.evaluation.summary import Summary, summarise
from secl.reports.formats import table_text
from secl.reports.summary_table import score_cells, seeds_table
from secl.reports.table import Cell, Column, Table, listing, to_rich
from secl.runs.labelling import held_out_records
from secl.runs.manifest import Manifest
from secl.runs.ray_sweep import run_on_ray
from secl.runs.runner import scores_of
from secl.runs.store import Store
from secl.runs.sweep import Job, OnProgress, is_finished, plan, progress_of, question_counts, read_sweep, run_here
from secl.settings.groups import FLAT
from secl_paper.compare import FilledTable
from secl_paper.output import as_table
from secl_paper.paper import disagreements, read_paper
from secl_paper.reproduce import Reproduction, find
from secl_paper.setup import Setup

HERE, RAY = "here", "ray"


@app.command
def sweep(
    recipe: Path,
    /,
    *,
    out: Path,
    on: str = HERE,
    workers: int | None = None,
    dry_run: Annotated[bool, Flag] = False,
    table: AsTable = None,
) -> None:
    """Do the unfinished runs of a grid, here or on a Ray cluster, and compare all runs.

    Runs that differ only in their seeds share a row of a second table: mean and standard deviation. --table prints
    this table only.

    Args:
        recipe: A TOML recipe with [grid], [[runs]] or both.
        out: Folder that holds the run folders.
        on: Where to run: here, ray (workers on this machine), or ray://HOST:PORT (a cluster).
        workers: Parallel processes with --on ray; 2 by default.
        dry_run: List the runs without doing them.
    """
    check_place(on, workers)
    if dry_run and table is not None:
        raise ParameterError("--dry-run does no runs, so it has no --table; leave one of them out.")
    jobs = plan(read_sweep(recipe), out)
    check_models((job.settings.model.name for job in jobs if job.settings.model.answered_by == "local"), on)
    screen = console(stderr=table is not None)
    print_whole(overview(jobs), screen)
    unfinished = [job for job in jobs if not is_finished(job)]
    screen.print(f"{len(jobs)} runs, {len(jobs) - len(unfinished)} of them finished, in {out}", soft_wrap=True)
    if dry_run:
        return
    try:
        if unfinished:
            perform(unfinished, on, workers)
    except KeyboardInterrupt:
        done = sum(map(is_finished, jobs))
        afresh = "" if on == HERE else " (Ray workers restart their unfinished runs)"
        fail(f"stopped with {done} of {len(jobs)} runs finished; the same command continues{afresh}.")
    groups = by_seed(jobs)
    seeds = seeds_table(groups)
    if table is not None:
        if not seeds.sections[""]:
            raise RunError(
                f"the runs of {out} have no graded answer, so their table has no numbers; add right answers."
            )
        echo(table_text(seeds, table), end="")
        return
    print_whole(comparison(jobs), screen)
    if len(groups) < len(jobs) and seeds.sections[""]:
        print_whole(to_rich(seeds), screen)
    screen.print(f"run folders: {out}/", soft_wrap=True)


def check_place(on: str, workers: int | None) -> None:
    """Raise a ParameterError if the flags --on and --workers are unusable."""
    if on not in (HERE, RAY) and not on.startswith("ray://"):
        raise ParameterError(f"--on is {on!r}; it must be {HERE}, {RAY} or ray://HOST:PORT.")
    if on != RAY and workers is not None:
        raise ParameterError("--workers is for Ray on this machine; add --on ray or drop --workers.")
    if workers is not None:
        check_whole("number of workers", workers, 1)


def check_models(names: Iterable[str], on: str) -> None:
    """Raise a ModelError for the name of no model; only a cluster's own machines may have the models of a cluster."""
    if on in (HERE, RAY):
        from secl.backends.local.loading.loader import locate  # torch takes seconds to import

        for name in dict.fromkeys(names):
            locate(name)


def overview(jobs: Sequence[Job]) -> RichTable:
    """Return a table of the runs of a sweep, the progress of each, and how its settings differ from the first run's.

    The row of the first run has the settings that differ from the defaults.
    """
    rows = []
    for job in jobs:
        done = progress_of(job)
        state = "waiting" if done is None else "finished" if is_finished(job) else f"{done[0]} of {done[1]}"
        settings = job.apart.split(", ")
        if job is jobs[0]:
            shown = [each for each in settings if each.partition(" ")[0] in job.settings.changed()]
        else:
            shown = [each for each in settings if each not in jobs[0].apart.split(", ")]
        rows.append((job.name, state, ", ".join(shown)))
    return listing(("Run", "State", "Settings (then changes from the first run)"), rows, names=2)


def comparison(jobs: Sequence[Job]) -> RichTable:
    """Return a table with a row for each finished run, about the main confidence of its method.

    Below the Brier score is its 95% bootstrap interval. Below the ECE is the 95% quantile of the ECE that perfectly
    calibrated confidences would have by chance.
    """
    headings = ("Folder", "Confidence", "Brier", "ECE", "AUROC", "Accuracy", "n")
    rows = []
    for job in jobs:
        with Store(job.folder) as store:
            scores, records = scores_of(Manifest.of(store)), list(held_out_records(store))
        by_name = summarise(records, scores.values(), intervals=False).estimators
        name = job.settings.named_method.foremost(by_name)
        cells = score_cells(summarise(records, [scores[name]]).estimators.get(name))
        best = by_name.get("posterior_best") if name != "posterior_best" else None
        share = None if best is None else best.accuracy
        accuracy = Cell(cells["Accuracy"].text, "" if share is None else f"best {percent(share, 1)}")
        cells |= {"Folder": Cell(job.folder.name), "Accuracy": accuracy}
        rows.append([cells[heading] for heading in headings])
    texts = [Column(heading, text=True) for heading in headings[:2]]
    return to_rich(Table([*texts, *map(Column, headings[2:])], {"": rows}))


def by_seed(jobs: Sequence[Job]) -> dict[tuple[str, str], list[Summary]]:
    """Return the summaries of runs that differ only in their seeds, by model and further settings that differ."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    short = {job.settings.model.name: Path(job.settings.model.name).name for job in jobs}
    unique = len({*short.values()}) == len(short)
    for job in jobs:
        model = job.settings.model.name
        settings = [each for each in job.apart.split(", ") if not each.startswith(("seed ", "model.name "))]
        with Store(job.folder) as store:
            summary = summarise(list(held_out_records(store)), scores_of(Manifest.of(store)).values(), intervals=False)
        groups.setdefault((short[model] if unique else model, ", ".join(settings)), []).append(summary)
    return groups


def print_whole(table: RichTable, screen: Console) -> None:
    """Print a table without line breaks, so that folder names can be copied."""
    table.width = Measurement.get(screen, screen.options.update(max_width=10_000), table).maximum
    screen.print(table, soft_wrap=True)


def perform(jobs: Sequence[Job], on: str, workers: int | None) -> None:
    """Do the jobs with a progress bar over all their questions."""
    # A file of questions may exist only on a cluster. Each run then reports its number of questions at its start.
    totals = question_counts(jobs) if on in (HERE, RAY) else {}
    done = {job.name: (progress_of(job) or (0, 0))[0] for job in jobs} if on == HERE else {}
    with follow("loading", sum(totals.values()) or None, sum(done.values())) as shown:

        def show(job: Job, asked_now: int, total: int) -> None:
            done[job.name], totals[job.name] = asked_now, total
            whole = sum(totals.values()) if len(totals) == len(jobs) else None
            finished_now = sum(done.get(name) == size for name, size in totals.items())
            shown(sum(done.values()), whole, f"{finished_now} of {len(jobs)} runs")

        on_progress: OnProgress = show
        if on == HERE:
            run_here(jobs, on_progress)
        else:
            run_on_ray(jobs, None if on == RAY else on, workers=workers, on_progress=on_progress)


NAMES = [table.key for table in find(())]
"""All tables of the paper."""


@app.command
def reproduce(
    *table: Annotated[str, Parameter(help=f"Tables by name, all if none is given: {', '.join(NAMES)}.")],
    setup: Annotated[Setup | None, FLAT] = None,
    out: Path = Path("runs/reproduce"),
    on: str = HERE,
    workers: int | None = None,
    dry_run: Annotated[bool, Flag] = False,
    check: Path | None = None,
) -> int:
    """Repeat the paper's tables: do the missing runs, and print the paper's numbers, ours, and the differences.

    Settings default to the paper's, with 500 questions of each benchmark.
    If a table varies a setting, the values in the table override the flag.

    Args:
        out: Folder of runs and tables; finished runs are not repeated.
        on: Where to run: here, ray (workers on this machine), or ray://HOST:PORT (a cluster).
        workers: Parallel processes with --on ray; 2 by default.
        dry_run: List the runs without doing them.
        check: Do no runs; compare the stored numbers of the paper with this LaTeX source (exit code 1 if they differ).
    """
    if check is not None:
        return _check(check, {each.paper or each.key for each in find(table)})
    check_place(on, workers)
    setup = setup or Setup()
    check_models([setup.model], on)
    reproduction = Reproduction.plan(find(table), setup, out)
    if dry_run:
        _show_plan(reproduction)
        return 0
    try:
        tables = list(reproduction.fill(lambda jobs: perform(jobs, on, workers)))
    except KeyboardInterrupt:
        fail(f"stopped; finished work is kept in {out}, and the same command continues.")
    screen = console()
    for each in tables:
        _print_filled(each, screen)
    screen.print(f"tables: {out / 'README.md'}", soft_wrap=True)
    return 0


def _check(source: Path, keys: set[str]) -> int:
    total, wrong = disagreements(source, keys)
    if not total:
        fail("the paper has no numbers in these tables; name other tables, or leave the names out to check all tables.")
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


def _print_filled(table: FilledTable, screen: Console) -> None:
    screen.print(f"{table.key}: {table.title}", style="bold", soft_wrap=True)
    print_whole(to_rich(replace(as_table(table), notes=())), screen)
    for note in table.notes:
        screen.print(note, style="dim", soft_wrap=True)
    screen.print()
