"""What a service takes on."""

from __future__ import annotations

from dataclasses import dataclass

from secl.validation import check_finite, check_whole


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service takes on.

    Attributes:
        batch: most questions in one pass.
        queue: most questions that wait.
        backlog: most questions that wait for their lesson; the oldest are dropped beyond it.
        share: while questions keep coming, how long learning may go on between two batches, as a part of the time that
            the last one took, in [0, 1).
    """

    batch: int = 16
    queue: int = 256
    backlog: int = 1000
    share: float = 0.2

    def __post_init__(self) -> None:
        check_whole("largest batch", self.batch, 1)
        check_whole("length of the queue", self.queue, 1)
        check_whole("length of the backlog", self.backlog, 1)
        check_finite("share of learning", self.share, 0 <= self.share < 1, "be 0 or more and below 1")
