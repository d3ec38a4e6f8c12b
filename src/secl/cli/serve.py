"""Commands of the server: serve, and the keys to its doors."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secl.cli.app import DEVICE, DTYPE, MODEL, app, console, flag
from secl.errors import ParameterError

if TYPE_CHECKING:
    from secl.server.online.service import Service

STATE = Annotated[Path, typer.Option(help="The server's folder.", show_default=False)]

RECIPE = ("model", "dtype", "device", "method", "gate", "burst", "warmup", "threshold", "tau", "learning_rate")
DOORS = {
    "body": "max_body_bytes",
    "prompt": "max_prompt_chars",
    "patience": "timeout",
    "name": "served_model_name",
}

keys = typer.Typer(help="Make, list and remove the API keys of a server.", no_args_is_help=True)
app.add_typer(keys, name="keys")


@app.command()
def serve(
    state: STATE,
    model: MODEL = None,
    host: Annotated[str, flag("Address; others than this machine's own need API keys.", "127.0.0.1")] = "127.0.0.1",
    port: Annotated[int, flag("0 takes a free one.", "8080")] = 8080,
    recipe: Annotated[Path | None, flag("A TOML recipe with further settings; flags override it.")] = None,
    dtype: DTYPE = None,
    device: DEVICE = None,
    engine: Annotated[str | None, flag("What answers: local, or vllm.", "local")] = None,
    endpoint: Annotated[list[str] | None, flag("A vLLM server's address; repeat it for a fleet.", "none")] = None,
    method: Annotated[str | None, flag("secl, or stated to learn nothing.", "secl")] = None,
    gate: Annotated[str | None, flag("entropy-shift, page-hinkley, always or never.", "the method's")] = None,
    burst: Annotated[int | None, flag("Questions in a burst.", "50")] = None,
    warmup: Annotated[int | None, flag("Questions before the gate can fire.", "30")] = None,
    threshold: Annotated[float | None, flag("Of the gate's statistic.", "the gate's")] = None,
    tau: Annotated[float | None, flag("Temperature of normalised P(True).", "the model's")] = None,
    learning_rate: Annotated[float | None, flag("Of AdamW.", "5e-5")] = None,
    keep_text: Annotated[str, flag("What is stored of texts: none, hash or full.", "full")] = "full",
    share: Annotated[float | None, flag("Of the answering time, for learning between batches.", "0.2")] = None,
    queue: Annotated[int | None, flag("Most questions that wait.", "256")] = None,
    batch: Annotated[int | None, flag("Most questions in one pass.", "16")] = None,
    backlog: Annotated[int | None, flag("Most questions that wait for their lesson.", "1000")] = None,
    drift: Annotated[float | None, flag("Of the adapter; beyond it learning pauses.", "0.1")] = None,
    shift: Annotated[float | None, flag("Of mean confidence; beyond it learning pauses.", "0.4")] = None,
    window: Annotated[int | None, flag("Answers that --shift is a mean of.", "200")] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Begin with learning paused.")] = False,
    body: Annotated[int | None, flag("Most bytes of a request.", "1048576")] = None,
    prompt: Annotated[int | None, flag("Most characters of a prompt.", "100000")] = None,
    patience: Annotated[float | None, flag("Seconds until a request is given up.", "60")] = None,
    name: Annotated[str | None, flag("Of the model to the outside.", "the model's")] = None,
) -> None:
    """Serve a model over HTTP: OpenAI's API with a confidence, learning behind the answers, a page at /."""
    given = {key: value for key, value in locals().items() if value is not None}
    try:
        from secl.server.http.api_keys import Keys
        from secl.server.http.settings import HttpSettings
        from secl.server.online.factory import open_service, serving_recipe
        from secl.server.online.guardrails import Bounds
        from secl.server.online.limits import Limits
    except ModuleNotFoundError as problem:
        raise ParameterError(f"secl serve needs {problem.name}; install it with: pip install 'secl[server]'.") from None
    from secl.runs.settings import read_toml
    from secl.settings import merged, nested

    check_engine(engine, endpoint or [])

    def those(*names: str) -> dict[str, Any]:
        return {key: given[key] for key in names if key in given}

    settings = read_toml(recipe) if recipe else {}
    for key in ("benchmarks", "questions"):
        if key in nested(settings).get("stream", {}):
            raise ParameterError(f"a server is asked over HTTP; leave {key} out of {recipe}.")
    made = serving_recipe(**merged(settings, those(*RECIPE)))
    limits = Limits(**those("share", "queue", "batch", "backlog"))
    bounds = Bounds(**those("drift", "shift", "window"))
    found = Keys(state)
    os.umask(0o077)  # the state holds what people ask: all files that this process makes are its user's alone
    door, own = bind(host, port)
    with door:
        doors = HttpSettings(**{DOORS[key]: value for key, value in those(*DOORS).items()})
        if not own and not found.all():
            raise ParameterError(
                f"{host} can be reached from other machines, but there are no API keys; make one with "
                f"secl keys add NAME --state {state}, or leave --host out."
            )
        found.all()
        with console().status("loading the model"):
            service = open_service(
                state,
                made,
                keep_text=keep_text,  # type: ignore[arg-type]
                endpoints=tuple(endpoint or ()),
                limits=limits,
                bounds=bounds,
            )
        with service.state:
            if pause and service.learner.paused is None:
                service.learner.pause("at the start, by --pause")
            answer_until_stopped(service, found, doors, door)


def check_engine(engine: str | None, endpoints: list[str]) -> None:
    """Let an engine and its endpoints pass that fit together; endpoints alone mean vLLM.

    Raises:
        ParameterError: they do not.
    """
    if engine not in (None, "local", "vllm"):
        raise ParameterError(f"--engine is {engine!r}; it is local or vllm.")
    if engine == "vllm" and not endpoints:
        raise ParameterError("--engine vllm needs the address of a server; give it with --endpoint URL.")
    if engine == "local" and endpoints:
        raise ParameterError("--endpoint names a vLLM server, but --engine is local; leave one of them out.")


def bind(host: str, port: int) -> tuple[socket.socket, bool]:
    """A socket at an address, and whether only this machine can reach it; nobody is let in before the model is there.

    Raises:
        ParameterError: the address is none of this machine's, or is taken.
    """
    from secl.server.http.middleware import is_loopback

    if not 0 <= port < 2**16:
        raise ParameterError(f"--port is {port}; it must be from 0 to 65535.")
    with ExitStack() as opened:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            made = opened.enter_context(socket.socket(family))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except (OSError, UnicodeError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise ParameterError(
                f"cannot listen at {host}, port {port}: {reason}; choose another --host or --port."
            ) from None
        opened.pop_all()
    return made, is_loopback(str(made.getsockname()[0]))


def answer_until_stopped(service: Service, found: Any, doors: Any, door: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; then answer what was asked, and end."""
    import uvicorn

    from secl.server.http.app import create_app
    from secl.server.http.middleware import is_loopback

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="secl: %(message)s")
    host, port = door.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    class Doors(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            typer.echo(f"secl serves {service.model.name} at {address} (state in {service.state.folder})")
            sys.stdout.flush()  # whoever started it may be waiting for this line

    config = uvicorn.Config(
        create_app(service, found, doors, loopback=is_loopback(str(host))),
        log_config=None,
        access_log=False,  # a proxy in front writes a better one
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(doors.timeout) + 1,
    )
    # uvicorn hands a signal on once it has drained; by then it has had its effect.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    service.start()
    try:
        Doors(config).run(sockets=[door])
    finally:
        service.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


@keys.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="Of the person or program that gets it.", show_default=False)],
    state: STATE,
    role: Annotated[str, flag("read: ask and read; admin: also roll back, pause and resume.", "read")] = "read",
) -> None:
    """Make an API key and print it, once: only a hash of it is kept."""
    from secl.server.http.api_keys import Keys

    typer.echo(Keys(state).add(name, role))


@keys.command("list")
def list_keys(state: STATE) -> None:
    """List the names and roles of all keys."""
    from secl.reports.console import listing
    from secl.server.http.api_keys import Keys

    console().print(listing(("name", "role"), [(key.name, key.role) for key in Keys(state).all()]))


@keys.command("remove")
def remove_key(
    name: Annotated[str, typer.Argument(help="Of the key.", show_default=False)],
    state: STATE,
) -> None:
    """Take an API key away; a running server turns it away from now on."""
    from secl.server.http.api_keys import Keys

    found = Keys(state)
    found.remove(name)
    if not found.all():
        typer.echo(
            "That was the last key: a server on a loopback address is now open to all of this machine.", err=True
        )
