"""Checkpoints: a server that starts from one stands where one stands that has replayed everything."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from secl.calibrator import StreamState
from secl.errors import RunError
from secl.gates import Always, EntropyShift, Gate, Never, PageHinkley
from secl.posterior.rule import PosteriorRule
from secl.runs.folder import FILE
from secl.server import stream as checkpoint
from secl.server.redaction import Keep
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import ask_all, close


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint every five records."""
    monkeypatch.setattr(checkpoint, "EVERY", 5)


def replayed(state: ServerStore, gate: Gate, rule: PosteriorRule) -> StreamState:
    """The stream after all records from the first one on, without any checkpoint."""
    stream = StreamState(gate=gate.start(), posterior=rule.start())
    for record in state.store.records():
        stream, _, _ = checkpoint.after(stream, record, gate, rule)
    return stream


@pytest.mark.parametrize(("keep", "asked"), [("full", 13), ("none", 5)])
def test_a_start_from_a_checkpoint_is_one_from_a_whole_replay_to_the_last_digit(
    make_service: MakeService, keep: Keep, asked: int
) -> None:
    first = make_service(keep_text=keep, model=Mixed(), settings={"method": "posterior"})
    ask_all(first, mixed_stream(asked))
    live = first.calibrator.state
    close(first)
    second = make_service(keep_text=keep, model=Mixed(), settings={"method": "posterior"})
    whole = replayed(second.state, second.calibrator.gate, second.calibrator.posterior)
    now = second.calibrator.state
    assert checkpoint.pack(now) == checkpoint.pack(whole) == checkpoint.pack(live)
    assert now.position == asked
    assert [row[0] for row in second.state.rows("SELECT position FROM checkpoints")] == list(range(5, asked + 1, 5))


GATES: list[Gate] = [Always(), Never(), EntropyShift(burst=3, warmup=4), PageHinkley(warmup=3)]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: type(gate).__name__)
def test_every_gate_comes_back_from_a_checkpoint(gate: Gate) -> None:
    stream = StreamState(gate=gate.start(), posterior=PosteriorRule().start())
    for number in range(12):
        stream, _ = stream.step(gate, 0.1 + 0.7 * (number % 3))
        assert checkpoint.unpack(checkpoint.pack(stream), gate) == replace(stream, labels=stream.labels)


@pytest.mark.parametrize("state", [b"", b"no checkpoint"])
def test_a_damaged_checkpoint_is_refused(make_service: MakeService, state: bytes) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(7))
    folder = close(service)
    db = sqlite3.connect(folder / FILE)
    with db:
        db.execute("UPDATE checkpoints SET state = ?", (state,))
    db.close()
    with ServerStore(folder) as store, pytest.raises(RunError, match="damaged"):
        checkpoint.resume(store, service.calibrator.gate, service.calibrator.posterior)
