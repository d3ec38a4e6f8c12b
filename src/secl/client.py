"""The object `secl` of a server's reply, with its types, for programs that ask a server.

>>> completion = {"secl": {"confidence": 0.62, "accepted": None}}  # what openai, litellm or httpx return
>>> reply_of(completion)["confidence"]
0.62
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, cast

from typing_extensions import TypedDict  # pydantic accepts typing.TypedDict only from Python 3.12 on

from secl.errors import ParameterError


class Candidate(TypedDict):
    """A possible answer, and the probability that it is correct."""

    text: str
    probability: float


class ConfidenceReply(TypedDict):
    """The confidence of an answer or of a fact; the fields are those of `Secl`."""

    confidence: float | None
    low: float | None
    high: float | None
    candidates: list[Candidate] | None
    accepted: bool | None
    accept: float | None


class FactReply(ConfidenceReply):
    """A value in a text that can be right or wrong.

    number: from 1; `/v1/feedback` takes it as `fact`. start, end: place of the value in the text of the reply, in
    characters (Unicode code points). kind: number, date, name, quote, code or link. in_passage: whether the value
    stands in the passage word by word; null without a passage. support: nats by which the passage makes the value more
    probable; null if unknown. The other fields are as in the object `secl`; `confidence` is null if the probabilities
    of the text's tokens are unknown.
    """

    number: int
    start: int
    end: int
    text: str
    kind: str
    in_passage: bool | None
    support: float | None


class CallSecl(TypedDict):
    """The probability that a call with all its arguments is correct.

    tool: confidence of the choice of this tool; null if the request chose the tool. fields: confidences of the
    arguments, by name.
    """

    name: str
    confidence: float | None
    tool: AnswerReply | None
    fields: dict[str, AnswerReply]


class Secl(ConfidenceReply):
    """The probability that an answer is correct.

    confidence: this probability, in [0, 1]. low, high: 90 % credible interval, if the map of labels is a line in
    logits; null if the server does not calibrate by labels. candidates: possible answers, the most probable first;
    null without a posterior. accepted: whether the confidence reaches `accept`; null without a threshold. accept:
    lowest accepted confidence, which moves together with the confidences when labels arrive; null without a threshold.
    record_id: id for reading the record and labelling the answer. reason: why confidence or record_id is null, or why
    the confidence is the stated one; absent otherwise. fields: confidences of an object's fields, by name or JSON
    pointer; absent for other answers. calls: confidences of calls; absent if the request has no tools. ended:
    confidence of the decision to call no other tool; absent if the model did not decide this. facts: the values in a
    text that can be right or wrong; absent for other answers. expected_wrong: how many of them are expected to be
    wrong; null if unknown or without facts. detail: the record, as in `/v1/records/{record_id}`; absent unless the
    request asks for it.
    """

    record_id: str | None
    reason: NotRequired[str]
    fields: NotRequired[dict[str, AnswerReply]]
    calls: NotRequired[list[CallSecl]]
    ended: NotRequired[AnswerReply]
    facts: NotRequired[list[FactReply]]
    expected_wrong: NotRequired[float | None]
    detail: NotRequired[dict[str, object]]


class Named(TypedDict):
    """An answer's text, and its letter for a choice; both null if the reply has no readable answer."""

    text: str | None
    letter: str | None


class AnswerReply(Named, Secl):
    """An answer with its confidence: the model's answer, an answer from elsewhere, or a field's value as text."""


def reply_of(completion: object) -> Secl:
    """Return the object `secl` of a completion, a choice or a streamed chunk: a dictionary, or an object of a client.

    Raises:
        ParameterError: the completion does not have it, because another server answered or the client dropped it.
    """
    found = completion.get("secl") if isinstance(completion, Mapping) else getattr(completion, "secl", None)
    if not isinstance(found, Mapping):
        raise ParameterError(
            f"this {type(completion).__name__} has no object `secl`; send the request to a server of secl, and pass "
            "the whole reply (of a stream, the last chunk)."
        )
    return cast("Secl", found)
