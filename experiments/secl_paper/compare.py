"""The rows of a table from finished runs: the paper's numbers and ours."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from secl import Record
from secl.evaluation.json_values import defined
from secl.evaluation.summary import Summary, summarise
from secl.metrics.measures import MEASURES
from secl.runs.manifest import Manifest
from secl.scores import Score, Series, make_scores
from secl_paper.layout import COLUMNS, ISOLATED, Column, Row, Run, Table

ROW = "row"
"""Name of a row's estimator in the summary."""

Numbers = Mapping[str, float | None]
"""Numbers by column; None is undefined."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run that tables read."""

    records: Sequence[Record]
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Line:
    """A row with the paper's numbers, ours, and the 95% bootstrap intervals of ours if they were computed."""

    name: str
    paper: Numbers = field(default_factory=dict)
    ours: Numbers = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table that is ready to be written.

    Attributes:
        printed: whether the table shows the paper's column; otherwise it has only our numbers, with intervals.
        notes: sentences on facts that a reader must know.
    """

    key: str
    title: str
    columns: Mapping[str, Column]
    lines: tuple[Line, ...]
    printed: bool
    notes: tuple[str, ...]


def columns_of(table: Table, domains: Sequence[str]) -> dict[str, Column]:
    """Return the columns of a table by name; with `Table.by`, each column is repeated for every domain or run."""
    if table.by is None:
        return {name: COLUMNS[name] for name in table.columns}
    repeats = domains if table.by == "domain" else [*(run.name for run in table.runs), "mean", "std"]
    form = ".4f" if table.by == "run" else ".3f"  # as in the paper's table of seeds
    return {
        f"{name}_{repeat}": Column(f"{COLUMNS[name].heading} {repeat}", form)
        for name in table.columns
        for repeat in repeats
    }


def compare(
    table: Table, runs: Mapping[Run, FinishedRun], printed: Mapping[str, Numbers] | None, sizes: Numbers | None = None
) -> tuple[dict[str, Column], list[Line]]:
    """Return the columns and lines of a table; without numbers of the paper, ours have intervals."""
    domains = list(dict.fromkeys(record.question.domain for run in runs.values() for record in run.records))
    lines = []
    for row in table.rows:
        of_row = _lines(row, runs, intervals=printed is None) if row.runs else [Line(row.name, ours=sizes or {})]
        lines += [replace(line, paper=(printed or {}).get(line.name, {})) for line in of_row]
    if "reduction" in table.columns:
        lines = [
            replace(line, paper=_reduced(line.paper, lines[0].paper), ours=_reduced(line.ours, lines[0].ours))
            for line in lines
        ]
    return columns_of(table, domains), lines


def _reduced(numbers: Numbers, first: Numbers) -> Numbers:
    """Return the numbers of a line with `reduction`: the relative decrease of its ECE from the first line's."""
    error, before = numbers.get("ece"), first.get("ece")
    return numbers if error is None or not before or numbers is first else {**numbers, "reduction": 1 - error / before}


def estimator_of(row: Row, run: FinishedRun) -> Score:
    """Return the estimator of a row, at the temperature of the row or else of the run."""
    manifest = run.manifest
    scores = make_scores(row.tau or manifest.tau, row.formula or manifest.settings.evidence.formula)
    if row.estimator != ISOLATED:
        return scores[str(row.estimator)]
    learned = scores["secl"]
    return replace(learned, name=ISOLATED, title="SECL, each update alone", mapped=_after_own_update)


def untrained(table: Table, runs: Mapping[Run, FinishedRun]) -> dict[str, bool]:
    """Return the rows whose runs learn but have no update, and for each whether a gate opened."""
    opened = {}
    for row in table.rows:
        learning = [runs[run] for run in row.runs if runs[run].manifest.settings.named_method.learns]
        records = [record for run in learning for record in run.records]
        if row.learned and records and not any(record.update for record in records):
            opened[row.name] = any(record.decision.in_burst for record in records)
    return opened


def _lines(row: Row, runs: Mapping[Run, FinishedRun], *, intervals: bool) -> list[Line]:
    """Return our numbers of a row, or of the rows of its domains."""
    summaries = [_summary(row, runs[run], intervals) for run in row.runs]
    if len(summaries) > 1:
        return [Line(row.name, ours=_average(row, summaries))]
    run, (whole,) = runs[row.runs[0]], summaries
    domains = whole.domains
    if row.each_domain:
        return [_line(f"{row.name}/{domain}", summary) for domain, summary in domains.items()]
    overall = _line(row.name, whole)
    more = {f"{name}_{domain}": value for domain, part in domains.items() for name, value in _measures(part).items()}
    return [replace(overall, ours={**overall.ours, **more, **_extremes(row, run, whole)})]


def _summary(row: Row, run: FinishedRun, intervals: bool) -> Summary:
    in_domains = (ROW,) if row.each_domain else ()
    return summarise(
        run.records, [replace(estimator_of(row, run), name=ROW)], intervals=intervals, in_domains=in_domains
    )


def _average(row: Row, summaries: Sequence[Summary]) -> Numbers:
    """Return the measures of several runs, with mean and population deviation if all runs have the measure."""
    each = [_measures(summary) for summary in summaries]
    numbers: dict[str, float | None] = {"n": each[0].get("n")}
    for measure in MEASURES:
        values = [of_run.get(measure) for of_run in each]
        numbers |= {f"{measure}_{run.name}": value for run, value in zip(row.runs, values, strict=True)}
        defined = [value for value in values if value is not None]
        if len(defined) == len(values):
            numbers |= {f"{measure}_mean": statistics.fmean(defined), f"{measure}_std": statistics.pstdev(defined)}
    return numbers


def _extremes(row: Row, run: FinishedRun, summary: Summary) -> Numbers:
    """Return the fitted temperature, the range of the confidence, and the adapted layers."""
    series, layers = summary.series[ROW], run.manifest.adapter["layers_to_transform"]
    confidences = series.confidence.tolist()
    fit = re.match(r"T=([\d.e+-]+)", series.fitted or "")
    return {
        "low": min(confidences, default=None),
        "high": max(confidences, default=None),
        "temperature": float(fit[1]) if fit else None,
        "tau": (row.tau or run.manifest.tau) if row.estimator == "norm_p_true" else None,
        "first_layer": min(layers, default=None),
        "last_layer": max(layers, default=None),
    }


def _line(name: str, summary: Summary) -> Line:
    """Return measures, costs and counts of a summary, and its intervals if it has any."""
    questions, trained = summary.questions, summary.trained
    counts = {
        "questions": questions,
        "trained": trained,
        "trained_share": trained / questions if questions else None,
        "skipped": questions - trained,
        "secl_cost": 15 * trained + (questions - trained),
        "p_true_cost": 6 * questions,
    }
    row = summary.estimators.get(ROW)
    if row is None:
        return Line(name, ours=counts)
    costs = {"cost": row.cost_paper, "cost_measured": defined(row.cost_measured)}
    intervals = row.intervals or {}
    spans = {measure: (each.low, each.high) for measure, each in intervals.items() if not math.isnan(each.low)}
    return Line(name, ours={**_measures(summary), **costs, **counts}, intervals=spans)


def _measures(summary: Summary) -> dict[str, float | None]:
    row = summary.estimators.get(ROW)
    return {name: defined(getattr(row, name)) for name in ("n", *MEASURES)} if row else {}


def _after_own_update(series: Series, records: Sequence[Record]) -> Series:
    updates = [records[row].update for row in series.rows.tolist()]
    stated = zip(updates, series.confidence.tolist(), strict=True)
    return replace(series, confidence=np.array([each.after if each else confidence for each, confidence in stated]))
