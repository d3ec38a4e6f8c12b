"""Summaries as tables: for the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from secl.metrics.bootstrap import MEASURES
from secl.reports.estimators import FOLDS, READINGS, readings

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("Confidence", "ECE", "AdaECE", "Brier", "AUROC", "Accuracy", "n", "Cost paper", "Cost ours")
"""Headings, in order; costs are in forward passes per question, by the paper's ledger and as measured."""

UNDEFINED = RANGE = "–"  # noqa: RUF001  an en dash, as tables use it
"""What stands where there is no number, and between the ends of an interval."""

NEEDS_LABELS = frozenset(name for name, reading in readings().items() if reading.labels)
"""Readings that learn from right answers; their labels end in a star."""

FOOTNOTE = f"* needs right answers: {('', '', 'two', 'three', 'four', 'five')[FOLDS]}-fold cross-validation"

Summaries = Mapping[str, Mapping[str, Any]]
"""Summaries of `secl.reports.summary.summarise` by the name of their run."""


@dataclass(frozen=True, slots=True)
class Row:
    """One confidence of a summary as text.

    Attributes:
        key: its name among the readings.
        name: what people call it.
        fitted: what was fitted, in words; empty if nothing was.
        cells: the other columns, ECE to cost.
        intervals: the 95% interval of each cell; empty where there is none.
    """

    key: str
    name: str
    fitted: str
    cells: tuple[str, ...]
    intervals: tuple[str, ...]


def rows(summary: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each reading that was computed, in the order of reports.

    >>> found = {"n": 4, "ece": 0.3, "ada_ece": 0.3, "brier": 0.2, "auroc": None, "accuracy": 0.25}
    >>> next(rows({"stated": found, "questions": 4})).cells
    ('0.300', '0.300', '0.200', '–', '25.0%', '4', '–', '–')
    """
    for key, name in READINGS.items():
        if key not in summary:
            continue
        found = summary[key]
        ranges = found.get("intervals") or {}
        numbers = ("ece", "ada_ece", "brier", "auroc")
        yield Row(
            key,
            name,
            found.get("fitted") or "",
            (
                *(number(found[measure], 3) for measure in numbers),
                percent(found["accuracy"]),
                amount(found["n"]),
                number(found.get("cost_paper"), 1),
                number(found.get("cost_measured"), 1),
            ),
            (
                *(span(ranges.get(measure), lambda value: f"{value:.3f}") for measure in numbers),
                span(ranges.get("accuracy"), lambda value: f"{100 * value:.0f}"),
                *("",) * 3,
            ),
        )


def summary_table(summary: Mapping[str, Any], title: str | None = None) -> Table:
    """A rich table of a summary of `secl.reports.summary.summarise`: a row per confidence that was computed.

    The 95% bootstrap interval of the ECE stands dimmed under it, and what was fitted under the name; what is undefined
    is shown as a dash.

    >>> from rich.console import Console
    >>> row = {"n": 4, "ece": 0.3, "ada_ece": 0.3, "brier": 0.2, "auroc": None, "accuracy": 0.25}
    >>> table = summary_table({"stated": row, "questions": 4})
    >>> table.row_count, len(table.columns)
    (1, 9)
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.title, table.title_justify = None if title is None else Text(title), "left"
    table.caption, table.caption_justify = Text(" ".join((caption(summary), *footnotes(summary)))), "left"
    for place, column in enumerate(COLUMNS):
        # Only the names may wrap, and headings of two words stand on two lines: it fits 80 columns.
        table.add_column(column.replace(" ", "\n"), justify="right" if place else "left", no_wrap=place > 0)
    for row in rows(summary):
        ece, *rest = row.cells
        table.add_row(_under(row.name, row.fitted), _under(ece, row.intervals[0]), *rest)
    return table


def markdown_table(summary: Mapping[str, Any]) -> str:
    """The same table in Markdown, with the caption below it; ends in a newline.

    >>> row = {"n": 4, "ece": 0.3, "ada_ece": 0.3, "brier": 0.2, "auroc": None, "accuracy": 0.25}
    >>> print(markdown_table({"stated": row, "questions": 4}).splitlines()[2])
    | Stated (frozen) | 0.300 | 0.300 | 0.200 | – | 25.0% | 4 | – | – |
    """
    lines = ["| " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * (len(COLUMNS) - 1)]
    for row in rows(summary):
        name = row.name.replace("*", "\\*") + (f" ({row.fitted})" if row.fitted else "")
        ece, *rest = row.cells
        if row.intervals[0]:
            ece += f" ({row.intervals[0]})"
        lines.append("| " + " | ".join((name, ece, *rest)) + " |")
    lines += ["", caption(summary)]
    for note in footnotes(summary):
        lines += ["", note.replace("*", "\\*")]
    return "\n".join([*lines, ""])


def latex_table(summaries: Summaries) -> str:
    """The same table in LaTeX (package booktabs), a block for each run where there are several.

    >>> row = {"n": 4, "ece": 0.3, "ada_ece": 0.3, "brier": 0.2, "auroc": None, "accuracy": 0.25}
    >>> print(latex_table({"run": {"stated": row, "questions": 4}}).splitlines()[6])
    Stated (frozen) & 0.300 & 0.300 & 0.200 & -- & 25.0\\% & 4 & -- & -- \\\\
    """
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering", f"\\begin{{tabular}}{{l{'r' * 8}}}"]
    lines += ["\\toprule", " & ".join(COLUMNS) + " \\\\ \\midrule"]
    notes: list[str] = []
    for name, summary in summaries.items():
        if len(summaries) > 1:
            lines.append(f"\\multicolumn{{{len(COLUMNS)}}}{{l}}{{\\emph{{{latex(name)}}}}} \\\\")
            notes.append(latex(f"{name}: {caption(summary)}"))
        else:
            notes.append(latex(caption(summary)))
        for row in rows(summary):
            ece, *rest = map(latex, row.cells)
            first = latex(row.name) + _small(row.fitted)
            lines.append(" & ".join((first, ece + _small(row.intervals[0]), *rest)) + " \\\\")
    notes += sorted({latex(note) for summary in summaries.values() for note in footnotes(summary)})
    lines += ["\\bottomrule", "\\end{tabular}", "\\caption{" + "\n".join(notes) + "}", "\\end{table}", ""]
    return "\n".join(lines)


def csv_table(summaries: Summaries) -> str:
    """Every number at full precision: a row for each run, domain (empty: all) and reading; undefined cells are empty.

    >>> print(csv_table({})[:40])
    run,domain,reading,confidence,needs_righ
    """
    text = io.StringIO()
    ranges = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    writer = csv.writer(text, lineterminator="\n")
    first, last = (
        ("run", "domain", "reading", "confidence", "needs_right_answers", "n"),
        ("cost_paper", "cost_measured"),
    )
    writer.writerow((*first, *ranges, *last, "fitted"))
    for run, whole in summaries.items():
        for domain, summary in (("", whole), *whole.get("domains", {}).items()):
            for key, name in READINGS.items():
                if key in summary:
                    found = summary[key]
                    known = found.get("intervals") or {}
                    values = [x for m in MEASURES for x in (found.get(m), *(known.get(m) or (None, None)))]
                    costs = (found.get("cost_paper"), found.get("cost_measured"), found.get("fitted"))
                    writer.writerow(
                        (
                            run,
                            domain,
                            key,
                            name.removesuffix("*"),
                            int(key in NEEDS_LABELS),
                            found["n"],
                            *values,
                            *costs,
                        )
                    )
    return text.getvalue()


def caption(summary: Mapping[str, Any]) -> str:
    """What a reader must know about the numbers: how many questions, what learning did, and the bin rule.

    >>> caption({"questions": 4, "trained": 1, "alarms": 1, "unlabelled": 0}).split(".")[0]
    '4 questions: 1 trained, 1 alarm'
    """
    parts = [f"{amount(summary.get('trained', 0))} trained", counted(summary.get("alarms", 0), "alarm")]
    for key, words in (
        ("unlabelled", "without a reference"),
        ("unparsed", "unparsed"),
        ("low_digit_mass", "with little digit mass"),
    ):
        if summary.get(key):
            parts.append(f"{amount(summary[key])} {words}")
    text = f"{counted(summary['questions'], 'question')}: {', '.join(parts)}. "
    if summary.get("cost_measured") is not None:
        text += f"Measured cost of the run: {summary['cost_measured']:.2f} forward passes per question. "
    text += "ECE has ten equal-width bins [lo, hi)"
    if any("intervals" in value for value in summary.values() if isinstance(value, dict)):
        text += "; ranges are 95% bootstrap intervals over questions"
    return text + "."


def footnotes(summary: Mapping[str, Any]) -> list[str]:
    """What the stars mean, where there are any, and why there are dashes.

    >>> footnotes({"stated": {"n": 3, "auroc": None}})
    ['AUROC is undefined (–) where all answers are right or all are wrong: nothing to tell apart.']
    """
    found = [summary[key] for key in READINGS if key in summary]
    notes = []
    if any(key in summary for key in NEEDS_LABELS):
        notes.append(f"{FOOTNOTE}.")
    if any(value["n"] == 0 for value in found):
        notes.append(f"Without right answers to compare with (n = 0) no measure is defined ({UNDEFINED}).")
    if any(value["n"] and value["auroc"] is None for value in found):
        notes.append(
            f"AUROC is undefined ({UNDEFINED}) where all answers are right or all are wrong: nothing to tell apart."
        )
    return notes


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


def _small(text: str) -> str:
    return f" {{\\scriptsize ({latex(text)})}}" if text else ""


def _under(text: str, below: str) -> Any:
    from rich.text import Text

    cell = Text(text)
    if below:
        cell.append(f"\n{below}", style="dim")
    return cell


def number(value: float | None, digits: int) -> str:
    """A number with so many decimals, or a dash."""
    return UNDEFINED if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A share as a percentage, or a dash."""
    return UNDEFINED if value is None else f"{100 * value:.1f}%"


def amount(value: int) -> str:
    """A count with separators."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """A count and its noun.

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{amount(value)} {noun}" if value == 1 else f"{amount(value)} {noun}s"


def span(interval: Sequence[float] | None, show: Callable[[float], str]) -> str:
    """An interval as text; empty if there is none."""
    return f"{show(interval[0])}{RANGE}{show(interval[1])}" if interval else ""
