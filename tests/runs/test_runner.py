"""Runs of any model that satisfies `secl.model.Model`, and which versions they keep of their bursts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from secl import Calibrator, LoopSettings
from secl.data.question_files import QuestionFile
from secl.errors import DataError, RunError
from secl.evaluation.estimators import foremost
from secl.gates import Always, Gate
from secl.methods import METHODS
from secl.records import Decision
from secl.runs import loading
from secl.runs.loading import build_calibrator, load_for_asking
from secl.runs.manifest import Manifest
from secl.runs.runner import ADAPTER, SUMMARY, TOO_WEAK, Run, resume_run, start_run, summary_of
from secl.runs.settings import Recipe, RunSettings
from secl.runs.store import KEEP_EVERY, Store
from secl.testing import ScriptedModel, toy_stream
from tests.runs.conftest import setting, stop_after

OUTSIDE = "model.name=scripted stream.benchmarks=capitals:9 method=secl gate.burst=4 gate.warmup=3 loop.bin_gate=off"
SETTINGS = RunSettings.of(setting(f"{OUTSIDE} evidence.tau=0.7"))


def scripted(settings: Recipe) -> ScriptedModel:
    assert settings.model.name == "scripted"
    return ScriptedModel()


def stopped(settings: RunSettings, folder: Path) -> None:
    """Begin a run, and stop it after three questions."""
    run = start_run(settings, folder, scripted)
    with run.store, pytest.raises(KeyboardInterrupt):
        run.proceed(stop_after(3))


def test_a_model_from_outside_runs_is_stopped_and_resumed_and_not_with_another_model_or_library(tmp_path: Path) -> None:
    whole = start_run(SETTINGS, tmp_path / "whole", scripted)
    with whole.store:
        whole.proceed()
        summary = whole.finish()
    assert (whole.manifest.settings, whole.manifest.tau, whole.manifest.settings.learns) == (SETTINGS, 0.7, True)
    stopped(SETTINGS, tmp_path / "run")
    with pytest.raises(RunError, match=r"the model 'scripted' has changed since .*fingerprint scripted/0\.8 then"):
        resume_run(tmp_path / "run", load=lambda _settings: ScriptedModel(stated=0.6))
    with pytest.raises(RunError, match=r"begun with other settings \(evidence.tau: 0\.7 there, 1\.0 here\)"):
        resume_run(tmp_path / "run", {"evidence.tau": 1.0}, scripted)
    resumed = resume_run(tmp_path / "run", load=scripted)
    assert len(resumed.records) == 3
    with resumed.store:
        resumed.proceed()
        resumed.finish()
        assert resumed.records == whole.records
    assert summary["complete"]
    assert json.loads((tmp_path / "run" / SUMMARY).read_text())["estimators"] == summary["estimators"]
    assert (tmp_path / "whole" / ADAPTER).exists() == bool(ScriptedModel().adapter_config)
    with Store(tmp_path / "run", writable=True) as store, store.db:
        store.db.execute("UPDATE manifest SET value = '{\"secl\": \"0.0.1\"}' WHERE key = 'environment'")
    with pytest.raises(RunError, match=r"begun with another version of secl \(secl: 0\.0\.1 there, .* here"):
        resume_run(tmp_path / "run", load=scripted)


def test_a_run_is_not_resumed_with_other_questions(tmp_path: Path) -> None:
    path, content = tmp_path / "mine.jsonl", "".join(f'{{"question": "Name word {n}."}}\n' for n in range(9))
    path.write_text(content)
    settings = {"model.name": "scripted", "stream.questions": str(path), "method": "stated"}
    stopped(RunSettings.of(settings), tmp_path / "run")
    for changed, said in (
        (
            content.replace("word 8", "thing 8"),
            r"the questions have changed since .*run was begun \(9 then, 9 now; those",
        ),
        (content.partition("\n")[2], r"\(9 then, 8 now; they differ from position 0 on, "),
    ):
        path.write_text(changed)
        with pytest.raises(RunError, match=said):
            resume_run(tmp_path / "run", load=scripted)
    path.unlink()
    with pytest.raises(DataError, match=r"mine\.jsonl does not exist"):
        resume_run(tmp_path / "run", load=scripted)


@pytest.mark.parametrize(("chosen", "loaded"), [("auto", "bf16"), ("fp32", "fp32")])
def test_a_run_goes_on_and_its_adapter_is_asked_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, loaded: str
) -> None:
    same = {name: value for name, value in SETTINGS.dotted().items() if not name.startswith("gate.")}
    settings = RunSettings.of({**same, "gate.name": "always", "model.dtype": chosen, "evidence.formula": "exp"})
    stopped(settings, tmp_path / "run")
    with Store(tmp_path / "run", writable=True) as store, store.db:
        environment = json.dumps({**store.manifest["environment"], "dtype": "bfloat16"})
        store.db.execute("UPDATE manifest SET value = ? WHERE key = 'environment'", (environment,))
    seen: list[str] = []

    def load(to_load: Recipe) -> ScriptedModel:
        seen.append(to_load.model.dtype)
        return scripted(to_load)

    resumed = resume_run(tmp_path / "run", load=load)
    with resumed.store:
        assert (seen, resumed.manifest.settings) == ([loaded], settings)
    monkeypatch.setattr(loading, "load_model", load)
    for asked, wanted in (({}, loaded), ({"model.dtype": "fp32"}, "fp32")):
        calibrator, recipe = load_for_asking(asked, tmp_path / "run")
        assert (seen[-1], calibrator.model.version) == (wanted, 3)
        assert (recipe.evidence.tau, recipe.evidence.formula) == (0.7, "exp")


@pytest.mark.parametrize("name", METHODS)
def test_a_domain_has_intervals_for_what_the_page_shows_of_it_and_for_little_else(name: str) -> None:
    settings = RunSettings.of({"stream.benchmarks": ["capitals"], "method": name})
    records = list(build_calibrator(settings, ScriptedModel()).run(toy_stream(40)))
    summary = summary_of(Manifest(settings=settings), records)
    shown = {"stated", foremost(METHODS[name], summary.estimators)}
    assert len(summary.domains) == 2
    for part in summary.domains.values():
        with_intervals = {name for name, row in part.estimators.items() if row.intervals is not None}
        assert shown & set(part.estimators) <= with_intervals
        assert len(with_intervals) <= 3
    assert all(row.intervals is not None for row in summary.estimators.values())


@dataclass(frozen=True)
class Touching(Gate):
    """Bursts of three questions that touch each other."""

    def start(self) -> int:
        return 0

    def step(self, state: int, entropy: float) -> tuple[int, Decision]:  # noqa: ARG002
        return state + 1, Decision(alarm=state % 3 == 0, in_burst=True, remaining=2 - state % 3, statistic=None)


def kept(folder: Path, gate: Any, stops: tuple[int, ...]) -> list[tuple[int, int, bytes]]:
    """Versions that a run keeps which stops and is opened again after so many questions."""
    questions = toy_stream(stops[-1])
    with Store.create(folder, {}) as store:
        for stop in stops:
            model = ScriptedModel(entropy=lambda question: 1.0 + int(question.id[-4:]) ** 2)
            if (snapshot := store.snapshot()) is not None:
                model.restore(snapshot)
            calibrator = Calibrator(model, method="secl", gate=gate, loop=LoopSettings(bin_gate=None))
            run = Run(store, calibrator, QuestionFile(tuple(questions[:stop])), list(store.records()))
            run.proceed()
        assert all(record.update for record in run.records if record.decision.in_burst)
        return list(store.db.execute("SELECT version, position, weights FROM versions ORDER BY version"))


def test_bursts_that_touch_keep_the_version_on_their_border_also_after_a_resume(tmp_path: Path) -> None:
    versions = kept(tmp_path / "whole", Touching(), (10,))
    assert [(number, position) for number, position, _ in versions] == [(3, 2), (6, 5), (9, 8)]
    assert kept(tmp_path / "resumed", Touching(), (2, 4, 10)) == versions
    model = ScriptedModel()
    list(Calibrator(model, method="secl", gate=Touching(), loop=LoopSettings(bin_gate=None)).run(toy_stream(3)))
    assert len({weights for *_, weights in versions}) == 3
    assert versions[0][2] == model.weights()
    endless = kept(tmp_path / "endless", Always(), (KEEP_EVERY + 5,))  # one burst keeps one every so many updates
    assert [number for number, *_ in endless] == [KEEP_EVERY]


def test_the_embedded_model_is_called_too_weak_to_classify(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("question\nLogin fails.\nDark mode?\n")
    for name, notes in (("smollm2", (TOO_WEAK,)), ("another", ())):
        settings = {"stream.questions": str(path), "stream.options": ("bug", "feature"), "model.name": name}
        run = start_run(RunSettings.of(settings), tmp_path / name, lambda _: ScriptedModel())
        run.store.close()
        assert run.notes == notes
