"""The command of the server: serve."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import Field

from secl.cli.app import Flag, app, console, echo
from secl.errors import ParameterError
from secl.server.http.settings import HttpSettings
from secl.server.online.guardrails import Bounds
from secl.server.online.limits import Limits
from secl.setting_groups import merged, nested
from secl.settings import (
    FLAT,
    AdapterSettings,
    EvidenceSettings,
    GateSettings,
    LoopSettings,
    ModelSettings,
    PosteriorSettings,
    PromptSettings,
    Seed,
)
from secl.settings_base import Settings

if TYPE_CHECKING:
    from socket import socket

    from secl.runs.settings import RunSettings

LOG_LEVELS = ("debug", "info", "warning", "error")

LOG_LINE = "%(asctime)s %(levelname)s %(message)s"

StateFolder = Annotated[Path, Parameter(name="--state", help="The server's folder.")]


class ServedSettings(Settings):
    """The settings of a run that a server has, too; its questions come over HTTP."""

    model: Annotated[ModelSettings, FLAT] = ModelSettings()
    method: str = Field("secl", description="secl; posterior or stated learn nothing.")
    gate: Annotated[GateSettings, FLAT] = GateSettings()
    evidence: Annotated[EvidenceSettings, FLAT] = EvidenceSettings()
    prompts: Annotated[PromptSettings, FLAT] = PromptSettings()
    posterior: Annotated[PosteriorSettings, FLAT] = PosteriorSettings()
    loop: Annotated[LoopSettings, FLAT] = LoopSettings()
    adapter: Annotated[AdapterSettings, FLAT] = AdapterSettings()
    seed: Seed = Field(42, description="Seed of everything random.")


@app.command
def serve(
    *,
    state: StateFolder,
    host: str | None = None,
    port: int | None = None,
    fd: int | None = None,
    recipe: Path | None = None,
    versions: Path | None = None,
    keep_text: str = "full",
    keep_records: str | None = None,
    keep_versions: int | None = None,
    pause: Annotated[bool, Flag] = False,
    log_level: str = "info",
    flags: Annotated[ServedSettings | None, FLAT] = None,
    limits: Annotated[Limits | None, FLAT] = None,
    bounds: Annotated[Bounds | None, FLAT] = None,
    http: Annotated[HttpSettings | None, FLAT] = None,
) -> None:
    """Serve a model over HTTP: OpenAI's API with a confidence, learning behind the answers, a page at /.

    Args:
        host: Address, 127.0.0.1 by default; others than this machine's own need API keys.
        port: Port, 8080 by default; 0 takes a free one.
        fd: Descriptor of a listening socket that the parent process opened; one from systemd is found without it.
        recipe: A TOML recipe with further settings; flags override it.
        versions: Folder in which vLLM servers find what was learned: their VLLM_LORA_RESOLVER_CACHE_DIR.
        keep_text: What is stored of texts: none, hash or full.
        keep_records: Prune all but so many of the latest records (100000), or days of them (30d); all are kept by
            default.
        keep_versions: Prune adapter versions but the newest so many, and those that answered a kept record.
        pause: Begin with learning paused.
        log_level: What the log on standard error tells: debug, info (every request), warning or error.
    """
    try:
        # What is missing is said at once, and not after a model was loaded.
        from secl.server.audit.retention import Retention
        from secl.server.http.api_keys import Keys
        from secl.server.http.listener import is_local, url
        from secl.server.http.serving import answer_until_stopped
        from secl.server.online.factory import open_service
    except ModuleNotFoundError as problem:
        package = str(problem.name).partition(".")[0]
        raise ParameterError(f"secl serve needs {package}; install it with: pip install 'secl[server]'.") from None
    if log_level not in LOG_LEVELS:
        raise ParameterError(f"--log-level is {log_level!r}; it is one of {', '.join(LOG_LEVELS)}.")
    retention = Retention.of(keep_records, keep_versions)
    if keep_versions is not None and keep_records is None:
        raise ParameterError(
            "--keep-versions is for versions that answered no kept record, but all records are kept; say with "
            "--keep-records how many are, too."
        )
    settings, fleet = apart_from_fleet(read_settings(recipe, flags))
    if http is not None and http.refusal is not None and settings.loop.accept is None:
        raise ParameterError(
            "--refusal is for answers that are not accepted; say which with --accept, or leave it out."
        )
    api_keys = Keys(state)
    os.umask(0o077)  # the state holds what people ask: all files that this process makes are its user's alone
    with listening(host, port, fd) as listener:
        any_keys = bool(api_keys.all())  # a file that cannot be read is found before the model is loaded
        if not any_keys and not is_local(listener):
            raise ParameterError(
                f"{listener.getsockname()[0]} can be reached from other machines, but there are no API keys; make one "
                f"with secl keys add NAME --state {state}, or listen at 127.0.0.1."
            )
        with ending_in_order(), console().status("loading the model"):
            service = open_service(
                state,
                settings,
                keep_text=keep_text,  # type: ignore[arg-type]
                endpoints=fleet,
                versions=versions,
                limits=limits,
                bounds=bounds,
                retention=retention,
            )
        with service.state:
            if pause and service.learner.paused is None:
                service.learner.pause("at the start, by --pause")
            logging.basicConfig(stream=sys.stderr, format=LOG_LINE, level=logging.WARNING)
            logging.getLogger("secl").setLevel(log_level.upper())
            described = getattr(service.model, "described", None)
            if described is not None:
                logging.getLogger("secl").info("model %s: %s", service.model.name, described)
            says = f"secl serves {service.model.name} at {url(listener)} (state in {service.state.folder})"
            answer_until_stopped(service, api_keys, http or HttpSettings(), listener, lambda: echo(says))


@contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM ends the process like an exception, so that no half converted model is left behind.

    Without this the first process of a container would not end at all.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def read_settings(recipe: Path | None, flags: ServedSettings | None) -> RunSettings:
    """The settings of a recipe, and the flags over them.

    Raises:
        DataError: the recipe cannot be read.
        ParameterError: it names questions, or settings do not fit together.
    """
    from secl.runs.settings import read_toml
    from secl.server.online.factory import serving_settings

    from_file = read_toml(recipe) if recipe else {}
    for key in ("benchmarks", "questions"):
        if key in nested(from_file).get("stream", {}):
            raise ParameterError(f"a server is asked over HTTP; leave {key} out of {recipe}.")
    return serving_settings(**merged(from_file, flags.model_dump(exclude_unset=True) if flags else {}))


def apart_from_fleet(settings: RunSettings) -> tuple[RunSettings, tuple[str, ...]]:
    """The settings of the model that learns in this process, and the addresses of the vLLM servers that answer for it.

    A fleet changes nothing about what is answered, so the state folder does not know of it.
    """
    if settings.model.answered_by != "vllm":
        return settings, ()
    model = settings.model.model_copy(update={"engine": None, "endpoint": ()})
    return settings.model_copy(update={"model": model}), settings.model.endpoint


def listening(host: str | None, port: int | None, descriptor: int | None) -> socket:
    """The socket to serve at: the parent's if it passes one, else a new one.

    Raises:
        ParameterError: there is no such socket or address, or both are given.
    """
    from secl.server.http.listener import bind, inherit, passed_by_systemd

    from_systemd = passed_by_systemd()
    inherited = from_systemd if descriptor is None else descriptor
    if inherited is None:
        return bind("127.0.0.1" if host is None else host, 8080 if port is None else port)
    if host is not None or port is not None:
        source = "systemd passes" if descriptor is None else "--fd names"
        raise ParameterError(f"{source} a socket, which has its address already; leave --host and --port out.")
    return inherit(inherited)
