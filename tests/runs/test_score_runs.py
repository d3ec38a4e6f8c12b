"""Runs that rate given answers: the same folder, the same resuming, and a file that must stay what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secl import Record, Store
from secl.errors import ParameterError, QuestionError
from secl.question import LETTERS, GivenAnswer
from secl.runs.manifest import Manifest
from secl.runs.recipes import score_settings, used_by_score
from secl.runs.runner import estimators_of, resume_run, start_run
from secl.settings.groups import GateSettings
from secl.settings.names import SETTINGS
from secl.testing import ScriptedModel, toy_stream
from tests.runs.conftest import setting, stop_after


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of forty questions with the letters A, B, C, D, A, ... for answers."""
    rows = [
        {"question": q.text, "options": q.options, "reference": q.reference, "id": q.id, "answer": LETTERS[i % 4]}
        for i, q in enumerate(toy_stream(40))
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def load(_settings: object) -> ScriptedModel:
    return ScriptedModel()


def rate(path: Path, folder: Path, stop: int | None = None) -> list[Record]:
    """Rate the answers of a file, at most so many of them."""
    run = start_run(score_settings(path, {}), folder, load, mode="score")
    with run.store:
        if stop is None:
            run.proceed()
            run.finish()
        else:
            with pytest.raises(KeyboardInterrupt):
                run.proceed(stop_after(stop))
        return run.records


def test_a_run_of_ratings_is_an_ordinary_run_folder_and_a_stopped_one_goes_on(pairs: Path, tmp_path: Path) -> None:
    records = rate(pairs, tmp_path / "run")
    with Store(tmp_path / "run") as store:
        assert list(store.records()) == records
        manifest = Manifest.of(store)
    assert (manifest.mode, manifest.total, manifest.settings.method) == ("score", 40, "posterior")
    assert [record.reply.answer for record in records] == [LETTERS[i % 4] for i in range(40)]
    assert [record.correct for record in records] == [i % 4 == 0 for i in range(40)]
    assert all(record.given for record in records)
    assert {"p_true", "posterior", "stated"} <= set(estimators_of(manifest))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["questions"] == 40
    assert summary["estimators"]["posterior"]["auroc"] is not None
    assert len(rate(pairs, tmp_path / "part", 23)) == 23
    run = resume_run(tmp_path / "part", load=load)
    with run.store:
        run.proceed()
    assert run.records == records


USELESS = setting(
    "loop.answer=best model.answer_weights=adapted loop.evidence_on=burst loop.alpha=0.1 loop.delta=0.1 "
    "loop.bin_gate=off loop.loss=mse loop.accumulate=question evidence.signal=p_true "
    "extract.schema_file=invoice.json extract.text=body extract.instruction=Short. "
    "adapter.rank=2 adapter.layers=last:1 adapter.modules=q_proj adapter.learning_rate=0.1 adapter.beta=0.1 "
    "adapter.epochs=2 adapter.lora_alpha=8 loop.samples=5 stream.data=elsewhere prompts.thinking=auto"
)
"""Settings that `RunSettings` takes with the method posterior, and a value that is not the default."""


def test_a_setting_without_an_effect_on_ratings_another_method_or_file_is_refused(pairs: Path, tmp_path: Path) -> None:
    refused: list[tuple[dict[str, object], str]] = [
        *(({name: value}, f"secl score .* leave {name} out") for name, value in USELESS.items()),
        ({"method": "baselines"}, "leave the method 'baselines' out"),
        ({"method": "secl"}, "leave the method 'secl' out"),
        ({"stream": {"questions": "other.csv"}}, "leave stream.questions out"),
    ]
    for values, said in refused:
        with pytest.raises(ParameterError, match=said):
            start_run(score_settings(pairs, values), tmp_path / "run", load, mode="score")
    assert not (tmp_path / "run").exists()
    by_gate = {f"gate.{key}" for key in GateSettings.model_fields}  # which no run of the method posterior takes
    assert {name for name in SETTINGS if not used_by_score(name)} == {*USELESS} | by_gate


def test_an_answer_that_the_model_cannot_read_is_refused_at_the_start(pairs: Path, tmp_path: Path) -> None:
    class Strict(ScriptedModel):
        def check_given(self, given: GivenAnswer) -> None:
            if given.answer == "D":
                raise QuestionError(f"question {given.question.id!r} takes 9 tokens.")

    with pytest.raises(QuestionError, match="takes 9 tokens"):
        start_run(score_settings(pairs, {}), tmp_path / "run", lambda _: Strict(), mode="score")
    assert not (tmp_path / "run").exists()
    settings = score_settings(pairs, {"stream.skip_bad": True})
    run = start_run(settings, tmp_path / "run", lambda _: Strict(), mode="score")
    run.store.close()
    assert len(run.questions) == 30
    again = resume_run(tmp_path / "run", load=lambda _: Strict())
    again.store.close()
    assert again.asked.given == run.asked.given
