"""The object `secl` of a server's reply, with its types, for programs that ask a server.

>>> completion = {"secl": {"confidence": 0.62, "accepted": None}}  # what openai, litellm or httpx return
>>> reply_of(completion)["confidence"]
0.62
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, Protocol, cast, overload

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
    null without a posterior. accepted: whether the confidence reaches `accept`, and for a text whether each of its
    facts reaches its own; null if `accept` is null. accept: lowest accepted confidence, which moves together with the
    confidences when labels arrive; for a text, the highest threshold of its facts; null without a threshold.
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


class ChunkChoice(Protocol):
    """A choice of a streamed chunk."""

    @property
    def delta(self) -> object: ...


class StreamedChunk(Protocol):
    """A streamed chunk, of which only the last of each choice has a confidence."""

    @property
    def choices(self) -> Sequence[ChunkChoice]: ...


@overload  # a type checker takes the first signature that fits, so the second one is about completions
def reply_of(  # type: ignore[overload-overlap]
    completion: StreamedChunk | ChunkChoice | Mapping[str, object],
) -> Secl | None: ...
@overload
def reply_of(completion: object) -> Secl: ...
def reply_of(completion: object) -> Secl | None:
    """Return the object `secl` of a completion, a choice or a streamed chunk: a dictionary, or an object of a client.

    None for a chunk, or a choice of a chunk, without this object: only the last chunk of each choice has it.

    >>> chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Lima"}}]}
    >>> print(reply_of(chunk), reply_of(chunk["choices"][0]))
    None None

    Raises:
        ParameterError: a completion does not have it, because another server answered or the client dropped it.
    """
    found, kind = _field(completion, "secl"), _field(completion, "object")
    if isinstance(found, Mapping):
        return cast("Secl", found)
    if kind == "chat.completion.chunk" or _field(completion, "delta") is not None:
        return None
    raise ParameterError(
        f"this {type(completion).__name__} has no object `secl`; send the request to a server of secl, and pass the "
        "whole reply."
    )


def _field(reply: object, name: str) -> object:
    return reply.get(name) if isinstance(reply, Mapping) else getattr(reply, name, None)
