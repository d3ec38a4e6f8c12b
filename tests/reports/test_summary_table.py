"""Tables show every number of a summary once, and a dash where there is none."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from rich.console import Console

from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.measures import Measures
from secl.evaluation.summary import EstimatorSummary, Summary, evaluate, summarise
from secl.metrics.bootstrap import Interval
from secl.metrics.standard import MEASURES
from secl.records import Record
from secl.reports.formatting import UNDEFINED
from secl.reports.summary_table import (
    COLUMNS,
    caption,
    footnotes,
    summary_csv,
    summary_table,
)
from secl.reports.table import to_rich

MakeRecord = Callable[..., Record]
MakeStream = Callable[[int], list[Record]]


@pytest.fixture(scope="module")
def everything() -> Summary:
    """A summary in which every estimator has a row with numbers as long as they get."""
    measures: dict[str, Any] = {each.name: 0.123456 for each in fields(Measures)}
    measures |= {"n": 12_500, "accuracy": 1.0, "ece_within_floor": False}
    intervals = dict.fromkeys(MEASURES, Interval(0.1, 1.0))
    rows = {
        name: EstimatorSummary(
            estimator=estimator,
            **measures | {"intervals": intervals},
            cost_paper=15.0,
            cost_measured=123.4,
            fitted="a=-37.6, b=26.2, range [0.00, 0.26]",
        )
        for name, estimator in ESTIMATORS.items()
    }
    return replace(summarise([]), questions=12_500, trained=1, alarms=2, cost_measured=2.5, estimators=rows)


def shown(summary: Summary, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(to_rich(summary_table(summary)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_a_row_per_confidence_in_the_order_of_reports(make_stream: MakeStream) -> None:
    summary = summarise(make_stream(60))
    table = summary_table(summary)
    assert tuple(column.heading for column in table.columns) == COLUMNS
    names = [row[0].text for row in table.sections[""]]
    assert names == [ESTIMATORS[name].title for name in ESTIMATORS if name in summary.estimators]
    assert {len(row) for row in table.sections[""]} == {len(COLUMNS)}


def test_cells_are_the_numbers_of_the_summary(make_stream: MakeStream) -> None:
    summary = summarise(make_stream(60))
    row = summary.estimators["secl"]
    assert row.intervals is not None
    spans = [f"{row.intervals[name].low:.3f}{UNDEFINED}{row.intervals[name].high:.3f}" for name in ("brier", "auroc")]
    line = next(line for line in summary_table(summary).sections[""] if line[0].text == "SECL")
    assert row.ece > row.ece_floor_95
    numbers = [f"{row.brier:.3f}", f"{row.ece:.3f}", f"{row.auroc:.3f}", f"{100 * row.accuracy:.1f}%", "60"]
    assert [cell.text for cell in line] == ["SECL", *numbers, f"{row.cost_paper:.1f}", f"{row.cost_measured:.1f}"]
    assert [cell.detail for cell in line[1:4]] == [spans[0], f"above {row.ece_floor_95:.3f}", spans[1]]


def test_updates_that_were_taken_back_are_counted(make_record: MakeRecord) -> None:
    records = [make_record(0, outcome="failed"), make_record(1, outcome="trained")]
    assert caption(summarise(records)).startswith("2 questions: 1 trained, 0 alarms, 1 taken back, with numbers that")
    assert "taken back" not in caption(summarise(records[1:]))


def test_what_is_undefined_is_a_dash_and_the_reason_is_given(make_record: MakeRecord) -> None:
    summary = summarise([make_record(correct=None, frozen_correct=True)])
    table = summary_table(summary)
    rows = {row[0].text: [cell.text for cell in row] for row in table.sections[""]}
    assert rows["Stated (frozen)"][3] == UNDEFINED  # AUROC of one class
    assert rows["SECL"][1:6] == [UNDEFINED] * 4 + ["0"]
    reasons = " ".join(footnotes(summary))
    assert "n = 0" in reasons
    assert "all answers are right or all are wrong" in reasons
    assert set(footnotes(summary)) <= {*table.notes}
    both = [make_record(0, correct=True, digit=9), make_record(1, correct=False, digit=1)]
    assert footnotes(summarise(both, {"secl": ESTIMATORS["secl"]})) == []


def test_nothing_is_cut_off_in_a_terminal_of_80_columns(everything: Summary) -> None:
    narrow, wide = shown(everything, 80), shown(everything, 200)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    for text in ("12,500", "0.100–1.000", "above 0.123", "100.0%", "15.0", "123.4", "0.26]"):  # noqa: RUF001
        assert narrow.count(text) == wide.count(text) > 0, text
    assert to_rich(summary_table(everything)).row_count == len(ESTIMATORS)
    assert all(estimator.title in wide for estimator in ESTIMATORS.values())


def test_csv_keeps_every_digit_of_every_run_domain_and_estimator(make_stream: MakeStream) -> None:
    summary = evaluate(make_stream(60), in_domains=["stated"]).summary
    name = 'a, "b"\nc'
    rows = list(csv.DictReader(io.StringIO(summary_csv(name, summary))))
    assert {row["run"] for row in rows} == {name}
    plain = summary.to_json()
    parts = {"": plain, **plain["domains"]}
    assert [(row["domain"], row["estimator"]) for row in rows] == [
        (domain, key) for domain, part in parts.items() for key in ESTIMATORS if key in part["estimators"]
    ]
    for row in rows:
        plain_row = parts[row["domain"]]["estimators"][row["estimator"]]
        low_high = {
            f"{m}{end}": ((plain_row["intervals"] or {}).get(m) or (None, None))[k]
            for m in MEASURES
            for k, end in ((0, "_low"), (1, "_high"))
        }
        for column, value in {
            **{m: plain_row[m] for m in (*MEASURES, "ece_floor", "auroc_within", "prr")},
            **low_high,
            "cost_paper": plain_row["cost_paper"],
        }.items():
            assert row[column] == ("" if value is None else repr(value)), column
        assert int(row["n"]) == plain_row["n"]
        assert (row["needs_right_answers"] == "1") == ESTIMATORS[row["estimator"]].needs_labels
        assert not row["confidence"].endswith("*")
