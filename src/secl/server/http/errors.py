"""How a request is turned away: a status, one sentence, and the shape that OpenAI's clients read."""

from __future__ import annotations

import json
import traceback
from typing import Any

from starlette.responses import Response

from secl.errors import ParameterError, QuestionError, SeclError, StorageError
from secl.server.online.limits import BusyError, ClosingError

KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""What clients know a status as; other statuses below 500 are the request's own fault."""

AGAIN = {"retry-after": "1"}
"""Sent where the same request may succeed in a moment."""


class Json(Response):
    """A JSON reply in ASCII: half a character in what is quoted back cannot spoil it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


class RequestError(SeclError):
    """A request that is turned away.

    Args:
        status: of HTTP.
        message: one sentence for the person who asked.
        code: a word for programs.
        param: the field that is at fault.
        headers: to send along.
    """

    def __init__(
        self, status: int, message: str, code: str, param: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = headers

    def response(self) -> Json:
        """The reply in OpenAI's error shape."""
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return Json({"error": error}, self.status, self.headers)


def refusal(problem: SeclError) -> RequestError:
    """What a problem of the library means to the one who asked.

    >>> refusal(BusyError("256 questions are waiting already; ask again in a moment.")).status
    429
    """
    # A question that came over HTTP has no name.
    message = str(problem).replace("question ''", "the question", 1)
    match problem:
        case RequestError():
            return problem
        case QuestionError():
            return RequestError(400, message, "bad_question")
        case ParameterError():
            return RequestError(400, message, "bad_value")
        case BusyError():
            return RequestError(429, message, "queue_full", headers=AGAIN)
        case ClosingError():
            return RequestError(503, message, "closing", headers=AGAIN)
        case StorageError():
            return RequestError(
                503, "the server cannot write to its disk, so nothing was changed.", "disk", headers=AGAIN
            )
    return RequestError(500, "the model failed on this request.", "model_failed")


def traced(problem: Exception) -> str:
    """Kind and place of a failure, for the log. Its message is left out, because it may quote what was asked.

    >>> try:
    ...     {}["a secret"]
    ... except KeyError as problem:
    ...     print(traced(problem).split(",")[0])
    KeyError in <doctest secl.server.http.errors.traced[0]>
    """
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} in {frame.filename}, line {frame.lineno}"
