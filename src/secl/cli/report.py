"""Commands that read runs: report and export."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import Flag, Full, RunFolder, app, console, echo
from secl.errors import ParameterError
from secl.grading.rules import regrade
from secl.question import Grader
from secl.records import Record
from secl.reports.folder import check_folder, write_report
from secl.reports.formatting import terminal_text
from secl.reports.result import look_first, next_step
from secl.reports.run_report import RunReport
from secl.reports.sections import print_sections, sections_of
from secl.reports.verdict import trust_line
from secl.runs.export import write, write_version
from secl.runs.folder import check_outside
from secl.runs.labelling import current_records
from secl.runs.runner import write_summary
from secl.runs.store import Store


@app.command
def report(run: RunFolder, /, *, grader: Grader | None = None, out: Path | None = None, full: Full = False) -> None:
    """Write a page about a run, finished or not, and print the result.

    All numbers are in summary.json beside the page. With --out, secl also writes the pictures as files.

    Args:
        grader: Grade open answers again by this rule, for this report only.
        out: Folder of the report; by default the run's own, or RUN/graded-GRADER with --grader.
    """
    if out is not None and out.resolve() == run.resolve():
        out = None
    if grader is not None and out is None:
        out = run / f"graded-{grader}"  # a separate folder, so that the run keeps its own report
    if out is not None:
        check_folder(out)
    with Store(run) as store:
        records = list(current_records(store))
        if grader is not None and records:
            kept = (r.question.options or r.question.reference is None or r.outcome == "field" for r in records)
            if all(kept):
                raise ParameterError(f"{run} has no open answer to grade by a reference; leave --grader out.")
            records = regrade(records, grader)
        write_and_print(store, records, out, full=full)


@app.command
def export(
    run: RunFolder,
    /,
    *,
    format: str | None = None,
    full: Annotated[bool, Flag] = False,
    review: Annotated[bool, Flag] = False,
    version: int | None = None,
    out: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
) -> None:
    """Write the table of a run (your columns, answers, confidences), its complete records, or its learned weights.

    Args:
        format: csv, xlsx or parquet for the table; jsonl for complete records; by default the suffix of --out.
        full: Add every field of a record to the table, for example reply.entropy.
        review: Put the rows with the most expected errors first, and graded answers last.
        version: Write this version of the learned weights instead of the table, as a folder for PEFT.
        out: File (- for standard output) or folder; RUN/records.FORMAT or RUN/adapter-N by default.
    """
    if version is not None and format is not None:
        raise ParameterError("--version writes a folder for PEFT, without a format; leave --format or --version out.")
    if version is not None and str(out) == "-":
        raise ParameterError("an adapter is written as a folder, not as text; name a folder with --out.")
    with Store(run) as store:
        if version is not None:
            folder = out or run / f"adapter-{version}"
            check_outside(folder, run)
            path: Path | None = write_version(store, version, folder)
        else:
            path = write(store, format, out, full=full, review=review)
        if version is None and store.pruned:
            echo(store.pruned, error=True)
    if path is not None:
        console().print(str(path), soft_wrap=True)


def write_and_print(store: Store, records: Sequence[Record], out: Path | None = None, *, full: bool = False) -> None:
    """Write the report and the summary of a run; print all tables (`full`) or a short result."""
    run = RunReport.of(store, records)
    page = write_report(out or store.folder, run, of_run=out is None)
    write_summary(store, run.summary, run.trust, page.parent)
    screen, sections = console(), list(sections_of(run))
    print_sections(sections if full else [replace(sections[0], title="")], screen)
    for line in (trust_line(run.trust), None if full else look_first(run.records)):
        if line is not None:
            screen.print(terminal_text(line), highlight=False)
    if store.pruned:
        screen.print(store.pruned, soft_wrap=True)
    screen.print(f"page: {page}", soft_wrap=True)
    if not full:
        again = "the same command with --full" if out else f"secl report {shlex.quote(str(store.folder))} --full"
        screen.print(f"all tables: {again}", soft_wrap=True)
        screen.print(f"next: {next_step(run, store.folder)}", soft_wrap=True)
