"""Build a service from settings: on a new state folder, or on that of a stopped server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from secl.errors import ParameterError, RunError
from secl.model import Model
from secl.runs.folder import FILE, check_free
from secl.runs.loading import Load, load_local, load_model, named
from secl.runs.manifest import Manifest, environment
from secl.runs.runner import build_calibrator
from secl.runs.settings import SERVED, RunSettings, with_absolute_paths
from secl.server.online.service import Service
from secl.server.redaction import KEEPS, Keep
from secl.server.retention import Retention
from secl.server.settings import Bounds, Limits
from secl.server.store import ServerStore


def serving_settings(**settings: Any) -> RunSettings:
    """The settings of a server as a recipe: those of a run, but for its questions.

    Raises:
        ParameterError: a setting makes no sense, or cannot be had behind the answers.
    """
    server_settings = RunSettings.of(with_absolute_paths({"benchmarks": [SERVED], **settings}))
    if server_settings.loop.accumulate != "stream":
        raise ParameterError(
            f"accumulate is {server_settings.loop.accumulate!r}, but a server's updates add up over its stream."
        )
    return server_settings


def open_service(
    folder: Path,
    settings: RunSettings,
    *,
    keep_text: Keep = "full",
    endpoint: str | None = None,
    versions: Path | None = None,
    limits: Limits | None = None,
    bounds: Bounds | None = None,
    retention: Retention | None = None,
    load: Load = load_model,
) -> Service:
    """Load the model twice over the same weights, to answer and to learn, and open the state folder.

    Args:
        folder: a new one, or the state of a server that has stopped.
        settings: from `serving_settings`.
        keep_text: what is stored of texts.
        endpoint: address of a vLLM server that answers in place of this process, which then only learns.
        versions: folder in which those servers find what was learned.
        limits: of load.
        bounds: of learning.
        retention: what is kept; everything unless given.
        load: loads a model, once to answer and once to learn; any object that satisfies `secl.model.Model` will do.

    Raises:
        RunError: the folder is something else, is in use, or was begun with another model or other settings.
        ModelError, ParameterError: the model cannot be loaded or used.
        StorageError: the folder cannot be written.
    """
    if keep_text not in KEEPS:
        raise ParameterError(f"keep-text is {keep_text!r}; it is one of {', '.join(KEEPS)}.")
    if versions is not None and endpoint is None:
        raise ParameterError("--versions is for a vLLM server; name it with --engine vllm --endpoint URL.")
    settings = named(settings)
    to_load = check_folder(folder, settings, keep_text)  # before a large model is loaded for nothing
    model, twin = behind_vllm(to_load, endpoint, versions, folder) if endpoint else load_twice(to_load, load)
    manifest: dict[str, Any] = {
        "settings": settings.to_json(),
        "model": model.fingerprint,
        "tau": model.tau,
        "letters": model.letters,
        "keep_text": keep_text,
        "total": 0,
        "environment": environment(model),
        "adapter": model.adapter_config,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with ExitStack() as failure:
        failure.callback(model.close)
        state = open_state(folder, manifest)
        failure.callback(state.close)
        note_environment(state, manifest["environment"])
        failure.pop_all()
    service = Service(
        build_calibrator(settings, model), build_calibrator(settings, twin), state, limits, bounds, retention
    )
    twin.set_pause_hook(service.scheduler.wait)
    return service


def load_twice(settings: RunSettings, load: Load) -> tuple[Model, Model]:
    """A model that answers, and its twin that learns; nothing learns behind an endpoint with OpenAI's API."""
    model = load(settings)
    return model, model if settings.model.engine == "openai" else load(settings)


def behind_vllm(settings: RunSettings, endpoint: str, versions: Path | None, state: Path) -> tuple[Model, Model]:
    """The same, where a vLLM server answers for both.

    Raises:
        ParameterError: there is no folder for the versions, or a package is missing.
    """
    if versions is None:
        raise ParameterError(
            "vLLM servers find what was learned in a folder; name their VLLM_LORA_RESOLVER_CACHE_DIR with "
            "--versions FOLDER."
        )
    try:
        from secl.backends.endpoint.client import KEY
        from secl.backends.endpoint.vllm import answer_by_vllm
    except ModuleNotFoundError as problem:
        raise ParameterError(
            f"vLLM endpoints need {problem.name}; install it with: pip install 'secl[server,local]'."
        ) from None
    # Servers may answer for several learners, so versions are named after the state folder that they come from.
    name = f"secl{hashlib.sha256(str(state.absolute()).encode()).hexdigest()[:8]}"
    key = os.environ.get(KEY)
    model, twin = load_local(settings), load_local(settings)
    for each in (model, twin):
        answer_by_vllm(each, endpoint, versions, name=name, key=key)
    return model, twin


def note_environment(state: ServerStore, now: dict[str, Any]) -> None:
    """Record an environment that differs from the last start: the last digits of replies may depend on it."""
    start = state.latest_event("start")
    latest = _described(state.manifest["environment"]) if start is None else start.detail
    if _described(now) != latest:
        state.add_event("start", 0, _described(now))


def _described(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def check_folder(folder: Path, settings: RunSettings, keep_text: Keep) -> RunSettings:
    """Check that a folder is free, or the state of a server that has stopped and was begun with these settings.

    Returns:
        the settings with the precision in which the server began (`Manifest.to_load`).

    Raises:
        RunError: it is something else, is in use, or was begun with others; the message names them.
    """
    if (folder / FILE).exists():
        with ServerStore(folder, writable=True) as state:
            check_settings(state, settings, {"keep_text": keep_text})
            return Manifest.of(state.store).to_load(settings)
    check_free(folder)
    return settings


def open_state(folder: Path, manifest: dict[str, Any]) -> ServerStore:
    """Open the state folder that was begun with these settings, or begin it.

    Raises:
        RunError: it was begun with other settings; the message names them.
    """
    if not (folder / FILE).exists():
        return ServerStore.create(folder, manifest)
    state = ServerStore(folder, writable=True)
    try:
        others = {name: manifest[name] for name in ("model", "keep_text")}
        check_settings(state, RunSettings.of(manifest["settings"]), others)
    except BaseException:
        state.close()
        raise
    return state


def check_settings(state: ServerStore, settings: RunSettings, others: Mapping[str, str]) -> None:
    """Check that a server goes on as it began.

    Args:
        state: the open state folder.
        settings: of the server that starts.
        others: further entries of its manifest, by their names.

    Raises:
        RunError: something differs; the message names it.
    """
    begun = state.manifest
    differences = Manifest.of(state.store).settings.differences(settings)
    differences += [
        f"{name}: {begun.get(name)} there, {now} here" for name, now in others.items() if begun.get(name) != now
    ]
    if differences:
        raise RunError(
            f"{state.folder} was begun with other settings ({'; '.join(differences)}); give the same ones or name "
            "another folder with --state."
        )
