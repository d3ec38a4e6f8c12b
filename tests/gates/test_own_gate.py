"""Gates from a Python file: in runs that stop and go on, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from secl.errors import ParameterError, RunError
from secl.gates import gate_class
from secl.runs.runner import resume_run, start_run
from secl.runs.settings import RunSettings
from secl.testing import ScriptedModel

MINE = """
from dataclasses import dataclass
from secl.gates import Gate
from secl.records import Decision

@dataclass(frozen=True)
class Asked:
    count: int = 0

class EveryThird(Gate):
    def start(self):
        return Asked()

    def step(self, state, entropy):
        opens = state.count % 3 == 0
        return Asked(state.count + 1), Decision(alarm=opens, in_burst=opens, remaining=0, statistic=None)

class Bare(EveryThird):
    def step(self, state, entropy):
        return 0, super().step(state, entropy)[1]

class Asks:
    pass
"""


def test_a_run_with_a_gate_of_ones_own_goes_on_as_it_began_and_not_with_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, elsewhere = tmp_path / "mine.py", tmp_path / "elsewhere"
    file.write_text(MINE)
    monkeypatch.chdir(tmp_path)
    settings = RunSettings.of(
        {"stream.benchmarks": ["capitals:9"], "method": "secl", "gate.name": "mine.py:EveryThird"}
    )
    begun = start_run(settings, tmp_path / "run", lambda _: ScriptedModel())
    with begun.store, pytest.raises(KeyboardInterrupt):
        begun.proceed(lambda done, _total, _record: interrupt(done))
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    file.write_text(MINE.replace("% 3", "% 4"))
    changed = resume_run(tmp_path / "run", load=lambda _: ScriptedModel())
    with changed.store, pytest.raises(RunError, match="position 3 than it did when it was answered; bring the gate's"):
        changed.proceed()
    file.write_text(MINE)
    resumed = resume_run(tmp_path / "run", load=lambda _: ScriptedModel())
    with resumed.store:
        resumed.proceed()
    assert [record.position for record in resumed.records if record.decision.in_burst] == [0, 3, 6]


def interrupt(done: int) -> None:
    if done == 5:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("sometimes", "there is no gate 'sometimes'; take always, never, .* or FILE.py:CLASS"),
        ("other.py:EveryThird", "there is no file other.py"),
        ("mine.py:Nobody", "mine.py defines no Nobody"),
        ("mine.py:Asks", "AttributeError: 'Asks' object has no attribute 'step'"),
        ("mine.py:Bare", r"step\(\) must give a frozen dataclass"),
        ("broken.py:EveryThird", "SyntaxError"),
    ],
)
def test_what_is_no_gate_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("class:")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=problem):
        gate_class(name)
