"""Folders of format 2 after `secl upgrade`: what they hold is what today's code records for the same questions.

`format2` was made by the last version of that format with `ScriptedModel`: a finished run of nine questions with every
kind of evidence, the same run stopped after six, and the state of a server that answered seven questions and whose
learning was paused, resumed and paused.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from secl.calibrator import Calibrator
from secl.errors import RunError
from secl.records import Record
from secl.runs.folder import FILE
from secl.runs.loading import load_questions
from secl.runs.manifest import Manifest
from secl.runs.runner import SUMMARY, estimators_of
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.upgrade import KEPT, upgrade
from secl.server.audit.integrity import examine
from secl.server.audit.store import ServerStore
from secl.settings import LoopSettings
from secl.testing import ScriptedModel

OLD = Path(__file__).parent / "format2"
SETTINGS = RunSettings.of(
    {
        "model": "scripted",
        "benchmarks": ["capitals:9"],
        "burst": 4,
        "warmup": 3,
        "bin_gate": "off",
        "evidence_on": "always",
        "layers": "last:2",
        "modules": ["q_proj"],
    }
)


@pytest.fixture(params=["finished", "unfinished", "state"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name = str(request.param)
    return shutil.copytree(OLD / name, tmp_path / name)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return shutil.copytree(OLD / "finished", tmp_path / "finished")


def records_of_today() -> list[Record]:
    calibrator = Calibrator(
        ScriptedModel(),
        gate=SETTINGS.build_gate(),
        loop=LoopSettings(bin_gate=None, evidence_on="always"),
        evidence=("p_true", "samples", "dinco"),
    )
    return list(calibrator.run(load_questions(SETTINGS)))


def as_before(record: Record) -> Record:
    """A record of today without what was not recorded then: letters of all options, the band of the confidence."""
    reply, frozen = (replace(each, option_log_p=()) for each in (record.reply, record.frozen))
    return replace(record, reply=reply, frozen=frozen, labelled=None)


def test_a_folder_of_the_old_format_is_refused_with_the_command_that_converts_it(folder: Path) -> None:
    for store in (Store, ServerStore):
        with pytest.raises(RunError, match=f"older version of secl; convert it with: secl upgrade {folder}$"):
            store(folder)


@pytest.mark.parametrize(("name", "count"), [("finished", 9), ("unfinished", 6)])
def test_an_upgraded_run_is_the_run_that_todays_code_records(tmp_path: Path, name: str, count: int) -> None:
    folder = shutil.copytree(OLD / name, tmp_path / name)
    assert upgrade(folder)
    with Store(folder) as store:
        assert list(store.records()) == [as_before(record) for record in records_of_today()[:count]]
        manifest = Manifest.of(store)
        assert manifest.settings == SETTINGS
        assert (manifest.total, manifest.tau, manifest.model) == (9, 1.0, ScriptedModel().fingerprint)
        assert store.versions() == [4]
        assert list(store.db.execute("SELECT outcome FROM records WHERE position < 4")) == [("trained",)] * 4
        assert estimators_of(manifest)


def test_an_unfinished_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = shutil.copytree(OLD / "unfinished", tmp_path / "unfinished")
    upgrade(folder)
    with Store(folder, writable=True) as store:
        model = ScriptedModel()
        calibrator = Calibrator(
            model,
            gate=SETTINGS.build_gate(),
            loop=LoopSettings(bin_gate=None, evidence_on="always"),
            evidence=("p_true", "samples", "dinco"),
        )
        snapshot = store.snapshot()
        assert snapshot is not None
        model.restore(snapshot)
        assert list(calibrator.run(load_questions(SETTINGS), list(store.records()))) == records_of_today()[6:]


def test_an_upgraded_state_holds_together_and_is_still_paused(tmp_path: Path) -> None:
    folder = shutil.copytree(OLD / "state", tmp_path / "state")
    upgrade(folder)
    with ServerStore(folder, writable=True) as state:
        assert [event.kind for event in state.events()] == ["pause", "resume", "pause"]
        assert state.events()[-1].detail == "for the night"
        assert state.counts() == {"idle": 4, "trained": 3}
        assert [(label.position, label.correct, label.source) for label in state.labels()] == [(2, False, "feedback")]
        assert examine(state)[1] == []


def test_the_old_file_is_kept_and_a_second_upgrade_does_nothing(folder: Path) -> None:
    before = (folder / FILE).read_bytes()
    assert upgrade(folder)
    assert (folder / KEPT).read_bytes() == before
    after = (folder / FILE).read_bytes()
    assert not upgrade(folder)
    assert (folder / FILE).read_bytes() == after
    assert not list(folder.glob("*.new*"))


def test_a_summary_is_computed_again_and_none_is_made_where_there_was_none(finished: Path) -> None:
    upgrade(finished)
    assert not (finished / SUMMARY).exists()
    again = shutil.copytree(OLD / "finished", finished.with_name("again"))
    (again / SUMMARY).write_text('{"complete": true}')
    upgrade(again)
    summary = json.loads((again / SUMMARY).read_text())
    assert summary["complete"]
    assert summary["model"] == "scripted"


def test_what_cannot_be_upgraded_is_left_alone(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        upgrade(tmp_path)
    before = (finished / FILE).read_bytes()
    with closing(sqlite3.connect(finished / FILE)) as db, db:
        db.execute("UPDATE manifest SET value = '1' WHERE key = 'format'")
    with pytest.raises(RunError, match="has the format 1; only format 2 can be upgraded"):
        upgrade(finished)
    (finished / FILE).write_bytes(before[:2000])
    with pytest.raises(RunError, match="damaged or no run"):
        upgrade(finished)
    assert {path.name for path in finished.iterdir()} == {FILE, "lock"}


def test_a_run_in_use_is_not_upgraded(tmp_path: Path) -> None:
    folder = shutil.copytree(OLD / "finished", tmp_path / "finished")
    upgrade(folder)
    with Store(folder, writable=True), pytest.raises(RunError, match="is in use by another process"):
        upgrade(folder)
