"""Commands that read runs: report and export."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, AsTable, Flag, Full, RunFolder, app, console, echo, print_json
from secl.display import percent, terminal_text
from secl.errors import ParameterError, RunError
from secl.evaluation.summary import load_score
from secl.question import Grader
from secl.reports.acceptance_report import promise_sentence
from secl.reports.folder import check_folder, write_report
from secl.reports.formats import TableForm, table_text
from secl.reports.result import look_first, next_step
from secl.reports.run_report import RunReport
from secl.reports.sections import print_sections, sections_of
from secl.reports.summary_table import published_table
from secl.runs.export import Content, Selection, describe_sheet, write, write_version
from secl.runs.folder import check_outside
from secl.runs.labelling import advice_of, calibration_of
from secl.runs.manifest import Manifest
from secl.runs.runner import summary_json, write_summary
from secl.runs.store import Store
from secl.scores import Score


@app.command
def report(
    run: RunFolder,
    /,
    *,
    grader: Grader | None = None,
    estimator: list[str] | None = None,
    out: Path | None = None,
    full: Full = False,
    table: AsTable = None,
    as_json: AsJson = False,
) -> None:
    """Write a page about a run, finished or not, and print the result.

    All numbers are in summary.json beside the page, under the names of `secl.evaluation.summary.Summary`. With --out,
    secl also writes the main table (LaTeX, CSV, Markdown) and the pictures (PDF, SVG, PNG) as files.

    Args:
        grader: Grade open answers again by this rule, for this report only.
        estimator: Add your own confidence to the tables: FILE.py:NAME, a function from a record to a number.
        out: Folder of the report; by default the run's own, or RUN/graded-GRADER with --grader.
    """
    own = [load_score(name) for name in estimator or ()]
    if table is not None or as_json:
        if out is not None or full or (table is not None and as_json):
            raise ParameterError("--table and --json print one thing and write no files; leave the other flags out.")
        with Store(run) as store:
            _print_only(store, RunReport.of(store, grader, own), table)
        return
    if out is not None and out.resolve() == run.resolve():
        out = None
    if grader is not None and out is None:
        out = run / f"graded-{grader}"  # a separate folder, so that the run keeps its own report
    if out is not None:
        check_folder(out)
    with Store(run) as store:
        write_and_print(store, out, grader=grader, full=full, own=own)


def _print_only(store: Store, run: RunReport, form: TableForm | None) -> None:
    """Print the table for a paper in a form, or without a form the summary as JSON."""
    if form is None:
        print_json(summary_json(store, run.summary, run.trust))
        return
    echo(table_text(published_table(run), form), end="")
    if not run.complete:
        echo(f"secl: {store.folder} is unfinished; continue with {next_step(run, store.folder)}", error=True)


@app.command
def export(
    run: RunFolder,
    /,
    *,
    format: str | None = None,
    full: Annotated[bool, Flag] = False,
    facts: Annotated[bool, Flag] = False,
    review: Annotated[bool, Flag] = False,
    sample: int | None = None,
    accept: float | None = None,
    risk: float | None = None,
    certainty: float | None = None,
    only: Selection | None = None,
    version: int | None = None,
    out: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
) -> None:
    """Write the table of a run (your columns, answers, confidences), its complete records, or its learned weights.

    Args:
        format: csv, xlsx or parquet for the table; jsonl for complete records; by default the suffix of --out.
        full: Add every field of a record to the table, for example reply.entropy.
        facts: Write a row for each fact in place of each text (form text).
        review: Put the rows with the most expected errors first, and graded answers last. Each fact has a row.
        sample: Write a table of this many answers, drawn at random, for people to label (secl label RUN --from FILE).
        accept: Fill the column accepted: whether the confidence reaches this value of secl threshold.
        risk: Fill the column accepted: the most answers of which at most this share is wrong, for example 0.1.
        certainty: Probability that the guarantee of --risk holds; 0.9 by default.
        only: Write only the accepted rows, or only the others; by --accept, --risk or the threshold of the run.
        version: Write this version of the learned weights instead of the table, as a folder for PEFT.
        out: File (- for standard output) or folder; RUN/records.FORMAT or RUN/adapter-N by default.
    """
    if version is not None and format is not None:
        raise ParameterError("--version writes a folder for PEFT, without a format; leave --format or --version out.")
    if version is not None and str(out) == "-":
        raise ParameterError("an adapter is written as a folder, not as text; name a folder with --out.")
    if accept is not None and risk is not None:
        raise ParameterError("--accept and --risk both choose the accepted answers; leave one of them out.")
    if certainty is not None and risk is None:
        raise ParameterError("--certainty is the certainty of --risk; give --risk, or leave --certainty out.")
    if version is not None and any(each is not None for each in (accept, risk, only)):
        raise ParameterError(
            "learned weights have no accepted answers; leave --version out, or --accept, --risk and --only."
        )
    with Store(run) as store:
        if version is not None:
            folder = out or run / f"adapter-{version}"
            check_outside(folder, run)
            path: Path | None = write_version(store, version, folder)
            sheet = None
        else:
            threshold = None if accept is None else calibration_of(store).uncalibrated(accept)
            promise = None
            if risk is not None:
                threshold, promise = _promised(store, risk, 0.9 if certainty is None else certainty)
            content = Content(
                full=full,
                facts=facts,
                review=review,
                threshold=threshold,
                objects=promise is None,
                only=only,
                sample=sample,
            )
            written = write(store, format, out, content)
            path, sheet = written.path, describe_sheet(written, run) if review or sample is not None else None
            if promise is not None:
                echo(promise, error=True)
        if version is None and store.pruned:
            echo(store.pruned, error=True)
    if path is not None:
        console().print(str(path), soft_wrap=True)
    if sheet is not None:
        echo(sheet)


def _promised(store: Store, risk: float, certainty: float) -> tuple[float, str]:
    """Return the label-free threshold for a risk, and a sentence about it.

    Raises:
        RunError: no threshold keeps the risk.
    """
    _, advice = advice_of(store, risk, certainty)
    if advice.threshold is None:
        folder = shlex.quote(str(store.folder))
        raise RunError(
            f"no confidence keeps a risk of {percent(risk)}, so secl can accept no answer of {store.folder}; secl "
            f"threshold {folder} --risk {risk:g} shows the next step."
        )
    unit = " The promise is about values (columns ending in _accepted), not about whole documents."
    extracted = Manifest.of(store).mode == "extract"
    return advice.threshold.uncalibrated, f"{promise_sentence(advice)}{unit if extracted else ''}"


def write_and_print(
    store: Store,
    out: Path | None = None,
    *,
    grader: Grader | None = None,
    full: bool = False,
    own: Sequence[Score] = (),
) -> None:
    """Write the report and the summary of a run; print all tables (`full`) or a short result.

    `own`: further scores, of the user.
    """
    run = RunReport.of(store, grader, own)
    page = write_report(out or store.folder, run, of_run=out is None)
    write_summary(store, run.summary, run.trust, page.parent)
    screen, sections = console(), list(sections_of(run))
    print_sections(sections if full else [replace(sections[1], title="")], screen)
    for line in (run.trust.line, None if full else look_first(run.rated)):
        if line is not None:
            screen.print(terminal_text(line), highlight=False)
    if store.pruned:
        screen.print(store.pruned, soft_wrap=True)
    screen.print(f"page: {page}", soft_wrap=True)
    if not full:
        again = "the same command with --full" if out or own else f"secl report {shlex.quote(str(store.folder))} --full"
        screen.print(f"all tables: {again}", soft_wrap=True)
        screen.print(f"next: {next_step(run, store.folder)}", soft_wrap=True)
