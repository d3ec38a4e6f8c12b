"""ASGI middleware: authentication, checks of Host and Origin, limits on bodies, replies to errors, and metrics.

Without a file of API keys, only programs on this machine may send requests, and they have the role admin. A foreign
site's page in a browser on this machine could also send requests, so the server then checks Host and Origin.
`check_host` replaces Starlette's TrustedHostMiddleware, which knows neither all of 127.0.0.0/8 nor IPv6 addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from secl.display import terminal_text
from secl.errors import ParameterError, RequestError
from secl.server.http.api_keys import Key, KeyRole, Keys, permits
from secl.server.http.errors import describe_failure, error_response
from secl.server.settings import MAX_BODY_BYTES

log = logging.getLogger("secl.server")

BEARER = HTTPBearer(auto_error=False, description="An API key, which `secl keys add` makes.")
"""Reads the token from the header Authorization; FastAPI also documents this header in /openapi.json."""

PUBLIC_PATHS = ("/healthz", "/readyz", "/openapi.json", "/docs")
"""Paths that need no key."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""

PAGES = ("/", "/records", "/review")
"""Pages that need no key: without a key, they only show a form that asks for the key, as the page of a record does."""

OFTEN = ("/", "/healthz", "/readyz", "/metrics")
"""Paths that probes and open pages request all the time; secl logs a successful request at the level debug."""

DRAINED_BYTES = 64 * 2**20
"""Maximum bytes that secl reads of a too large body before it replies 413.

Most clients read the reply only after they have sent the whole body.
"""


class Boundary:
    """Middleware around the application: checks the caller, reads the body, turns exceptions into responses.

    The middleware puts the role of the caller into the scope as `secl_role`, counts and times every request, and adds
    headers. Without keys, the server must listen on this machine only (`loopback`).

    `count` receives scope, status and duration of each request. `timeout` and `most` limit the seconds and bytes of a
    body.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keys,
        count: Callable[[Scope, int, float], None] = lambda *_: None,
        timeout: float = 60.0,
        most: int = MAX_BODY_BYTES,
        loopback: bool = True,
    ) -> None:
        self.app, self.keys, self.count = app, keys, count
        self.timeout, self.most, self.loopback, self.broken = timeout, most, loopback, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-content-type-options"] = "nosniff"
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            check_framing(Request(scope).headers)
            scope["secl_role"] = await self._role(Request(scope))
            if scope["method"] not in SAFE_METHODS:
                receive = replay(await self._body(Request(scope, receive)), receive)
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass
        except RequestError as error:
            await error_response(error)(scope, receive, send_with_headers)
        except Exception as error:  # Uvicorn would log the message, which may quote the question
            log.error("a request failed: %s", describe_failure(error))
            if not status:
                failed = RequestError(500, "the server failed on this request.", "server_error")
                await error_response(failed)(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - began
            self.count(scope, status, seconds)
            log_request(scope, status, seconds)

    async def _role(self, request: Request) -> KeyRole | None:
        """Return the caller's role; None for a public path, or for a page that asks for a key. Raises RequestError."""
        path = request.scope["path"]
        if path in PUBLIC_PATHS or path.startswith("/static/"):
            return None
        token = await BEARER(request)
        closed, key = self._look_up(token.credentials.strip() if token else None)
        if self.loopback and not closed:
            check_host(request.headers)
            if request.method not in SAFE_METHODS:
                check_origin(request.headers)
            return "admin"
        if key is not None:
            return key.role
        if path in PAGES or path.startswith("/records/"):
            return None
        needed = "send an API key in the header Authorization: Bearer KEY."
        message = "this server does not know this key." if token else needed
        raise RequestError(401, message, "invalid_api_key", headers={"www-authenticate": "Bearer"})

    def _look_up(self, token: str | None) -> tuple[bool, Key | None]:
        """Return two values: whether a file of keys exists, and the key to which a token belongs (None if unknown)."""
        try:
            key = self.keys.find(token or "")
        except ParameterError as problem:  # the server rejects every request until the file is repaired
            if not self.broken:
                log.error("rejecting every request: %s", problem)
            self.broken = True
            raise RequestError(503, "the server cannot read its API keys.", "keys") from None
        if self.broken:
            log.warning("the server can read the API keys again")
        self.broken = False
        return self.keys.path.exists(), key

    async def _body(self, request: Request) -> bytes:
        """Return the body. Raises RequestError: the body is too large, or arrives too slowly."""
        try:
            async with asyncio.timeout(self.timeout):
                pieces, length = [], 0
                async for piece in request.stream():
                    length += len(piece)
                    if length <= self.most:
                        pieces.append(piece)
                    if length > DRAINED_BYTES:
                        break
        except TimeoutError:
            raise RequestError(408, "the request took too long to arrive.", "timeout") from None
        if length > self.most:
            message = f"the request has more than {self.most} bytes, the most that this server reads."
            raise RequestError(413, message, "too_large")
        return b"".join(pieces)


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """Log method, path, status and duration (in ms) of a finished request. The log has no query, body or key."""
    path = bytes(scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("ascii", "replace")
    often = path in OFTEN or path.startswith("/static/")
    level = logging.DEBUG if often and status < 400 else logging.INFO
    log.log(level, "%s %s %d %.0f ms", scope["method"][:20], terminal_text(path[:200]), status, 1000 * seconds)


def require(needed: KeyRole) -> Callable[[Request], None]:
    """Return a check that raises a `RequestError` (403) if the caller's key has a lower role."""

    def check(request: Request) -> None:
        if not permits(request.scope.get("secl_role"), needed):
            raise RequestError(403, f"this request needs a key with at least the role {needed}.", f"needs_{needed}")

    return check


def is_loopback(name: str) -> bool:
    """Return whether a name or an address stands for this machine, such as "localhost" or "::1"."""
    try:
        return name.lower() == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_framing(headers: Headers) -> None:
    """Raise a `RequestError` (400) that closes the connection if a proxy may see another end of the body (RFC 9112)."""
    if "transfer-encoding" in headers and (
        "content-length" in headers or len(headers.getlist("transfer-encoding")) > 1
    ):
        message = "a request has either Content-Length or Transfer-Encoding; send one of them."
        raise RequestError(400, message, "ambiguous_length", headers={"connection": "close"})


def check_host(headers: Headers) -> None:
    """Raise a `RequestError` (403) unless the header Host names this machine.

    A foreign site's name may resolve to this machine. The browser then sends the site's name as Host.
    """
    host = headers.get("host", "")
    try:
        parts = urlsplit(f"//{host}")
        whole = parts.netloc == host and "@" not in host and parts.port != 0
    except ValueError:
        whole = False
    if not (whole and is_loopback(parts.hostname or "")):
        message = "this server has no API keys, so the Host of a request must be this machine, for example localhost."
        raise RequestError(403, message, "host_not_allowed")


def check_origin(headers: Headers) -> None:
    """Raise a `RequestError` (403) if a page of another site sent the request."""
    origin = headers.get("origin")
    host = headers.get("host", "").lower()
    foreign = origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}")
    if foreign or headers.get("sec-fetch-site") == "cross-site":
        raise RequestError(403, "a page of another site may not send requests to this server.", "origin_not_allowed")


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` function that first returns an already read body, and then calls the original `receive`."""
    unread = [body]

    async def source() -> Message:
        return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

    return source
