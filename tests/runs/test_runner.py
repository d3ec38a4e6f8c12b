"""Runs of any model that satisfies `secl.model.Model`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secl.errors import RunError
from secl.evaluation.estimators import foremost
from secl.methods import METHODS
from secl.runs import loading
from secl.runs.loading import build_calibrator, load_for_asking
from secl.runs.manifest import Manifest
from secl.runs.runner import ADAPTER, SUMMARY, evaluate_run, resume_run, start_run
from secl.runs.settings import Recipe, RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel, toy_stream
from tests.runs.conftest import stop_after

SETTINGS = RunSettings.of(
    {
        "model.name": "scripted",
        "stream.benchmarks": ["capitals:9"],
        "method": "secl",
        "gate.burst": 4,
        "gate.warmup": 3,
        "loop.bin_gate": "off",
        "evidence.tau": 0.7,
    }
)


def scripted(settings: Recipe) -> ScriptedModel:
    assert settings.model.name == "scripted"
    return ScriptedModel()


def began_with(store: Store, dtype: str) -> None:
    """Make a run one of a model of this precision."""
    environment = json.dumps({**store.manifest["environment"], "dtype": dtype})
    with store.db:
        store.db.execute("UPDATE manifest SET value = ? WHERE key = 'environment'", (environment,))


def stopped(settings: RunSettings, folder: Path) -> None:
    """Begin a run, and stop it after three questions."""
    run = start_run(settings, folder, scripted)
    with run.store, pytest.raises(KeyboardInterrupt):
        run.proceed(stop_after(3))


def test_a_model_from_outside_runs_is_stopped_and_resumed(tmp_path: Path) -> None:
    whole = start_run(SETTINGS, tmp_path / "whole", scripted)
    with whole.store:
        whole.proceed()
        summary = whole.finish()
    assert (whole.manifest.settings, whole.manifest.tau, whole.manifest.settings.learns) == (SETTINGS, 0.7, True)
    stopped(SETTINGS, tmp_path / "stopped")
    resumed = resume_run(tmp_path / "stopped", load=scripted)
    assert len(resumed.records) == 3
    with resumed.store:
        resumed.proceed()
        resumed.finish()
        assert resumed.records == whole.records
    assert summary["complete"]
    assert json.loads((tmp_path / "stopped" / SUMMARY).read_text())["estimators"] == summary["estimators"]
    assert (tmp_path / "whole" / ADAPTER).exists() == bool(ScriptedModel().adapter_config)


def test_a_run_is_not_resumed_with_another_model_or_library(tmp_path: Path) -> None:
    stopped(SETTINGS, tmp_path / "run")
    with pytest.raises(RunError, match=r"the model 'scripted' has changed since .*fingerprint scripted/0\.8 then"):
        resume_run(tmp_path / "run", load=lambda _settings: ScriptedModel(stated=0.6))
    with Store(tmp_path / "run", writable=True) as store, store.db:
        store.db.execute("UPDATE manifest SET value = '{\"secl\": \"0.0.1\"}' WHERE key = 'environment'")
    with pytest.raises(RunError, match=r"begun with another version of secl \(secl: 0\.0\.1 there, .* here"):
        resume_run(tmp_path / "run", load=scripted)
    with pytest.raises(RunError, match=r"begun with other settings \(evidence.tau: 0\.7 there, 1\.0 here\)"):
        resume_run(tmp_path / "run", {"evidence.tau": 1.0}, scripted)


@pytest.mark.parametrize(("chosen", "begun", "loaded"), [("auto", "bfloat16", "bf16"), ("fp32", "bfloat16", "fp32")])
def test_a_run_goes_on_in_the_precision_that_it_began_with(
    tmp_path: Path, chosen: str, begun: str, loaded: str
) -> None:
    settings = RunSettings.of({**SETTINGS.dotted(), "model.dtype": chosen})
    stopped(settings, tmp_path / "run")
    with Store(tmp_path / "run", writable=True) as store:
        began_with(store, begun)
    seen: list[str] = []

    def load(to_load: Recipe) -> ScriptedModel:
        seen.append(to_load.model.dtype)
        return scripted(to_load)

    resumed = resume_run(tmp_path / "run", load=load)
    with resumed.store:
        assert seen == [loaded]
        assert resumed.manifest.settings == settings


@pytest.mark.parametrize(("chosen", "loaded"), [({}, "bf16"), ({"model.dtype": "fp32"}, "fp32")])
def test_an_adapter_is_asked_in_the_precision_that_it_was_taught_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str], loaded: str
) -> None:
    always = RunSettings.of(
        {
            "model.name": "scripted",
            "stream.benchmarks": ["capitals:2"],
            "method": "secl",
            "gate.name": "always",
            "loop.bin_gate": "off",
        }
    )
    run = start_run(always, tmp_path / "run", scripted)
    with run.store:
        run.proceed()
        began_with(run.store, "bfloat16")
    seen: list[str] = []

    def load(to_load: Recipe) -> ScriptedModel:
        seen.append(to_load.model.dtype)
        return scripted(to_load)

    monkeypatch.setattr(loading, "load_model", load)
    calibrator, _ = load_for_asking(chosen, tmp_path / "run")
    assert (seen, calibrator.model.version) == ([loaded], 2)


@pytest.mark.parametrize("name", METHODS)
def test_a_domain_has_intervals_for_what_the_page_shows_of_it_and_for_little_else(name: str) -> None:
    settings = RunSettings.of({"stream.benchmarks": ["capitals"], "method": name})
    records = list(build_calibrator(settings, ScriptedModel()).run(toy_stream(40)))
    summary = evaluate_run(Manifest(settings=settings), records).summary
    shown = {"stated", foremost(METHODS[name], summary.estimators)}
    assert len(summary.domains) == 2
    for part in summary.domains.values():
        with_intervals = {name for name, row in part.estimators.items() if row.intervals is not None}
        assert shown & set(part.estimators) <= with_intervals
        assert len(with_intervals) <= 3
    assert all(row.intervals is not None for row in summary.estimators.values())
