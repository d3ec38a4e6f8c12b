"""What people said of answers counts as their grade, in the store, the summary and the export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from secl.evaluation.summary import summarise
from secl.labels.label import label_of
from secl.runs.labelling import current_records
from secl.runs.store import Store
from tests.answers import run_folder
from tests.reports.conftest import MakeRecord


def test_a_label_is_the_grade_of_every_reply_that_gave_the_answer(make_record: MakeRecord) -> None:
    record = make_record(0, correct=None, frozen_correct=None)
    same = record.with_label(False)
    assert (same.label, same.correct, same.frozen_correct) == (False, False, False)
    other = replace(record, frozen=replace(record.frozen, answer="X")).with_label(True)
    assert (other.correct, other.frozen_correct) == (True, None)


def test_confidences_that_labels_have_moved_have_a_row_of_their_own(make_record: MakeRecord, tmp_path: Path) -> None:
    records = [make_record(n, digit=8, correct=None, frozen_correct=None) for n in range(12)]
    assert "stated_with_labels" not in summarise(records).estimators
    with Store(run_folder(tmp_path / "run", records), writable=True) as store:
        for record in records:
            store.add_label(label_of(record, record.position % 4 == 0, number=record.position + 1))
        assert list(store.records()) == records  # what was recorded stays
        current = list(current_records(store))
    rows = summarise(current).estimators
    shown, stated = rows["stated_with_labels"], rows["stated"]
    assert shown.mean_confidence == pytest.approx(fmean(each.confidence for each in current))
    assert shown.brier < stated.brier
    assert not {"posterior_with_labels"} & {*rows}
