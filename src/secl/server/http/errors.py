"""Errors as HTTP responses: a status, and one sentence in OpenAI's error shape."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Mapping

from pydantic import BaseModel
from starlette.responses import Response

from secl.errors import (
    BusyError,
    ClosingError,
    NoObjectError,
    ParameterError,
    QuestionError,
    RequestError,
    SeclError,
    StorageError,
    TooLongError,
    UnavailableError,
)
from secl.evaluation.json_values import json_value
from secl.server.entries import JsonObject


class Error(BaseModel):
    """An error: one sentence, and codes for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """OpenAI's shape of an error."""

    error: Error


ERROR_RESPONSES: dict[int | str, JsonObject] = {
    "4XX": {"model": ErrorReply, "description": "The request cannot be served as it is."},
    500: {"model": ErrorReply, "description": "The model or the server failed on this request."},
    503: {"model": ErrorReply, "description": "The server is stopping or busy; try again later."},
}
"""Error responses in the API's description."""

ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""OpenAI's error types by status; any other status is `invalid_request_error` below 500, else `server_error`."""

RETRY_SOON = {"retry-after": "1"}
"""Headers of temporary errors: the client may send the same request again after one second."""

NO_RETRY = {"x-should-retry": "false"}
"""Headers of errors that a repeated request would cause again. OpenAI's SDK then does not repeat the request."""


REFUSALS: tuple[tuple[type[SeclError], int, str, dict[str, str] | None], ...] = (
    (TooLongError, 400, "context_length_exceeded", None),
    (QuestionError, 400, "bad_question", None),
    (ParameterError, 400, "bad_value", None),
    (NoObjectError, 502, "no_object", NO_RETRY),
    (BusyError, 429, "queue_full", RETRY_SOON),
    (ClosingError, 503, "closing", RETRY_SOON),
    (UnavailableError, 503, "no_endpoint", RETRY_SOON),
)
"""Status, code and headers of each type of error whose message the client gets; the first matching type counts."""


def ascii_json(content: object) -> str:
    """Return JSON in ASCII: undefined numbers are null, and unpaired surrogates are escaped."""
    return json.dumps(json_value(content), allow_nan=False)


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(ascii_json(content), status, headers, "application/json")


def error_response(error: RequestError) -> Response:
    return json_response(error_json(error), error.status, error.headers)


def error_json(error: RequestError) -> dict[str, dict[str, str | None]]:
    """Return an error in OpenAI's error shape, for a response or for the end of a stream."""
    kind = ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def to_request_error(error: SeclError) -> RequestError:
    """Map an error of the library to the status and the sentence that the client gets."""
    if isinstance(error, RequestError):
        return error
    for kind, status, code, headers in REFUSALS:
        if isinstance(error, kind):
            return RequestError(status, str(error), code, headers=headers)
    if isinstance(error, StorageError):
        message = "the server cannot write to its disk, so it changed nothing."
        return RequestError(503, message, "disk", headers=RETRY_SOON)
    return RequestError(500, "the model failed on this request.", "model_failed")


def unsupported(field: str, message: str) -> RequestError:
    """Return the error for a field with an unsupported value."""
    return RequestError(400, message, "unsupported_value", field)


REMEDIES = {
    "options": "send a question with options to /v1/ask",
    **dict.fromkeys(
        ("accept", "threshold", "min_confidence"),
        "compare `confidence` in the reply with your own number, or start the server with --accept",
    ),
}
"""What to do instead of sending a field that this server does not know."""


def unknown_field(name: str, known: Iterable[str] = ()) -> RequestError:
    """Return the error for an unknown field in a request; `known`: names of the known fields, for the message."""
    names = ", ".join(known)
    remedy = f"it knows {names}" if names else REMEDIES.get(name.rpartition(".")[2], "leave it out")
    message = f"this server does not know the field {name[:100]!r}; {remedy}."
    return RequestError(400, message, "unknown_field", name[:100])


def describe_failure(error: Exception) -> str:
    """Return type, file and line of an exception for the log, without its message, which may quote the question.

    >>> try:
    ...     {}["a secret"]
    ... except KeyError as error:
    ...     print(describe_failure(error).split(",")[0])
    KeyError in <doctest secl.server.http.errors.describe_failure[0]>
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.filename}, line {frame.lineno}"
