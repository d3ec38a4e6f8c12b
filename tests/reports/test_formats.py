"""Tables for a paper: special characters in LaTeX and Markdown, all digits in CSV."""

import csv
import io
import math

import pytest

from secl.display import RANGE, UNDEFINED
from secl.reports.formats import latex_text, markdown_text, table_text
from secl.reports.table import Cell, Column, Table

TABLE = Table(
    [Column("Method", text=True), Column("50% & more")],
    {
        "": [[Cell("[a]_b"), Cell("0.123", "± 0.010", {"": 0.123456789, "sd": 0.01})]],
        "part *": [[Cell("c|d"), Cell(UNDEFINED, "", {"": math.nan, "sd": math.nan})]],
    },
    ["100% of rows."],
)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50% & a_b #1 $5 {x}", r"50\% \& a\_b \#1 \$5 \{x\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("a < b | c > d", r"a \ensuremath{<} b \ensuremath{|} c \ensuremath{>} d"),
        (f"± 0.1, 0.2{RANGE}0.3, {UNDEFINED}", r"$\pm$ 0.1, 0.2--0.3, --"),
        ("[-0.5, -.25] well-known 1-2 x-1", r"[$-$0.5, $-$.25] well-known 1-2 x-1"),
        ("one\n two", "one two"),
    ],
)
def test_a_text_in_latex_prints_as_it_reads(text: str, latex: str) -> None:
    assert latex_text(text) == latex


def test_a_latex_table_has_booktabs_and_no_row_that_begins_with_a_bracket() -> None:
    assert table_text(TABLE, "latex").splitlines() == [
        "% 100% of rows.",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Method & 50\% \& more \\",
        r"\midrule",
        r"{}[a]\_b & 0.123 {\scriptsize $\pm$ 0.010} \\",
        r"\textit{part *} &  \\",
        r"c\ensuremath{|}d & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_markdown_table_escapes_marks_and_ends_with_its_notes() -> None:
    lines = table_text(TABLE, "markdown").splitlines()
    assert lines == [
        "| Method | 50% & more |",
        "| --- | --: |",
        r"| [a]\_b | 0.123 ± 0.010 |",
        r"| *part \** |  |",
        rf"| c\|d | {UNDEFINED} |",
        "",
        "100% of rows.",
    ]
    assert markdown_text("[a](b) [0.1, 0.2]") == r"[a\](b) [0.1, 0.2]"


def test_a_csv_table_has_all_digits_a_column_for_each_number_and_empty_fields_where_undefined() -> None:
    rows = list(csv.DictReader(io.StringIO(table_text(TABLE, "csv"))))
    assert rows == [
        {"section": "", "Method": "[a]_b", "50% & more": "0.123456789", "50% & more sd": "0.01"},
        {"section": "part *", "Method": "c|d", "50% & more": "", "50% & more sd": ""},
    ]
