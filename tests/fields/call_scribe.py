"""A model that writes the replies it is told to, for tests of tool calls without a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from secl.errors import SeclError
from secl.fields.calls import WrittenCall, WrittenReply
from secl.fields.extraction import Objects
from secl.fields.tools import NO_TOOL, CallRequest
from secl.fields.values import Reading
from secl.ledger import Ledger
from secl.testing import ScriptedModel
from tests.fields.scribe import written

SURE = math.log(0.99)


def call(name: str, arguments: str = "{}", unsure: str = "", p: float = 0.99) -> WrittenCall:
    """A call whose tool has the probability `p`, and whose arguments are as `written` makes them."""
    return WrittenCall(written(arguments, unsure), Reading(name, math.log(p), 0.1))


def reply(*calls: WrittenCall, text: str = "", ended: float | None = SURE) -> WrittenReply:
    """A reply that ends with a ln probability of `ended`; None for one that could have no further call."""
    return WrittenReply(text, calls, None if ended is None else Reading(NO_TOOL, ended, 0.1))


class CallScribe(ScriptedModel):
    """Writes the replies in turn, and the samples beside each where they are wanted."""

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
        ledger = Ledger(answering=60.0, sampling=30.0 * bool(drawn))
        return Objects(greedy=greedy, samples=drawn, ledger=ledger, plain_tokens=60.0)
