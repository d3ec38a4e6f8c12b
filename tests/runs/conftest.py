"""Records of a short scripted run, and a store that holds them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secl import Record
from secl.learning import Calibrator, EntropyShift, LoopSettings
from secl.runs.store import Store, Version
from secl.settings.names import SETTINGS, RunTables, dotted, tables
from secl.testing import ScriptedModel, toy_stream


@pytest.fixture(scope="session")
def records() -> list[Record]:
    """Twelve records, the first four of them of a burst that learned."""
    gate, loop = EntropyShift(burst=4), LoopSettings(bin_gate=None)
    return list(Calibrator(ScriptedModel(), method="secl", gate=gate, loop=loop).run(toy_stream(12)))


@pytest.fixture
def run_folder(tmp_path: Path, records: list[Record]) -> Path:
    """A run folder with these records and two kept versions, closed."""
    folder = tmp_path / "run"
    with Store.create(folder, {"total": len(records), "settings": {"stream": {"benchmarks": ["toy"]}}}) as store:
        for record in records:
            number = record.update.version if record.update else 0
            kept = Version(number, f"weights {number}".encode()) if number in (2, 4) else None
            store.add(record, 0.5, snapshot=f"state {number}".encode() if number else None, kept=kept)
    return folder


def stop_after(count: int) -> Callable[[int, int, Record | None], None]:
    """Return a report of progress that raises Ctrl-C after `count` questions."""

    def progress(done: int, _total: int, _record: Record | None) -> None:
        if done == count:
            raise KeyboardInterrupt

    return progress


def setting(pairs: str) -> dict[str, Any]:
    """Return settings from pairs "group.key=value" as texts, separated by blanks."""
    names: dict[str, Any] = dict(pair.split("=", 1) for pair in pairs.split())
    listed = {name: (value,) if isinstance(SETTINGS[name].default, tuple) else value for name, value in names.items()}
    return dotted(RunTables.model_validate(tables(listed)).model_dump(exclude_unset=True))


LEARNING = setting(
    "method=secl gate.burst=4 gate.warmup=3 gate.threshold=2 loop.bin_gate=off adapter.learning_rate=0.01"
)
"""Settings of a run of a tiny model that learns within a dozen questions."""
