"""A model that writes the JSON objects it is told to, for tests of fields without a network."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from secl.fields.extraction import Objects
from secl.fields.schema import Node
from secl.fields.values import WrittenObject
from secl.question import Question
from secl.records import Ledger
from secl.testing import ScriptedModel


def written(text: str, unsure: str = "", p: float = 0.99) -> WrittenObject:
    """An object whose tokens are words and signs, each of probability `p`, but for 0.4 of the token `unsure`."""
    parts = re.findall(r"\s*\w+|\s*\W", text)
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    log_p = [math.log(0.4 if part.strip() == unsure else p) for part in parts]
    return WrittenObject(text, tuple(ends), tuple(log_p), tuple(0.1 for _ in parts))


class Scribe(ScriptedModel):
    """Writes `greedy`, and `samples` where they are wanted."""

    def __init__(self, greedy: WrittenObject, *samples: str | None) -> None:
        super().__init__()
        self.greedy, self.samples = greedy, samples
        self.asked: list[Question] = []

    def write_objects(
        self,
        question: Question,
        grammar: Node,  # noqa: ARG002
        fields: int,  # noqa: ARG002
        samples: Callable[[WrittenObject], int],
    ) -> Objects:
        self.asked.append(question)
        drawn = self.samples[: samples(self.greedy)]
        return Objects(
            greedy=self.greedy,
            samples=tuple(None if text is None else written(text) for text in drawn),
            ledger=Ledger(answering=60.0, sampling=30.0 * bool(drawn)),
            plain_tokens=60.0,
        )
