"""What a report says about accepting answers: its picture, its table, and that volunteers promise nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from secl.evaluation.acceptance import answers_of
from secl.labels.label import label_of
from secl.metrics.risk_control import risk_coverage
from secl.reports.acceptance_report import risk_table
from secl.reports.figures.drawing import write_picture
from secl.reports.figures.risk_coverage import risk_coverage_figure
from secl.reports.formatting import UNDEFINED
from secl.runs.labelling import current_records, stored_answers
from secl.runs.store import Store
from tests.answers import answered, run_folder

CONFIDENCE = [0.9] * 60 + [0.5] * 60
CORRECT = [True] * 60 + [False] * 60
NAN = float("nan")


def cells(table: object) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.sections[""]]  # type: ignore[attr-defined]


def test_the_table_has_a_threshold_for_each_risk() -> None:
    table = risk_table(answers_of(answered(CONFIDENCE, CORRECT)))
    assert cells(table) == [
        ["5%", "0.7", "50%", "60", "0", "none", UNDEFINED],
        ["10%", "0.7", "50%", "60", "0", "0.7", "50%"],
        ["20%", "0.7", "50%", "60", "0", "0.7", "50%"],
    ]
    assert "from 120 labels" in table.notes[0]


def test_without_labels_only_the_confidences_speak() -> None:
    table = risk_table(answers_of(answered(CONFIDENCE, [None] * 120)))
    assert cells(table) == [["5%", "none", UNDEFINED], ["10%", "0.7", "50%"], ["20%", "0.7", "50%"]]
    assert "Estimates by the confidences alone" in table.notes[0]


def test_labels_of_volunteers_in_a_folder_do_not_pass_for_references(tmp_path: Path) -> None:
    records = answered(CONFIDENCE, [None] * 120)
    folder = run_folder(tmp_path / "run", records)
    with Store(folder, writable=True) as store:
        for number, record in enumerate(records[:60], 1):
            store.add_label(label_of(record, True, number=number, source="feedback", chance=None))
        answers = stored_answers(store)
        current = stored_answers(store, list(current_records(store)))
    assert (current.basis, current.correct[0]) == ("volunteers", 1.0)
    assert (answers.basis, answers.curve.total) == ("volunteers", 60)
    assert "Estimates by the confidences alone" in risk_table(answers).notes[0]


def test_the_picture_has_the_labels_of_a_curve_and_what_its_confidences_expect(tmp_path: Path) -> None:
    figure = risk_coverage_figure(risk_coverage([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [1, 1, 1, 0, 0, 0]), (0.1,))
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert np.asarray(drawn["labelled answers"].get_ydata()).tolist() == [2 / 5, 3 / 6]
    svg = write_picture(figure, tmp_path / "risk")
    assert "exact 90% interval" in svg
    assert "6 answers, 6 labelled" in svg
    for confidence in ([0.9, 0.8], []):
        plain = risk_coverage_figure(risk_coverage(confidence, [NAN] * len(confidence)))
        assert "labelled" not in write_picture(plain, tmp_path / "plain")
