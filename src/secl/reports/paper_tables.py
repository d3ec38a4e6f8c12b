"""The paper's numbers beside ours as text: for the terminal, in Markdown, as CSV and in LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from secl.errors import StorageError
from secl.reports.paper import Column, Line, PaperTable, Recorded, Row, readings_for
from secl.reports.tables import RANGE, UNDEFINED
from secl.reports.tables import latex as escaped

if TYPE_CHECKING:
    from rich.table import Table

THREE = ("paper", "ours", "difference")
"""What stands under the heading of a number that the paper may have."""


def screen_tables(table: PaperTable, width: int) -> Iterator[Table]:
    """A table for a terminal of `width` characters, in as many pieces as it takes, each with the names of the rows."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    under = ("paper", "ours", "diff.") if table.printed else ("",)
    left = list(table.columns)
    room = width - max((len(line.name) for line in table.lines), default=0)
    while left:
        taken = [sum(_widths(table, name, under)) for name in left]
        fits = next((count for count in range(len(left), 1, -1) if sum(taken[:count]) <= room), 1)
        piece, left = left[:fits], left[fits:]
        screen = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        screen.add_column("", no_wrap=True)
        for heading in (heading for name in piece for heading in _headings(table.columns[name], under)):
            screen.add_column(heading, justify="right", no_wrap=True)
        for line in table.lines:
            cells = [cell.partition(" ") for name in piece for cell in _cells(table, line, name)]
            screen.add_row(
                Text(line.name), *(Text.assemble(cell, f"\n{more}" if more else "") for cell, _, more in cells)
            )
        yield screen


def _headings(column: Column, under: Sequence[str]) -> list[str]:
    """The headings of one number: its own in the middle, word under word, and what stands under it."""
    words = column.heading.split()
    above = [words if place == len(under) // 2 else [""] * len(words) for place in range(len(under))]
    return ["\n".join([*head, text] if text else head) for head, text in zip(above, under, strict=True)]


def _widths(table: PaperTable, name: str, under: Sequence[str]) -> list[int]:
    """Characters of the columns of one number on the screen, each with the two that follow it."""
    rows = [_headings(table.columns[name], under), *(_cells(table, line, name) for line in table.lines)]
    return [2 + max(len(part) for cell in cells for part in cell.split()) for cells in zip(*rows, strict=True)]


def markdown(table: PaperTable) -> str:
    """The table as Markdown with its title above and its notes below.

    Three columns for each number (paper, ours, difference), or one with its 95% interval where the table is ours alone.
    """
    under = THREE if table.printed else ("",)
    headings = [f"{column.heading} {text}".strip() for column in table.columns.values() for text in under]
    lines = [f"# {table.title}", "", _row(["", *headings]), "| --- |" + " ---: |" * len(headings)]
    lines += [
        _row([line.name, *(c for name in table.columns for c in _cells(table, line, name))]) for line in table.lines
    ]
    return "\n".join([*lines, "", *(f"* {note}" for note in table.notes), ""])


def csv_text(table: PaperTable) -> str:
    """The table as CSV with all digits; what is undefined or not in the paper is an empty field.

    Columns are "row" and for each number "NAME paper", "NAME ours" and "NAME difference", or "NAME", "NAME low" and
    "NAME high" (its 95% interval) where the table is ours alone.
    """
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    kinds = tuple(f" {kind}" for kind in THREE) if table.printed else ("", " low", " high")
    out.writerow(["row", *(f"{name}{kind}" for name in table.columns for kind in kinds)])
    for line in table.lines:
        values: list[float | None] = []
        for name in table.columns:
            triple = (
                three(line, name) if table.printed else (line.ours.get(name), *line.intervals.get(name, (None,) * 2))
            )
            values += triple
        out.writerow([line.name, *("" if value is None else repr(value) for value in values)])
    return text.getvalue()


def latex(table: PaperTable) -> str:
    """The table for LaTeX with the package booktabs, its notes as comments."""
    under = THREE if table.printed else ("",)
    count = len(table.columns)
    heads = [escaped(column.heading) for column in table.columns.values()]
    if table.printed:
        heads = [rf"\multicolumn{{3}}{{c}}{{{head}}}" for head in heads]
    lines = [*(f"% {note}" for note in table.notes), rf"\begin{{tabular}}{{l{'r' * count * len(under)}}}", r"\toprule"]
    lines.append(" & ".join(["", *heads]) + r" \\")
    if table.printed:
        lines.append("".join(rf"\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(count)))
        lines.append(" & ".join(["", *(THREE * count)]) + r" \\")
    lines.append(r"\midrule")
    for line in table.lines:
        cells = [escaped(cell) for name in table.columns for cell in _cells(table, line, name)]
        lines.append(" & ".join([escaped(line.name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def remarks(lines: Sequence[Line], columns: Mapping[str, Column], never: Mapping[str, bool]) -> list[str]:
    """What the numbers themselves say that a reader must know: how many answers, what never learned, what dashes mean.

    Args:
        lines, columns: of the table.
        never: rows that never learned, and whether a gate opened in them (`secl.reports.paper.untrained`).
    """
    found = []
    counts = {line.name: line.ours["n"] for line in lines if line.ours.get("n") is not None}
    if counts:
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n != usual)
        found.append(f"n = {usual:,} graded answers{f' ({others})' if others else ''}.")
    for opened, why in ((False, "the gate never opened"), (True, "the bin gate stopped every update")):
        names = ", ".join(name for name, was_open in never.items() if was_open is opened)
        if names:
            found.append(f"Nothing was trained in {names}, because {why}: this is the frozen model, up to rounding.")
    if any(line.ours.get(name) is None for line in lines for name in columns):
        found.append(f"{UNDEFINED} is undefined or does not apply (AUROC needs right and wrong answers).")
    return found


def write_table(table: PaperTable, folder: Path) -> None:
    """Write a table as KEY.md, KEY.csv and KEY.tex into a folder, which is made if need be."""
    for suffix, text in ((".md", markdown(table)), (".csv", csv_text(table)), (".tex", latex(table))):
        _write(folder / f"{table.key}{suffix}", text)


def write_figure(
    kind: str, rows: Sequence[Row], lines: Sequence[Line], runs: Mapping[str, Recorded], stem: Path
) -> None:
    """Draw the rows of a table as STEM.png and STEM.svg: "reliability", "scores", or "cost" against ECE."""
    from secl.reports.charts import Point, cost_figure, score_figure
    from secl.reports.figures import reliability_figure, write_picture

    if kind == "cost":
        points = []
        for row, line in zip(rows, lines, strict=True):
            error, cost = line.ours.get("ece"), line.ours.get("cost")
            if error is not None and cost is not None:
                points.append(Point(line.name, row.reading or "", 0, error, line.ours.get("cost_measured"), cost))
        write_picture(cost_figure(points), stem)
        return
    panels = []
    for row in rows:
        series = readings_for(row, runs[row.runs[0]]).read(runs[row.runs[0]].records)
        pairs = [(c, right) for c, right in zip(series.confidence, series.correct, strict=True) if right is not None]
        panels.append((row.name, [c for c, _ in pairs], [right for _, right in pairs]))
    write_picture((reliability_figure if kind == "reliability" else score_figure)(panels), stem)


def write_index(folder: Path, table: PaperTable, tables: str, runs: Sequence[str], differences: Sequence[str]) -> None:
    """Name a table in README.md of a folder, in place of what stood there about it."""
    path, start = folder / "README.md", f"* [{table.key}]({tables}/"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    made_of = f"Runs: {', '.join(f'`{run}`' for run in runs)}." if runs else "No run."
    line = f"{start}{table.key}.md): {table.title}. {made_of} {' '.join(differences)}"
    entries = [line if old.startswith(start) else old for old in lines if old.startswith("* [")]
    entries += [] if line in entries else [line]
    _write(path, "\n".join(["# Tables of the paper, and ours", "", *entries, ""]))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise StorageError(f"cannot write {path}: {problem.strerror}.") from problem


def three(line: Line, column: str) -> tuple[float | None, float | None, float | None]:
    """The paper's number, ours, and ours minus the paper's; None where there is none."""
    paper, ours = line.paper.get(column), line.ours.get(column)
    return paper, ours, None if paper is None or ours is None else ours - paper


def _cells(table: PaperTable, line: Line, name: str) -> list[str]:
    """The texts of one number."""
    column = table.columns[name]
    if not table.printed:
        span = line.intervals.get(name)
        between = f" ({_number(span[0], column)}{RANGE}{_number(span[1], column)})" if span else ""
        return [_number(line.ours.get(name), column) + between]
    paper, ours, difference = three(line, name)
    return [_number(paper, column), _number(ours, column), _number(difference, column, "+")]


def _number(value: float | None, column: Column, sign: str = "") -> str:
    if value is None:
        return UNDEFINED
    text = format(value, f"{sign}{column.form}")
    return text if re.search("[1-9]", text) else text.replace("-", sign)  # no minus before zero


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
