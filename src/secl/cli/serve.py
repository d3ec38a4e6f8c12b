"""The command of the server: serve."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

from cyclopts import Parameter

from secl.cli.app import FURTHER_SETTINGS, app, console, echo
from secl.cli.run import model_line
from secl.errors import ParameterError, needs
from secl.runs.settings import Recipe, read_toml
from secl.server.settings import OF_HTTP, Limits
from secl.settings.groups import FLAT
from secl.settings.names import OF_OUTPUT, dotted, given_by

LOG_LEVELS = ("debug", "info", "warning", "error")

LOG_LINE = "%(asctime)s %(levelname)s %(message)s"

SHOWN = Parameter(name="*")  # unlike FLAT, shows default values in the help

StateFolder = Annotated[Path, Parameter(help="State folder of the server, new or from an earlier start.")]


@app.command(help_epilogue=FURTHER_SETTINGS)
def serve(
    state: StateFolder,
    recipe: Path | None = None,
    /,
    *,
    host: Annotated[str | None, OF_HTTP] = None,
    port: Annotated[int | None, OF_HTTP] = None,
    fd: Annotated[int | None, OF_HTTP] = None,
    flags: Annotated[Recipe | None, FLAT] = None,
    limits: Annotated[Limits | None, SHOWN] = None,
    keep_text: Annotated[str, OF_OUTPUT] = "full",
    keep_records: Annotated[str | None, OF_OUTPUT] = None,
    log_level: Annotated[str, OF_OUTPUT] = "info",
) -> None:
    """Serve a model over HTTP: OpenAI's API with a confidence in each reply, and a page at /.

    Args:
        recipe: A TOML recipe; flags override its settings.
        host: Address; 127.0.0.1 by default. Other addresses need API keys.
        port: Port; 8080 by default, 0 for any free port.
        fd: Descriptor of a listening socket that the parent process passes; 3 for systemd.
        keep_text: Store the texts of questions and answers: full or none.
        keep_records: Keep the latest records, by number (100000) or by age (30d); all by default.
        log_level: debug, info (every request), warning or error.
    """
    try:
        # Imported here, so that secl reports a missing package before it loads a model.
        from secl.server.http.api_keys import Keys
        from secl.server.http.process import answer_until_stopped, is_local, listening, url
        from secl.server.online.service import open_service
        from secl.server.retention import Retention
    except ModuleNotFoundError as problem:
        raise ParameterError(needs("secl serve", str(problem.name).partition(".")[0], "server")) from None
    if log_level not in LOG_LEVELS:
        raise ParameterError(f"--log-level is {log_level!r}; it must be one of {', '.join(LOG_LEVELS)}.")
    retention = Retention.of(keep_records)
    settings = read_settings(recipe, given_by(flags))
    os.umask(0o077)  # the state holds people's questions, so files are readable by this user alone
    with ending_in_order() as noted, listening(host, port, fd) as listener:
        any_keys = bool(Keys(state).all())  # an unreadable file of keys raises an error before the model is loaded
        if not any_keys and not is_local(listener):
            raise ParameterError(
                f"{listener.getsockname()[0]} can be reached from other machines, but there are no API keys; make a "
                f"key with secl keys add {state} NAME, or listen at 127.0.0.1."
            )
        with console().status("loading the model"):
            service = open_service(
                state,
                settings,
                keep_text=keep_text,  # type: ignore[arg-type]
                limits=limits,
                retention=retention,
            )
        with service.state:
            logging.basicConfig(stream=sys.stderr, format=LOG_LINE, level=logging.WARNING)
            logging.getLogger("secl").setLevel(log_level.upper())
            if line := model_line(service.learner.calibrator):
                logging.getLogger("secl").info("%s", line)
            learning = f"learns in bursts (method {settings.method})" if settings.learns else "learns nothing"
            learning = f"{learning}; state in {service.state.folder}"
            says = f"secl serves {service.model.name} at {url(listener)} (OpenAI's API: {url(listener)}v1; {learning})"
            answer_until_stopped(service, listener, lambda: echo(says), noted)


@contextmanager
def ending_in_order() -> Iterator[list[int]]:
    """Turn SIGTERM into an exception; yield a list of the signals received so far.

    Without a handler, the first process of a container ignores SIGTERM. The exception also lets the conversion of a
    model file remove its temporary files. Python drops an exception that is raised inside a `__del__`, so the caller
    must read the list after it has loaded the model. During the import of PyTorch, an exception would abort the process
    with pages of C++ messages, so the handler then exits directly.
    """
    noted: list[int] = []

    def end(number: int, frame: FrameType | None) -> NoReturn:
        noted.append(number)
        while frame is not None:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                os._exit(128 + number)
            frame = frame.f_back
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def read_settings(recipe: Path | None, flags: Mapping[str, object]) -> Recipe:
    """Return the settings of a recipe; flags override them."""
    from secl.server.online.service import serving_settings

    settings = {**dotted(read_toml(recipe) if recipe else {}), **flags}
    for name in settings:
        if name.startswith("stream."):
            place = "" if name in flags else f"{recipe}: "
            raise ParameterError(f"{place}a server gets its questions over HTTP; leave {name} out.")
    return serving_settings(settings)
