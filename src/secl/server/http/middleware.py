"""The doorkeeper: who may come in, from where, and with how much. It stands before everything else.

With keys, every request needs one. Without keys only this machine's own programs may ask, and they may do everything;
a browser on it may be made to ask by a foreign page, so the names by which the server is called are checked then.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from secl.errors import ParameterError, RequestError
from secl.server.http.api_keys import Keys, Role
from secl.server.http.errors import RETRY_SOON, describe_failure, error_response
from secl.server.http.metrics import Metrics
from secl.validation import check_finite, check_whole

log = logging.getLogger("secl.server")

OPEN = ("/healthz", "/readyz", "/openapi.json")
"""What anybody may ask: whether the server is alive, and what it understands."""

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""

DRAINED = 64 * 2**20
"""Bytes of a body that is too long that are still read and thrown away, so that the client hears why."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the doors let through.

    Attributes:
        loopback: whether the server is bound to this machine alone, so that it may do without keys.
        body: most bytes of a request.
        prompt: most characters of a question with its context and options.
        crowd: most requests at a time, so that their bodies together stay bounded too.
        patience: seconds until a request is given up.
        name: of the model to the outside; None takes the model's own.
    """

    loopback: bool = True
    body: int = 2**20
    prompt: int = 100_000
    crowd: int = 1024
    patience: float = 60.0
    name: str | None = None

    def __post_init__(self) -> None:
        check_whole("largest body", self.body, 1)
        check_whole("longest prompt", self.prompt, 1)
        check_whole("largest crowd", self.crowd, 1)
        check_finite("patience", self.patience, self.patience > 0, "be above 0")


class Guard:
    """Middleware that lets requests in or turns them away.

    The role of who asks is put into the scope as `secl_role`; routes that need the role "admin" look there.
    """

    def __init__(self, app: ASGIApp, keys: Keys, settings: Settings, metrics: Metrics) -> None:
        self.app, self.keys, self.settings, self.metrics = app, keys, settings, metrics
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-content-type-options"] = "nosniff"
                headers.setdefault("cache-control", "no-store")
            await send(message)

        self._inside += 1
        try:
            await self._pass(scope, receive, sent)
        except ClientDisconnect:
            pass
        except Exception as problem:  # nothing above is to log it with what was asked
            log.error("a request failed: %s", describe_failure(problem))
            if not status:
                refused = RequestError(500, "the server failed on this request.", "server_error")
                await error_response(refused)(scope, receive, sent)
        finally:
            self._inside -= 1
            self.metrics.count(scope, status, time.perf_counter() - began)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            scope["secl_role"] = self._admit(scope, headers)
            if scope["method"] not in SAFE:
                if self._inside > self.settings.crowd:
                    raise RequestError(429, "too many requests at a time; ask again.", "crowded", headers=RETRY_SOON)
                receive = replayed(await self._body(headers, receive), receive)
        except RequestError as refused:
            await error_response(refused)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _admit(self, scope: Scope, headers: Headers) -> Role | None:
        """The role of who asks; None for somebody without one, who sees only what anybody may.

        Raises:
            RequestError: they may not come in.
        """
        path = scope["path"]
        if path in OPEN or path.startswith("/static/"):
            return None
        if not self._kept() and self.settings.loopback:
            _check_host(headers)
            if scope["method"] not in SAFE:
                _check_origin(headers)
            return "admin"
        token = bearer(headers.get("authorization", ""))
        key = self.keys.find(token) if token else None
        if key is not None:
            return key.role
        if path == "/":
            return None  # the page asks for a key then
        sentence = "this API key is not known here." if token else "an API key is needed: Authorization: Bearer KEY."
        raise RequestError(401, sentence, "invalid_api_key", headers={"www-authenticate": "Bearer"})

    def _kept(self) -> bool:
        """Whether there are keys; where they cannot be read, nobody comes in."""
        try:
            return bool(self.keys.all())
        except ParameterError:
            raise RequestError(503, "the server cannot read its API keys.", "keys") from None

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body of a request.

        Raises:
            RequestError: it is too long, or too slow.
        """
        most = self.settings.body
        too_long = RequestError(413, f"the request has more than {most} bytes, which is all that is read.", "too_large")
        if "expect" in headers and int(_digits(headers.get("content-length", ""))) > most:
            raise too_long  # the client waits for leave to send it
        pieces, length = [], 0
        try:
            async with asyncio.timeout(self.settings.patience):
                while length <= DRAINED:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(499, "the client has gone.", "gone")
                    length += len(message.get("body", b""))
                    if length <= most:
                        pieces.append(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RequestError(408, "the request took too long to arrive.", "timeout") from None
        if length > most:
            raise too_long
        return b"".join(pieces)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A source that gives a body that was read already, and then what the real one gives."""
    left = [body]

    async def source() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return source


def bearer(header: str) -> str:
    """The token of an Authorization header; empty where it holds none.

    >>> bearer("Bearer abc"), bearer("Basic abc"), bearer("")
    ('abc', '', '')
    """
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_loopback(name: str) -> bool:
    """Whether a host's name or address means this machine.

    >>> [is_loopback(name) for name in ("localhost", "127.0.0.1", "::1", "example.com", "0.0.0.0")]
    [True, True, True, False, False]
    """
    try:
        return name.lower() == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _check_host(headers: Headers) -> None:
    host = headers.get("host", "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if not is_loopback(name):
        message = "without API keys this server is called by the names of this machine only, such as localhost."
        raise RequestError(403, message, "host_not_allowed")


def _check_origin(headers: Headers) -> None:
    origin = headers.get("origin")
    foreign = origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()
    if foreign or headers.get("sec-fetch-site") == "cross-site":
        raise RequestError(403, "a page of another origin may not ask here.", "origin_not_allowed")


def _digits(text: str) -> str:
    return text if text.isascii() and text.isdigit() and len(text) < 20 else "0"
