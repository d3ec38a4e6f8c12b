"""Commands that read finished and unfinished runs: report and export."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from secl.cli.app import Full, RunFolder, app, console, echo
from secl.errors import ParameterError, RunError
from secl.question import Grader
from secl.records import Record
from secl.reports.formatting import terminal_text

if TYPE_CHECKING:
    from secl.reports.run_report import RunReport
    from secl.runs.manifest import Mode
    from secl.runs.settings import RunSettings
    from secl.runs.store import Store

REPORT = Path("report")
"""Where the report of several runs goes."""


@app.command
def report(
    run: RunFolder,
    /,
    *more: RunFolder,
    grader: Grader | None = None,
    out: Path | None = None,
    full: Full = False,
) -> None:
    """Write a page about runs, also about unfinished ones, and print the result.

    A folder of its own (--out, or of several runs) gets all numbers as CSV and LaTeX, and all pictures, too.

    Args:
        grader: Grade open answers anew, in this report alone, by auto, exact, contains, number, regex or overlap.
        out: Folder of the report; by default the run's own (RUN/graded-GRADER if graded anew), or report for several.
    """
    from secl.reports.folder import check_folder
    from secl.runs.labelling import current_records
    from secl.runs.store import Store

    runs = (run, *more)
    resolved = [folder.resolve() for folder in runs]
    for folder, path in zip(runs, resolved, strict=True):
        if resolved.count(path) > 1:
            raise ParameterError(f"the run {folder} is given twice; name every run once.")
    if len(runs) == 1 and grader is not None and (out is None or out.resolve() == resolved[0]):
        out = run / f"graded-{grader}"  # the run's own report and summary stay as they are
    if len(runs) == 1 and out is not None and out.resolve() == resolved[0]:
        out = None
    if out is not None or len(runs) > 1:
        check_folder(out or REPORT)
    with ExitStack() as resources:
        stores = []
        for folder in runs:
            store = resources.enter_context(Store(folder))
            records = list(current_records(store))
            if not records:
                raise RunError(f"{folder} has no questions answered yet; continue it with secl run --resume {folder}.")
            if grader is not None:
                records = _graded_anew(records, grader, folder)
            stores.append((store, records))
        write_and_print(stores, out, full=full)


def _graded_anew(records: Sequence[Record], grader: Grader, folder: Path) -> list[Record]:
    """Records of a run as another grader sees them.

    Raises:
        ParameterError: there is nothing to grade.
        QuestionError: a reference does not fit the grader.
    """
    from secl.grading import regrade

    if all(record.question.options or record.question.reference is None for record in records):
        raise ParameterError(f"{folder} has no open question with a reference; leave --grader out.")
    return regrade(records, grader)


@app.command
def export(
    run: RunFolder,
    /,
    *,
    format: str | None = None,
    adapter: int | None = None,
    out: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
) -> None:
    """Write a run's records (complete in jsonl, flat rows in csv, parquet and xlsx), or one of its adapter versions.

    Args:
        format: jsonl, csv, parquet or xlsx; jsonl by default.
        adapter: Kept adapter version to write instead, as a folder for PEFT.
        out: File (- for standard output) or folder; RUN/records.FORMAT or RUN/adapter-N by default.
    """
    from secl.runs.export import write, write_version
    from secl.runs.store import Store

    if adapter is not None and format is not None:
        raise ParameterError("an adapter has only the format of PEFT; leave --format or --adapter away.")
    with Store(run) as store:
        path = write(store, format or "jsonl", out) if adapter is None else write_version(store, adapter, out)
        if adapter is None and store.pruned:
            echo(store.pruned, error=True)
    if path is not None:
        console().print(str(path), soft_wrap=True)


def write_and_print(
    stores: Sequence[tuple[Store, Sequence[Record]]], out: Path | None = None, *, full: bool = False
) -> None:
    """Print and write the report of open runs (`write`); with `full` all tables, else the result in a few lines."""
    from secl.reports.result import look_first, next_step, trust_line
    from secl.reports.sections import print_sections, sections_of, shared_sections

    reports, page = write(stores, out)
    alone, screen = len(stores) == 1, console()
    print_sections(shared_sections(reports) if full and not alone else (), screen)
    for run in reports:
        name = "" if alone else run.name
        sections = sections_of(run, several=not alone)
        print_sections(sections if full else [replace(sections[0], title="")], screen, name)
        for line in (trust_line(run.trust, name), None if full else look_first(run.rows)):
            if line is not None:
                screen.print(terminal_text(line), highlight=False)
    for store, _ in stores:
        if store.pruned:
            screen.print(store.pruned, soft_wrap=True)
    screen.print(f"page: {page}", soft_wrap=True)
    if not full:
        folder, own = stores[0][0].folder, alone and out is None
        again = f"secl report {shlex.quote(str(folder))} --full" if own else "the same with --full"
        screen.print(f"all tables: {again}", soft_wrap=True)
        if alone:
            screen.print(f"next: {next_step(reports[0], folder)}", soft_wrap=True)


def write(stores: Sequence[tuple[Store, Sequence[Record]]], out: Path | None = None) -> tuple[list[RunReport], Path]:
    """Write the report of open runs.

    Args:
        stores: open runs with their records, at least one each.
        out: the folder; None for the run's own, whose `summary.json` is then written anew, or that of several runs.

    Returns:
        what is reported of each run, and the path of the page.
    """
    from secl.reports.folder import write_report

    stay = len(stores) == 1 and out is None
    names = distinct([store.folder for store, _ in stores])
    reports = [_run_report(store, records, name, stay) for (store, records), name in zip(stores, names, strict=True)]
    return reports, write_report(stores[0][0].folder if stay else out or REPORT, reports, of_run=stay)


def _run_report(store: Store, records: Sequence[Record], name: str, stay: bool) -> RunReport:
    """What a report is made of; with `stay` the run's own summary is written anew."""
    from secl.evaluation.summary import evaluate
    from secl.reports.run_report import RunReport
    from secl.runs.labelling import stored_answers
    from secl.runs.manifest import Manifest
    from secl.runs.runner import estimators_of, write_summary

    manifest = Manifest.of(store)
    evaluation = evaluate(records, estimators_of(manifest))
    report = RunReport(
        name=name,
        records=records,
        evaluation=evaluation,
        total=manifest.total,
        seconds=store.seconds,
        manifest=manifest.to_json(),
        settings=manifest.settings.changed(),
        command=command(manifest.settings, manifest.mode),
        answers=stored_answers(store, records),
    )
    if stay:
        write_summary(store, evaluation.summary, report.trust)
    return report


def command(settings: RunSettings, mode: Mode = "ask") -> str:
    """The command that makes the same run again, in a folder of its own.

    >>> from secl.runs.settings import RunSettings
    >>> command(RunSettings.of({"benchmarks": ["capitals:9", "science"], "tau": 0.7, "opening": False}))
    'secl run --model smollm2 --benchmarks capitals:9,science --set gate.opening=False --set evidence.tau=0.7 --out NEW'
    """
    from secl.runs.settings import shown
    from secl.setting_groups import has_flag, place_of

    parts, changed = ["secl", "run"], {"model": settings.model.name, **settings.changed()}
    if mode == "score":
        parts = ["secl", "score", changed.pop("questions")]
        del changed["method"]
    for name, value in changed.items():
        option = f"--{name.replace('_', '-')}"
        if not has_flag(name):
            parts += ["--set", f"{place_of(name)}={shown(name, value)}"]
        elif isinstance(value, bool):
            parts.append(option if value else f"--no-{option[2:]}")
        else:
            parts += [option, shown(name, value)]
    return shlex.join([*parts, "--out", "NEW"])


def distinct(folders: Sequence[Path]) -> list[str]:
    """Names of folders: their last part, or as many of the last as it takes to tell them apart.

    >>> distinct([Path("/runs/a/secl"), Path("/runs/b/secl")])
    ['a/secl', 'b/secl']
    """
    paths = [folder.resolve() for folder in folders]
    for depth in range(1, max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
