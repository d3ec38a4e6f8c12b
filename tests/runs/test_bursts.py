"""What a run keeps of its bursts: the version at the end of each, before the next lesson changes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secl.calibrator import Calibrator
from secl.gates import Always, Gate
from secl.question import Question
from secl.records import Decision
from secl.runs.runner import Run
from secl.runs.store import KEEP_EVERY, Store
from secl.settings.groups import LoopSettings
from secl.testing import ScriptedModel, toy_stream


@dataclass(frozen=True)
class Touching(Gate):
    """Bursts of three questions that touch each other."""

    def start(self) -> int:
        return 0

    def step(self, state: int, entropy: float) -> tuple[int, Decision]:  # noqa: ARG002
        return state + 1, Decision(alarm=state % 3 == 0, in_burst=True, remaining=2 - state % 3, statistic=None)


def opened(store: Store, gate: Any, questions: list[Question]) -> Run:
    """A run of scripted questions, of which the first ones are in the store already."""
    model = ScriptedModel(entropy=lambda question: 1.0 + int(question.id[-4:]) ** 2)
    records = list(store.records())
    calibrator = Calibrator(model, method="secl", gate=gate, loop=LoopSettings(bin_gate=None))
    snapshot = store.snapshot()
    if snapshot is not None:
        model.restore(snapshot)
    return Run(store, calibrator, model, questions, records)


def kept(folder: Path, gate: Any, stops: tuple[int, ...]) -> list[tuple[int, int, bytes]]:
    """Versions that a run keeps which stops and is opened again after so many questions."""
    questions = toy_stream(stops[-1])
    with Store.create(folder, {}) as store:
        for stop in stops:
            run = opened(store, gate, questions[:stop])
            run.proceed()
        assert all(record.update for record in run.records if record.decision.in_burst)
        return list(store.db.execute("SELECT version, position, weights FROM versions ORDER BY version"))


def test_bursts_that_touch_keep_the_version_on_their_border(tmp_path: Path) -> None:
    versions = kept(tmp_path, Touching(), (10,))
    assert [(number, position) for number, position, _ in versions] == [(3, 2), (6, 5), (9, 8)]
    model = ScriptedModel()
    records = list(
        Calibrator(model, method="secl", gate=Touching(), loop=LoopSettings(bin_gate=None)).run(toy_stream(3))
    )
    assert records[-1].update is not None
    assert len({weights for *_, weights in versions}) == 3
    assert versions[0][2] == model.weights()


def test_the_border_is_kept_also_after_a_resume(tmp_path: Path) -> None:
    assert kept(tmp_path / "resumed", Touching(), (2, 4, 10)) == kept(tmp_path / "whole", Touching(), (10,))


def test_one_burst_without_end_keeps_a_version_every_so_many_updates(tmp_path: Path) -> None:
    versions = kept(tmp_path, Always(), (KEEP_EVERY + 5,))
    assert [number for number, *_ in versions] == [KEEP_EVERY]
