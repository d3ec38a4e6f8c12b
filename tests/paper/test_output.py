"""Every way of writing a table."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from secl.reports.formatting import UNDEFINED
from secl_paper.compare import FilledTable, FinishedRun, Line, compare
from secl_paper.figures import write_figure
from secl_paper.layout import COLUMNS, Figure, Row, Run, Table
from secl_paper.output import csv_text, latex, markdown, write_index, write_table

TABLE = FilledTable(
    "kl",
    "Weight of a KL term",
    {"ece": COLUMNS["ece"], "auroc": COLUMNS["auroc"], "trained_share": COLUMNS["trained_share"]},
    (
        Line("beta 0", {"ece": 0.05, "auroc": 0.587, "trained_share": 0.256}, {"ece": 0.0504, "auroc": None}, {}),
        Line("50% & more_", {}, {"ece": 0.1, "auroc": 0.5, "trained_share": 1.0}, {}),
    ),
    True,
    ("Two rows.",),
)
OURS = FilledTable(
    "methods",
    "Ours",
    {"ece": COLUMNS["ece"], "cost": COLUMNS["cost"]},
    (Line("SECL", {}, {"ece": 0.1, "cost": 1.5}, {"ece": (0.05, 0.2)}),),
    False,
    (),
)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_markdown_table_has_paper_ours_and_difference_and_dashes_where_there_is_nothing() -> None:
    lines = markdown(TABLE).splitlines()
    assert lines[0] == "# Weight of a KL term"
    assert cells(lines[2])[:5] == ["", "ECE paper", "ECE ours", "ECE difference", "AUROC paper"]
    dash = UNDEFINED
    assert cells(lines[4]) == ["beta 0", "0.050", "0.050", "+0.000", "0.587", dash, dash, "25.6%", dash, dash]
    assert cells(lines[5])[:4] == ["50% & more\\_", dash, "0.100", dash]
    assert lines[-1] == "Two rows."
    assert cells(markdown(OURS).splitlines()[4]) == ["SECL", f"0.100 (0.050{dash}0.200)", "1.5"]


def test_csv_has_all_digits_and_empty_fields() -> None:
    (header, first, second) = csv.reader(io.StringIO(csv_text(TABLE)))
    assert header[:4] == ["row", "ece paper", "ece ours", "ece difference"]
    assert first == ["beta 0", "0.05", "0.0504", repr(0.0504 - 0.05), "0.587", "", "", "0.256", "", ""]
    assert second[1:4] == ["", "0.1", ""]
    assert list(csv.reader(io.StringIO(csv_text(OURS)))) == [
        ["row", "ece", "ece low", "ece high", "cost", "cost low", "cost high"],
        ["SECL", "0.1", "0.05", "0.2", "1.5", "", ""],
    ]


def test_a_table_is_written_in_three_forms_and_the_index_names_each_table_once(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "tables")
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["kl.csv", "kl.md", "kl.tex"]
    write_index(tmp_path, TABLE, "tables", ["runs/a"], ["Old."])
    write_index(tmp_path, OURS, "tables", [], ["More."])
    write_index(tmp_path, TABLE, "tables", ["runs/a", "runs/b"], ["New."])
    assert (tmp_path / "README.md").read_text().splitlines()[2:] == [
        "* [kl](tables/kl.md): Weight of a KL term. Runs: `runs/a`, `runs/b`. New.",
        "* [methods](tables/methods.md): Ours. No run. More.",
    ]


@pytest.mark.parametrize("kind", ["reliability", "scores", "cost"])
def test_a_figure_is_drawn_of_the_rows_of_its_table(kind: Figure, baseline: FinishedRun, tmp_path: Path) -> None:
    run = Run("r")
    rows = (Row("Stated $1$", run, "stated"), Row("P(True)", run, "p_true"))
    table = Table("mine", "Mine", ("cost", "ece"), rows, figure=kind)
    _, lines = compare(table, {run: baseline}, {})
    write_figure(table, lines, {run: baseline}, tmp_path / "figure")
    assert (tmp_path / "figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "P(True)" in (tmp_path / "figure.svg").read_text()


def test_latex_has_a_row_for_each_line_with_nothing_unescaped() -> None:
    text = latex(TABLE)
    assert text.startswith("% Weight of a KL term\n% Two rows.\n\\begin{tabular}")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {9}
    assert r"50\% \& more\_" in rows[2]
