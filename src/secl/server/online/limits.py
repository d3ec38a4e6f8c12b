"""What a service takes on."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from secl.settings_base import Settings


class Limits(Settings):
    """What the service takes on."""

    batch: Annotated[int, Parameter("--max-batch-size")] = Field(16, ge=1, description="Most questions in one pass.")
    queue: Annotated[int, Parameter("--max-queue")] = Field(256, ge=1, description="Most questions that wait.")
    texts: Annotated[int, Parameter("--max-texts")] = Field(16, ge=1, description="Most texts written at once.")
    backlog: Annotated[int, Parameter("--max-backlog")] = Field(
        1000, ge=1, description="Most questions that wait for their lesson; the oldest are dropped beyond it."
    )
    share: Annotated[float, Parameter("--learning-share")] = Field(
        0.2, ge=0, lt=1, description="Time of learning between two batches under load, as a fraction of the last batch."
    )
