"""What stands under a table besides its differences: what the numbers themselves do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from secl.reports.formatting import UNDEFINED
from secl_paper.compare import Line
from secl_paper.layout import Column, Table


def remarks(
    table: Table, lines: Sequence[Line], columns: Mapping[str, Column], untrained: Mapping[str, bool]
) -> list[str]:
    """How many answers the numbers are of, what never learned, which rows are the same, and what dashes mean."""
    notes = []
    counts = {line.name: line.ours["n"] for line in lines if line.ours.get("n") is not None}
    if counts:
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n != usual)
        notes.append(f"n = {usual:,} graded answers{f' ({others})' if others else ''}.")
    for opened, why in ((False, "the gate never opened"), (True, "the bin gate stopped every update")):
        names = ", ".join(name for name, was_open in untrained.items() if was_open is opened)
        if names:
            notes.append(f"Nothing was trained in {names}, because {why}: this is the frozen model, up to rounding.")
    notes += _same(table, [line for line in lines if line.name not in untrained], columns)
    if any(line.ours.get(name) is None for line in lines for name in columns):
        notes.append(f"{UNDEFINED} is undefined or does not apply (AUROC needs right and wrong answers).")
    return notes


def _same(table: Table, lines: Sequence[Line], columns: Mapping[str, Column]) -> list[str]:
    """Rows of different runs or estimators that show the same numbers."""
    rows = {row.name: (row.runs, row.estimator, row.tau, row.formula) for row in table.rows if not row.each_domain}
    alike: dict[tuple[object, ...], list[str]] = {}
    for line in lines:
        shown = tuple(_shown(line, name, column) for name, column in columns.items())
        if line.name in rows and line.ours.get("n") and any(shown):
            alike.setdefault((line.ours["n"], *shown), []).append(line.name)
    return [
        f"No visible effect at n = {n:,}: {', '.join(names)} show the same numbers."
        for (n, *_), names in alike.items()
        if len({rows[name] for name in names}) > 1
    ]


def _shown(line: Line, name: str, column: Column) -> tuple[str, ...]:
    """A number of ours with its interval, as a table has them; empty where it is undefined."""
    value = line.ours.get(name)
    return () if value is None else tuple(format(each, column.form) for each in (value, *line.intervals.get(name, ())))
