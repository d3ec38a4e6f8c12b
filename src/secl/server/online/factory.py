"""Build a service from settings, on a new state folder or on the state folder of a stopped server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from secl.data.question_files import QuestionFile
from secl.errors import ParameterError, RunError
from secl.model import Model
from secl.runs.folder import FILE, check_free
from secl.runs.loading import Load, build_calibrator, calibration, load_model, named
from secl.runs.manifest import Manifest, environment
from secl.runs.settings import Recipe, with_absolute_paths
from secl.server.entries import Keep
from secl.server.online.service import Service
from secl.server.retention import Retention
from secl.server.settings import Limits
from secl.server.store import ServerStore


def serving_settings(values: Mapping[str, object] | None = None) -> Recipe:
    """Return a server's settings from dotted names or tables. Raises ParameterError: a setting is unusable."""
    settings = Recipe.of(with_absolute_paths(values or {}))
    if settings.loop.accumulate != "stream":
        raise ParameterError(
            f"loop.accumulate is {settings.loop.accumulate!r}, but a server keeps its updates; give 'stream'."
        )
    return settings


def open_service(
    folder: Path,
    settings: Recipe,
    *,
    keep_text: Keep = "full",
    limits: Limits | None = None,
    retention: Retention | None = None,
    load: Load = load_model,
) -> Service:
    """Load a model that answers and, if it can learn, a second copy (twin) that learns; open the state folder.

    Args:
        folder: new, or the state of a stopped server.

    Raises:
        RunError: the folder is not a server's state, is in use, or was created with another model or other settings.
        ModelError, ParameterError, StorageError: the model cannot be used, or the folder cannot be written.
    """
    if keep_text not in get_args(Keep):
        raise ParameterError(f"--keep-text is {keep_text!r}; it must be one of {', '.join(get_args(Keep))}.")
    settings = named(settings)
    with ExitStack() as failure:
        state = reopen(folder, settings, keep_text)  # checks settings before the model is loaded
        if state is not None:
            failure.callback(state.close)
        to_load = settings if state is None else Manifest.of(state).to_load(settings)
        model = load(to_load)
        failure.callback(model.close)
        twin = model if model.learner is None else load(to_load)
        settings.plan().check(twin)
        if state is None:
            state = create_state(folder, settings, keep_text, model)
            failure.callback(state.close)
        elif state.manifest["model"] != model.fingerprint:
            raise _settings_error(folder, f"model: {state.manifest['model']} there, {model.fingerprint} here")
        note_environment(state, environment(model))
        failure.pop_all()
    earlier = Manifest.of(state).earlier
    answering, learning = (build_calibrator(settings, each, earlier) for each in (model, twin))
    service = Service(answering, learning, state, limits, retention)
    if twin.learner is not None:
        twin.learner.set_pause_hook(service.scheduler.wait)
    return service


def reopen(folder: Path, settings: Recipe, keep_text: Keep) -> ServerStore | None:
    """Open the state of a stopped server for writing; return None for a new folder. Raises RunError."""
    if not (folder / FILE).exists():
        check_free(folder)
        return None
    with ExitStack() as failure:
        state = failure.enter_context(ServerStore(folder, writable=True))
        differences = Manifest.of(state).settings.differences(settings)
        if state.keep_text != keep_text:
            differences.append(f"keep_text: {state.keep_text} there, {keep_text} here")
        if differences:
            raise _settings_error(folder, "; ".join(differences))
        failure.pop_all()
    return state


def _settings_error(folder: Path, those: str) -> RunError:
    return RunError(f"{folder} was begun with other settings ({those}); give the same settings or another folder.")


def create_state(folder: Path, settings: Recipe, keep_text: Keep, model: Model) -> ServerStore:
    """Create the state folder of a new server. Raises the errors of `ServerStore.create`."""
    manifest = Manifest.new(settings, model, QuestionFile(()), earlier=calibration(settings, model))
    return ServerStore.create(folder, {**manifest.to_json(), "keep_text": keep_text})


def note_environment(state: ServerStore, now: dict[str, str | int]) -> None:
    """Add an event if machine or libraries have changed since the last start, which may change rounding."""
    starts = state.events(1, "start")
    latest = starts[0].detail if starts else _in_one_line(state.manifest["environment"])
    if _in_one_line(now) != latest:
        state.add_event("start", 0, _in_one_line(now))


def _in_one_line(values: dict[str, str | int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
