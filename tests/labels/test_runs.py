"""Labels of a run: revealed along the stream, or given afterwards in a review."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.errors import RunError
from secl.grading import reported_correct
from secl.labels import LabelState
from secl.labels.state import relabelled
from secl.runs.labelling import add_label, current_records, queue
from secl.runs.runner import Run, start_run
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel


def begun(folder: Path, **settings: Any) -> Run:
    chosen = {"benchmarks": ["capitals:20", "science:20"], "gate": "never", **settings}
    return start_run(RunSettings.of(chosen), folder, lambda _settings: ScriptedModel())


def test_revealed_references_move_the_confidences_behind_them_and_none_before(tmp_path: Path) -> None:
    run, plain = begun(tmp_path / "labels", labels=12), begun(tmp_path / "plain")
    for each in (run, plain):
        each.proceed()
        each.store.close()
    with Store(tmp_path / "labels") as store:
        log = store.label_log()
        assert [label.number for label in log] == list(range(1, 13))
        assert {label.source for label in log} == {"reference"}
        for record, other in zip(run.records, plain.records, strict=True):
            known = [label for label in log if label.position < record.position]
            state = LabelState.start().add(known)
            assert record.labelled == state.rate(record.question.domain, other.confidence)
            assert record.label_free == other.confidence
            assert replace(record, labelled=None) == replace(other, labelled=None)
        for label in log:
            assert label.correct == reported_correct(run.records[label.position])
        for now, then in zip(current_records(store), run.records, strict=True):
            assert replace(now, label=None) == then  # nothing came later


def test_a_review_moves_the_confidences_of_the_whole_run_and_no_answers_own(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    run.proceed()
    run.store.close()
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
        assert (counts[waiting[0]], counts[waiting[20]]) == (6, 7)
        assert sum(record.confidence for record in now) < sum(record.confidence for record in run.records)
        with pytest.raises(RunError, match="nothing to take back"):
            add_label(store, store.record(waiting[30]), None)
