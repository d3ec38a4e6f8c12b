"""What a model's letters are worth is found by a run, remembered, and read by whoever asks one question."""

from __future__ import annotations

from pathlib import Path

import pytest

from secl.calibrator import Calibrator
from secl.evaluation.view_check import check_views
from secl.records import Record
from secl.runs.letters import FEWEST, remember, remembered
from secl.runs.loading import load_for_asking
from secl.testing import ScriptedModel, toy_stream


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def asked(count: int) -> list[Record]:
    return list(Calibrator(ScriptedModel(), method="posterior").run(toy_stream(count)))


def test_a_run_of_enough_questions_is_remembered_for_its_model_alone() -> None:
    records = asked(FEWEST)
    assert remembered("this") is None
    remember("this", records)
    assert remembered("this") == check_views(records).correlation
    assert remembered("that") is None
    remember("that", records[:-1])
    assert remembered("that") is None  # too few
    remember("this", asked(2 * FEWEST))
    assert remembered("this") == check_views(asked(2 * FEWEST)).correlation


def test_asking_one_question_starts_from_what_is_remembered() -> None:
    model = ScriptedModel()
    _, _, rule = load_for_asking({}, None, lambda _: model)
    assert rule.letters is None
    records = asked(FEWEST)
    remember(model.fingerprint, records)
    _, _, rule = load_for_asking({}, None, lambda _: model)
    assert rule.letters == check_views(records).correlation


@pytest.mark.parametrize("text", ["no JSON", "[]"])
def test_a_damaged_file_remembers_nothing_and_is_written_anew(cache: Path, text: str) -> None:
    cache.mkdir()
    (cache / "letters.json").write_text(text)
    assert remembered("this") is None
    remember("this", asked(FEWEST))
    assert remembered("this") is not None
