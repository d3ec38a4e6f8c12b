"""From finished runs to the lines of a table: the paper's numbers and ours."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from secl import Record
from secl.evaluation.estimators import Estimator, Series, make_estimators
from secl.evaluation.summary import Summary, evaluate
from secl.metrics.bootstrap import MEASURES
from secl.settings import Formula
from secl_paper.layout import COLUMNS, ISOLATED, Column, Row, Run, Table

Numbers = Mapping[str, float | None]
"""Numbers by column; None is undefined."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What tables need of a finished run.

    Attributes:
        records: all of them, in order.
        tau: temperature of normalised P(True) in this run.
        formula: of normalised P(True) in this run.
        layers: numbers of the adapted layers.
        learns: whether its method changes the weights.
    """

    records: Sequence[Record]
    tau: float
    formula: Formula = "log"
    layers: tuple[int, ...] = ()
    learns: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its numbers.

    Attributes:
        name: for people.
        paper: the paper's numbers.
        ours: those of our runs.
        intervals: 95% bootstrap intervals of ours, where they were computed.
    """

    name: str
    paper: Numbers = field(default_factory=dict)
    ours: Numbers = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table that is ready to be written.

    Attributes:
        key: its name.
        title: for people.
        columns: by name, in order.
        lines: in order.
        printed: whether the paper has this table; without it there is ours alone, with intervals.
        notes: what a reader must know, one sentence or more each.
    """

    key: str
    title: str
    columns: Mapping[str, Column]
    lines: tuple[Line, ...]
    printed: bool
    notes: tuple[str, ...]


def columns_of(table: Table, domains: Sequence[str]) -> dict[str, Column]:
    """The columns of a table by name, repeated for each domain or run where the table says so."""
    if table.by is None:
        return {name: COLUMNS[name] for name in table.columns}
    repeats = domains if table.by == "domain" else [*(run.name for run in table.runs), "mean", "std"]
    form = ".4f" if table.by == "run" else ".3f"  # the paper prints seeds with four digits
    return {
        f"{name}_{repeat}": Column(f"{COLUMNS[name].heading} {repeat}", form)
        for name in table.columns
        for repeat in repeats
    }


def compare(
    table: Table,
    runs: Mapping[Run, FinishedRun],
    printed: Mapping[str, Numbers] | None,
    sizes: Mapping[str, float] | None = None,
) -> tuple[dict[str, Column], list[Line]]:
    """The columns and lines of a table.

    Args:
        table: what to compute.
        runs: all that it needs.
        printed: the paper's numbers by row and column; None for a table of ours alone, which gets intervals.
        sizes: numbers of rows without an estimator.
    """
    domains = list(dict.fromkeys(record.question.domain for run in runs.values() for record in run.records))
    lines = []
    for row in table.rows:
        parts = _parts_of_row(row, runs, printed is None) if row.runs else {"": Line("", ours=sizes or {})}
        for domain in domains if row.each_domain else [""]:
            name = f"{row.name}/{domain}" if domain else row.name
            lines.append(replace(parts[domain], name=name, paper=(printed or {}).get(name, {})))
    return columns_of(table, domains), lines


def estimator_of(row: Row, run: FinishedRun) -> Estimator:
    """The estimator of a row, at its own or the run's temperature."""
    estimators = make_estimators(row.tau or run.tau, row.formula or run.formula)
    if row.estimator != ISOLATED:
        return estimators[str(row.estimator)]
    learned = estimators["secl"]
    return replace(
        learned,
        name=ISOLATED,
        title="SECL, each update alone",
        estimate=lambda records: _after_own_update(learned.estimate(records), records),
    )


def untrained(table: Table, runs: Mapping[Run, FinishedRun]) -> dict[str, bool]:
    """Rows of learning runs that never learned, and whether any gate opened in them."""
    opened = {}
    for row in table.rows:
        records = [record for run in row.runs if runs[run].learns for record in runs[run].records]
        if row.learned and records and not any(record.update for record in records):
            opened[row.name] = any(record.decision.in_burst for record in records)
    return opened


def _parts_of_row(row: Row, runs: Mapping[Run, FinishedRun], intervals: bool) -> dict[str, Line]:
    """The numbers of a row overall (under "") and, of a single run, in each domain."""
    parts = [_parts_of_run(row, runs[run], intervals) for run in row.runs]
    return parts[0] if len(parts) == 1 else {"": _average(row, [part[""].ours for part in parts])}


def _average(row: Row, each: Sequence[Numbers]) -> Line:
    """The measures of several runs, with mean and population deviation where all of them are defined."""
    numbers: dict[str, float | None] = {"n": each[0].get("n")}
    for measure in MEASURES:
        values = [of_run.get(measure) for of_run in each]
        numbers |= {f"{measure}_{run.name}": value for run, value in zip(row.runs, values, strict=True)}
        defined = [value for value in values if value is not None]
        if len(defined) == len(values):
            numbers |= {f"{measure}_mean": statistics.fmean(defined), f"{measure}_std": statistics.pstdev(defined)}
    return Line(row.name, ours=numbers)


def _parts_of_run(row: Row, run: FinishedRun, intervals: bool) -> dict[str, Line]:
    evaluation = evaluate(run.records, {"row": estimator_of(row, run)}, intervals=intervals)
    series = evaluation.series["row"]
    confidences = [estimate.confidence for estimate in series.estimates]
    parts = {domain: _part(inside) for domain, inside in evaluation.summary.domains.items()}
    overall = _part(evaluation.summary)
    by_domain = {f"{name}_{domain}": parts[domain].ours.get(name) for domain in parts for name in MEASURES}
    fit = re.match(r"T=([\d.e+-]+)", series.fitted or "")
    single = {
        "low": min(confidences, default=None),
        "high": max(confidences, default=None),
        "temperature": float(fit[1]) if fit else None,
        "tau": (row.tau or run.tau) if str(row.estimator).startswith("norm_p_true") else None,
        "first_layer": min(run.layers, default=None),
        "last_layer": max(run.layers, default=None),
    }
    return {"": replace(overall, ours={**overall.ours, **by_domain, **single}), **parts}


def _part(summary: Summary) -> Line:
    """A summary as numbers by column."""
    row = summary.estimators.get("row")
    questions, trained = summary.questions, summary.trained
    numbers: dict[str, float | None] = {
        **{name: _defined(getattr(row, name)) if row else None for name in ("n", *MEASURES)},
        "cost": row.cost_paper if row else None,
        "cost_measured": _defined(row.cost_measured) if row else None,
        "questions": questions,
        "trained": trained,
        "trained_share": _defined(summary.trained_share),
        "skipped": questions - trained,
        "secl_cost": 15 * trained + (questions - trained),
        "p_true_cost": 6 * questions,
    }
    intervals = {name: getattr(row.intervals, name) for name in MEASURES} if row and row.intervals else {}
    spans = {name: (each.low, each.high) for name, each in intervals.items() if not math.isnan(each.low)}
    return Line("", ours=numbers, intervals=spans)


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def _after_own_update(series: Series, records: Sequence[Record]) -> Series:
    after = {record.position: record.update.after for record in records if record.update is not None}
    estimates = (replace(each, confidence=after.get(each.position, each.confidence)) for each in series.estimates)
    return replace(series, estimates=tuple(estimates))
