"""A model that writes the JSON objects it is told to, for tests of fields without a network."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from secl.errors import ModelError, SeclError
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.values import WrittenObject
from secl.ledger import Ledger
from secl.question import Question
from secl.testing import ScriptedModel


def written(text: str, unsure: str = "", p: float = 0.99) -> WrittenObject:
    """An object whose tokens are words and signs of probability `p`; `unsure` has 0.4, and an entropy of 2 nats."""
    parts = re.findall(r"\s*\w+|\s*\W", text)
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    sure = [part.strip() != unsure for part in parts]
    log_p, entropy = [math.log(p if each else 0.4) for each in sure], [0.05 if each else 2.0 for each in sure]
    return WrittenObject(text, tuple(ends), tuple(log_p), tuple(entropy))


class Scribe(ScriptedModel):
    """Writes `greedy` for every request, and `samples` where they are wanted; fails for documents that say "fail"."""

    def __init__(self, greedy: WrittenObject, *samples: str | None) -> None:
        super().__init__()
        self.greedy, self.samples = greedy, samples
        self.asked: list[Question] = []
        self.windows: list[int] = []

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        self.asked += [request.question for request in requests]
        self.windows.append(len(requests))
        return [self._written(request, samples(request, self.greedy)) for request in requests]

    def _written(self, request: ObjectRequest, count: int) -> Objects[WrittenObject] | SeclError:
        if "fail" in request.question.context:
            return ModelError("the model did not close the object.")
        return Objects(
            greedy=self.greedy,
            samples=tuple(None if text is None else written(text) for text in self.samples[:count]),
            ledger=Ledger(answering=60.0, sampling=30.0 * bool(self.samples[:count])),
            plain_tokens=60.0,
            tokens=(61 - len(self.greedy.ends), len(self.greedy.ends)),
        )
