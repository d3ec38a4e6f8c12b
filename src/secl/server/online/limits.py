"""What a service takes on."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from secl.settings_base import Settings

TEXTS = 16
"""Texts written at once: more of them make each slower, and no machine of one process has room for many more."""

BACKLOG = 1000
"""Questions that wait for their lesson; the oldest are dropped beyond it."""

SHARE = 0.2
"""Time of learning between two batches under load, as a fraction of the last batch, in [0, 1).

A server that is never idle learns too, and its answers take at most so much longer.
"""


class Limits(Settings):
    """What the service takes on."""

    batch: Annotated[int, Parameter("--max-batch-size")] = Field(16, ge=1, description="Most questions in one pass.")
    queue: Annotated[int, Parameter("--max-queue")] = Field(256, ge=1, description="Most questions that wait.")
