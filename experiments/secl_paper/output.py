"""The paper's numbers beside ours as text: for the terminal, in Markdown, as CSV and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table as ScreenTable
from rich.text import Text

from secl.errors import StorageError
from secl.reports.formatting import RANGE, UNDEFINED
from secl.reports.table import latex as escaped
from secl.reports.table import to_csv
from secl_paper.compare import FilledTable, Line
from secl_paper.layout import Column

THREE = ("paper", "ours", "difference")
"""What stands under the heading of a number that the paper may have."""


def screen_tables(table: FilledTable, width: int) -> Iterator[ScreenTable]:
    """A table for a terminal of `width` characters, in as many pieces as it takes, each with the names of the rows."""
    remaining = list(table.columns)
    room = width - max((len(line.name) for line in table.lines), default=0)
    while remaining:
        widths = [sum(_widths(table, name)) for name in remaining]
        fitting = next((count for count in range(len(remaining), 1, -1) if sum(widths[:count]) <= room), 1)
        yield _screen_table(table, remaining[:fitting])
        remaining = remaining[fitting:]


def _screen_table(table: FilledTable, names: Sequence[str]) -> ScreenTable:
    screen = ScreenTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    screen.add_column("", no_wrap=True)
    for heading in (heading for name in names for heading in _headings(table, name)):
        screen.add_column(heading, justify="right", no_wrap=True)
    for line in table.lines:
        cells = [cell.partition(" ") for name in names for cell in _cells(table, line, name)]
        screen.add_row(Text(line.name), *(Text.assemble(cell, f"\n{more}" if more else "") for cell, _, more in cells))
    return screen


def _headings(table: FilledTable, name: str) -> list[str]:
    """The headings of one number: its own in the middle, word under word, and what stands under it."""
    words = table.columns[name].heading.split()
    if not table.printed:
        return ["\n".join(words)]
    empty = "\n" * len(words)
    return [f"{empty}paper", "\n".join([*words, "ours"]), f"{empty}diff."]


def _widths(table: FilledTable, name: str) -> list[int]:
    """Characters of the columns of one number on the screen, each with the two that follow it."""
    rows = [_headings(table, name), *(_cells(table, line, name) for line in table.lines)]
    return [2 + max(len(part) for cell in cells for part in cell.split()) for cells in zip(*rows, strict=True)]


def markdown(table: FilledTable) -> str:
    """The table as Markdown with its title above and its notes below.

    Three columns for each number (paper, ours, difference), or one with its 95% interval where the table is ours alone.
    """
    under = THREE if table.printed else ("",)
    headings = [f"{column.heading} {text}".strip() for column in table.columns.values() for text in under]
    rows = [["", *headings], *([line.name, *_all_cells(table, line)] for line in table.lines)]
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    notes = (f"* {note}" for note in table.notes)
    return "\n".join([f"# {table.title}", "", head, "| --- |" + " ---: |" * len(headings), *body, "", *notes, ""])


def csv_text(table: FilledTable) -> str:
    """The table as CSV with all digits; what is undefined or not in the paper is an empty field.

    Columns are "row" and for each number "NAME paper", "NAME ours" and "NAME difference", or "NAME", "NAME low" and
    "NAME high" (its 95% interval) where the table is ours alone.
    """
    suffixes = tuple(f" {kind}" for kind in THREE) if table.printed else ("", " low", " high")
    headings = ["row", *(f"{name}{suffix}" for name in table.columns for suffix in suffixes)]
    rows = ([line.name, *(x for name in table.columns for x in _values(table, line, name))] for line in table.lines)
    return to_csv(headings, rows)


def latex(table: FilledTable) -> str:
    """The table for LaTeX with the package booktabs, its notes as comments."""
    count = len(table.columns)
    heads = [escaped(column.heading) for column in table.columns.values()]
    lines = [f"% {note}" for note in table.notes]
    lines += [rf"\begin{{tabular}}{{l{'r' * count * (3 if table.printed else 1)}}}", r"\toprule"]
    if table.printed:
        lines.append(_latex_row("", *(rf"\multicolumn{{3}}{{c}}{{{head}}}" for head in heads)))
        lines.append("".join(rf"\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(count)))
        lines.append(_latex_row("", *(THREE * count)))
    else:
        lines.append(_latex_row("", *heads))
    lines.append(r"\midrule")
    lines += [_latex_row(*map(escaped, (line.name, *_all_cells(table, line)))) for line in table.lines]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_row(*cells: str) -> str:
    return " & ".join(cells) + r" \\"


def write_table(table: FilledTable, folder: Path) -> None:
    """Write a table as KEY.md, KEY.csv and KEY.tex into a folder, which is made if need be."""
    for suffix, text in ((".md", markdown(table)), (".csv", csv_text(table)), (".tex", latex(table))):
        _write(folder / f"{table.key}{suffix}", text)


def write_index(folder: Path, table: FilledTable, tables: str, runs: Sequence[str], differences: Sequence[str]) -> None:
    """Name a table in README.md of a folder, in place of what stood there about it.

    Args:
        folder: of all runs and tables.
        table: to name.
        tables: where the table was written, relative to the folder.
        runs: that it was computed from, relative to the folder.
        differences: to the paper's setup, in sentences.
    """
    path, start = folder / "README.md", f"* [{table.key}]({tables}/"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    source = f"Runs: {', '.join(f'`{run}`' for run in runs)}." if runs else "No run."
    entry = f"{start}{table.key}.md): {table.title}. {source} {' '.join(differences)}"
    entries = [entry if line.startswith(start) else line for line in lines if line.startswith("* [")]
    entries += [] if entry in entries else [entry]
    _write(path, "\n".join(["# Tables of the paper, and ours", "", *entries, ""]))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise StorageError(f"cannot write {path}: {problem.strerror}.") from problem


def _values(table: FilledTable, line: Line, name: str) -> tuple[float | None, float | None, float | None]:
    """The paper's number, ours, and ours minus the paper's; ours and its interval where the paper has no table."""
    ours = line.ours.get(name)
    if not table.printed:
        return ours, *line.intervals.get(name, (None, None))
    paper = line.paper.get(name)
    return paper, ours, None if paper is None or ours is None else ours - paper


def _all_cells(table: FilledTable, line: Line) -> list[str]:
    return [cell for name in table.columns for cell in _cells(table, line, name)]


def _cells(table: FilledTable, line: Line, name: str) -> list[str]:
    """The texts of one number: paper, ours and difference, or ours with its interval."""
    column, (first, second, third) = table.columns[name], _values(table, line, name)
    if table.printed:
        return [_number(first, column), _number(second, column), _number(third, column, "+")]
    interval = "" if second is None else f" ({_number(second, column)}{RANGE}{_number(third, column)})"
    return [_number(first, column) + interval]


def _number(value: float | None, column: Column, sign: str = "") -> str:
    if value is None:
        return UNDEFINED
    text = format(value, f"{sign}{column.form}")
    return text if re.search("[1-9]", text) else text.replace("-", sign)  # no minus before zero
