"""Models that write the JSON objects and the calls of tools that they are told to, for tests without a network."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from secl.errors import ModelError, SeclError
from secl.fields.calls import WrittenCall, WrittenReply
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.tools import NO_TOOL, CallRequest
from secl.fields.values import WrittenObject, WrittenValue
from secl.ledger import Ledger
from secl.question import Question
from secl.testing import ScriptedModel

SURE = math.log(0.99)


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

    def _written(self, request: ObjectRequest, count: int) -> Any:
        if "fail" in request.question.context:
            return ModelError("the model did not close the object.")
        drawn = tuple(None if text is None else written(text) for text in self.samples[:count])
        own = len(self.greedy.ends)
        return _objects(self.greedy, drawn, tokens=(61 - own, own))


def _objects(greedy: Any, drawn: Any, **more: Any) -> Any:
    ledger = Ledger(answering=60.0, sampling=30.0 * bool(drawn))
    return Objects(greedy=greedy, samples=drawn, ledger=ledger, plain_tokens=60.0, **more)


def call(name: str, arguments: str = "{}", unsure: str = "", p: float = 0.99) -> WrittenCall:
    """A call whose tool has the probability `p`, and whose arguments are as `written` makes them."""
    return WrittenCall(written(arguments, unsure), WrittenValue(name, math.log(p), 0.1))


def reply(*calls: WrittenCall, text: str = "", ended: float | None = SURE, cut: bool = False) -> WrittenReply:
    """A reply that ends with the ln probability `ended`; None if a further call is not possible."""
    return WrittenReply(text, calls, None if ended is None else WrittenValue(NO_TOOL, ended, 0.1), cut=cut)


class CallScribe(ScriptedModel):
    """Writes the replies in turn, and the samples for each reply that asks for them."""

    def __init__(self, *replies: WrittenReply | SeclError, samples: Sequence[WrittenReply | None] = ()) -> None:
        super().__init__()
        self.replies, self.samples = [*replies], samples
        self.asked: list[CallRequest] = []

    def write_calls(
        self, requests: Sequence[CallRequest], samples: Callable[[CallRequest, WrittenReply], int]
    ) -> list[Objects[WrittenReply] | SeclError]:
        self.asked += requests
        return [self._written(request, samples) for request in requests]

    def _written(self, request: CallRequest, samples: Callable[..., int]) -> Any:
        greedy = self.replies.pop(0)
        if isinstance(greedy, SeclError):
            return greedy
        drawn = tuple(self.samples[: samples(request, greedy)])
        return _objects(greedy, drawn, tokens=(56, 5))
