"""Rollback, pause and resume from the shell: on a state folder that no server holds, or at a running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secl.errors import ParameterError, RunError
from secl.runs import runner
from secl.runs.settings import RunSettings
from secl.server.audit.history import version_now
from secl.server.audit.store import ServerStore

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel

TIMEOUT = 60.0
"""Seconds that a server may take: it finishes the layer that a lesson is in."""


def roll_back(folder: Path, version: int) -> int:
    """Go back to a kept adapter version, 0 for the untouched model, with an empty optimizer.

    Args:
        folder: the state of a server that has stopped.
        version: its number; the next update takes a new one.

    Returns:
        how many lessons waited and were dropped.

    Raises:
        RunError: that version was not kept, the model has changed, a server holds the folder, or it is no state.
        StorageError: the folder cannot be written; nothing changes.
    """
    with _taken(folder) as state:
        weights = state.weights(version) if version else b""
        model = load_same(state)
        snapshot = state.snapshot()
        if snapshot is not None:
            model.restore(snapshot)  # it knows which numbers were given
        if version:
            model.load_version(weights, version)
        else:
            model.reset()
        state.add_event("rollback", version, f"back to version {version}", snapshot=model.snapshot())
        return _drop(state)


def pause(folder: Path, reason: str) -> int:
    """Let the server that takes up this state hold no lessons, until a resume.

    Returns:
        how many lessons waited and were dropped.

    Raises:
        RunError: a server holds the folder, or it is no state.
        StorageError: the folder cannot be written.
    """
    with _taken(folder) as state:
        state.add_event("pause", version_now(state), reason)
        return _drop(state)


def resume(folder: Path) -> bool:
    """Let it learn again; the errors are those of `pause`.

    Returns:
        whether learning was paused.
    """
    with _taken(folder) as state:
        paused = state.paused is not None
        if paused:
            state.add_event("resume", version_now(state), "learning goes on")
        return paused


def _drop(state: ServerStore) -> int:
    waiting = state.counts().get("waiting", 0)
    state.drop_waiting()
    return waiting


@contextmanager
def _taken(folder: Path) -> Iterator[ServerStore]:
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


def load_same(state: ServerStore) -> LocalModel:
    """The model of a state folder.

    Raises:
        RunError: it is not the one any more that the server began with.
    """
    recipe = RunSettings.from_json(state.manifest["recipe"])
    model = runner.load_model(recipe)
    if model.fingerprint != state.manifest["model"]:
        raise RunError(f"the model {recipe.model!r} has changed since {state.folder} was begun; bring it back.")
    return model


def environment_changes(state: ServerStore, model: LocalModel) -> list[str]:
    """What about machine and libraries is not as it was when the state was begun, as "torch: 2.8 there, 2.9 here"."""
    then, now = state.manifest["environment"], runner.environment(model)
    changes = [f"{key}: {then[key]} there, {now.get(key, 'another')} here" for key in then if then[key] != now.get(key)]
    moved = sum(event.kind == "start" for event in state.events())
    return [*changes, *([f"it changed {moved} times between starts"] if moved else [])]


def tell(server: str, action: str, values: dict[str, Any], key_file: Path | None = None) -> None:
    """Ask a running server for a change.

    Args:
        server: its address, for example "http://127.0.0.1:8080".
        action: "rollback", "pause" or "resume".
        values: body of the request.
        key_file: holds the key of an administrator; None for a server without keys.

    Raises:
        ParameterError: the address or the key cannot be used, or the server refuses.
    """
    if not server.startswith(("http://", "https://")):
        raise ParameterError(f"the server {server!r} has no address; write it like http://127.0.0.1:8080.")
    headers = {} if key_file is None else {"Authorization": f"Bearer {_key(key_file)}"}
    try:
        import httpx
    except ImportError as problem:
        raise ParameterError('talking to a server needs httpx; run: pip install "secl[server]".') from problem
    try:
        # The key is for this server alone, so it passes through no proxy of the environment.
        with httpx.Client(timeout=TIMEOUT, trust_env=False) as client:
            reply = client.post(f"{server.rstrip('/')}/v1/{action}", json=values, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        raise ParameterError(f"the server {server} cannot be reached: {problem}.") from problem
    if not reply.is_success:
        raise ParameterError(f"the server {server} refuses ({reply.status_code}): {_message(reply)}")


def _key(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ParameterError(f"the key file {path} cannot be read: {problem}.") from problem
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        raise ParameterError(f"the key file {path} does not hold one key and nothing else.")
    return key


def _message(reply: Any) -> str:
    """What a refusal says, in the shape of OpenAI's errors; else the name of its status."""
    try:
        return str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{reply.reason_phrase}."
