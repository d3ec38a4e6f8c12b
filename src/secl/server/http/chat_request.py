"""Fields of a chat request, and the question in its messages.

The server supports, ignores or refuses each field. The last message of a conversation is the question.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, WithJsonSchema

from secl.conversation import Message, Role, ToolCall
from secl.display import counted, excerpt
from secl.errors import RequestError
from secl.question import Question
from secl.server.entries import JsonObject, StoredText
from secl.server.http.errors import unknown_field, unsupported
from secl.server.settings import MAX_CHOICES, MAX_PROMPT_CHARS, Limits
from secl.writing import MAX_TOP, SamplingParameters

MAX_STOPS = 4
"""Maximum number of texts in `stop`."""

WITHOUT_EFFECT = (
    "user", "safety_identifier", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
    "prediction",
)  # fmt: skip
"""Fields without effect on the reply; `warnings` names them."""

PENALTIES = ("frequency_penalty", "presence_penalty", "logit_bias")
"""Fields that only servers behind `--engine openai` support; elsewhere these fields must be 0 or empty."""

OBJECTS = ("json_object", "json_schema")
"""Types of `response_format` that ask for an object."""

Domain = Annotated[StoredText, Field(min_length=1, max_length=100)]
"""Group of similar questions; a label moves confidences of its own domain more than confidences of other domains."""

Detail = Literal["brief", "full"]
"""Amount of detail about a confidence: "full" adds the whole record."""

ROLES: dict[str, Role] = {"developer": "system", **{role: role for role in get_args(Role)}}
"""Roles of messages, with the corresponding roles in chat templates."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(ge=1, le=2**31)]
Limit = Annotated[Count | None, BeforeValidator(lambda value: None if value == -1 else value)]
"""Token limit. Some clients write -1 for no limit."""

NEUTRAL: dict[str, tuple[object, ...]] = {
    "functions": ([],), "function_call": ("none", "auto"), "modalities": (["text"],), "reasoning_effort": ("none",),
    "verbosity": ("medium",), "top_k": (-1, 0), "min_p": (0,), "min_tokens": (0,), "repetition_penalty": (1,),
    "length_penalty": (1,), "best_of": (1,), "echo": (False,), "ignore_eos": (False,), "use_beam_search": (False,),
}  # fmt: skip
"""Values of further fields that change nothing; other values are refused."""


def _listed(value: object) -> object:
    if value is None or isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise ValueError("give a text, or a list of texts")


OneOrMore = Annotated[
    list[StoredText],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""A text, or a list of texts."""


class Part(BaseModel):
    """A part of a message. The model reads only parts of the type "text"."""

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    """A turn of a conversation. The server ignores other fields, and names each ignored field in `warnings`."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[Part] | None = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None
    function_call: object = None


class SeclOptions(BaseModel):
    """The field `secl` of a chat request, which OpenAI's API does not have.

    domain: group of similar questions. confidence: false asks for texts without confidences. wait: whether a stream
    ends only when the confidence is known; by default, a confidence that takes longer than half a second is only in the
    record. detail: "full" asks for the whole record.
    """

    model_config = ConfigDict(extra="forbid")
    domain: Domain = "default"
    confidence: StrictBool = True
    wait: StrictBool = False
    detail: Detail = "brief"


class StreamOptions(BaseModel):
    """OpenAI's options of a stream."""

    model_config = ConfigDict(extra="forbid")
    include_usage: StrictBool | None = None
    include_obfuscation: StrictBool | None = None


class JsonSchema(BaseModel):
    """The schema of an object; without `schema`, any object is valid. Other fields have no effect."""

    model_config = ConfigDict(extra="allow")
    schema_: dict[str, Any] | None = Field(None, alias="schema")


class ResponseFormat(BaseModel):
    """Type of the answer: a text, any JSON object, or an object of a schema."""

    model_config = ConfigDict(extra="allow")
    type: str
    json_schema: JsonSchema | None = None


class Function(BaseModel):
    """Name, description and argument schema of a tool."""

    model_config = ConfigDict(extra="allow")
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolSpec(BaseModel):
    """A tool that the model may call."""

    model_config = ConfigDict(extra="allow")
    type: str
    function: Function | None = None


class ChatRequest(BaseModel):
    """A request for a chat completion. docs/server.md describes the fields. `WITHOUT_EFFECT` lists ignored fields."""

    model_config = ConfigDict(extra="allow")
    model: str
    messages: list[ChatMessage]
    max_tokens: Limit = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    seed: Annotated[Any, WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "null"}]})] = None
    stop: OneOrMore | None = None
    n: Count | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    logit_bias: dict[str, Number] | None = None
    max_completion_tokens: Limit = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=MAX_TOP)] | None = None
    response_format: ResponseFormat | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    secl: Annotated[SeclOptions, BeforeValidator(lambda value: {} if value is None else value)] = SeclOptions()

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens of a text; None without a limit in the request."""
        return self.max_completion_tokens or self.max_tokens

    def most_tokens(self, limits: Limits) -> int:
        """Return the maximum number of tokens of a text, from the limits of request and server."""
        return min(self.token_limit or limits.max_tokens, limits.max_tokens)

    @property
    def extra(self) -> dict[str, object]:
        """Fields of the request that secl does not use; another server may use them."""
        penalties = {name: value for name in PENALTIES if (value := getattr(self, name))}
        return penalties | {name: value for name, value in (self.model_extra or {}).items() if value is not None}

    @property
    def beyond(self) -> list[str]:
        """Names of fields in `extra` whose values change something."""
        given = self.extra
        if not any((self.logit_bias or {}).values()):
            given.pop("logit_bias", None)
        return [name for name, value in given.items() if value not in NEUTRAL.get(name, ())]

    def _check_supported(self) -> None:
        """Raise a `RequestError` (400) for a field with an unsupported value."""
        tokens, other, stops = self.max_tokens, self.max_completion_tokens, self.stop or []
        wanted = self.response_format
        if not self.tools and self.tool_choice not in (None, "none", "auto"):
            raise unsupported("tool_choice", "tool_choice is given without tools; add tools, or leave tool_choice out.")
        if wanted is not None and wanted.type not in ("text", *OBJECTS):
            message = f"response_format has the type {wanted.type[:40]!r}; give one of text, {', '.join(OBJECTS)}."
            raise unsupported("response_format", message)
        if None not in (tokens, other) and tokens != other:
            message = f"max_tokens is {tokens} and max_completion_tokens is {other}; they mean the same, so give one."
            raise unsupported("max_tokens", message)
        if self.top_logprobs and not self.logprobs:
            raise unsupported("top_logprobs", "top_logprobs is given without logprobs; set logprobs to true.")
        if len(stops) > MAX_STOPS:
            raise unsupported("stop", f"stop has {counted(len(stops), 'text')}; give at most {MAX_STOPS}.")
        whole = isinstance(self.seed, int | float) and not isinstance(self.seed, bool) and not self.seed % 1
        if self.seed is not None and not whole:
            raise unsupported("seed", f"seed is {excerpt(repr(self.seed), 40)}; give a whole number, or no seed.")
        if (self.n or 1) > MAX_CHOICES:
            raise unsupported("n", f"n is {self.n}; secl writes and rates at most {MAX_CHOICES} texts for a request.")

    def check(self, limits: Limits, *, takes_all: bool = False) -> list[str]:
        """Return a warning for each field that secl ignores or changes.

        `takes_all`: another server writes the texts and supports every field. Raises RequestError (400): an unsupported
        field.
        """
        self._check_supported()
        idle = [] if takes_all else self.beyond
        for name in idle:
            if name in PENALTIES:
                raise unsupported(name, f"{name} is not supported; leave it out.")
            if name not in WITHOUT_EFFECT:
                raise unknown_field(name)
        if self.stream_options is not None and not self.stream:
            idle.append("stream_options")
        if self.parallel_tool_calls is not None and not self.tools:
            idle.append("parallel_tool_calls")
        for number, turn in enumerate(self.messages):
            extra = (turn.model_extra or {}).items()
            idle += [f"messages.{number}.{name}" for name, value in extra if value]
        warnings = [f"{name} was accepted and has no effect." for name in idle]
        return warnings + self._cut(limits)

    def _cut(self, limits: Limits) -> list[str]:
        if (self.token_limit or 0) <= limits.max_tokens:
            return []
        return [f"this server cuts a text after {limits.max_tokens} tokens, not after {self.token_limit}."]

    def passed(self, body: JsonObject, limits: Limits) -> tuple[JsonObject, list[str]]:
        """Return the body to forward to another server, and warnings. Lower the token limit to this server's limit."""
        body = {name: value for name, value in body.items() if name != "secl"}
        names = ("max_tokens", "max_completion_tokens")
        lowered = {name: limits.max_tokens for name in names if (getattr(self, name) or 0) > limits.max_tokens}
        return body | lowered, self._cut(limits)

    def sampling(self, limits: Limits, *, takes_all: bool = False) -> SamplingParameters:
        """Return the parameters for writing the texts.

        A request without a seed gets a random seed, and so does a negative seed, unless another server takes every seed
        (`takes_all`).
        """
        given = self.seed if self.seed is None or takes_all else int(self.seed) % 2**63 if self.seed >= 0 else None
        return SamplingParameters(
            max_tokens=self.most_tokens(limits),
            or_fewer=self.token_limit is None,
            temperature=self.temperature or 0.0,
            top_p=self.top_p or 1.0,
            seed=secrets.randbelow(2**32) if given is None else int(given),
            stop=tuple(filter(None, self.stop or ())),
            n=self.n or 1,
            top_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            extra=self.extra,
        )


def turns_of(messages: Sequence[ChatMessage], field: str = "messages") -> list[Message]:
    """Return the turns of a conversation.

    Raises RequestError: a turn has an unknown role, an invalid call, or a part that is not text.
    """
    return [_turn(message, f"{field}.{number}") for number, message in enumerate(messages)]


def _turn(message: ChatMessage, field: str) -> Message:
    if message.role not in ROLES or message.function_call:
        wrong = f"has the role {message.role[:40]!r}; give one of {', '.join(ROLES)}"
        sentence = f"{field} {wrong if message.role not in ROLES else 'has a function_call; use tool_calls'}."
        raise RequestError(400, sentence, "unsupported_message", f"{field}.role")
    calls = tuple(map(ToolCall.of, message.tool_calls or ()))
    if None in calls:
        sentence = f"{field} has a call that is not a function call, or whose arguments are not a JSON object."
        raise RequestError(400, sentence, "unsupported_message", f"{field}.tool_calls")
    return Message(ROLES[message.role], _text(message, field), tuple(filter(None, calls)), message.tool_call_id or "")


def _text(message: ChatMessage, field: str) -> str:
    content = message.content or ""
    parts = [] if isinstance(content, str) else content
    for number, part in enumerate(parts):
        if part.type != "text" or part.text is None:
            fault = f"has the type {part.type[:40]!r}" if part.type != "text" else "has no text"
            sentence = f"{field}.content.{number} {fault}; secl reads only text."
            raise RequestError(400, sentence, "unsupported_content", f"{field}.content.{number}")
    return content if isinstance(content, str) else "\n".join(part.text or "" for part in parts)


def question_in(messages: Sequence[ChatMessage], domain: str = "default", *, tools: bool = True) -> Question:
    """Return the question of a conversation. Raises RequestError: no question, or unreadable messages.

    `tools`: whether calls of tools, and their results, may occur in earlier turns.
    """
    if not messages:
        raise RequestError(400, "messages is empty; send at least the user's question.", "empty_messages", "messages")
    *before, last = messages
    earlier, field = turns_of(before), f"messages.{len(before)}"
    if not tools and (last.role == "tool" or any(turn.calls or turn.role == "tool" for turn in earlier)):
        raise RequestError(
            400,
            "a message calls a tool or has a tool's result, but the request has no tools; add the tools.",
            "unsupported_message",
            "messages",
        )
    if last.role != "user" or last.tool_calls or last.function_call:
        wrong = f"has the role {last.role[:40]!r}" if last.role != "user" else "calls a tool"
        sentence = f"the last message {wrong}; end with a message of the user, without calls."
        raise RequestError(400, sentence, "no_question", f"{field}.role")
    text = _text(last, field)
    if not text.strip():
        raise RequestError(
            400, f"{field} has no text; write the user's question in it.", "empty_message", f"{field}.content"
        )
    # An empty system text stays a turn: without a system turn, a template may insert a text of its own.
    leads = bool(earlier) and earlier[0].role == "system" and bool(earlier[0].text)
    system, history = (earlier[0].text, earlier[1:]) if leads else ("", earlier)
    return check_length(Question(text, domain=domain, form="text", system=system, history=tuple(history)))


def check_length(question: Question, *answers: str) -> Question:
    """Return the question. Raises RequestError (413): question and `answers` together are too long."""
    turns = [turn.text for turn in question.history]
    texts = (question.text, question.context, question.system, *turns, *question.options, *answers)
    length = sum(map(len, texts))
    if length > MAX_PROMPT_CHARS:
        most = f"more than the {MAX_PROMPT_CHARS} that secl reads; shorten it."
        raise RequestError(413, f"the prompt has {length} characters, {most}", "context_length_exceeded")
    return question
