"""What a question cost: tokens through the network, counted by purpose where they are spent."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from secl.records import Ledger

Purpose = Literal["answering", "adapting", "scoring", "reordering", "likelihood", "sampling", "comparing", "learning"]


class Meter:
    """Counts tokens by purpose (see `Ledger`) until `take` hands them out.

    >>> meter = Meter()
    >>> meter.spend("answering", 40)
    >>> meter.take().total, meter.take().total
    (40.0, 0.0)
    """

    def __init__(self) -> None:
        self._tokens = self._zeros()

    def spend(self, purpose: Purpose, tokens: float) -> None:
        """Add tokens that went through the whole network; half the network counts half."""
        self._tokens[purpose] += tokens

    def take(self) -> Ledger:
        """Everything spent since the last call."""
        tokens, self._tokens = self._tokens, self._zeros()
        # Rounded, so that the last digit does not depend on the order in which shares of a pass were added.
        parts = {purpose: round(count, 6) for purpose, count in tokens.items()}
        if tokens["answering"]:  # what rounding leaves is counted there, so that the parts add up to the total
            parts["answering"] = round(sum(tokens.values()) - sum(parts.values()) + parts["answering"], 6)
        return Ledger(**parts)

    @staticmethod
    def _zeros() -> dict[str, float]:
        return {field.name: 0.0 for field in fields(Ledger)}
