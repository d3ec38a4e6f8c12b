"""The command run, and the progress of long commands."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from rich import progress

from secl.calibrator import Calibrator
from secl.calibrator.stream import WINDOW_SIZE
from secl.cli.app import FURTHER_SETTINGS, Flag, Full, app, console, echo, fail
from secl.cli.report import write_and_print
from secl.display import amount, counted
from secl.errors import ParameterError, StorageError
from secl.fields.extraction import REQUESTS_AT_ONCE
from secl.records import Record
from secl.runs.cache import CachedModel, ReadingCache, maximum_size
from secl.runs.extracting import DocumentFile
from secl.runs.folder import check_free
from secl.runs.runner import Run, resume_run, start_run
from secl.runs.settings import RunSettings, read_toml
from secl.settings.groups import FLAT
from secl.settings.names import OF_OUTPUT, dotted, given_by

NoCache = Annotated[bool, Flag, OF_OUTPUT]
DryRun = Annotated[bool, Flag, OF_OUTPUT]

Finisher = Callable[["Run"], None]
"""Reports a run after its last question."""

TASKS = {"ask": ("asking", "question"), "score": ("rating", "answer"), "extract": ("extracting", "field")}
"""For each mode of a run: its verb for the progress bar, and the noun for what the bar counts."""


@app.command(help_epilogue=FURTHER_SETTINGS)
def run(
    recipe: Path | None = None,
    /,
    *,
    flags: Annotated[RunSettings | None, FLAT] = None,
    out: Annotated[Path | None, OF_OUTPUT] = None,
    resume: Annotated[Path | None, OF_OUTPUT] = None,
    full: Annotated[Full, OF_OUTPUT] = False,
    no_cache: NoCache = False,
    dry_run: DryRun = False,
) -> None:
    """Ask the questions of a file or benchmarks, and report how good the confidences are.

    Args:
        recipe: A TOML recipe; flags override its settings.
        out: Folder of the new run.
        resume: Continue this unfinished run, with its own settings.
        no_cache: Ask the model everything, also what an earlier run has asked (secl cache).
        dry_run: Ask only the first questions, and print how long all of them take; needs no --out.
    """
    settings = {**dotted(read_toml(recipe) if recipe else {}), **given_by(flags)}
    if resume is not None:
        if out is not None and out != resume:
            raise ParameterError("a resumed run stays in its folder; drop --out.")
        if dry_run:
            raise ParameterError("--dry-run is for a new run; drop --resume.")
        proceed(lambda place: resume_run(place, settings, cache=open_cache(no_cache)), resume, print_result(full=full))
        return
    if out is None and not dry_run:
        raise ParameterError("a new run needs a folder; name it with --out.")
    new = RunSettings.of(settings)
    if dry_run:
        estimate(lambda place: start_run(new, place), out)
        return
    proceed(lambda place: start_run(new, place, cache=open_cache(no_cache)), out, print_result(full=full))


def estimate(open_run: Callable[[Path], Run], out: Path | None) -> None:
    """Ask the first window of a run, keep nothing of it, and print how long the whole run takes.

    Raises:
        RunError: the folder `out`, in which the run would begin, is not free.
    """
    if out is not None:
        check_free(out)
    with TemporaryDirectory(prefix="secl-") as place:
        with console().status("loading model and questions"):
            run = open_run(Path(place))
        with run.store:
            name_skipped(run.manifest.skipped)
            total, window, noun = len(run.questions), WINDOW_SIZE, TASKS[run.manifest.mode][1]
            for text in (model_line(run.calibrator), cost_line(run)):
                if text:
                    echo(text)
            if isinstance(run.asked, DocumentFile):
                documents = run.asked.requests
                total, window, noun = len(documents), REQUESTS_AT_ONCE, "document"
                run.asked = replace(run.asked, requests=documents[:window])
            began, window = time.monotonic(), min(window, total)
            for _ in islice(run.steps(), None if noun == "document" else window):
                pass
            seconds = time.monotonic() - began
    whole = timedelta(seconds=math.ceil(seconds / window * total))
    echo(f"the first {counted(window, noun)} took {seconds:.1f} s, so all {amount(total)} take about {whole}.")


def open_cache(no_cache: bool) -> ReadingCache | None:
    return None if no_cache or not maximum_size() else ReadingCache()


def print_result(*, full: bool = False) -> Finisher:
    """Return a function that writes the report of a run and prints the result."""
    return lambda run: write_and_print(run.store, full=full)


def name_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Print the first ten skipped questions with the reasons, and the number of the others."""
    for where, reason in skipped[:10]:
        echo(f"skipped: {where} {reason}", error=True)
    if len(skipped) > 10:
        echo(f"skipped: {len(skipped) - 10} more, {len(skipped)} in all", error=True)


def proceed(open_run: Callable[[Path], Run], folder: Path | None, finish: Finisher, *, quiet: bool = False) -> None:
    """Open a run, ask its remaining questions with a progress bar, and call `finish`; Ctrl-C keeps the records.

    Args:
        open_run: opens the run in a folder.
        folder: folder of the run; None keeps nothing.
        finish: reports the run after the last question.
        quiet: print nothing about the model.
    """
    with TemporaryDirectory(prefix="secl-") if folder is None else nullcontext(folder) as place:
        try:
            with console(stderr=quiet).status("loading model and questions"):
                run = open_run(Path(place))
        except KeyboardInterrupt:
            fail("stopped before the first question.")
        if not quiet and (line := model_line(run.calibrator)):
            echo(line)
        if not quiet and (cost := cost_line(run)):
            echo(cost)
        for note in run.notes:
            echo(f"warning: {note}", error=True)
        name_skipped(run.manifest.skipped)
        with run.store:
            try:
                _watch(run, transient=folder is None)
                if isinstance(model := run.calibrator.model, CachedModel) and model.found:
                    found = counted(model.found, "object" if run.manifest.mode == "extract" else "answer")
                    echo(f"from the cache: {found}; --no-cache asks the model again.")
                run.keep()
                finish(run)
            except KeyboardInterrupt:
                again = f"all are recorded; continue with: secl run --resume {shlex.quote(str(folder))}"
                hint = "nothing is kept without --out." if folder is None else again
                noun = TASKS[run.manifest.mode][1]
                fail(f"stopped after {len(run.records)} of {len(run.questions)} {noun}s; {hint}")
            except StorageError:
                if folder is not None:
                    raise
                fail("secl cannot write temporary files; give --out a folder on a disk with space.")


def model_line(calibrator: Calibrator) -> str:
    """Describe a local model, and its adapter if it learns, in one line; return "" for a model on a server."""
    model: Any = calibrator.model
    if not hasattr(model, "described"):
        return ""
    return f"model {model.name}: {model.described}{f'; {model.adapted}' if calibrator.learns else ''}"


def cost_line(run: Run) -> str:
    """Estimate the requests and tokens of a run's remaining questions on a server; return "" for a local model."""
    model: Any = run.calibrator.model
    asked = (run.asked.given or run.asked.questions)[len(run.records) :]
    if not hasattr(model, "cost") or isinstance(run.asked, DocumentFile) or not asked:
        return ""
    plan = run.calibrator.plan
    kinds = plan.wanted(in_burst=False) if run.asked.given is None else plan.rated
    return str(model.cost(asked, kinds, plan.loop.samples))


def _watch(run: Run, *, transient: bool) -> None:
    asking, noun = TASKS[run.manifest.mode]
    with follow(asking, len(run.questions), len(run.records), noun=noun, transient=transient) as shown:

        def show(done: int, total: int, record: Record | None) -> None:
            text = asking
            if record is not None and record.kind == "asked":
                text = f"{record.question.domain[:14]:14} {'learning' if record.decision.in_burst else 'watching'}"
            shown(done, total, text)

        run.proceed(show)


EVERY = 30.0
"""Seconds between two lines about progress, if standard error is no terminal."""

MIN_ANSWERS = 10
"""Number of answered questions after which lines show the remaining time."""

PATIENCE = 120.0
"""Maximum number of seconds that the first line waits for `MIN_ANSWERS` answers."""

Show = Callable[[int, int | None, str], None]
"""Shows the number of finished questions, the total (None while unknown), and the present step."""


@contextmanager
def follow(
    text: str, total: int | None, done: int = 0, *, noun: str = "question", transient: bool = False
) -> Iterator[Show]:
    """Show progress on standard error while the block runs: a bar in a terminal, otherwise a line every half minute.

    `noun` names what the progress counts, in the singular.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lines(done, noun)
        return
    text_column = progress.TextColumn("{task.description}", markup=False)
    columns = (text_column, progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, progress.TimeRemainingColumn(), console=screen, transient=transient) as bar:
        task = bar.add_task("", total=None, completed=done)

        def show(now: int, whole: int | None, what: str) -> None:
            busy = not now and whole is not None
            title = f"{what} {counted(whole, noun)}" if busy and whole else what
            bar.update(task, completed=now, total=None if busy else whole, description=title)

        show(done, total, text)
        yield show


def lines(before: int, noun: str = "question", clock: Callable[[], float] = time.monotonic) -> Show:
    """Return a function that prints a line if the last one is half a minute old.

    The first line waits for answers from which secl can estimate the remaining time.
    """
    began = latest = clock()

    def show(done: int, total: int | None, _text: str) -> None:
        nonlocal latest
        now = clock()
        early = total is not None and done - before < MIN_ANSWERS and now - began < PATIENCE
        if now - latest >= EVERY and not early:
            latest = now
            echo(line(done, total, done - before, now - began, noun), error=True)

    return show


def line(done: int, total: int | None, here: int, seconds: float, noun: str = "question") -> str:
    """Return progress and remaining time in words.

    `here` is the part of `done` that this process did, in `seconds`.

    >>> line(40, 2100, 30, 90.0)
    '40 of 2,100 questions, 0:01:30, about 1:43:00 to go'
    """
    if total is None:
        return f"{counted(done, noun)}, {timedelta(seconds=int(seconds))}"
    text = f"{amount(done)} of {counted(total, noun)}, {timedelta(seconds=int(seconds))}"
    if here >= MIN_ANSWERS and done < total:
        text += f", about {timedelta(seconds=int(seconds / here * (total - done)))} to go"
    return text
