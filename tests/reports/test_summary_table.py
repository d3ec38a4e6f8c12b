"""Tables show every number of a summary once, and a dash where there is none."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from rich.console import Console

from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.measures import Measures
from secl.evaluation.summary import EstimatorSummary, evaluate, summarise
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
from tests.answers import make_record, make_stream

MakeStream = Callable[[int], list[Record]]


def test_the_table_has_a_row_per_confidence_with_the_numbers_of_the_summary() -> None:
    summary = summarise(make_stream(60))
    table = summary_table(summary)
    assert tuple(column.heading for column in table.columns) == COLUMNS
    lines = {line[0].text: line for line in table.sections[""]}
    assert [*lines] == [ESTIMATORS[name].title for name in ESTIMATORS if name in summary.estimators]
    assert {len(line) for line in lines.values()} == {len(COLUMNS)}
    row = summary.estimators["secl"]
    assert row.intervals is not None
    spans = [f"{row.intervals[name].low:.3f}{UNDEFINED}{row.intervals[name].high:.3f}" for name in ("brier", "auroc")]
    assert row.ece > row.ece_floor_95
    numbers = [f"{row.brier:.3f}", f"{row.ece:.3f}", f"{row.auroc:.3f}", f"{100 * row.accuracy:.1f}%", "60"]
    costs = [f"{row.cost_paper:.1f}", f"{row.cost_measured:.1f}"]
    assert [cell.text for cell in lines["SECL"]] == ["SECL", *numbers, *costs]
    assert [cell.detail for cell in lines["SECL"][1:4]] == [spans[0], f"above {row.ece_floor_95:.3f}", spans[1]]
    records = [make_record(0, outcome="failed"), make_record(1, outcome="trained")]
    assert caption(summarise(records)).startswith("2 questions: 1 trained, 0 alarms, 1 taken back, with numbers that")
    assert "taken back" not in caption(summarise(records[1:]))


def test_what_is_undefined_is_a_dash_and_the_reason_is_given() -> None:
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


def test_nothing_is_cut_off_in_a_terminal_of_80_columns() -> None:
    """A summary in which every estimator has a row with numbers as long as they get."""
    measures: dict[str, Any] = {each.name: 0.123456 for each in fields(Measures)}
    measures |= {"n": 12_500, "accuracy": 1.0, "ece_within_floor": False}
    measures |= {"intervals": dict.fromkeys(MEASURES, Interval(0.1, 1.0))}
    more: dict[str, Any] = {"cost_paper": 15.0, "cost_measured": 123.4, "fitted": "a=-37.6, b=26.2, range [0.00, 0.26]"}
    rows = {name: EstimatorSummary(estimator=each, **measures, **more) for name, each in ESTIMATORS.items()}
    summary = replace(summarise([]), questions=12_500, trained=1, alarms=2, cost_measured=2.5, estimators=rows)
    table = to_rich(summary_table(summary))
    assert table.row_count == len(ESTIMATORS)
    consoles = [Console(file=io.StringIO(), width=width) for width in (80, 200)]
    for console in consoles:
        console.print(table)
    narrow, wide = (console.file.getvalue() for console in consoles)  # type: ignore[attr-defined]
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    for text in ("12,500", "0.100–1.000", "above 0.123", "100.0%", "15.0", "123.4", "0.26]"):  # noqa: RUF001
        assert narrow.count(text) == wide.count(text) > 0, text
    assert all(estimator.title in wide for estimator in ESTIMATORS.values())


def test_csv_keeps_every_digit_of_every_run_domain_and_estimator() -> None:
    summary, name = evaluate(make_stream(60), in_domains=["stated"]).summary, 'a, "b"\nc'
    rows = list(csv.DictReader(io.StringIO(summary_csv(name, summary))))
    assert {row["run"] for row in rows} == {name}
    plain = summary.to_json()
    parts = {"": plain, **plain["domains"]}
    assert [(row["domain"], row["estimator"]) for row in rows] == [
        (domain, key) for domain, part in parts.items() for key in ESTIMATORS if key in part["estimators"]
    ]
    for row in rows:
        found = parts[row["domain"]]["estimators"][row["estimator"]]
        expected = {m: found[m] for m in (*MEASURES, "ece_floor", "auroc_within", "prr", "cost_paper")}
        for measure in MEASURES:
            low, high = (found["intervals"] or {}).get(measure) or (None, None)
            expected |= {f"{measure}_low": low, f"{measure}_high": high}
        assert {column: row[column] for column in expected} == {
            column: "" if value is None else repr(value) for column, value in expected.items()
        }
        assert int(row["n"]) == found["n"]
        assert (row["needs_right_answers"] == "1") == ESTIMATORS[row["estimator"]].needs_labels
        assert not row["confidence"].endswith("*")
