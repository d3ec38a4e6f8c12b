"""The command of the server: serve."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import Field

from secl.cli.app import Flag, app, console, echo
from secl.errors import ParameterError
from secl.reports.formatting import terminal_text
from secl.server.http.settings import HttpSettings
from secl.server.online.guardrails import Bounds
from secl.server.online.limits import Limits
from secl.settings import (
    FLAT,
    AdapterSettings,
    EvidenceSettings,
    GateSettings,
    LoopSettings,
    ModelSettings,
    PosteriorSettings,
    Seed,
    merged,
    nested,
)
from secl.settings_base import Settings

if TYPE_CHECKING:
    from types import FrameType

    from secl.server.http.api_keys import Keys
    from secl.server.online.service import Service

log = logging.getLogger("secl.server")

LOG_LEVELS = ("debug", "info", "warning", "error")

LOG_LINE = "%(asctime)s %(levelname)s %(message)s"

StateFolder = Annotated[Path, Parameter(name="--state", help="The server's folder.")]


class ServedSettings(Settings):
    """The settings of a run that a server has, too; its questions come over HTTP."""

    model: Annotated[ModelSettings, FLAT] = ModelSettings()
    method: str = Field("secl", description="secl; posterior or stated learn nothing.")
    gate: Annotated[GateSettings, FLAT] = GateSettings()
    evidence: Annotated[EvidenceSettings, FLAT] = EvidenceSettings()
    posterior: Annotated[PosteriorSettings, FLAT] = PosteriorSettings()
    loop: Annotated[LoopSettings, FLAT] = LoopSettings()
    adapter: Annotated[AdapterSettings, FLAT] = AdapterSettings()
    seed: Seed = Field(42, description="Seed of everything random.")


@app.command
def serve(
    *,
    state: StateFolder,
    host: str = "127.0.0.1",
    port: int = 8080,
    recipe: Path | None = None,
    engine: str | None = None,
    endpoint: list[str] | None = None,
    keep_text: str = "full",
    pause: Annotated[bool, Flag] = False,
    log_level: str = "info",
    flags: Annotated[ServedSettings | None, FLAT] = None,
    limits: Annotated[Limits | None, FLAT] = None,
    bounds: Annotated[Bounds | None, FLAT] = None,
    http: Annotated[HttpSettings | None, FLAT] = None,
) -> None:
    """Serve a model over HTTP: OpenAI's API with a confidence, learning behind the answers, a page at /.

    Args:
        host: Address; others than this machine's own need API keys.
        port: Port; 0 takes a free one.
        recipe: A TOML recipe with further settings; flags override it.
        engine: What answers: local, or vllm; local by default.
        endpoint: A vLLM server's address; repeat it for a fleet.
        keep_text: What is stored of texts: none, hash or full.
        pause: Begin with learning paused.
        log_level: What the log on standard error tells: debug, info (every request), warning or error.
    """
    try:
        import uvicorn  # noqa: F401  (what is missing is said at once, and not after a model was loaded)

        import secl.server.http.app  # noqa: F401
        from secl.server.http.api_keys import Keys
        from secl.server.online.factory import open_service, serving_settings
    except ModuleNotFoundError as problem:
        raise ParameterError(f"secl serve needs {problem.name}; install it with: pip install 'secl[server]'.") from None
    from secl.runs.settings import read_toml

    check_engine(engine, endpoint or [])
    if log_level not in LOG_LEVELS:
        raise ParameterError(f"--log-level is {log_level!r}; it is one of {', '.join(LOG_LEVELS)}.")
    from_file = read_toml(recipe) if recipe else {}
    for key in ("benchmarks", "questions"):
        if key in nested(from_file).get("stream", {}):
            raise ParameterError(f"a server is asked over HTTP; leave {key} out of {recipe}.")
    settings = serving_settings(**merged(from_file, flags.model_dump(exclude_unset=True) if flags else {}))
    if http is not None and http.refusal is not None and settings.loop.accept is None:
        raise ParameterError(
            "--refusal is for answers that are not accepted; say which with --accept, or leave it out."
        )
    api_keys = Keys(state)
    os.umask(0o077)  # the state holds what people ask: all files that this process makes are its user's alone
    listener, is_local = bind(host, port)
    with listener:
        if not is_local and not api_keys.all():
            raise ParameterError(
                f"{host} can be reached from other machines, but there are no API keys; make one with "
                f"secl keys add NAME --state {state}, or leave --host out."
            )
        api_keys.all()  # a file that cannot be read is found before the model is loaded
        with console().status("loading the model"):
            service = open_service(
                state,
                settings,
                keep_text=keep_text,  # type: ignore[arg-type]
                endpoints=tuple(endpoint or ()),
                limits=limits,
                bounds=bounds,
            )
        with service.state:
            if pause and service.learner.paused is None:
                service.learner.pause("at the start, by --pause")
            logging.basicConfig(stream=sys.stderr, format=LOG_LINE, level=logging.WARNING)
            logging.getLogger("secl").setLevel(log_level.upper())
            answer_until_stopped(service, api_keys, http or HttpSettings(), listener)


def check_engine(engine: str | None, endpoints: list[str]) -> None:
    """Check that an engine and its endpoints fit together; endpoints alone mean vLLM.

    Raises:
        ParameterError: they do not fit.
    """
    if engine not in (None, "local", "vllm"):
        raise ParameterError(f"--engine is {engine!r}; it is local or vllm.")
    if engine == "vllm" and not endpoints:
        raise ParameterError("--engine vllm needs the address of a server; give it with --endpoint URL.")
    if engine == "local" and endpoints:
        raise ParameterError("--endpoint names a vLLM server, but --engine is local; leave one of them out.")


def bind(host: str, port: int) -> tuple[socket.socket, bool]:
    """Bind a socket to an address; returns it and whether only this machine can reach it. Nothing is accepted yet.

    Raises:
        ParameterError: the address is none of this machine's, or is taken.
    """
    from secl.server.http.middleware import is_loopback

    if not 0 <= port < 2**16:
        raise ParameterError(f"--port is {port}; it must be from 0 to 65535.")
    with ExitStack() as resources:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = resources.enter_context(socket.socket(family))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except (OSError, UnicodeError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise ParameterError(
                f"cannot listen at {host}, port {port}: {reason}; choose another --host or --port."
            ) from None
        resources.pop_all()
    return listener, is_loopback(str(listener.getsockname()[0]))


def answer_until_stopped(service: Service, api_keys: Keys, http: HttpSettings, listener: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; then answer what was asked, and end."""
    import uvicorn

    from secl.server.http.app import create_app
    from secl.server.http.middleware import is_loopback

    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            echo(f"secl serves {service.model.name} at {address} (state in {service.state.folder})")
            log.info(where_it_stands("begins anew" if begins else "resumed", service))

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            log.info("%s: takes no more questions, and answers %d that wait", signal.Signals(sig).name, service.waiting)
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        create_app(service, api_keys, http, loopback=is_loopback(str(host))),
        log_config=None,
        access_log=False,  # a proxy in front writes a better one
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(http.timeout) + 1,
    )
    # uvicorn hands a signal on once it has drained; by then it has had its effect.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    begins = not service.position
    service.start()
    try:
        Server(config).run(sockets=[listener])
    finally:
        service.stop()
        log.info(where_it_stands("stopped", service))
        for number, handler in before.items():
            signal.signal(number, handler)


def where_it_stands(verb: str, service: Service) -> str:
    """Where a server's stream is, in a line.

    >>> from types import SimpleNamespace as Names
    >>> learner = Names(model=Names(version=3), waiting=35, paused=None)
    >>> where_it_stands("resumed", Names(position=64, learner=learner))
    'resumed before record 64, version 3; 35 lessons wait; learning is not paused'
    """
    learner = service.learner
    paused = "not paused" if learner.paused is None else f"paused ({terminal_text(learner.paused)})"
    waiting = f"{learner.waiting} {'lesson waits' if learner.waiting == 1 else 'lessons wait'}"
    return f"{verb} before record {service.position}, version {learner.model.version}; {waiting}; learning is {paused}"
