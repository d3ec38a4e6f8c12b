"""The numbers of a table's lines against independent libraries and the paper's formulas, and tables as files."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from secl.display import UNDEFINED
from secl.gates import Always, Gate, Never
from secl.learning import Calibrator, LoopSettings
from secl.records import Record
from secl.runs import RunSettings
from secl.runs.manifest import Manifest
from secl.scores import LABELLED_SCORES, SCORES
from secl.testing import ScriptedModel, toy_stream
from secl_paper.compare import FilledTable, FinishedRun, Line, compare
from secl_paper.figures import write_figure
from secl_paper.layout import COLUMNS, ISOLATED, Figure, Row, Run, Table
from secl_paper.notes import remarks
from secl_paper.output import csv_text, latex, markdown, write_index, write_table
from secl_paper.paper import read_paper
from secl_paper.reproduce import find

RUN = Run("r")


def make_run(gate: Gate, *, stated: float = 0.85, **rule: Any) -> FinishedRun:
    """A scripted run over 40 questions of two domains, with all evidence."""
    calibrator = Calibrator(
        ScriptedModel(stated=stated),
        method="secl",
        gate=gate,
        loop=LoopSettings(evidence_on="always", bin_gate=None, **rule),
        evidence=("p_true", "samples", "dinco", "candidates"),
    )
    method = "baselines" if gate == Never() else "secl"
    settings = RunSettings.of({"stream.benchmarks": ["capitals"], "method": method, "evidence.tau": 0.7})
    manifest = Manifest(settings=settings, adapter={"layers_to_transform": [24, 25, 26, 27]})
    return FinishedRun(list(calibrator.run(toy_stream(40))), manifest)


@pytest.fixture(scope="module")
def learned() -> FinishedRun:
    """A run that learned from every question."""
    return make_run(Always())


@pytest.fixture(scope="module")
def baseline() -> FinishedRun:
    """A run that does not learn."""
    return make_run(Never())


def table(*rows: Row, **settings: Any) -> Table:
    return Table("mine", "Mine", ("ece", "auroc"), rows, **settings)


def numbers(run: FinishedRun, estimator: str, **settings: Any) -> dict[str, float | None]:
    """Our numbers of the only line of a table."""
    _, (line,) = compare(table(Row("x", RUN, estimator, **settings)), {RUN: run}, {})
    return dict(line.ours)


def reported(records: Sequence[Record], domain: str | None = None) -> tuple[list[float], list[bool]]:
    """Confidences and grades of the replies, in all domains or in one."""
    inside = [record for record in records if domain in (None, record.question.domain)]
    return [record.reply.stated for record in inside], [bool(record.correct) for record in inside]


def test_a_row_has_the_numbers_of_independent_libraries_overall_and_in_each_domain(learned: FinishedRun) -> None:
    overall = numbers(learned, "secl")
    confidence, correct = reported(learned.records)
    assert overall["brier"] == pytest.approx(brier_score_loss(correct, confidence))
    assert overall["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
    assert overall["accuracy"] == pytest.approx(np.mean(correct))
    _, lines = compare(table(Row("SECL", RUN, "secl", each_domain=True)), {RUN: learned}, {})
    assert [line.name for line in lines] == ["SECL/toy0", "SECL/toy1"]
    for line, domain in zip(lines, ("toy0", "toy1"), strict=True):
        confidence, correct = reported(learned.records, domain)
        assert line.ours["brier"] == pytest.approx(brier_score_loss(correct, confidence))
        assert line.ours["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
        assert line.ours["n"] == 20
        assert overall[f"brier_{domain}"] == line.ours["brier"]


def test_counts_and_costs_follow_the_papers_formula(learned: FinishedRun) -> None:
    records = [replace(record, learning=None) for record in learned.records[:30]]
    ours = numbers(replace(learned, records=[*records, *learned.records[30:]]), "secl")
    expected = {"questions": 40, "trained": 10, "trained_share": 0.25, "skipped": 30}
    assert {name: ours[name] for name in expected} == expected
    assert (ours["secl_cost"], ours["p_true_cost"], ours["cost"]) == (10 * 15 + 30, 6 * 40, (10 * 15 + 30) / 40)
    assert (ours["first_layer"], ours["last_layer"]) == (24, 27)


def test_tau_and_formula_of_a_row_go_before_those_of_its_run(baseline: FinishedRun) -> None:
    scored = [record.evidence.p_true for record in baseline.records]
    for tau in (0.3, 0.7, 3.0):
        sharp = [np.array(p_true.probabilities) ** (1 / tau) for p_true in scored if p_true is not None]
        scores = [float(each[0] / each.sum()) for each in sharp]
        ours = numbers(baseline, "norm_p_true", tau=tau)
        assert ours["brier"] == pytest.approx(brier_score_loss(reported(baseline.records)[1], scores))
        assert ours["tau"] == tau
    own = numbers(baseline, "norm_p_true")
    assert own == numbers(baseline, "norm_p_true", tau=0.7)
    assert own["brier"] != numbers(baseline, "norm_p_true", formula="exp")["brier"]


def test_the_isolated_estimator_is_the_confidence_after_the_questions_own_update() -> None:
    run = make_run(Always(), accumulate="question")
    after = [record.update.after for record in run.records if record.update]
    correct = reported(run.records)[1]
    assert len(after) == 40
    ours = numbers(run, ISOLATED)
    assert ours["brier"] == pytest.approx(brier_score_loss(correct, after))
    assert ours["brier"] != numbers(run, "secl")["brier"]


def test_several_runs_give_each_their_mean_and_their_population_deviation() -> None:
    runs = {Run(name): make_run(Never(), stated=stated) for name, stated in (("42", 0.6), ("43", 0.7), ("44", 0.95))}
    columns, (line,) = compare(table(Row("x", tuple(runs), "stated"), by="run"), runs, {})
    assert list(columns)[:5] == ["ece_42", "ece_43", "ece_44", "ece_mean", "ece_std"]
    each = [numbers(run, "stated")["ece"] or math.nan for run in runs.values()]
    assert [line.ours[f"ece_{run.name}"] for run in runs] == each
    assert line.ours["ece_mean"] == pytest.approx(np.mean(each))
    assert line.ours["ece_std"] == pytest.approx(np.std(each))
    assert {column.form for column in columns.values()} == {".4f"}


def test_every_estimator_can_be_a_row_and_gives_every_measure(learned: FinishedRun) -> None:
    for estimator in {*SCORES, ISOLATED} - {*LABELLED_SCORES, "at_once", "thoughts"}:  # the run thinks nowhere
        ours = numbers(learned, estimator)
        assert all(ours[name] is not None for name in ("ece", "ada_ece", "brier", "accuracy", "cost", "n")), estimator


def test_remarks_say_what_a_dash_is() -> None:
    line, row = Line("a", ours={"n": 500, "ece": 0.1}), Row("a", Run("a"), "secl")
    (_, dash) = remarks(table(row), [line], {"auroc": COLUMNS["auroc"]}, {})
    assert dash.startswith("\N{EN DASH}: the number is undefined")


def test_a_remark_names_a_temperature_at_a_limit_of_the_search() -> None:
    lines = [Line(name, ours={"n": 10, "temperature": value}) for name, value in (("a", 100.0), ("b", 17.6))]
    rows = [Row(line.name, Run(line.name), "stated_temperature") for line in lines]
    (_, limit) = remarks(table(*rows), lines, {"temperature": COLUMNS["temperature"]}, {})
    assert limit == "T of a is a limit of the search (0.01 to 100), so no T fits well."


def test_a_remark_names_rows_that_show_the_same_numbers_unless_that_is_no_wonder() -> None:
    def notes(*rows: Row, untrained: Sequence[str] = (), **of_b: Any) -> list[str]:
        a = Line("a", ours={"n": 12, "ece": 0.6371}, intervals={"ece": (0.35, 0.7)})
        lines = [a, replace(a, name="b", **of_b), Line("c", ours={"n": 12, "ece": 0.638})]
        return remarks(table(*rows), lines, {"ece": COLUMNS["ece"]}, dict.fromkeys(untrained, False))[1:]

    one, other, third = Row("a", Run("a"), "secl"), Row("b", Run("b"), "secl"), Row("c", Run("c"), "secl")
    fourth_digit = {"n": 12, "ece": 0.6374}
    assert notes(one, other, third, ours=fourth_digit) == ["No visible effect at n = 12: a, b show the same numbers."]
    assert not notes(one, other, third, ours={"n": 12, "ece": 0.6379})
    assert not notes(one, other, third, ours={"n": 13, "ece": 0.6371})
    assert not notes(one, other, third, intervals={"ece": (0.35, 0.71)})
    assert not notes(one, replace(one, name="b"), third)  # the same run
    assert "No visible" not in str(notes(one, other, third, untrained=("a", "b")))  # why has a remark of its own


PRINTED = {"llama-3.2-3b": ["71%", "60%"], "llama-3.1-8b": ["63%", "16%"], "gemma-2-2b": ["78%", "42%"]}
PRINTED |= {"phi-3.5-mini": ["56%", "31%"]}


@pytest.mark.parametrize("model", PRINTED)
def test_both_orders_have_the_papers_reduction_of_the_error_and_ours(learned: FinishedRun, model: str) -> None:
    (order,) = find(["order"])
    paper = read_paper().tables["order"].numbers[model]
    columns, (stated, *both) = compare(order, dict.fromkeys(order.runs, learned), paper)
    assert [format(line.paper["reduction"], columns["reduction"].form) for line in both] == PRINTED[model]
    for line in both:
        assert line.ours["reduction"] == pytest.approx(1 - (line.ours["ece"] or 0) / (stated.ours["ece"] or 0))
        assert line.ours["trained_share"] == sum(record.update is not None for record in learned.records) / 40
    assert "reduction" not in {*stated.ours, *stated.paper}


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
    assert cells(markdown(OURS).splitlines()[4]) == ["SECL", "0.100 [0.050, 0.200]", "1.5"]


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
