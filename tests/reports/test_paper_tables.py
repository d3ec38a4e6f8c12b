"""The paper's tables over our runs: numbers against independent libraries, and every way of writing them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sklearn.metrics import brier_score_loss, roc_auc_score

from secl.calibrator import Calibrator
from secl.gates import Always, Gate, Never
from secl.records import Record
from secl.reports.paper import (
    COLUMNS,
    DOMAIN,
    ISOLATED,
    KNOWN_READINGS,
    RUN,
    Line,
    PaperTable,
    Recorded,
    Row,
    compare,
    known_column,
    untrained,
)
from secl.reports.paper_tables import (
    csv_text,
    latex,
    markdown,
    remarks,
    screen_tables,
    three,
    write_figure,
    write_index,
    write_table,
)
from secl.reports.tables import UNDEFINED
from secl.testing import ScriptedModel, toy_stream


def ran(gate: Gate, questions: int = 40, *, stated: float = 0.85, **settings: object) -> Recorded:
    """A scripted run over two domains, with all evidence."""
    model = ScriptedModel(stated=stated)
    calibrator = Calibrator(
        model,
        gate=gate,
        evidence_on="always",
        evidence=("p_true", "samples", "dinco"),
        bin_gate=None,
        **settings,  # type: ignore[arg-type]
    )
    records = list(calibrator.stream(toy_stream(questions)))
    return Recorded(records, tau=0.7, layers=(24, 25, 26, 27), learns=True)


@pytest.fixture(scope="module")
def learned() -> Recorded:
    return ran(Always())


@pytest.fixture(scope="module")
def frozen() -> Recorded:
    return replace(ran(Never()), learns=False)


def said(records: Sequence[Record], domain: str | None = None) -> tuple[list[float], list[bool]]:
    kept = [record for record in records if domain in (None, record.question.domain)]
    return [record.reply.confidence for record in kept], [bool(record.correct) for record in kept]


def only(row: Row, runs: dict[str, Recorded], *columns: str) -> dict[str, float | None]:
    """Our numbers of a table's only line."""
    _, (line,) = compare([row], columns, runs, {})
    return dict(line.ours)


def test_a_row_has_the_numbers_of_independent_libraries_overall_and_in_each_domain(learned: Recorded) -> None:
    overall = only(Row("SECL", ("r",), "secl"), {"r": learned}, "ece")
    confidence, correct = said(learned.records)
    assert overall["brier"] == pytest.approx(brier_score_loss(correct, confidence))
    assert overall["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
    assert overall["accuracy"] == pytest.approx(np.mean(correct))
    _, lines = compare([Row("SECL/{domain}", ("r",), "secl")], ["brier"], {"r": learned}, {})
    assert [line.name for line in lines] == ["SECL/toy0", "SECL/toy1"]
    for line, domain in zip(lines, ("toy0", "toy1"), strict=True):
        confidence, correct = said(learned.records, domain)
        assert line.ours["brier"] == pytest.approx(brier_score_loss(correct, confidence))
        assert line.ours["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
        assert line.ours["n"] == 20
        assert overall[f"brier_{domain}"] == line.ours["brier"]


def test_counts_and_costs_follow_the_papers_formula(learned: Recorded) -> None:
    records = [replace(record, update=None, outcome="idle") for record in learned.records[:30]]
    found = only(Row("SECL", ("r",), "secl"), {"r": replace(learned, records=[*records, *learned.records[30:]])}, "ece")
    expected = {"questions": 40, "trained": 10, "trained_share": 0.25, "skipped": 30}
    assert {name: found[name] for name in expected} == expected
    assert (found["secl_cost"], found["p_true_cost"], found["cost"]) == (10 * 15 + 30, 6 * 40, (10 * 15 + 30) / 40)
    assert (found["first_layer"], found["last_layer"]) == (24, 27)


@pytest.mark.parametrize(("reading", "passes"), [("stated", 1), ("p_true", 2), ("norm_p_true", 6), ("dinco", 10)])
def test_a_baseline_costs_what_the_paper_says(frozen: Recorded, reading: str, passes: int) -> None:
    assert only(Row("x", ("r",), reading), {"r": frozen}, "cost")["cost"] == passes


def test_tau_and_formula_of_a_row_go_before_those_of_its_run(frozen: Recorded) -> None:
    judged = [record.evidence.p_true for record in frozen.records]
    for tau in (0.3, 0.7, 3.0):
        sharp = [np.array(p_true.probabilities) ** (1 / tau) for p_true in judged if p_true is not None]
        scores = [float(each[0] / each.sum()) for each in sharp]
        found = only(Row("x", ("r",), "norm_p_true", tau=tau), {"r": frozen}, "ece")
        assert found["brier"] == pytest.approx(brier_score_loss(said(frozen.records)[1], scores))
        assert found["tau"] == tau
    own = only(Row("x", ("r",), "norm_p_true"), {"r": frozen}, "ece")
    assert own == only(Row("x", ("r",), "norm_p_true", tau=0.7), {"r": frozen}, "ece")
    assert own["brier"] != only(Row("x", ("r",), "norm_p_true", formula="exp"), {"r": frozen}, "ece")["brier"]


def test_the_isolated_reading_is_the_confidence_after_the_questions_own_update() -> None:
    run = ran(Always(), accumulate="question")
    after = [record.update.after for record in run.records if record.update]
    correct = said(run.records)[1]
    assert len(after) == 40
    found = only(Row("x", ("r",), ISOLATED), {"r": run}, "ece")
    assert found["brier"] == pytest.approx(brier_score_loss(correct, after))
    assert found["brier"] != only(Row("x", ("r",), "secl"), {"r": run}, "ece")["brier"]


def test_several_runs_give_each_their_mean_and_their_population_deviation() -> None:
    runs = {name: ran(Never(), stated=stated) for name, stated in (("42", 0.6), ("43", 0.7), ("44", 0.95))}
    columns, (line,) = compare([Row("x", tuple(runs), "stated")], ["ece_{run}", "auroc_{run}"], runs, {})
    assert list(columns)[:5] == ["ece_42", "ece_43", "ece_44", "ece_mean", "ece_std"]
    each = [only(Row("x", (name,), "stated"), runs, "ece")["ece"] or math.nan for name in runs]
    assert [line.ours[f"ece_{name}"] for name in runs] == each
    assert line.ours["ece_mean"] == pytest.approx(np.mean(each))
    assert line.ours["ece_std"] == pytest.approx(np.std(each))
    assert {column.form for column in columns.values()} == {".4f"}


def test_one_undefined_run_leaves_the_mean_undefined() -> None:
    runs = {"a": ran(Never()), "b": ran(Never())}
    right = [replace(record, correct=True, frozen_correct=True) for record in runs["b"].records]
    runs["b"] = replace(runs["b"], records=right)
    _, (line,) = compare([Row("x", ("a", "b"), "stated")], ["auroc_{run}", "ece_{run}"], runs, {})
    assert line.ours["auroc_b"] is None
    assert "auroc_mean" not in line.ours
    assert line.ours["ece_mean"] is not None


def test_recalibration_shows_its_temperature_and_the_range_that_it_leaves(frozen: Recorded) -> None:
    found = only(Row("x", ("r",), "stated_temperature"), {"r": frozen}, "ece")
    temperature, low, high = found["temperature"], found["low"], found["high"]
    assert temperature is not None
    assert temperature > 1
    assert low is not None
    assert high is not None
    assert 0.5 < low <= high < 0.85
    plain = only(Row("x", ("r",), "stated"), {"r": frozen}, "ece")
    assert plain["temperature"] is None
    assert [plain["low"], plain["high"]] == [pytest.approx(0.85)] * 2


def test_intervals_are_there_only_where_the_paper_has_no_table(frozen: Recorded) -> None:
    row = Row("x", ("r",), "stated")
    assert compare([row], ["ece"], {"r": frozen}, {})[1][0].intervals == {}
    (line,) = compare([row], ["ece"], {"r": frozen}, None)[1]
    low, high = line.intervals["ece"]
    assert low <= (line.ours["ece"] or 0) <= high


def test_every_reading_can_be_a_row_and_gives_every_measure(learned: Recorded) -> None:
    for reading in KNOWN_READINGS:
        found = only(Row("x", ("r",), reading), {"r": learned}, "ece")
        assert all(found[name] is not None for name in ("ece", "ada_ece", "brier", "accuracy", "cost", "n")), reading


def test_rows_that_never_learned_are_told_apart_from_those_that_had_no_chance(
    learned: Recorded, frozen: Recorded
) -> None:
    stopped = [replace(record, update=None, outcome="agreed") for record in learned.records]
    runs = {
        "on": learned,
        "closed": replace(frozen, learns=True),
        "stopped": replace(learned, records=stopped),
        "base": frozen,
    }
    rows = [Row(name, (name,), "secl") for name in runs]
    assert untrained([*rows, Row("stated", ("closed",), "stated")], runs) == {"closed": False, "stopped": True}
    said = remarks([], {}, untrained(rows, runs))
    assert said[0].startswith("Nothing was trained in closed, because the gate never opened")
    assert said[1].startswith("Nothing was trained in stopped, because the bin gate")


TABLE = PaperTable(
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
OURS = PaperTable(
    "methods",
    "Ours",
    {"ece": COLUMNS["ece"], "cost": COLUMNS["cost"]},
    (Line("SECL", {}, {"ece": 0.1, "cost": 1.5}, {"ece": (0.05, 0.2)}),),
    False,
    (),
)


def test_a_markdown_table_has_paper_ours_and_difference_and_dashes_where_there_is_nothing() -> None:
    lines = markdown(TABLE).splitlines()
    assert lines[0] == "# Weight of a KL term"
    assert lines[2].startswith("|  | ECE paper | ECE ours | ECE difference | AUROC paper |")
    dash = UNDEFINED
    assert lines[4] == f"| beta 0 | 0.050 | 0.050 | +0.000 | 0.587 | {dash} | {dash} | 25.6% | {dash} | {dash} |"
    assert lines[5].startswith(f"| 50% & more_ | {UNDEFINED} | 0.100 | {UNDEFINED} | ")
    assert lines[-1] == "* Two rows."
    assert markdown(OURS).splitlines()[4] == f"| SECL | 0.100 (0.050{UNDEFINED}0.200) | 1.5 |"


def test_csv_has_all_digits_and_empty_fields() -> None:
    (header, first, second) = csv.reader(io.StringIO(csv_text(TABLE)))
    assert header[:4] == ["row", "ece paper", "ece ours", "ece difference"]
    assert first == ["beta 0", "0.05", "0.0504", repr(0.0504 - 0.05), "0.587", "", "", "0.256", "", ""]
    assert second[1:4] == ["", "0.1", ""]
    assert list(csv.reader(io.StringIO(csv_text(OURS)))) == [
        ["row", "ece", "ece low", "ece high", "cost", "cost low", "cost high"],
        ["SECL", "0.1", "0.05", "0.2", "1.5", "", ""],
    ]


def test_latex_has_the_same_number_of_fields_on_every_row_and_escapes_names() -> None:
    text = latex(TABLE)
    assert r"50\% \& more\_ & -- & 0.100" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(rows) == 3
    assert {line.replace(r"\&", "").count("&") for line in rows} == {9}
    assert r"\begin{tabular}{lrrrrrrrrr}" in text
    assert r"\multicolumn{3}{c}{Trained \%}" in text
    assert text.startswith("% Two rows.\n")


numbers = st.none() | st.floats(0, 1)


@given(numbers, numbers)
def test_the_difference_is_ours_minus_the_papers_where_both_are_defined(
    paper: float | None, ours: float | None
) -> None:
    line = Line("x", {} if paper is None else {"ece": paper}, {"ece": ours}, {})
    expected = None if paper is None or ours is None else ours - paper
    assert three(line, "ece") == (paper, ours, expected)


def test_a_difference_that_rounds_to_zero_has_no_minus() -> None:
    lines = (Line("x", {"ece": 0.05, "trained_share": 0.5}, {"ece": 0.0499, "trained_share": 0.4999}, {}),)
    text = markdown(replace(TABLE, lines=lines))
    assert "+0.000" in text
    assert "+0.0%" in text
    assert "-0" not in text


@pytest.mark.parametrize("width", [50, 80, 100, 160])
@pytest.mark.parametrize("table", [TABLE, OURS], ids=["paper", "ours"])
def test_nothing_is_cut_on_screens_of_any_width(table: PaperTable, width: int) -> None:
    console = Console(width=width, file=io.StringIO(), markup=False)
    for part in screen_tables(table, width):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for line in table.lines:
        assert line.name in text
    for name in table.columns:
        assert all(word in text for word in table.columns[name].heading.split())
    if table is OURS:
        assert f"(0.050{UNDEFINED}0.200)" in text


def test_a_wide_screen_holds_a_table_in_one_piece() -> None:
    assert (len(list(screen_tables(TABLE, 160))), len(list(screen_tables(TABLE, 40)))) == (1, 3)


def test_remarks_name_the_rows_with_another_n_and_say_what_a_dash_is() -> None:
    lines = [Line(name, {}, {"n": n, "ece": 0.1}, {}) for name, n in (("a", 500), ("b", 500), ("c", 1499))]
    assert remarks(lines, {"ece": COLUMNS["ece"]}, {}) == ["n = 500 graded answers (c 1,499)."]
    assert remarks(lines, {"auroc": COLUMNS["auroc"]}, {})[1].startswith(f"{UNDEFINED} is undefined")


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
def test_a_figure_is_drawn_of_the_rows_of_its_table(kind: str, frozen: Recorded, tmp_path: Path) -> None:
    rows = [Row("Stated $1$", ("r",), "stated"), Row("P(True)", ("r",), "p_true")]
    _, lines = compare(rows, ["cost", "ece"], {"r": frozen}, {})
    write_figure(kind, rows, lines, {"r": frozen}, tmp_path / "figure")
    assert (tmp_path / "figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "P(True)" in (tmp_path / "figure.svg").read_text()


def test_columns_with_placeholders_are_measures_only() -> None:
    assert all(known_column(name) for name in (*COLUMNS, f"ada_ece_{DOMAIN}", f"auroc_{RUN}"))
    assert not any(known_column(name) for name in ("eze", f"cost_{DOMAIN}", "ece_", "ece_gsm8k"))
