"""Models in the shape of Gemma 3 and of Qwen 3 from the shell: run, kill -9, resume, serve, learn, kill -9, serve."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from secl.runs.store import Store
from tests import processes
from tests.backends.local.architectures import ARCHITECTURES
from tests.runs.test_resume import Case, assert_same

pytestmark = pytest.mark.slow

NAMES = ("Gemma 3", "Qwen 3")
TRAINING = ("--gate", "always", "--set", "loop.bin_gate=off", "--set", "adapter.learning_rate=0.01")


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of one of the architectures."""
    (row,) = (each for each in ARCHITECTURES if each.name == request.param)
    return row.save(tmp_path_factory.mktemp("models") / request.param.replace(" ", "-"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions with options, open ones, and one that is longer than the local windows by far."""
    path = tmp_path_factory.mktemp("questions") / "mine.jsonl"
    asked: list[dict[str, object]] = [
        {"question": f"Is {number} an even number?", "options": ["yes", "no"]} for number in range(6)
    ]
    asked += [{"question": f"Name a word with {number} letters.", "reference": "word"} for number in (4, 5)]
    asked.append({"question": "How many ships?", "options": ["16", "17"], "context": "17 ships lay there. " * 150})
    path.write_text("\n".join(map(json.dumps, asked)))
    return path


def test_a_killed_run_is_resumed_to_the_same_run(folder: Path, questions: Path, tmp_path: Path) -> None:
    case = Case(tmp_path, "--model", folder, "--questions", questions, *TRAINING)
    assert processes.finish(case.start_in(case.whole)) == 0, case.said()
    said = case.log.read_text()
    assert "by inspection: LoRA on q_proj, v_proj of layers" in said
    assert "fast path" in said
    run = tmp_path / "killed"
    assert processes.finish(case.start_in(run, die=("half written", 4))) == -signal.SIGKILL, case.said()
    assert processes.finish(case.resume(run)) == 0, case.said()
    assert_same(run, case.whole)
    with Store(run) as store:
        records = list(store.records())
    assert sum(record.update is not None for record in records) >= 7
    assert not any("think" in (record.reply.answer or "") for record in records)
