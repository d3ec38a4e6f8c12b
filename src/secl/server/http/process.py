"""The FastAPI application and its process. The process listens, and answers all accepted requests before it ends.

A parent process such as systemd may keep the listening socket open during restarts (`--fd`), so that clients wait in
the backlog of the socket.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from secl.display import counted, terminal_text
from secl.errors import ParameterError, RequestError, SeclError
from secl.runs.labelling import answer_of
from secl.runs.store import Store
from secl.server.http.api_keys import Keys
from secl.server.http.errors import RETRY_SOON, error_response, to_request_error, unknown_field
from secl.server.http.health import Metrics, health_router
from secl.server.http.middleware import BEARER, Boundary, is_loopback
from secl.server.http.pages import page_router, review_router
from secl.server.http.routes import answers_router, control_router, feedback_router, records_router
from secl.server.online.service import Service
from secl.server.records import Search
from secl.server.settings import MAX_BODY_BYTES, MAX_CONCURRENT, MAX_PASSED_BYTES

log = logging.getLogger("secl.server")

ACCEPTING = 0.05
"""Seconds that the shutdown waits after it stops accepting, so that Uvicorn can register the last connections."""

LINGER = 1.0
"""Seconds after SIGTERM or Ctrl-C in which clients may still send a request on an open connection.

Then secl closes the idle connections.
"""

TOO_MANY = RequestError(
    503, "the server is answering too many requests; ask again in a moment.", "busy", headers=RETRY_SOON
)


def listening(host: str | None, port: int | None, fd: int | None = None) -> socket.socket:
    """Return a new socket, or the listening socket that a parent process passes as `fd`. Raises ParameterError."""
    if fd is None:
        return bind("127.0.0.1" if host is None else host, 8080 if port is None else port)
    if host is not None or port is not None:
        raise ParameterError(f"the socket --fd {fd} already has an address; leave --host and --port out.")
    with ExitStack() as refused, suppress(OSError):  # OSError: the descriptor is not a socket
        listener = refused.enter_context(socket.socket(fileno=fd))
        is_tcp = listener.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.set_inheritable(False)
            refused.pop_all()
            return listener
    raise ParameterError(f"--fd is {fd}, which is no listening TCP socket; for systemd, give --fd 3 and a socket unit.")


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet. Raises ParameterError: the address is in use or unknown."""
    if not 0 <= port < 2**16:
        raise ParameterError(f"--port is {port}; it must be from 0 to 65535.")
    with ExitStack() as refused:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = refused.enter_context(socket.socket(family))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except (OSError, UnicodeError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
            message = f"cannot listen at {host}, port {port}: {reason}; choose another --host or --port."
            raise ParameterError(message) from None
        refused.pop_all()
    return listener


def is_local(listener: socket.socket) -> bool:
    """Return whether only this machine can reach a socket."""
    return is_loopback(str(listener.getsockname()[0]))


def url(listener: socket.socket) -> str:
    """Return the address of a socket as a client writes it."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def create_app(service: Service, *, loopback: bool = True) -> FastAPI:
    """Return the HTTP application of a service; `loopback`: whether only this machine can reach its socket."""
    metrics = Metrics(service)
    app = _bare_app(
        keys=Keys(service.state.folder),
        count=metrics.count_request,
        timeout=service.limits.timeout,
        most=MAX_BODY_BYTES if service.upstream is None else MAX_PASSED_BYTES,
        loopback=loopback,
    )
    app.include_router(health_router(metrics))
    # Only the middleware checks the key. This dependency adds the header Authorization to /openapi.json.
    described = [Depends(BEARER)]
    for router in (answers_router, records_router, control_router):
        app.include_router(router(service), dependencies=described)
    app.include_router(page_router(service))
    return app


def create_review_app(store: Store) -> FastAPI:
    """Return the HTTP application with the review page of a run, without a model, for a socket of this machine."""
    app, reading = _bare_app(keys=Keys(store.folder)), partial(Store, store.folder)
    app.include_router(feedback_router(store, reading, lambda name, _: answer_of(store, name).position))
    app.include_router(review_router(reading, of_run=True))
    app.add_api_route("/", lambda: RedirectResponse("review"), include_in_schema=False)
    return app


def _bare_app(**boundary: Any) -> FastAPI:
    """Return an application without routes; `boundary`: parameters of `Boundary`."""
    app = FastAPI(
        title="secl",
        version=version("secl"),
        summary="Answers, each with the probability that it is correct.",
        docs_url=None,  # FastAPI's documentation pages would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_api_route("/docs", lambda: RedirectResponse("openapi.json"), include_in_schema=False)
    app.add_middleware(Boundary, **boundary)
    app.exception_handler(SeclError)(_on_secl_error)
    app.exception_handler(RequestValidationError)(_on_invalid_request)
    app.exception_handler(HTTPException)(_on_http_exception)
    return app


async def _on_secl_error(_request: Request, error: SeclError) -> Response:
    refusal = to_request_error(error)
    if refusal.status == 500:
        log.error("%s", error)  # the message of this error quotes no question
    return error_response(refusal)


async def _on_invalid_request(request: Request, error: RequestValidationError) -> Response:
    """Return an error for a body or query that does not match its schema. The message quotes no values."""
    first = error.errors()[0]
    if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", "").lower():
        sentence = "the body is not sent as JSON; send it with the header Content-Type: application/json."
        return error_response(RequestError(400, sentence, "invalid_content_type"))
    param = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "extra_forbidden":
        return error_response(unknown_field(param, Search.model_fields if first["loc"][0] == "query" else ()))
    message = f"{param or 'the body'}: {first['msg'].removeprefix('Value error, ').rstrip('.')}."
    return error_response(RequestError(400, message, "invalid_value", param or None))


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
    coding = request.headers.get("content-encoding")
    remedy = f"; secl does not read the Content-Encoding {coding[:20]!r}, so send plain JSON" if coding else ""
    messages = {
        400: f"the body cannot be read as JSON{remedy}.",
        404: "this address does not exist; the base URL of the API ends with /v1.",
        405: "this address does not support this HTTP method.",
    }
    message = messages.get(error.status_code, f"{error.detail}.")
    if error.status_code == 404 and request.url.path.startswith("/v1/"):
        route = request.url.path[:100]
        message = (
            f"this server has no {route}; send the conversation as messages to /v1/chat/completions, or see the routes "
            "in /openapi.json."
        )
    headers = dict(error.headers or {})
    return error_response(RequestError(error.status_code, message, f"http_{error.status_code}", headers=headers))


def answer_until_stopped(
    service: Service, listener: socket.socket, on_ready: Callable[[], None], early: list[int]
) -> None:
    """Serve until SIGTERM or Ctrl-C; then answer the pending requests, and end.

    `early`: list of the received signals, to which this function adds new signals. If the list has a signal before the
    start, the server does not start.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _frame: early.append(number)) for number in numbers}
    verb = "resumed" if len(service.state) else "started"

    def ready() -> None:
        on_ready()
        log.info(status_line(verb, service))

    try:
        if not early:
            service.start()
        if not early:
            app = create_app(service, loopback=is_local(listener))
            Server(app, service, ready, early).run([listener])
    finally:
        service.stop()
        log.info(status_line("stopped", service))
        for number, handler in before.items():
            signal.signal(number, handler)


def serve_review(store: Store, listener: socket.socket) -> None:
    """Serve the review page of a run until SIGTERM or Ctrl-C."""
    how: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off", "ws": "none"}
    config = uvicorn.Config(create_review_app(store), server_header=False, timeout_graceful_shutdown=1, **how)
    uvicorn.Server(config).run([listener])


class Server(uvicorn.Server):
    """Uvicorn that answers all requests on accepted connections before it ends."""

    def __init__(self, app: ASGIApp, service: Service, on_ready: Callable[[], None], early: Sequence[int]) -> None:
        self.app, self.service, self.on_ready, self.early = app, service, on_ready, early
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",  # uvicorn cannot infer the interface of a bound method
            loop="asyncio",  # with uvloop, `shutdown` could not stop accepting connections
            log_config=None,
            access_log=False,  # `log_request` logs requests
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(service.limits.timeout) + 1,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.early:
            self.should_exit = True
            return
        self.on_ready()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; after a signal, ask the client to reconnect, so that the next server answers."""

        async def send_closing(message: Message) -> None:
            if self.should_exit and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        busy = len(self.server_state.tasks) > MAX_CONCURRENT  # a connection without a request has no task
        await (error_response(TOO_MANY) if busy else self.app)(scope, receive, send_closing)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        waiting = self.service.waiting
        log.info(
            "stopping: the server accepts no more connections and answers the received requests (%d in the queue)",
            waiting,
        )
        for listener in sockets or ():  # new connections wait for the next server
            asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(ACCEPTING)
        for server in self.servers:
            server.close()
        end = time.monotonic() + LINGER
        while self.server_state.connections and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


def status_line(verb: str, service: Service) -> str:
    """Return one line: number of records, version, pending lessons, and whether learning is paused."""
    learner, stands = service.learner, f"{verb} after {counted(service.position, 'record')}"
    if not learner.calibrator.learns:
        return stands
    waiting = f"{learner.waiting} {'lesson waits' if learner.waiting == 1 else 'lessons wait'}"
    paused = "not paused" if learner.paused is None else f"paused ({terminal_text(learner.paused)})"
    return f"{stands}, version {learner.version}; {waiting}; learning is {paused}"
