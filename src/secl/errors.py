"""Every error that secl raises on purpose.

Raise the narrowest class. The message names the input, the mistake and the remedy.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from typing import TypeVar
from urllib.parse import unquote, urlsplit


class SeclError(Exception):
    """Base of all errors. The message is one sentence. The command line prints the message and exits with code 2."""


class QuestionError(SeclError):
    """A question, its options or its reference is not usable."""


class TooLongError(QuestionError):
    """A question together with the requested answer is longer than the model's context."""


class DataError(SeclError):
    """A benchmark, folder or question file is missing or has a bad line."""


class ModelError(SeclError):
    """A model cannot be found or loaded, or cannot do what the method needs."""


class UnfinishedError(ModelError):
    """A model did not end its answer within the token limit. `tokens`: tokens of the prompt, and of the answer."""

    def __init__(self, message: str, tokens: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.tokens = tokens


class NoObjectError(ModelError):
    """A model wrote no object that satisfies the schema, even on a second request."""


class UnavailableError(ModelError):
    """A model server is unreachable, overloaded or failing; retry later or use another server."""


class FailedError(UnavailableError):
    """A model server fails at a request (status 500)."""


class NotLoadedError(UnavailableError):
    """A vLLM server does not know the requested model or adapter, for example after a restart."""


class ParameterError(SeclError):
    """A number or name from the user is invalid."""


class RunError(SeclError):
    """A folder is missing, corrupt, in use or not a run of secl, or the run does not fit the request."""


class StorageError(SeclError):
    """Writing to disk fails: the disk is full or permissions are missing."""


class RequestError(SeclError):
    """A server refuses a request, with a code for programs and the name of the invalid field (`param`)."""

    def __init__(
        self, status: int, message: str, code: str, param: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = headers


class BusyError(SeclError):
    """The queue of a server is full; ask again later."""


class ClosingError(SeclError):
    """The server is stopping, or has stopped."""


MAX_DEPTH = 100
"""Maximum number of levels of lists and objects in a JSON text from a client, a file or a server."""

Json = TypeVar("Json")

REQUEST_ERRORS = (QuestionError, ParameterError, UnfinishedError, NoObjectError)
"""Errors that a request causes, not a failure of the model or of the server."""


class GivenUpError(Exception):
    """A lesson was interrupted and will be repeated. Not a `SeclError`, because the user made no mistake."""


class NotFiniteError(SeclError):
    """A number in a lesson is not finite; the weights are unchanged. `tokens`: cost of the lesson so far."""

    def __init__(self, message: str, tokens: float = 0.0) -> None:
        super().__init__(message)
        self.tokens = tokens


def needs(what: str, package: str, extra: str) -> str:
    """Return a sentence that names a missing package and the command that installs its extra.

    The command installs secl from the source of the present installation (PEP 610). Example: "xlsx needs openpyxl;
    run: pip install -e '/home/me/secl[tables]'".
    """
    try:
        origin = json.loads(distribution("secl").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a checkout on the path, without an installation
        origin = {}
    url, vcs = origin.get("url"), origin.get("vcs_info", {}).get("vcs")
    source = [f"secl[{extra}]" + (f" @ {vcs}+{url}" if vcs else f" @ {url}" if url else "")]
    if origin.get("dir_info", {}).get("editable"):
        source = ["-e", f"{unquote(urlsplit(url).path)}[{extra}]"]
    return f"{what} needs {package}; run: {shlex.join(['pip', 'install', *source])}"


def public_reason(problem: Exception, what: str) -> str:
    """Return a sentence that quotes no question: the message of a SeclError, or the class of any other error.

    A `QuestionError` may quote a question, so the sentence names only the class of this error.

    >>> public_reason(StorageError("the disk is full."), "pruning"), public_reason(KeyError("secret"), "pruning")
    ('the disk is full.', 'pruning ended with KeyError')
    >>> public_reason(QuestionError("question 'secret' is too long."), "answering")
    'answering ended with QuestionError'
    """
    quotable = isinstance(problem, SeclError) and not isinstance(problem, QuestionError)
    return str(problem) if quotable else f"{what} ended with {type(problem).__name__}"


def check_depth(value: Json) -> Json:
    """Return a value from a JSON text, or raise a RecursionError if a later step could not read it again.

    Python itself refuses depths near 1000, which depend on the calls so far.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [part for each in inner if isinstance(each, Collection) and not isinstance(each, str) for part in each]
    if any(isinstance(each, Mapping | list | tuple) for each in level):
        raise RecursionError(f"more than {MAX_DEPTH} levels of lists and objects")
    return value


def check_whole(name: str, value: object, least: int) -> None:
    """Raise a ParameterError unless `value` is a whole number of at least `least`.

    >>> check_whole("number of bins", 0, least=1)
    Traceback (most recent call last):
    secl.errors.ParameterError: the number of bins must be a whole number of at least 1, not 0.
    """
    if not isinstance(value, int) or value < least:
        raise ParameterError(f"the {name} must be a whole number of at least {least}, not {value}.")


def check_finite(name: str, value: float, fits: bool, rule: str) -> None:
    """Raise a ParameterError if `fits` is False or `value` is not finite. `rule` follows "must" in the message.

    >>> check_finite("temperature", -1.0, False, "be above 0")
    Traceback (most recent call last):
    secl.errors.ParameterError: the temperature must be above 0, not -1.0.
    """
    if not (fits and math.isfinite(value)):
        finite = "" if math.isfinite(value) else " and be finite"
        raise ParameterError(f"the {name} must {rule}{finite}, not {value}.")
