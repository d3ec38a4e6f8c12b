"""Tables of a summary, with a row for each confidence or for each domain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from secl.display import RANGE, UNDEFINED, amount, counted, number, percent
from secl.errors import RunError
from secl.evaluation.summary import Measures, Summary
from secl.metrics.intervals import UNDEFINED as NO_INTERVAL
from secl.metrics.intervals import Interval
from secl.metrics.measures import MEASURES
from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Table, TableRow, plain_table
from secl.scores import LABELLED_SCORES

COLUMNS = ("Confidence", "Brier", "ECE", "AUROC", "Accuracy", "n", "Cost paper", "Cost ours")
"""Headings of `summary_table`. `secl.reports.sections.COST_NOTE` explains the two costs."""

FOOTNOTE = "* fitted to grades, with five-fold cross-validation."

LABELLED_NOTE = (
    "+ labels: confidences after calibration with labels. In a run, the confidence of a labelled answer in this table "
    "does not use the answer's own label."
)


def summary_table(summary: Summary) -> Table:
    """Return a table with a row for each confidence, and dashes for undefined numbers."""
    rows = [[*score_cells(row).values()] for row in summary.estimators.values()]
    columns = [Column(heading, text=not index, wraps=not index) for index, heading in enumerate(COLUMNS)]
    return Table(columns, {"": rows}, (caption(summary), *footnotes(summary)))


def main_table(run: RunReport) -> Table | None:
    """Return a table of accuracy and scores for `RunReport.foremost`, and with labels; None without a graded answer."""
    rows = [row for name in (*run.foremost, *LABELLED_SCORES) if (row := run.summary.estimators.get(name)) and row.n]
    headings = ("Confidence", "Accuracy", "Mean confidence", "Brier", "AUROC")
    shares = [(percent(row.accuracy, 1), percent(row.mean_confidence, 1)) for row in rows]
    texts = [(r.title, *pair, number(r.brier, 3), number(r.auroc, 3)) for r, pair in zip(rows, shares, strict=True)]
    counts = ", ".join(f"{row.title}: {amount(row.n)}" for row in rows)
    notes = [f"The numbers of graded answers differ ({counts}), because a label grades only the returned answer."]
    notes = notes if len({row.n for row in rows}) > 1 else []
    notes += [LABELLED_NOTE] if any(row.title.endswith("+ labels") for row in rows) else []
    return plain_table(headings, texts, tuple(notes), texts=1) if rows else None


PUBLISHED = ("accuracy", "mean_confidence", "brier", "ece", "auroc")
"""Measures in tables for a paper."""


def published_table(run: RunReport) -> Table:
    """Return a table for a paper: a row for each confidence of a run, with 95% intervals.

    Raises:
        RunError: the run has no graded answer.
    """
    rows = [row for row in run.summary.estimators.values() if row.n]
    if not rows:
        raise RunError(
            f"{run.name} has no graded answer, so its table has no numbers; add right answers (column reference), or "
            "label some (secl label)."
        )
    notes = ["Brackets: 95% intervals over questions.", *footnotes(run.summary)]
    if not run.complete:
        notes.append(f"Unfinished: {amount(len(run.records))} of {counted(run.manifest.total, 'question')} answered.")
    cells = [
        [Cell(row.title), *(_measured(row, name) for name in PUBLISHED), Cell(amount(row.n), numbers={"": row.n})]
        for row in rows
    ]
    return Table([Column("Confidence", text=True), *map(Column, (*_titles(), "n"))], {"": cells}, notes)


def _titles() -> list[str]:
    return [MEASURES[name] for name in PUBLISHED]


def _measured(row: Measures, name: str) -> Cell:
    value, interval = getattr(row, name), (row.intervals or {}).get(name, NO_INTERVAL)
    low, high = interval.low, interval.high
    detail = "" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]"
    return Cell(number(value, 3), detail, {"": value, "low": low, "high": high})


def seeds_table(groups: Mapping[tuple[str, str], Sequence[Summary]]) -> Table:
    """Return a table for a paper: mean and standard deviation over seeds, for each confidence of each group.

    `groups`: the summaries of runs that differ only in their seeds, by model and further settings.
    """
    rows = []
    for labels, summaries in groups.items():
        for name, first in summaries[0].estimators.items():
            each = [summary.estimators[name] for summary in summaries if name in summary.estimators]
            if any(row.n for row in each):
                cells = [_over_seeds([getattr(row, measure) for row in each]) for measure in PUBLISHED]
                rows.append([*map(Cell, (*labels, first.title)), *cells, Cell(str(len(each)))])
    notes = [f"Mean ± standard deviation over seeds (n - 1 degrees of freedom; {UNDEFINED} with one seed)."]
    headings = ("Model", "Settings", "Confidence")
    columns = [*(Column(heading, text=True) for heading in headings), *map(Column, (*_titles(), "Seeds"))]
    return Table(columns, {"": rows}, notes)


def _over_seeds(values: Sequence[float]) -> Cell:
    mean, deviation = fmean(values), math.nan
    if len(values) > 1 and not math.isnan(mean):
        deviation = stdev(values)
    detail = "" if math.isnan(mean) else f"± {number(deviation, 3)}"
    return Cell(number(mean, 3), detail, {"": mean, "sd": deviation})


def score_cells(row: Measures | None) -> dict[str, Cell]:
    """Return the cells of a row of `summary_table` by their heading, with dashes if `row` is None."""
    if row is None:
        return {heading: Cell(UNDEFINED) for heading in COLUMNS}
    intervals, within = row.intervals or {}, row.ece_within_floor
    side = "" if within is None else f"{'within' if within else 'above'} {row.ece_floor_95:.3f}"
    cells = (
        Cell(row.title, row.fitted or ""),
        Cell(number(row.brier, 3), _span(intervals.get("brier"))),
        Cell(number(row.ece, 3), side),
        Cell(number(row.auroc, 3), _span(intervals.get("auroc"))),
        Cell(percent(row.accuracy, 1)),
        Cell(amount(row.n)),
        Cell(number(row.cost_paper, 1)),
        Cell(number(row.cost_measured, 1)),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _span(interval: Interval | None) -> str:
    """Return an interval as text; empty for None or an undefined interval."""
    if interval is None or math.isnan(interval.low):
        return ""
    # A dash next to a minus sign would be ambiguous.
    between = RANGE if interval.low >= 0.0 else " to "
    return f"{interval.low:.3f}{between}{interval.high:.3f}"


def caption(summary: Summary) -> str:
    """Return a note on the number of questions, on learning, on the measured cost, and on the cells of ECE."""
    of_texts = 0 < summary.facts == summary.answers
    without = f"of {counted(summary.facts, 'fact')} without a label" if of_texts else "without a reference"
    parts = [f"{amount(summary.trained)} trained the adapter", counted(summary.alarms, "alarm")]
    if summary.failed:
        parts.append(f"{counted(summary.failed, 'update')} undone because some numbers were not finite")
    for count, words in (
        (summary.unlabelled, without),
        (summary.unparsed, "without a readable answer"),
        (summary.low_digit_mass, "with improbable digits of the stated confidence"),
    ):
        parts += [f"{amount(count)} {words}"] if count else []
    text = f"{counted(summary.questions, 'question')}: {', '.join(parts)}."
    if not math.isnan(summary.true_mass):
        text += (
            f" Asked for True or False, the model gives both together a median probability of {summary.true_mass:.2f}."
        )
    if not math.isnan(summary.cost_measured):
        steps = f" and {summary.decoding_steps:.0f} decoding steps" if summary.decoding_steps > 0 else ""
        text += f" Measured cost of the run: {summary.cost_measured:.2f} forward passes{steps} per question."
    text += (
        ' ECE has ten equal-width bins [lo, hi). "within" and "above" compare an ECE with its 95% limit under perfect '
        "calibration"
    )
    intervals = any(row.intervals for row in summary.estimators.values())
    allow = "; ranges are 95% intervals, which allow for answers of one document or text that are wrong together."
    return f"{text}{allow}" if intervals else f"{text}."


def footnotes(summary: Summary) -> list[str]:
    """Return notes on the stars, plus signs and dashes of `summary_table`."""
    rows = summary.estimators.values()
    notes = []
    if any(row.title.endswith("*") for row in rows):
        notes.append(FOOTNOTE)
    if {*LABELLED_SCORES} & {*summary.estimators}:
        notes.append(LABELLED_NOTE)
    if any(row.n == 0 for row in rows):
        notes.append(f"Without graded answers (n = 0), no measure is defined ({UNDEFINED}).")
    if any(row.n and math.isnan(row.auroc) and row.ranks for row in rows):
        notes.append(f"AUROC is undefined ({UNDEFINED}) if all answers are right or all are wrong.")
    return notes


def domain_table(run: RunReport) -> Table:
    """Return a table of calibration and learning for each domain."""
    rows = run.summary.estimators
    stated = {"stated": "Stated (frozen)"} if "stated" in rows or run.main == "stated" else {}
    names = stated | ({run.main: rows[run.main].title} if run.main != "stated" else {})
    headings = ["Questions", "Brier", "ECE", "AUROC", "Accuracy", *(["Trained", "Alarms"] if run.watched else [])]
    sections = {
        title: [_domain_row(domain, part, name, run.watched) for domain, part in run.summary.domains.items()]
        for name, title in names.items()
    }
    return Table([Column("Domain", text=True, wraps=True), *map(Column, headings)], sections)


def _domain_row(domain: str, part: Summary, name: str, watched: bool) -> TableRow:
    cells, best = score_cells(part.estimators.get(name)), part.estimators.get("posterior_best")
    more = "" if best is None or name == "stated" or math.isnan(best.accuracy) else f"best {percent(best.accuracy, 1)}"
    return [
        Cell(domain),
        Cell(amount(part.questions)),
        *(cells[heading] for heading in ("Brier", "ECE", "AUROC")),
        Cell(cells["Accuracy"].text, more),
        *([Cell(amount(part.trained)), Cell(amount(part.alarms))] if watched else []),
    ]
