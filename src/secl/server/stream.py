"""Checkpoints of a stream in the state folder, so that a start does not replay the whole history.

A checkpoint holds the states of gate and posterior as compressed JSON, and no text; labels have their own log.
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
"""Records between two checkpoints; a start replays no more than these."""


def due(before: int, stream: StreamState) -> bytes | None:
    """The checkpoint of a stream that stood before a position and has gone on; None if it is not time for one."""
    return pack(stream) if stream.position // EVERY > before // EVERY else None


def resume(state: ServerStore, gate: Gate, rule: PosteriorRule, until: int | None = None) -> StreamState:
    """The stream after the stored records before `until`, but for the labels. Raises RunError: the file is damaged."""
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
    """Return a stream as a checkpoint, without labels and texts."""
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
    """Return a stream from a checkpoint. Raises ValueError, KeyError, TypeError, zlib.error: it is damaged."""
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
