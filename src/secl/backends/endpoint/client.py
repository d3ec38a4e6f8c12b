"""A client for servers with OpenAI's API. It turns the openai SDK's errors into secl's errors."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from secl.errors import ModelError, NotLoadedError, ParameterError, QuestionError, TooLongError, UnavailableError, needs

try:
    import httpx2
    import openai
except ImportError as missing:
    raise ModelError(needs("an endpoint", "openai", "server")) from missing

KEY = "SECL_ENDPOINT_KEY"
"""Environment variable with the server's API key."""

RETRIES = 3
"""Maximum number of repetitions of a request to a busy, failing or unreachable server."""

CONNECT_SECONDS = 5.0

SILENCE = 600.0
"""Read timeout of a request in seconds; a server may have a long queue."""

REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
LOCKED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

UNREACHED = "start the server, or check its address and the proxy settings (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)"

Body = Mapping[str, object]


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

    def __init__(self, url: str, *, key: str | None = None, silence: float = SILENCE) -> None:
        self.url = _base(url)
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
        return answer

    def stream(self, route: str, body: Body) -> Generator[Any, None, None]:
        """Yield the chunks of an answer. Closing the iterator ends the request. Raises the errors of `post`.

        If a server breaks off, the chunks may end without an error, so callers check that the text is complete.
        """
        with (
            self._sentences(route),
            self._client.post(
                route,
                cast_to=object,
                body={**body, "stream": True},
                options=self._options,
                stream=True,
                stream_cls=openai.Stream[object],
            ) as chunks,
        ):
            yield from chunks

    @contextmanager
    def _sentences(self, route: str) -> Iterator[None]:
        """Turn the openai SDK's errors into secl's errors."""
        try:
            yield
        except openai.APIStatusError as refusal:
            raise self._refusal(route, refusal) from refusal
        except openai.APIConnectionError as problem:
            cause = problem.__cause__
            if isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError):
                raise self.broke_off(type(cause).__name__) from problem
            absent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
            remedy = UNREACHED if absent else "try again when the server is less busy"
            raise UnavailableError(f"{self.url} does not answer ({type(cause).__name__}); {remedy}.") from problem
        except openai.APIError as problem:  # an error in the middle of a stream
            raise self.broke_off(problem.message) from problem
        except ValueError as problem:
            raise ModelError(
                f"{self.url}{route} does not answer with a JSON object; is {self.url} the right address?"
            ) from problem

    def broke_off(self, reason: str = "the end is missing") -> UnavailableError:
        """Return the error for an answer that is not complete."""
        return UnavailableError(f"{self.url} stopped in the middle of an answer: {reason}.")

    def _refusal(self, route: str, refusal: openai.APIStatusError) -> Exception:
        status, reason = refusal.status_code, _reason(refusal.body)
        if status in LOCKED:
            return ModelError(f"{self.url} denies access (status {status}: {reason}); set {KEY} to a valid API key.")
        sentence = f"{self.url}{route} refuses the request with status {status}: {reason}"
        if status in REFUSED:  # all servers mention the "context" if a prompt is too long
            return (TooLongError if "context" in reason.lower() else QuestionError)(sentence)
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

        Raises the errors of `post`. Raises UnavailableError also if the stream breaks off before its end.
        """
        request, ended = {**body, "model": self.model}, False
        if not body.get("stream"):
            answer = self.endpoint.post("/chat/completions", request)
            if not answer.get("choices"):
                raise ModelError(
                    f'{self.endpoint.url} sent a reply without "choices"; check that it is a server with OpenAI\'s API.'
                )
            yield answer
            return
        for chunk in self.endpoint.stream("/chat/completions", request):
            ended |= any(choice.get("finish_reason") for choice in chunk.get("choices") or ())
            yield chunk
        if not ended:
            raise self.endpoint.broke_off()


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:  # the port is not a number, or brackets contain no IPv6 address
        whole = False
    if not whole or parts.query or parts.fragment:
        raise ParameterError(f"the endpoint {url!r} is not a URL; write http://HOST:PORT/v1.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def _reason(body: object) -> str:
    """Return a server's reason for a refusal, in one line.

    >>> _reason({"message": "too long"}), _reason("<h1>Not\\n found</h1>"), _reason(None)
    ('too long', '<h1>Not found</h1>', 'no reason given')
    """
    said = body.get("message", body) if isinstance(body, Mapping) else body
    return " ".join(str(said or "").split())[:300] or "no reason given"
