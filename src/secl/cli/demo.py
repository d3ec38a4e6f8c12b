"""The command demo: what the embedded model states, what secl says, and what is right, on one screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from secl.cli.app import app, console, echo
from secl.cli.run import proceed
from secl.display import counted, percent
from secl.grading.rules import grade
from secl.records import Record
from secl.reports.folder import write_report
from secl.reports.run_report import RunReport
from secl.reports.sections import Section, print_sections
from secl.reports.summary_table import main_table
from secl.reports.table import Cell, Column, Table
from secl.runs.folder import FILE
from secl.runs.runner import Run, resume_run, start_run, write_summary
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.scores import SCORES, Series

QUIZ: dict[str, object] = {
    "method": "secl",
    "model.name": "smollm2",
    "stream.benchmarks": ("capitals:60", "science:40", "misconceptions:20"),
    "loop.evidence_on": "always",
    "evidence.extra_evidence": ("candidates",),
}
"""The built-in quiz, with evidence for SECL and for the posterior."""

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
    'next: secl ask "What is the capital of Kenya?" --option Lagos --option Nairobi\n'
    "your own questions: secl run --questions FILE --out RUN"
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
    echo(NEXT)


def _ask(settings: dict[str, object], folder: Path, *, quiet: bool = True) -> None:
    def begin(place: Path) -> Run:
        run = resume_run(place) if (place / FILE).exists() else start_run(RunSettings.of(settings), place)
        run.notes = ()  # these messages are easy enough for a model that is too weak for most classes
        return run

    proceed(begin, folder, lambda _: None, quiet=quiet)


def _quiz(run: RunReport) -> list[Section]:
    best, stated = (run.summary.series[name] for name in ("posterior_best", "stated"))
    surest = (
        f"Accept the surest fifth: {percent(wrong_among_surest(best))} wrong. By the model's own word: "
        f"{percent(wrong_among_surest(stated))} wrong."
    )
    asked = f"Of {counted(len(best), 'question')}, from the surest to the least sure at equal steps:"
    table = main_table(run)
    return [
        Section("Five questions", [asked], [_five(run.rated, stated, best)]),
        Section(f"All {counted(len(best), 'question')}", [surest], [table] if table else []),
    ]


def _five(records: Sequence[Record], stated: Series, best: Series) -> Table:
    """Return a table of the surest and the least sure answer, and of three at equal steps between them."""
    ranked = best.rows[np.argsort(-best.confidence, kind="stable")]
    cells = []
    for row in ranked[np.linspace(0, ranked.size - 1, 5).astype(int)].tolist():
        model, secl = _cells(records[row], row, "stated", stated), _cells(records[row], row, "posterior_best", best)
        cells.append((records[row].question.text, *model, *secl))
    texts = [Column(heading, text=True, wraps=True) for heading in ("Question", "The model", "secl")]
    columns = (*texts[:2], Column("states"), texts[2], Column("says"))
    return Table(columns, {"": [[*map(Cell, row)] for row in cells]})


def _cells(record: Record, row: int, name: str, series: Series) -> tuple[str, str]:
    """Return the answer that a confidence rates, with its grade, and the confidence."""
    answer = SCORES[name].answer(record)
    shown = "" if answer is None else record.question.option(answer)
    (confidence,) = series.confidence[series.rows == row]
    return f"{shown}, {'right' if grade(record.question, answer) else 'wrong'}", percent(float(confidence))


def wrong_among_surest(series: Series, share: float = FIFTH) -> float:
    """Return the share of wrong answers among the graded answers with the highest confidences; nan without any."""
    confidence, correct = series.graded()
    surest = np.argsort(-confidence, kind="stable")[: round(share * confidence.size)]
    return float(1.0 - correct[surest].mean()) if surest.size else math.nan


def _classes(run: RunReport) -> Section:
    own, best = (run.summary.estimators[name] for name in ("stated", "posterior_best"))
    sentence = (
        f"{counted(best.n, 'message')}: the model's own letters are right for {percent(own.accuracy)}, stated "
        f"{percent(own.mean_confidence)}; secl's answers for {percent(best.accuracy)}, mean confidence "
        f"{percent(best.mean_confidence)}. Of the surest fifth, "
        f"{percent(wrong_among_surest(run.summary.series['posterior_best']))} are wrong."
    )
    return Section("Five classes", [sentence])


def _text(records: Sequence[Record]) -> Section:
    return Section("A text", ["A number stands behind each fact that is probably wrong."], texts=records)
