"""Summaries as tables: a row for each confidence that was computed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from secl.evaluation.baselines import FOLDS
from secl.evaluation.summary import EstimatorSummary, Summary
from secl.metrics.bootstrap import MEASURES
from secl.reports.formatting import UNDEFINED, amount, counted, number, percent, span
from secl.reports.table import Cell, Column, Table, to_csv

COLUMNS = ("Confidence", "ECE", "AdaECE", "Brier", "AUROC", "Accuracy", "n", "Cost paper", "Cost ours")
"""Headings, in order; costs are in forward passes per question, by the paper's ledger and as measured."""

FOOTNOTE = f"* needs right answers: {('', '', 'two', 'three', 'four', 'five')[FOLDS]}-fold cross-validation"


def summary_table(summaries: Mapping[str, Summary], intervals_of: Collection[str] = ("ece",)) -> Table:
    """The table of one summary, or of several with a section for each; what is undefined is a dash.

    Args:
        summaries: by the name of their run.
        intervals_of: measures whose 95% bootstrap intervals are shown.

    >>> from secl.evaluation.summary import summarise
    >>> summary_table({"run": summarise([])}).sections
    {'': []}
    """
    several = len(summaries) > 1
    sections = {
        run if several else "": [_row(row, intervals_of) for row in summary.estimators.values()]
        for run, summary in summaries.items()
    }
    captions = [f"{run}: {caption(summary)}" if several else caption(summary) for run, summary in summaries.items()]
    notes = dict.fromkeys(note for summary in summaries.values() for note in footnotes(summary))
    columns = [Column(heading, text=not index, wraps=not index) for index, heading in enumerate(COLUMNS)]
    return Table(columns, sections, (*captions, *notes))


def _row(row: EstimatorSummary, intervals_of: Collection[str]) -> tuple[Cell, ...]:
    intervals = row.intervals

    def interval(measure: str) -> str:
        if intervals is None or measure not in intervals_of:
            return ""
        if measure == "accuracy":
            return span(intervals.accuracy, lambda value: f"{100 * value:.0f}")
        return span(getattr(intervals, measure))

    return (
        Cell(row.estimator.title, row.fitted or ""),
        *(Cell(number(getattr(row, name), 3), interval(name)) for name in ("ece", "ada_ece", "brier", "auroc")),
        Cell(percent(row.accuracy), interval("accuracy")),
        Cell(amount(row.n)),
        Cell(number(row.cost_paper, 1)),
        Cell(number(row.cost_measured, 1)),
    )


def summary_csv(summaries: Mapping[str, Summary]) -> str:
    """Every number at full precision: a row for each run, domain (empty: all) and estimator.

    >>> print(summary_csv({})[:45])
    run,domain,estimator,confidence,needs_right_a
    """
    ranges = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    first = ("run", "domain", "estimator", "confidence", "needs_right_answers", "n")
    rows = [
        (run, domain, *_values(row))
        for run, whole in summaries.items()
        for domain, part in (("", whole), *whole.domains.items())
        for row in part.estimators.values()
    ]
    return to_csv((*first, *ranges, "cost_paper", "cost_measured", "fitted"), rows)


def _values(row: EstimatorSummary) -> tuple[object, ...]:
    values: list[object] = []
    for name in MEASURES:
        interval = getattr(row.intervals, name) if row.intervals else None
        values += (getattr(row, name), *((interval.low, interval.high) if interval else (None, None)))
    estimator = row.estimator
    title, labels = estimator.title.removesuffix("*"), int(estimator.needs_labels)
    return (estimator.name, title, labels, row.n, *values, row.cost_paper, row.cost_measured, row.fitted)


def caption(summary: Summary) -> str:
    """What a reader must know about the numbers: how many questions, what learning did, and the bin rule.

    >>> from secl.evaluation.summary import summarise
    >>> caption(summarise([])).split(".")[0]
    '0 questions: 0 trained, 0 alarms'
    """
    parts = [f"{amount(summary.trained)} trained", counted(summary.alarms, "alarm")]
    for count, words in (
        (summary.unlabelled, "without a reference"),
        (summary.unparsed, "unparsed"),
        (summary.low_digit_mass, "with little digit mass"),
    ):
        if count:
            parts.append(f"{amount(count)} {words}")
    text = f"{counted(summary.questions, 'question')}: {', '.join(parts)}. "
    if not math.isnan(summary.cost_measured):
        text += f"Measured cost of the run: {summary.cost_measured:.2f} forward passes per question. "
    text += "ECE has ten equal-width bins [lo, hi)"
    if any(row.intervals for row in summary.estimators.values()):
        text += "; ranges are 95% bootstrap intervals over questions"
    return text + "."


def footnotes(summary: Summary) -> list[str]:
    """What the stars mean, where there are any, and why there are dashes."""
    rows = summary.estimators.values()
    notes = []
    if any(row.estimator.needs_labels for row in rows):
        notes.append(f"{FOOTNOTE}.")
    if any(row.n == 0 for row in rows):
        notes.append(f"Without right answers to compare with (n = 0) no measure is defined ({UNDEFINED}).")
    if any(row.n and math.isnan(row.auroc) for row in rows):
        notes.append(
            f"AUROC is undefined ({UNDEFINED}) where all answers are right or all are wrong: nothing to tell apart."
        )
    return notes
