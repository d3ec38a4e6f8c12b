"""Verdicts and labels in what commands print and write: run, report and export, also of a server's state."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.cli.conftest import Shell
from tests.cli.test_auditing import make_service
from tests.server import conftest as serving
from tests.server.waiting import close

__all__ = ["make_service"]

LABELS = {2: True, 3: False, 5: False, 8: False}


@pytest.fixture
def rated(make_service: serving.MakeService) -> Path:
    """The folder of a stopped server, four of whose answers people have rated."""
    service = make_service()
    for question in toy_stream(12):
        service.ask(replace(question, reference=None), 10)
    folder = close(service)
    with ServerStore(folder, writable=True) as state:
        for position, correct in LABELS.items():
            state.add_feedback(position, correct)
    return folder


def test_a_report_ends_with_the_verdict_and_the_summary_holds_it(shell: Shell, run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    said = " ".join(shell("report", copy).out.split())
    verdict = json.loads((copy / "summary.json").read_text(encoding="utf-8"))["verdict"]
    assert f"verdict: {verdict['level']} ({verdict['source']} confidence). " in said
    assert set(verdict["reasons"][0]) == {"code", "severity"}


def test_what_people_said_is_in_the_exports_of_a_server(shell: Shell, rated: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shell("export", rated, "--format", "csv", "--out", "-").out)))
    assert {place: row["label"] for place, row in enumerate(rows) if row["label"]} == {
        position: str(correct) for position, correct in LABELS.items()
    }
    assert all(row["correct"] == row["label"] for row in rows)
    lines = [json.loads(line) for line in shell("export", rated, "--out", "-").out.splitlines()]
    assert {line["position"]: line["label"] for line in lines if line["label"] is not None} == LABELS
    assert all(line["correct"] == line["label"] for line in lines)


def test_a_report_of_a_server_counts_what_people_said_as_grades(shell: Shell, rated: Path, tmp_path: Path) -> None:
    shell("report", rated, "--out", tmp_path / "page")
    with (tmp_path / "page" / "summary.csv").open(encoding="utf-8") as stream:
        rows = {row["estimator"]: row for row in csv.DictReader(stream) if not row.get("domain")}
    assert rows["stated"]["n"] == str(len(LABELS))
    assert "label the other 8 and ask 38 more questions" in (tmp_path / "page" / "report.html").read_text(
        encoding="utf-8"
    )
