"""What the posteriors of the latest answers say about a server's model."""

from __future__ import annotations

from collections import deque

from secl.evidence import Posterior
from secl.records import Record


class PosteriorMonitor:
    """Counts over the latest answers that have a posterior.

    Args:
        window: most answers that it is about.

    Attributes:
        latest: posterior of the latest answer that has one; None before the first.
    """

    def __init__(self, window: int) -> None:
        self.latest: Posterior | None = None
        self._differs: deque[bool] = deque(maxlen=window)

    def add(self, record: Record) -> None:
        """Take an answer into account; one without a posterior changes nothing."""
        if record.posterior is not None:
            self.latest = record.posterior
            self._differs.append(record.posterior.best != record.posterior.own)

    def __len__(self) -> int:
        return len(self._differs)

    @property
    def differs(self) -> float | None:
        """Share of the answers whose most probable candidate is not the model's own answer; None without any."""
        differs = tuple(self._differs)  # at once: the thread that answers adds to it
        return sum(differs) / len(differs) if differs else None
