"""A client for servers with OpenAI's API. It turns the openai SDK's errors into secl's errors."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from secl.errors import (
    FailedError,
    ModelError,
    NotLoadedError,
    QuestionError,
    TooLongError,
    UnavailableError,
    needs,
)
from secl.settings.groups import ENDPOINT_KEY, base_url

try:
    import httpx2
    import openai
except ImportError as missing:
    raise ModelError(needs("an endpoint", "openai", "server")) from missing

RETRIES = 3
"""Maximum number of repetitions of a request to a busy, failing or unreachable server."""

CONNECT_SECONDS = 5.0

READ_TIMEOUT = 600.0
"""Read timeout of a request in seconds; a server may have a long queue."""

REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
LOCKED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

OTHERWISE = "{}: the reply does not have the form of OpenAI's API; check that this is a server with this API."

QUOTED = re.compile(r"(?<!\w)(['\"]).*?\1(?!\w)|context=\S*")
"""Names in a refusal, which may contain any word."""

HTML_TAG = re.compile(r"<(style|script|head)\b.*?</\1>|</?[a-z!][^>]*>", re.DOTALL | re.IGNORECASE)
"""Marks of a web page that a proxy sends instead of a reason."""

TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|reduce the length|(prompt|input|request)\w* (is |are )?too (long|large)"
    r"|token.*(exceed|longer|less than|more than|at most|<=|maximum)|(exceed|longer|too many|at most|maximum).*token"
    r"|longer than the max\w* model length|exceeds? (the )?max\w* (prompt|input) length|maximum prompt length",
    re.IGNORECASE,
)
"""How servers say that a prompt is too long."""

UNREACHED = "start the server, or check its address and the proxy settings (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)"

Body = Mapping[str, object]


class _Events(openai.Stream[object]):
    """The events of a stream. Events without data are left out; `done` tells whether the last event has come."""

    done = False

    def _iter_events(self) -> Iterator[Any]:
        for event in super()._iter_events():
            self.done = self.done or event.data.startswith("[DONE]")
            if event.data.strip():
                yield event


class _Connections(openai.DefaultHttpxClient):
    """Connections that do not repeat a request after a timeout, because the server may still work on the first try."""

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return super().send(request, **options)
        except httpx2.ReadTimeout as silence:
            raise openai.APITimeoutError(request) from silence


class Endpoint:
    """A client of a server with OpenAI's API. Instances are thread-safe. Raises ParameterError: not a URL.

    Args:
        url: base address, such as "https://api.example.com/v1"; without a path, secl adds "/v1".
        key: bearer token.
        silence: read timeout in seconds; a request fails if the server sends no byte for this long.
    """

    def __init__(self, url: str, *, key: str | None = None, silence: float = READ_TIMEOUT) -> None:
        self.url = base_url(url)
        self._client = openai.OpenAI(
            base_url=self.url,
            api_key=key or "none",
            max_retries=RETRIES,
            timeout=openai.Timeout(silence, connect=CONNECT_SECONDS),
            http_client=_Connections(),
        )
        # By default, the SDK would send the user's organisation and project at OpenAI, from environment variables.
        omitted = ["OpenAI-Organization", "OpenAI-Project", *([] if key else ["Authorization"])]
        self._options: openai.RequestOptions = {"headers": dict.fromkeys(omitted, openai.omit)}

    def close(self) -> None:
        self._client.close()

    def models(self) -> list[dict[str, Any]]:
        """Return the server's entry for each model; "id" is the model's name. Raises ModelError: no list of models."""
        with self._sentences("/models"):
            listed: Any = self._client.get("/models", cast_to=object, options=self._options)
        try:
            return [{**card, "id": str(card["id"])} for card in listed["data"]]
        except (KeyError, TypeError) as problem:
            raise ModelError(
                f"{self.url} does not list its models as OpenAI's API does; is this the right address?"
            ) from problem

    def post(self, route: str, body: Body) -> Any:
        """Return the JSON that answers a request.

        Raises:
            QuestionError: the server refuses the content of the request.
            UnavailableError: the server does not answer now.
            NotLoadedError: the server does not have the model.
            ModelError: the server refuses the request for another reason.
        """
        with self._sentences(route):
            answer: Any = self._client.post(route, cast_to=object, body=body, options=self._options)
            if not isinstance(answer, dict):
                raise ValueError("the answer is not a JSON object")
        error = answer if answer.get("object") == "error" else answer.get("error")
        if error and not answer.get("choices"):
            raise self._refusal(route, _status(error), error)
        return answer

    def stream(self, route: str, body: Body) -> Generator[Any, None, None]:
        """Yield the chunks of an answer. Closing the iterator ends the request.

        Raises the errors of `post`. Raises UnavailableError also if the stream breaks off before its end: no chunk has
        a `finish_reason`, and the last event is missing.
        """
        with (
            self._sentences(route),
            self._client.post(
                route,
                cast_to=object,
                body={**body, "stream": True},
                options=self._options,
                stream=True,
                stream_cls=_Events,
            ) as chunks,
        ):
            ended = False
            for chunk in chunks:
                ended = ended or any(choice.get("finish_reason") for choice in choices_of(chunk, self.url))
                yield chunk
            if not (ended or chunks.done):
                raise self.broke_off()

    @contextmanager
    def _sentences(self, route: str) -> Iterator[None]:
        """Turn the openai SDK's errors into secl's errors."""
        try:
            yield
        except openai.APIStatusError as refusal:
            raise self._refusal(route, refusal.status_code, refusal.body) from refusal
        except openai.APIConnectionError as problem:
            cause = problem.__cause__
            if isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError):
                raise self.broke_off(type(cause).__name__) from problem
            absent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
            remedy = UNREACHED if absent else "try again when the server is less busy"
            raise UnavailableError(f"{self.url} does not answer ({type(cause).__name__}); {remedy}.") from problem
        except openai.APIError as problem:  # an error in the middle of a stream
            if (status := _status(problem.body, 0)) in (*REFUSED, *LOCKED):
                raise self._refusal(route, status, problem.body) from problem
            raise self.broke_off(problem.message) from problem
        except (ValueError, RecursionError) as problem:
            raise ModelError(
                f"{self.url}{route} does not answer with a JSON object; is {self.url} the right address?"
            ) from problem

    def broke_off(self, reason: str = "the end is missing") -> UnavailableError:
        """Return the error for an answer that is not complete."""
        return UnavailableError(f"{self.url} stopped in the middle of an answer: {reason}.")

    def _refusal(self, route: str, status: int, body: object) -> Exception:
        reason = _reason(body)
        if status in LOCKED:
            return ModelError(
                f"{self.url} denies access (status {status}: {reason}); set {ENDPOINT_KEY} to a valid API key."
            )
        sentence = f"{self.url}{route} refuses the request with status {status}: {reason}"
        if status in REFUSED:
            code = str(body.get("code")) if isinstance(body, Mapping) else ""
            too_long = "context_length" in code or TOO_LONG.search(QUOTED.sub("", reason))
            return (TooLongError if too_long else QuestionError)(sentence)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return FailedError(sentence)
        if status == HTTPStatus.NOT_FOUND:
            return NotLoadedError(sentence)
        busy = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return (UnavailableError if busy else ModelError)(sentence)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The server that runs a model. secl forwards to this server the chats that secl cannot rate.

    Attributes:
        model: name of the model on the server.
        takes_all: whether secl sends this server all parameters of a chat even if secl rates the chat. If not,
            parameters that secl does not know have no effect on rated chats.
    """

    endpoint: Endpoint
    model: str
    takes_all: bool

    def chat(self, body: Body) -> Generator[dict[str, Any]]:
        """Yield the chunks of the answer to a chat request; without "stream", the answer is the only chunk.

        Raises the errors of `Endpoint.post` and `Endpoint.stream`.
        """
        request = {**body, "model": self.model}
        if not body.get("stream"):
            answer = self.endpoint.post("/chat/completions", request)
            choices = choices_of(answer, self.endpoint.url)
            if not choices:
                raise ModelError(OTHERWISE.format(self.endpoint.url))
            yield {**answer, "choices": choices}
            return
        for chunk in self.endpoint.stream("/chat/completions", request):
            yield {**chunk, "choices": choices_of(chunk, self.endpoint.url)}


def choices_of(answer: object, url: str) -> list[Mapping[str, Any]]:
    """Return the choices in an answer, or in a chunk of a stream, of the server at `url`. Raises ModelError."""
    choices = answer.get("choices") or [] if isinstance(answer, Mapping) else None
    if not isinstance(choices, list):
        raise ModelError(OTHERWISE.format(url))
    return [choice for choice in choices if isinstance(choice, Mapping)]


def _status(error: object, otherwise: int = HTTPStatus.INTERNAL_SERVER_ERROR) -> int:
    """Return the HTTP status that an error object names as its code, or else `otherwise`."""
    code = error.get("code") if isinstance(error, Mapping) else None
    digits = str(code) if code is not None else ""
    return int(digits) if re.fullmatch("[45][0-9]{2}", digits) else otherwise


def _reason(body: object) -> str:
    """Return a server's reason for a refusal, in one line.

    >>> _reason({"message": "too long"}), _reason("<style>h1 {}</style><h1>Not\\n found</h1>"), _reason(None)
    ('too long', 'Not found', 'no reason given')
    """
    said = body.get("message", body) if isinstance(body, Mapping) else body
    text = HTML_TAG.sub(" ", said) if isinstance(said, str) else str(said or "")
    return " ".join(text.split())[:300] or "no reason given"
