"""Tables as text for a paper: LaTeX (package booktabs), Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from typing import Literal

from secl.display import RANGE, UNDEFINED
from secl.reports.table import Cell, Table

TableForm = Literal["latex", "csv", "markdown"]

SUFFIXES: dict[TableForm, str] = {"latex": ".tex", "csv": ".csv", "markdown": ".md"}
"""Suffix of the file of each form."""

_MARKS = re.compile(r"([\\`*_<>#|]|\](?=\())")

_MINUS = re.compile(r"(?<![\w.-])-(?=[\d.])")

_LATEX = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{mark: rf"\ensuremath{{{mark}}}" for mark in "<>|"},
        **{"±": r"$\pm$", RANGE: "--"},
    }
)


def table_text(table: Table, form: TableForm) -> str:
    """Return a table in a form. Notes are comments above a LaTeX table, and lines below a Markdown table."""
    if form == "csv":
        return _csv_text(table)
    show = latex_text if form == "latex" else markdown_text
    head = [show(column.heading) for column in table.columns]
    rows = []
    for section, part in table.sections.items():
        rows += [[_title(section, form), *[""] * (len(head) - 1)]] if section else []
        rows += [[_shown(cell, show, form) for cell in row] for row in part]
    notes = [one_line(note) for note in table.notes]
    if form == "markdown":
        line = ["---" if column.text else "--:" for column in table.columns]
        lines = [f"| {' | '.join(row)} |" for row in (head, line, *rows)]
        return "\n".join([*lines, *(f"\n{markdown_text(note)}" for note in notes), ""])
    kinds = "".join("l" if column.text else "r" for column in table.columns)
    # LaTeX takes a [ or * after the end of a row for an argument.
    above, *body = [rf"{'{}' if row[0].startswith(('[', '*')) else ''}{' & '.join(row)} \\" for row in (head, *rows)]
    lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", above, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*(f"% {note}" for note in notes), *lines, ""])


def _title(section: str, form: TableForm) -> str:
    return rf"\textit{{{latex_text(section)}}}" if form == "latex" else f"*{markdown_text(section)}*"


def _shown(cell: Cell, show: Callable[[str], str], form: TableForm) -> str:
    detail = show(cell.detail)
    if detail and form == "latex":
        detail = rf"{{\scriptsize {detail}}}"
    return f"{show(cell.text)} {detail}".strip()


def one_line(text: str) -> str:
    return " ".join(text.split())


def latex_text(text: str) -> str:
    r"""Return a text for one line of LaTeX, with a minus sign before negative numbers.

    >>> print(latex_text("a_b 50% & #1"), latex_text("-0.25"))
    a\_b 50\% \& \#1 $-$0.25
    """
    return _MINUS.sub("$-$", one_line(text).translate(_LATEX))


def markdown_text(text: str) -> str:
    r"""Return a text for one line of Markdown.

    >>> print(markdown_text("a|b <i> *c*\nd_e"))
    a\|b \<i\> \*c\* d\_e
    """
    return _MARKS.sub(r"\\\1", one_line(text))


def _csv_text(table: Table) -> str:
    """Return a table as CSV: all digits of `Cell.numbers`, a column for each, and empty fields where undefined."""
    rows = [(section, row) for section, part in table.sections.items() for row in part]
    names = [
        next((cell.numbers for cell in cells if cell.numbers), {"": 0})
        for cells in zip(*(r for _, r in rows), strict=True)
    ]
    headings = [f"{c.heading} {name}".strip() for c, each in zip(table.columns, names, strict=True) for name in each]
    titled, text = any(table.sections), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["section", *headings] if titled else headings)
    for section, row in rows:
        values = [_value(cell, name) for cell, each in zip(row, names, strict=True) for name in each]
        writer.writerow([section, *values] if titled else values)
    return text.getvalue()


def _value(cell: Cell, name: str) -> str | float:
    value = cell.numbers.get(name, math.nan)
    if not math.isnan(value):
        return value
    return "" if cell.numbers or name or cell.text == UNDEFINED else cell.text
