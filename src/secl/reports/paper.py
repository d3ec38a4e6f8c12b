"""The paper's tables over our own runs: for every number what the paper has, what we have, and the difference.

A table is rows read off finished runs, columns by name, and the numbers that the paper prints for them. How tables are
shown and written is in `secl.reports.paper_tables`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secl.metrics.bootstrap import MEASURES
from secl.records import Record
from secl.reports.estimators import READINGS, Reading, Series, readings
from secl.settings import Formula

DOMAIN, RUN = "{domain}", "{run}"
"""Placeholders: in a row's name or a column for each domain of the stream, in a column for each run of a row."""

ISOLATED = "isolated"
"""A reading of our own: the confidence after the question's own update, and no other (Table ablation_accum)."""

KNOWN_READINGS = (*READINGS, ISOLATED)

Numbers = Mapping[str, float | None]
"""Numbers by column; None is undefined."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers: its heading and how a number is written.

    Attributes:
        heading: for people.
        form: format of a number, for example ".3f".
    """

    heading: str
    form: str


COLUMNS: dict[str, Column] = {
    "ece": Column("ECE", ".3f"),
    "ada_ece": Column("AdaECE", ".3f"),
    "brier": Column("Brier", ".3f"),
    "auroc": Column("AUROC", ".3f"),
    "accuracy": Column("Accuracy", ".3f"),
    "n": Column("n", ",.0f"),
    "cost": Column("Cost", ".1f"),
    "cost_measured": Column("Measured cost", ".2f"),
    "questions": Column("Questions", ",.0f"),
    "trained": Column("Trained", ",.0f"),
    "trained_share": Column("Trained %", ".1%"),
    "skipped": Column("Skipped", ",.0f"),
    "secl_cost": Column("SECL cost", ",.0f"),
    "p_true_cost": Column("P(True) cost", ",.0f"),
    "temperature": Column("T", ".1f"),
    "tau": Column("tau", ".1f"),
    "low": Column("Lowest", ".2f"),
    "high": Column("Highest", ".2f"),
    "first_layer": Column("First layer", ".0f"),
    "last_layer": Column("Last layer", ".0f"),
    "model_parameters": Column("Parameters", ",.0f"),
    "adapted_layers": Column("LoRA layers", ".0f"),
    "adapter_parameters": Column("LoRA parameters", ",.0f"),
    "adapter_share": Column("LoRA %", ".3%"),
}
SIZES = ("model_parameters", "adapted_layers", "adapter_parameters", "adapter_share")
"""Columns that need a model and no run."""


@dataclass(frozen=True, slots=True)
class Row:
    """How a row is read off runs.

    Attributes:
        name: as in the paper; with `DOMAIN` it stands for a row of each domain.
        runs: names of its runs: one, or several to be averaged.
        reading: one of `KNOWN_READINGS`; None for a row of `SIZES`.
        tau, formula: of normalised P(True); None for the run's own.
    """

    name: str
    runs: tuple[str, ...]
    reading: str | None = None
    tau: float | None = None
    formula: Formula | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished run, as far as tables need it.

    Attributes:
        records: all of them.
        tau, formula: of normalised P(True) in this run.
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
    paper: Numbers
    ours: Numbers
    intervals: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class PaperTable:
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


def known_column(name: str) -> bool:
    """Whether a recipe may have this column.

    >>> known_column("ece"), known_column("ece_{domain}"), known_column("eze")
    (True, True, False)
    """
    measure, placeholder = _parts(name)
    return name in COLUMNS or (measure in MEASURES and placeholder is not None)


def compare(
    rows: Sequence[Row],
    columns: Sequence[str],
    runs: Mapping[str, Recorded],
    printed: Mapping[str, Numbers] | None,
    sizes: Mapping[str, float] | None = None,
) -> tuple[dict[str, Column], list[Line]]:
    """The columns and lines of a table, with placeholders filled in.

    Args:
        rows, columns: of its recipe.
        runs: by the names that the rows use.
        printed: the paper's numbers by row and column; None for a table of ours alone, which gets intervals.
        sizes: numbers of `SIZES`, for rows without a reading.
    """
    domains = list(dict.fromkeys(record.question.domain for run in runs.values() for record in run.records))
    suffixes = {DOMAIN: domains, RUN: [*dict.fromkeys(run for row in rows for run in row.runs), "mean", "std"]}
    filled = {name: kind for column in columns for name, kind in _filled(column, suffixes).items()}
    lines = []
    for row in rows:
        parts = _parts_of_row(row, runs, printed is None) if row.reading else {"": (dict(sizes or {}), {})}
        for place in domains if DOMAIN in row.name else [""]:
            name = row.name.replace(DOMAIN, place)
            lines.append(Line(name, (printed or {}).get(name, {}), *parts[place]))
    return filled, lines


def readings_for(row: Row, run: Recorded) -> Reading:
    """How a row's confidence is read off a run."""
    found = readings(row.tau or run.tau, row.formula or run.formula)
    learned = found["secl"]
    alone = Reading(
        "SECL, each update alone", learned.passes, lambda records: _isolated(learned.read(records), records)
    )
    return {**found, ISOLATED: alone}[row.reading or ""]


def untrained(rows: Sequence[Row], runs: Mapping[str, Recorded]) -> dict[str, bool]:
    """Rows of learning runs that never learned (without the domain), and whether any gate opened in them."""
    found = {}
    for row in rows:
        records = [record for run in row.runs if run in runs and runs[run].learns for record in runs[run].records]
        learned = row.reading is not None and (row.reading.startswith("secl") or row.reading == ISOLATED)
        if learned and records and not any(record.update for record in records):
            found[row.name.replace(DOMAIN, "").strip("/ ")] = any(record.decision.in_burst for record in records)
    return found


Part = tuple[dict[str, float | None], dict[str, tuple[float, float]]]
"""Numbers and intervals."""


def _parts_of_row(row: Row, runs: Mapping[str, Recorded], intervals: bool) -> dict[str, Part]:
    """What a row has overall (under "") and in each domain."""
    each = {name: _of_run(row, runs[name], intervals) for name in row.runs}
    if len(each) == 1:
        return next(iter(each.values()))
    numbers: dict[str, float | None] = {}
    for measure in MEASURES:
        values = [each[run][""][0].get(measure) for run in row.runs]
        numbers |= {f"{measure}_{run}": value for run, value in zip(row.runs, values, strict=True)}
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            numbers |= {f"{measure}_mean": statistics.fmean(known), f"{measure}_std": statistics.pstdev(known)}
    return {"": (numbers | {"n": each[row.runs[0]][""][0].get("n")}, {})}


def _of_run(row: Row, run: Recorded, intervals: bool) -> dict[str, Part]:
    from secl.reports.summary import summarise  # numpy

    reading = readings_for(row, run)
    series = reading.read(run.records)
    summary = summarise(run.records, {"row": replace(reading, read=lambda _records: series)}, intervals=intervals)
    parts = {domain: _part(inside) for domain, inside in summary["domains"].items()}
    numbers, spans = _part(summary)
    numbers |= {f"{measure}_{domain}": parts[domain][0].get(measure) for domain in parts for measure in MEASURES}
    fit = re.match(r"T=([\d.e+-]+)", series.fitted)
    numbers |= {
        "low": min(series.confidence, default=None),
        "high": max(series.confidence, default=None),
        "temperature": float(fit[1]) if fit else None,
        "tau": (row.tau or run.tau) if str(row.reading).startswith("norm_p_true") else None,
        "first_layer": min(run.layers, default=None),
        "last_layer": max(run.layers, default=None),
    }
    return {"": (numbers, spans), **parts}


def _part(summary: Mapping[str, Any]) -> Part:
    """A summary of `secl.reports.summary.summarise` as numbers by column."""
    found: dict[str, Any] = summary.get("row", {})
    questions, trained = summary["questions"], summary["trained"]
    numbers: dict[str, float | None] = {
        **{name: found.get(name) for name in ("n", *MEASURES)},
        "cost": found.get("cost_paper"),
        "cost_measured": found.get("cost_measured"),
        **{name: summary[name] for name in ("questions", "trained", "trained_share")},
        "skipped": questions - trained,
        "secl_cost": 15 * trained + (questions - trained),
        "p_true_cost": 6 * questions,
    }
    spans = {name: (low, high) for name, span in (found.get("intervals") or {}).items() if span for low, high in [span]}
    return numbers, spans


def _isolated(series: Series, records: Sequence[Record]) -> Series:
    after = {record.position: record.update.after for record in records if record.update is not None}
    said = zip(series.places, series.confidence, strict=True)
    return replace(series, confidence=[after.get(place, confidence) for place, confidence in said])


def _parts(column: str) -> tuple[str, str | None]:
    """A column's measure and its placeholder."""
    placeholder = next((end for end in (DOMAIN, RUN) if column.endswith(f"_{end}")), None)
    return (column, None) if placeholder is None else (column.removesuffix(f"_{placeholder}"), placeholder)


def _filled(column: str, suffixes: Mapping[str, Sequence[str]]) -> dict[str, Column]:
    measure, placeholder = _parts(column)
    kind = COLUMNS[measure]
    if placeholder is None:
        return {column: kind}
    form = ".4f" if placeholder == RUN else kind.form  # the paper prints seeds with four digits
    return {f"{measure}_{suffix}": Column(f"{kind.heading} {suffix}", form) for suffix in suffixes[placeholder]}
