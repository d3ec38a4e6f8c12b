"""A table of ours as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tabulate import tabulate

from secl.reports.formatting import RANGE, one_line
from secl.reports.table import Cell, Table

_MARKS = re.compile(r"([\\`*_\[\]<>#|])")


def to_markdown(table: Table) -> str:
    """The table in Markdown, details in brackets, with a paragraph for each note; ends in a newline."""
    rows = []
    for section, section_rows in table.sections.items():
        rows += [[f"**{markdown_text(section)}**"]] if section else []
        rows += [[markdown_text(_in_brackets(cell.text, cell.detail)) for cell in row] for row in section_rows]
    text = tabulate(
        rows,
        headers=[column.heading for column in table.columns],
        tablefmt="github",
        disable_numparse=True,
        colalign=["left" if column.text else "right" for column in table.columns],
    )
    return "\n\n".join([text, *map(markdown_text, table.notes)]) + "\n"


def markdown_text(text: str) -> str:
    r"""Text as Markdown shows it, on one line.

    >>> print(markdown_text("a|b <i> *c*\nd_e"))
    a\|b \<i\> \*c\* d\_e
    """
    return _MARKS.sub(r"\\\1", one_line(text))


def to_latex(table: Table) -> str:
    """The table in LaTeX (package booktabs), details smaller and in brackets, with the notes as its caption.

    Not by tabulate: its booktabs have no headings of sections, and no cell may hold a command.
    """
    columns = "".join("l" if column.text else "r" for column in table.columns)
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering", f"\\begin{{tabular}}{{{columns}}}"]
    lines += ["\\toprule", _latex_row(latex(column.heading) for column in table.columns) + " \\midrule"]
    for section, rows in table.sections.items():
        if section:
            lines.append(f"\\multicolumn{{{len(columns)}}}{{l}}{{\\emph{{{latex(section)}}}}} \\\\")
        lines += [_latex_row(_latex_cell(cell) for cell in row) for row in rows]
    lines += ["\\bottomrule", "\\end{tabular}", "\\caption{" + "\n".join(map(latex, table.notes)) + "}", "\\end{table}"]
    return "\n".join([*lines, ""])


def latex(text: str) -> str:
    r"""Text as LaTeX shows it.

    >>> print(latex("50% of {a_b} & $5 – ~^#\\"))
    50\% of \{a\_b\} \& \$5 -- \textasciitilde{}\textasciicircum{}\#\textbackslash{}
    """
    return text.translate(_LATEX)


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", RANGE: "--"}
    | {"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", '"': "''"}
)


def _latex_cell(cell: Cell) -> str:
    return latex(cell.text) + (f" {{\\scriptsize ({latex(cell.detail)})}}" if cell.detail else "")


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\"


def _in_brackets(text: str, detail: str) -> str:
    return f"{text} ({detail})" if detail else text
