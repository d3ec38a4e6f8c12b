"""The comparison of gates over recorded streams tells a border that a gate sees from one that it does not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.gate_streams import Seen, alarms, compare, read, table
from secl.calibrator import Calibrator
from secl.errors import ParameterError
from secl.gates import EntropyShift, GapShift, Never
from secl.runs.store import Store
from secl.settings import EvidenceOn, LoopSettings
from secl.testing import ScriptedModel, toy_stream


def stream(entropy: float = 0.0, gap: float = 0.0, size: int = 200) -> list[Seen]:
    """Two domains; the second one differs by so much."""
    chance = random.Random(5)
    return [
        Seen(2.0 + chance.gauss(entropy * k, 0.2), 0.2 + chance.gauss(gap * k, 0.1), f"domain {k}")
        for k in (0, 1)
        for _ in range(size)
    ]


def test_a_gate_on_entropies_sees_the_one_border_and_a_gate_on_gaps_the_other() -> None:
    by_entropy, by_gap = (lambda _: EntropyShift()), (lambda seed: GapShift(seed=seed, probe_rate=1.0))
    rows = [compare(stream(*shift), gate, 10) for shift in ((0.5, 0.0), (0.0, 0.3)) for gate in (by_entropy, by_gap)]
    assert [row.found[0] > 0.9 for row in rows] == [True, False, False, True]
    assert 2 < rows[0].delays[0] < 10
    assert 10 < rows[3].delays[0] < 40
    assert all(row.inside == 0 and row.false < 2 for row in rows)


def test_the_opening_is_no_alarm_and_a_table_has_a_row_for_every_domain_and_gate() -> None:
    assert alarms(EntropyShift(), stream()[:60]) == []
    written = table(stream(size=100), 2)
    assert written.count("\n| domain ") == 2
    assert "\n| domain 0+domain 1 | 200 |" in table(random.Random(0).sample(stream(size=100), 200), 2)
    assert [name in written for name in ("entropy-shift", "page-hinkley", "gap-shift")] == [True] * 3


def test_a_run_without_signals_is_refused_and_one_with_them_is_read(tmp_path: Path) -> None:
    chosen: tuple[EvidenceOn, ...] = ("burst", "always")
    for folder, evidence_on in zip((tmp_path / "a", tmp_path / "b"), chosen, strict=True):
        with Store.create(folder, {}) as store:
            calibrator = Calibrator(ScriptedModel(), gate=Never(), loop=LoopSettings(evidence_on=evidence_on))
            for record in calibrator.run(toy_stream(5)):
                store.add(record, 0.0)
    with pytest.raises(ParameterError, match="no signal"):
        read(tmp_path / "a")
    assert [(seen.domain, seen.gap is None) for seen in read(tmp_path / "b")][:1] == [("toy0", False)]
