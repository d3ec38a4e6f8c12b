"""Tokens that questions cost, by purpose."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, fields
from typing import Literal, get_args


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Number of tokens that the network processes for one question, by purpose.

    A token that goes through n of L layers counts n/L. A backward pass counts twice its forward pass.

    Attributes:
        answering: answer and stated confidence of the frozen model.
        adapting: answer and stated confidence of the adapted model.
        scoring: P(True) of the candidates, and the search for distractors.
        reordering: option letters in further orders.
        likelihood: likelihoods of the candidates, with and without the question.
        sampling: further answers.
        comparing: beams, verification and entailment of DINCO.
        learning: the update.
        steps: decoding steps, which are no tokens: passes one after the other that each read the latest token of one or
            more texts. Texts that are written together share their steps, so the longest text counts.
    """

    answering: float = 0.0
    adapting: float = 0.0
    scoring: float = 0.0
    reordering: float = 0.0
    likelihood: float = 0.0
    sampling: float = 0.0
    comparing: float = 0.0
    learning: float = 0.0
    steps: float = 0.0

    @property
    def total(self) -> float:
        """Tokens for all purposes."""
        # Not the built-in sum, whose rounding changed in Python 3.12.
        return functools.reduce(operator.add, (getattr(self, purpose) for purpose in get_args(Purpose)), 0.0)

    @property
    def replies(self) -> float:
        """Tokens of the frozen and of the adapted reply."""
        return self.answering + self.adapting

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})


Purpose = Literal["answering", "adapting", "scoring", "reordering", "likelihood", "sampling", "comparing", "learning"]
"""Purposes of tokens: the fields of a `Ledger`, except `steps`."""


class Meter:
    """Counts tokens by purpose, and decoding steps (see `Ledger`), until `take` returns them.

    >>> meter = Meter()
    >>> meter.spend("answering", 40)
    >>> meter.take().total, meter.take().total
    (40.0, 0.0)
    """

    def __init__(self) -> None:
        self._tokens: dict[str, float] = dict.fromkeys(get_args(Purpose), 0.0)
        self._steps = 0.0

    def spend(self, purpose: Purpose, tokens: float, steps: float = 0.0) -> None:
        """Add tokens for a purpose, and the decoding steps that wrote them; `Ledger` explains fractions."""
        self._tokens[purpose] += tokens
        self._steps += steps

    def take(self) -> Ledger:
        """Return the tokens spent since the last call."""
        tokens, steps = self._tokens, self._steps
        self._tokens, self._steps = dict.fromkeys(get_args(Purpose), 0.0), 0.0
        # Sums of fractions differ in the last digit with the order of addition; rounding removes the difference.
        parts = {purpose: round(count, 6) for purpose, count in tokens.items()}
        # Put the rounding errors into "answering", so that all purposes add up to the total.
        if tokens["answering"]:
            parts["answering"] = round(sum(tokens.values()) - sum(parts.values()) + parts["answering"], 6)
        return Ledger(**parts, steps=round(steps, 6))
