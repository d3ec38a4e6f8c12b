"""The paper's numbers and ours as text: for the terminal, in Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from secl.display import UNDEFINED
from secl.reports.formats import markdown_text, one_line, table_text
from secl.reports.table import Cell, Table
from secl.reports.table import Column as Heading
from secl.runs.folder import storage_errors
from secl_paper.compare import FilledTable, Line
from secl_paper.layout import Column

THREE = ("paper", "ours", "difference")
"""Subheadings of a number that the paper may have."""


def as_table(table: FilledTable) -> Table:
    """Return the table for display.

    Each number has three columns (paper, ours, difference). In a table with only our numbers, each number has one
    column with its 95% interval.
    """
    names = list(table.columns)
    under = THREE if table.printed else ("",)
    headings = [f"{table.columns[name].heading} {text}".strip() for name in names for text in under]
    rows = [[Cell(line.name), *(cell for name in names for cell in _cells(table, line, name))] for line in table.lines]
    return Table([Heading("", text=True), *map(Heading, headings)], {"": rows}, table.notes)


def markdown(table: FilledTable) -> str:
    """Return the table as Markdown, with its title above and its notes below."""
    return f"# {markdown_text(table.title)}\n\n{table_text(as_table(table), 'markdown')}"


def latex(table: FilledTable) -> str:
    """Return the table in LaTeX (package booktabs), with title and notes as comments."""
    return f"% {one_line(table.title)}\n{table_text(as_table(table), 'latex')}"


def csv_text(table: FilledTable) -> str:
    """Return the table as CSV with all digits. Undefined numbers, and numbers that the paper lacks, are empty fields.

    The first column is "row". Each number has the columns "NAME paper", "NAME ours" and "NAME difference". In a table
    with only our numbers, the columns are "NAME", "NAME low" and "NAME high" (the 95% interval).
    """
    suffixes = tuple(f" {kind}" for kind in THREE) if table.printed else ("", " low", " high")
    headings = ["row", *(f"{name}{suffix}" for name in table.columns for suffix in suffixes)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    for line in table.lines:
        writer.writerow([line.name, *(value for name in table.columns for value in _values(table, line, name))])
    return text.getvalue()


def write_table(table: FilledTable, folder: Path) -> None:
    """Write a table as KEY.md, KEY.csv and KEY.tex into a folder, which is created if missing."""
    for suffix, text in ((".md", markdown(table)), (".csv", csv_text(table)), (".tex", latex(table))):
        _write(folder / f"{table.key}{suffix}", text)


def write_index(folder: Path, table: FilledTable, tables: str, runs: Sequence[str], differences: Sequence[str]) -> None:
    """Add a table to README.md of a folder, or replace its entry."""
    path, start = folder / "README.md", f"* [{table.key}]({tables}/"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    source = f"Runs: {', '.join(f'`{run}`' for run in runs)}." if runs else "No run."
    entry = f"{start}{table.key}.md): {table.title}. {source} {' '.join(differences)}"
    entries = [entry if line.startswith(start) else line for line in lines if line.startswith("* [")]
    entries += [] if entry in entries else [entry]
    _write(path, "\n".join(["# Tables of the paper, and ours", "", *entries, ""]))


def _write(path: Path, text: str) -> None:
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _values(table: FilledTable, line: Line, name: str) -> tuple[float | None, float | None, float | None]:
    """Return the paper's number, ours, and the difference; if the paper has no table, ours and its interval."""
    ours = line.ours.get(name)
    if not table.printed:
        return ours, *line.intervals.get(name, (None, None))
    paper = line.paper.get(name)
    return paper, ours, None if paper is None or ours is None else ours - paper


def _cells(table: FilledTable, line: Line, name: str) -> list[Cell]:
    """Return the cells of a number: paper, ours and difference, or ours with its interval."""
    column, (first, second, third) = table.columns[name], _values(table, line, name)
    if table.printed:
        return [Cell(_number(first, column)), Cell(_number(second, column)), Cell(_number(third, column, "+"))]
    interval = "" if second is None else f"[{_number(second, column)}, {_number(third, column)}]"
    return [Cell(_number(first, column), interval)]


def _number(value: float | None, column: Column, sign: str = "") -> str:
    if value is None:
        return UNDEFINED
    text = format(value, f"{sign}{column.form}")
    return text if re.search("[1-9]", text) else text.replace("-", sign)  # no minus before zero
