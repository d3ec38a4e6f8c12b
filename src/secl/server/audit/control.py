"""Rollback, pause, resume and pruning on a state folder that no server holds; a running server has the same verbs.

No model is loaded: a rollback is recorded with its version, and the next server carries it out when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secl.errors import RunError
from secl.model import Model
from secl.records import Decision
from secl.server.audit.history import version_now
from secl.server.audit.retention import Pruned, Retention, forget_words, prune
from secl.server.audit.store import ServerStore


def what_follows(decision: Decision | None, paused: str | None) -> str:
    """When a server that was rolled back learns again, in one sentence.

    Args:
        decision: of the gate on the latest answer; None before the first.
        paused: why learning is paused; None if it is not.
    """
    if paused is not None:
        return "Learning is paused; nothing is learned until it is resumed."
    if decision is not None and decision.in_burst and decision.remaining:
        coming = "question" if decision.remaining == 1 else f"{decision.remaining} questions"
        return f"The burst goes on: it learns again from the next {coming}."
    return "It learns again when the gate sees the next shift; until then this version answers."


def roll_back(folder: Path, version: int) -> tuple[int, str]:
    """Go back to a kept adapter version, 0 for the untouched model, with an empty optimizer.

    Args:
        folder: state of a server that has stopped.
        version: its number; the next update gets a new one.

    Returns:
        how many waiting lessons were dropped, and what follows, in one sentence.

    Raises:
        RunError: that version was not kept, a server holds the folder, or it is no state.
        StorageError: the folder cannot be written.
    """
    with _exclusive(folder) as state:
        if version:
            state.weights(version)  # raises, if it is not kept
        state.schedule_rollback(version)
        latest = state.latest(1)
        return _drop_waiting(state), what_follows(latest[0].record.decision if latest else None, state.paused)


def carry_out_rollback(state: ServerStore, model: Model) -> None:
    """Do what `roll_back` has recorded, if anything, and store the snapshot of the model afterwards.

    Raises:
        ModelError: the version's weights are damaged, or fit another model.
        StorageError: the folder cannot be written.
    """
    version = state.scheduled_rollback
    if version is None:
        return
    snapshot = state.snapshot()
    if snapshot is not None:
        model.restore(snapshot)  # so that version numbers go on from the highest
    load_kept(state, model, version)
    state.complete_rollback(model.snapshot())


def load_kept(state: ServerStore, model: Model, version: int) -> None:
    """Bring a model to a kept version, 0 for the untouched one, with an empty optimizer.

    Raises:
        RunError: that version was not kept.
        ModelError: its weights are damaged, or fit another model.
    """
    if version:
        model.load_version(state.weights(version), version)
    else:
        model.reset()


def pause(folder: Path, reason: str) -> int:
    """Pause learning for the next server that opens this state.

    Returns:
        how many waiting lessons were dropped.

    Raises:
        RunError: a server holds the folder, or it is no state.
        StorageError: the folder cannot be written.
    """
    with _exclusive(folder) as state:
        state.add_event("pause", version_now(state), reason)
        return _drop_waiting(state)


def resume(folder: Path) -> bool:
    """Resume learning; the errors are those of `pause`.

    Returns:
        whether learning was paused.
    """
    with _exclusive(folder) as state:
        paused = state.paused is not None
        if paused:
            state.add_event("resume", version_now(state), "learning goes on")
        return paused


def prune_now(folder: Path, policy: Retention) -> Pruned:
    """Prune what need not be kept; the errors are those of `pause`."""
    with _exclusive(folder) as state:
        pruned = prune(state, policy, rest=0.0)
        if pruned.records:
            forget_words(state)
        return pruned


def _drop_waiting(state: ServerStore) -> int:
    waiting = state.counts().get("waiting", 0)
    state.drop_waiting()
    return waiting


@contextmanager
def _exclusive(folder: Path) -> Iterator[ServerStore]:
    """The state, open for writing."""
    ServerStore(folder).close()  # says what is wrong with the folder itself
    try:
        state = ServerStore(folder, writable=True)
    except RunError as problem:
        raise RunError(
            f"a server holds {folder}; name it with --server URL and --key-file FILE in place of --state, or stop it."
        ) from problem
    with state:
        yield state
