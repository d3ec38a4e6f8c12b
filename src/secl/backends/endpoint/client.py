"""A server with OpenAI's API over HTTP: requests and streams, with retries, and its errors in sentences."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from secl.errors import ModelError, NotLoadedError, ParameterError, QuestionError, TooLongError, UnavailableError, needs

if TYPE_CHECKING:
    import httpx

KEY = "SECL_ENDPOINT_KEY"
"""Environment variable with the server's key."""

TRIES = 4
"""Requests to a busy server, or one that is not there, until one is given up."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 20.0
"""Seconds before the second try, twice as many before each further one; and most that a server may ask for."""

CONNECT_SECONDS = 5.0

SILENCE = 600.0
"""Seconds without a byte after which a request is given up: a server may have many others before it."""

BUSY = (HTTPStatus.TOO_MANY_REQUESTS, *(status for status in HTTPStatus if status >= HTTPStatus.INTERNAL_SERVER_ERROR))
REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
LOCKED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

Body = Mapping[str, object]


class Endpoint:
    """A server with OpenAI's API. Several threads may use it at once.

    Args:
        url: its base address, such as "https://api.example.com/v1"; without a path, "/v1" is added.
        key: sent as a bearer token; None for none.
        timeout: seconds without a byte after which a request is given up.

    Raises:
        ParameterError: the address is none.
        ModelError: the package httpx is missing.
    """

    def __init__(self, url: str, *, key: str | None = None, timeout: float = SILENCE) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ParameterError(f"the endpoint {url!r} is not a web address; write http://HOST:PORT/v1.")
        try:
            import httpx
        except ImportError as missing:
            raise ModelError(needs("an endpoint", "httpx", "server")) from missing
        path = parts.path.rstrip("/") or "/v1"
        self.url = f"{parts.scheme}://{parts.netloc}{path}"
        self._lost = (httpx.ConnectTimeout, httpx.NetworkError, httpx.RemoteProtocolError)
        self._trouble = (httpx.TransportError, httpx.DecodingError)
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout, connect=CONNECT_SECONDS, pool=None),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=2.0),
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def models(self) -> list[dict[str, Any]]:
        """What it says about each of its models; "id" is the name.

        Raises:
            ModelError: it does not tell.
        """
        with self._answer("GET", "/models") as answer:
            listed = self._json(answer)
        try:
            return [{**card, "id": str(card["id"])} for card in listed["data"]]
        except (KeyError, TypeError) as problem:
            raise ModelError(f"{self.url} does not list its models as OpenAI's API does.") from problem

    def post(self, route: str, body: Body) -> Any:
        """The answer to a request, as JSON.

        Raises:
            QuestionError: the server refuses what is in the request.
            UnavailableError: no answer now.
            NotLoadedError: the server does not have the model.
            ModelError: the server refuses for another reason.
        """
        with self._answer("POST", route, body) as answer:
            return self._json(answer)

    def stream(self, route: str, body: Body) -> Generator[Any, None, None]:
        """The chunks of an answer as they come; closing the iterator ends the request. Raises what `post` does."""
        ended = False
        with self._answer("POST", route, {**body, "stream": True}) as answer:
            try:
                for line in answer.iter_lines():
                    if line.removeprefix("data:").strip() == "[DONE]":
                        ended = True
                    elif line.startswith("data:"):
                        yield self._chunk(line.removeprefix("data:"))
            except self._trouble as problem:
                raise UnavailableError(
                    f"{self.url} broke off in the middle of an answer ({type(problem).__name__})."
                ) from problem
        if not ended:
            raise UnavailableError(f"{self.url} broke off in the middle of an answer.")

    @contextmanager
    def _answer(self, method: str, route: str, body: Body | None = None) -> Iterator[httpx.Response]:
        """A response of status 200 whose body is still to be read; a busy server is asked again."""
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                request = self._http.build_request(method, f"{self.url}{route}", json=body)
                answer = self._http.send(request, stream=True)
            except self._lost as problem:
                if last:
                    raise UnavailableError(f"{self.url} does not answer ({type(problem).__name__}).") from problem
                time.sleep(self._wait(attempt))
                continue
            except self._trouble as problem:  # it may be at work on the request; a second one would double that
                raise UnavailableError(f"{self.url} does not answer ({type(problem).__name__}).") from problem
            try:
                if answer.status_code in BUSY and not last:
                    time.sleep(self._wait(attempt, answer.headers.get("retry-after", "")))
                    continue
                if answer.status_code != HTTPStatus.OK:
                    raise self._refusal(route, answer)
                yield answer
                return
            finally:
                answer.close()

    def _wait(self, attempt: int, asked_for: str = "") -> float:
        seconds = float(asked_for) if asked_for.isdigit() else FIRST_WAIT * 2.0**attempt
        return min(seconds, LONGEST_WAIT)

    def _refusal(self, route: str, answer: httpx.Response) -> Exception:
        try:
            answer.read()
            reason = reason_in(answer)
        except self._trouble:
            reason = "no reason given"
        status = answer.status_code
        if status in BUSY:
            return UnavailableError(f"{self.url}{route} answers with status {status}: {reason}")
        if status in REFUSED:
            too_long = "context" in reason.lower()  # the only word that all servers have in common there
            return (TooLongError if too_long else QuestionError)(
                f"{self.url}{route} refuses with status {status}: {reason}"
            )
        if status in LOCKED:
            return ModelError(f"{self.url} wants a key that it knows (status {status}: {reason}); set {KEY}.")
        error = NotLoadedError if status == HTTPStatus.NOT_FOUND else ModelError
        return error(f"{self.url}{route} refuses with status {status}: {reason}")

    def _json(self, answer: httpx.Response) -> Any:
        try:
            answer.read()
            return answer.json()
        except self._trouble as problem:
            raise UnavailableError(f"{self.url} broke off in the middle of an answer.") from problem
        except ValueError as problem:
            raise ModelError(f"{answer.url} does not answer in JSON; is {self.url} the right address?") from problem

    def _chunk(self, text: str) -> Any:
        try:
            chunk = json.loads(text)
        except ValueError as problem:
            raise ModelError(f"{self.url} sends a chunk that is no JSON.") from problem
        if isinstance(chunk, dict) and "error" in chunk:  # what goes wrong once a stream has begun
            raise UnavailableError(f"{self.url} broke off in the middle of an answer: {_message(chunk)}")
        return chunk


def reason_in(answer: httpx.Response) -> str:
    """What a server says about a refusal, in one line."""
    try:
        text = _message(answer.json())
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(text.split())[:300] or "no reason given"


def _message(body: Any) -> str:
    error = body.get("error", body)
    return str(error.get("message", error)) if isinstance(error, Mapping) else str(error)
