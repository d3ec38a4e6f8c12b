"""Whether one answer implies or excludes another, asked of the answering model itself (NLI models: `local/nli.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Protocol

from secl.backends.base import Bundle, TokenBackend
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout
from secl.cost import Meter
from secl.question import Question

Pair = tuple[str, str]
"""Premise and hypothesis, both answers to the same question."""


class Entailment(Protocol):
    """Classifies pairs of answers to a question.

    Attributes:
        name: what a record calls it.
    """

    name: str

    def classify(self, question: Question, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
        """P(entails) and P(contradicts) for each pair."""
        ...


class SelfEntailment:
    """Asks the frozen model in words, and reads the answer off three option letters.

    Args:
        backend: computes.
        prompting: builds the token sequences.
        readout: reads the letters.
        meter: counts the tokens.
    """

    name = "self"

    def __init__(self, backend: TokenBackend[Any], prompting: Prompting, readout: Readout, meter: Meter) -> None:
        self.backend = backend
        self.prompting = prompting
        self.readout = readout
        self.meter = meter

    def classify(self, question: Question, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
        prompts = {pair: self.prompting.entailment(question, *pair) for pair in sorted(set(pairs))}
        # Pairs with a common premise share most of their prompt, so they are bundled.
        groups = [list(group) for _, group in groupby(prompts, key=lambda pair: pair[0])]
        readings = self.backend.read([Bundle(verdicts=[prompts[pair] for pair in group]) for group in groups])
        scores: dict[Pair, tuple[float, float]] = {}
        for group, reading in zip(groups, readings, strict=True):
            letters = self.readout.options(reading, reading.bundle.verdict_positions, 3)
            scores |= {pair: (p[0], p[2]) for pair, p in zip(group, letters, strict=True)}
            self.meter.spend("comparing", reading.tokens)
        return [scores[pair] for pair in pairs]
