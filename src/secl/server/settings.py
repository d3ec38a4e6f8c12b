"""Limits of a server: its load, its learning, and one request."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

from cyclopts import Group, Parameter
from pydantic import AfterValidator, Field

from secl.errors import ParameterError
from secl.settings.groups import Settings
from secl.settings.names import OF_MODEL

TEXTS = 16
"""Maximum number of texts written at once. More texts would slow down all of them, and may exceed the memory."""

BACKLOG = 1000
"""Maximum number of pending lessons; the server drops further lessons."""

MAX_DRIFT = 0.1
"""Bound of the drift: the norm of the learned change over the norm of the weights. Beyond it, learning pauses."""

SHARE = 0.2
"""Time that learning gets between two batches while requests wait, as a fraction of the batch's time, in [0, 1)."""

TIDY = 60.0
"""Seconds after which the server, between two batches, returns freed memory to the system and checks the verdict."""

MAX_PROMPT_CHARS = 100_000
"""Longest question with context, history, options and given answers, in characters (HTTP 413 beyond)."""

MAX_BODY_BYTES = 2**20
"""Largest request body, in bytes (HTTP 413 beyond)."""

MAX_PASSED_BYTES = 2**24
"""Largest request body, in bytes, behind `--engine openai` (HTTP 413 beyond). The limit leaves space for images."""

MAX_CHOICES = 16
"""Maximum number of texts that one request may ask for (HTTP 400 beyond)."""

MAX_CONCURRENT = 1024
"""Maximum number of requests at the same time (HTTP 503 beyond): four times the default length of the queue."""

OF_HTTP = Parameter(group=Group("HTTP", sort_key=4))


def check_name(name: str) -> str:
    """Return the name of a model for requests, or raise a ParameterError for an empty name."""
    if not name.strip():
        raise ParameterError("a name of the model for requests is empty; name it with --served-model-name or --alias.")
    return name


ModelName = Annotated[str, AfterValidator(check_name)]


class Limits(Settings):
    """Limits of the server's load and of its requests, and the name of its model."""

    batch: Annotated[int, Parameter("--max-batch-size"), OF_MODEL] = Field(
        16, ge=1, description="Maximum number of questions in a batch."
    )
    queue: Annotated[int, Parameter("--max-queue"), OF_MODEL] = Field(
        256, ge=1, description="Maximum number of waiting questions."
    )
    max_tokens: Annotated[int, OF_HTTP] = Field(1024, ge=1, le=2**31, description="Maximum number of reply tokens.")
    timeout: Annotated[float, OF_HTTP] = Field(
        300.0, gt=0, description="Maximum time that a request may wait, in seconds."
    )
    served_model_name: Annotated[ModelName | None, OF_HTTP] = Field(
        None, description="Model name in requests and replies; by default the name of the loaded model."
    )
    alias: Annotated[tuple[ModelName, ...], Parameter(show_default=False), OF_HTTP] = Field(
        (), description="Further model name that requests may give, such as gpt-4o; several flags give several names."
    )


def public_name(name: str) -> str:
    """Return the public name of a model: of an absolute path the last part, of any other name the whole name.

    >>> public_name("/models/tiny"), public_name("org/model")
    ('tiny', 'org/model')
    """
    return PurePath(name).name if PurePath(name).is_absolute() else name
