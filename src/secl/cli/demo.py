"""The command demo: what the embedded model states, what secl says, and what is right, on one screen."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from secl.cli.app import app, console, echo
from secl.cli.run import proceed
from secl.display import counted, number, percent
from secl.errors import ParameterError
from secl.grading.rules import grade
from secl.records import Record
from secl.reports.folder import write_report
from secl.reports.run_report import RunReport
from secl.reports.sections import Section, print_sections
from secl.reports.table import Cell, Column, Table, plain_table
from secl.runs.folder import FILE
from secl.runs.manifest import Manifest
from secl.runs.runner import Run, resume_run, start_run, write_summary
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.scores import SCORES, Series

QUIZ: dict[str, object] = {
    "model.name": "smollm2",
    "stream.benchmarks": ("capitals:60", "science:40", "misconceptions:20"),
    "loop.answer": "best",
}
"""The built-in quiz."""

CLASSES: dict[str, object] = {
    "model.name": "smollm2",
    "stream.questions": str(files("secl.data").joinpath("facts", "messages.csv")),
    "stream.columns": ("reference=topic",),
    "stream.template": "Which topic is this message about? {message}",
    "stream.options": ("travel", "sport", "cooking", "money", "health"),
    "stream.order": "shuffled",
}
"""Forty messages in five classes."""

TEXT: dict[str, object] = {
    "model.name": "smollm2",
    "stream.questions": str(files("secl.data").joinpath("facts", "texts.jsonl")),
}
"""One text."""

FIFTH = 0.2
"""Share of the answers that the demo accepts."""

NEXT = (
    'next: {secl} ask "What is the capital of Kenya?" --option Lagos --option Nairobi\n'
    "your own questions: {secl} run --questions FILE --out RUN"
)


@app.command
def demo(*, out: Path = Path("runs/demo")) -> None:
    """Show on the embedded model what it states, what secl says, and what is right: a quiz, five classes, a text.

    Args:
        out: Folder of the run of the quiz; the other two are inside. secl continues an unfinished run.
    """
    _ask(QUIZ, out, quiet=False)
    _ask(CLASSES, out / "classes")
    _ask(TEXT, out / "text")
    with Store(out) as store, Store(out / "classes") as classes, Store(out / "text") as text:
        run = RunReport.of(store)
        sections = [*_quiz(run), _classes(RunReport.of(classes)), _text(RunReport.of(text).records)]
        page = write_report(store.folder, run, of_run=True, first=sections)
        write_summary(store, run.summary, run.trust, store.folder)
    screen = console()
    print_sections(sections, screen)
    screen.print(f"page: {page}", soft_wrap=True)
    echo(NEXT.format(secl="secl" if shutil.which("secl") else sys.argv[0]))


def _ask(settings: dict[str, object], folder: Path, *, quiet: bool = True) -> None:
    wanted = RunSettings.of(settings)

    def begin(place: Path) -> Run:
        run = _resume(place, wanted) if (place / FILE).exists() else start_run(wanted, place)
        run.notes = ()  # these messages are easy enough for a model that is too weak for most classes
        return run

    proceed(begin, folder, lambda _: None, quiet=quiet)


def _resume(folder: Path, wanted: RunSettings) -> Run:
    """Resume the run of a folder. Raises ParameterError: the run has other settings."""
    with Store(folder) as store:
        differing = Manifest.of(store).settings.differences(wanted, ("in the folder", "in the demo"))
    if differing:
        raise ParameterError(f"{folder} has another run ({differing[0]}); name another folder with --out.")
    return resume_run(folder)


def _quiz(run: RunReport) -> list[Section]:
    stated, best = (run.summary.series[name] for name in ("stated", "posterior_best"))
    model = "SmolLM2-135M comes with secl. It is tiny: it knows some capitals, and guesses most of the rest."
    asked = f"Of {counted(len(best), 'question')}, from the surest to the least sure at equal steps:"
    surest = (
        f"Accept the surest fifth: {percent(wrong_among_surest(best))} wrong. By the model's own word: "
        f"{percent(wrong_among_surest(stated))} wrong."
    )
    return [
        Section("Five questions", [model, asked], [_five(run.rated, stated, best)]),
        Section(f"All {counted(len(best), 'question')}", [surest], [_measures(run)]),
    ]


def _five(records: Sequence[Record], stated: Series, best: Series) -> Table:
    """Return a table of the surest and the least sure answer, and of three at equal steps between them."""
    ranked = best.rows[np.argsort(-best.confidence, kind="stable")]
    columns = [Column(heading, text=True, wraps=True) for heading in ("Question", "The model states", "secl says")]
    rows = [
        [
            Cell(records[row].question.text),
            *(_cell(records[row], row, *each) for each in (("stated", stated), ("posterior_best", best))),
        ]
        for row in ranked[np.linspace(0, ranked.size - 1, 5).astype(int)].tolist()
    ]
    return Table(columns, {"": rows})


def _cell(record: Record, row: int, name: str, series: Series) -> Cell:
    """Return the answer that a confidence rates, with the confidence and the grade."""
    answer = SCORES[name].answer(record)
    shown = "no answer" if answer is None else record.question.option(answer)
    (confidence,) = series.confidence[series.rows == row]
    return Cell(f"{shown} {percent(float(confidence))}", "right" if grade(record.question, answer) else "wrong")


def _measures(run: RunReport) -> Table:
    """Return a table of the measures of the model's answers, and of those that secl returns."""
    rows = [
        (who, percent(row.accuracy), percent(row.mean_confidence), number(row.brier, 3), number(row.auroc, 3))
        for who, name in (("the model states", "stated"), ("secl says", "posterior_best"))
        for row in (run.summary.estimators[name],)
    ]
    return plain_table(("", "right", "mean confidence", "Brier score", "AUROC"), rows, texts=1)


def wrong_among_surest(series: Series, share: float = FIFTH) -> float:
    """Return the share of wrong answers among the graded answers with the highest confidences; nan without any."""
    confidence, correct = series.graded()
    surest = np.argsort(-confidence, kind="stable")[: round(share * confidence.size)]
    return float(1.0 - correct[surest].mean()) if surest.size else math.nan


def _classes(run: RunReport) -> Section:
    own, best = (run.summary.estimators[name] for name in ("stated", "posterior_best"))
    sentence = (
        f"Of {counted(best.n, 'message')}, the model's own choices are right for {percent(own.accuracy)} (it states "
        f"{percent(own.mean_confidence)}), and those of secl for {percent(best.accuracy)} (it says "
        f"{percent(best.mean_confidence)}). Of the surest fifth, "
        f"{percent(wrong_among_surest(run.summary.series['posterior_best']))} are wrong."
    )
    return Section("Five classes", [sentence])


def _text(records: Sequence[Record]) -> Section:
    return Section(
        "A text", ["A number stands behind each name, number or date that is probably wrong."], texts=records
    )
