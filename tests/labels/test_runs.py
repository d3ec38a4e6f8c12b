"""Labels of a run: given in a review, read by every report, and carried to the next run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from secl import RunSettings, ScriptedModel, Store
from secl.errors import RunError
from secl.evaluation.acceptance import answers_of
from secl.labels.label import label_of
from secl.labels.state import LabelState, relabelled
from secl.runs.labelling import add_label, current_records, queue
from secl.runs.runner import Run, resume_run, start_run


def begun(folder: Path, model: Any = None, **settings: Any) -> Run:
    chosen = {"stream.benchmarks": ["capitals:20", "science:20"], "method": "stated", **settings}
    return start_run(RunSettings.of(chosen), folder, lambda _settings: model or ScriptedModel())


def finished(folder: Path, **settings: Any) -> Run:
    run = begun(folder, **settings)
    run.proceed()
    run.store.close()
    return run


def test_a_review_moves_the_confidences_of_the_whole_run_and_no_answers_own(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    with Store(tmp_path / "run", writable=True) as store:
        waiting = queue(store)
        assert len(waiting) == 40
        assert waiting == queue(store) != sorted(waiting)
        for position in waiting[:8]:
            add_label(store, store.record(position), False)
        add_label(store, store.record(waiting[0]), True)  # the last word counts, both are kept
        add_label(store, store.record(waiting[1]), None)
        assert (len(store.label_log()), len(store.labels())) == (10, 7)
        assert queue(store) == [waiting[1], *waiting[8:]]
        now = list(current_records(store))
        said = {label.position: bool(label.correct) for label in store.labels()}
        for record, other in zip(now, relabelled(run.records, store.label_log()), strict=True):
            assert record == (other.with_label(said[other.position]) if other.position in said else other)
        assert all(record.labelled is not None and record.labelled.until == 10 for record in now)
        counts = {record.position: record.labelled.labels for record in now if record.labelled is not None}
        assert counts[waiting[20]] == 7  # an answer without a label gets the map of all
        assert {counts[position] for position in said} == {5, 6}  # without its fold: one label of seven, or two
        assert sum(record.confidence for record in now) < sum(record.confidence for record in run.records)
        with pytest.raises(RunError, match="nothing to take back"):
            add_label(store, store.record(waiting[30]), None)
        rated = store.record(waiting[30])  # by a volunteer; such answers are drawn as well, or the rest were too good
        store.add_label(label_of(rated, False, number=11, source="feedback", chance=None))
        assert queue(store) == [waiting[1], *waiting[8:]]
        add_label(store, rated, False)
        assert queue(store) == [waiting[1], *waiting[8:30], *waiting[31:]]


def reviewed(folder: Path, labels: int, **settings: Any) -> Path:
    finished(folder, **settings)
    with Store(folder, writable=True) as store:
        for position in queue(store)[:labels]:
            add_label(store, store.record(position), position % 3 == 0)
    return folder


def test_a_run_takes_over_what_the_labels_of_another_taught_and_needs_its_folder_no_more(tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", 20)
    with Store(first) as store:
        taught = LabelState.start(store.labels())
    run = begun(tmp_path / "second", **{"model.calibration": str(first)})
    steps = run.steps()
    begun_records = [next(steps) for _ in range(10)]
    run.store.close()
    shutil.rmtree(first)
    resumed = resume_run(tmp_path / "second", load=lambda _settings: ScriptedModel())
    resumed.proceed()
    for record in resumed.records:
        assert record.labelled == taught.rate(record.question.domain, record.label_free)
        assert record.confidence != record.label_free
    assert resumed.records[:10] == begun_records
    resumed.store.close()
    with Store(tmp_path / "second", writable=True) as store:  # its own labels come on top, and alone test thresholds
        add_label(store, store.record(3), False)
        both = next(record.labelled for record in current_records(store) if record.position == 4)
        assert both is not None
        assert both.labels == 21
        assert (
            answers_of(store.records(), store.label_log()).curve.total == 40
            # The references of the questions; no label of the first run.
        )


def test_a_threshold_accepts_the_same_answers_whatever_labels_a_run_carries(tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", 20)
    plain = finished(tmp_path / "plain", **{"loop.accept": 0.8})
    calibrated = finished(tmp_path / "moved", **{"loop.accept": 0.8, "model.calibration": str(first)})
    assert [record.accepted for record in (*plain.records, *calibrated.records)] == [True] * 80
    assert all(record.confidence < 0.8 for record in calibrated.records)  # which would have accepted none


def test_labels_that_do_not_apply_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reviewed(tmp_path / "first", 3)
    reviewed(tmp_path / "unlabelled", 0)
    other = ScriptedModel()
    other.fingerprint = "another"
    for model, settings, why in (
        (None, {"method": "p_true"}, "of another kind .method: stated there, p_true here"),
        (None, {"model.calibration": "unlabelled"}, "has no labels"),
        (None, {"model.calibration": "nowhere"}, "is not a run folder"),
        (other, {}, "made with another model"),
    ):
        with pytest.raises(RunError, match=why):
            begun(tmp_path / "second", model, **{"model.calibration": "first", **settings})
        assert not (tmp_path / "second").exists()
