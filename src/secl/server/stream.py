"""Checkpoints of a stream, so that a start replays only the latest records.

A checkpoint holds the states of gate and posterior as compressed JSON, without texts and labels.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict

from pydantic import TypeAdapter

from secl.calibrator import StreamState
from secl.gates import Gate
from secl.posterior.letters import LetterSums
from secl.posterior.rule import PosteriorRule
from secl.records import Decision
from secl.server.store import ServerStore

EVERY = 1000
"""Records between two checkpoints; a start replays at most as many."""


def due(before: int, stream: StreamState) -> bytes | None:
    """Return a checkpoint of a stream that came from position `before`; None if no checkpoint is due."""
    return pack(stream) if stream.position // EVERY > before // EVERY else None


def resume(state: ServerStore, gate: Gate, rule: PosteriorRule, until: int | None = None) -> StreamState:
    """Return the stream before record `until` (default: after all), without labels. Raises RunError: damaged file."""
    end = len(state) if until is None else until
    stream = latest(state, end, gate) or StreamState(gate=gate.start(), posterior=rule.start())
    for record in state.records("r.position >= ? AND r.position < ?", stream.position, end):
        stream, _, _ = stream.follow(record, gate, rule)
    return stream


def latest(state: ServerStore, until: int, gate: Gate) -> StreamState | None:
    """Return the latest checkpoint at a position or before it."""
    query = "SELECT state FROM checkpoints WHERE position <= ? ORDER BY position DESC LIMIT 1"
    rows = state.rows(query, until)
    try:
        return unpack(rows[0][0], gate) if rows else None
    except (ValueError, KeyError, TypeError, zlib.error) as problem:
        raise state.damaged(ValueError("a checkpoint of its stream cannot be read")) from problem


def pack(stream: StreamState) -> bytes:
    values = {
        "position": stream.position,
        "gate": stream.gate and asdict(stream.gate),
        "posterior": [
            [group, asdict(sums)] for group, sums in sorted(stream.posterior.items(), key=lambda item: item[0])
        ],
        "decision": stream.decision and asdict(stream.decision),
        "entropy": stream.entropy,
    }
    return zlib.compress(json.dumps(values).encode())


def unpack(blob: bytes, gate: Gate) -> StreamState:
    """Return a stream from a checkpoint. Raises ValueError, KeyError, TypeError, zlib.error: damaged."""
    values = json.loads(zlib.decompress(blob))
    letters = {tuple(group): TypeAdapter(LetterSums).validate_python(sums) for group, sums in values["posterior"]}
    decision = values["decision"]
    return StreamState(
        position=values["position"],
        gate=TypeAdapter(type(gate.start())).validate_python(values["gate"]),
        posterior=letters,
        decision=decision and TypeAdapter(Decision).validate_python(decision),
        entropy=values["entropy"],
    )
