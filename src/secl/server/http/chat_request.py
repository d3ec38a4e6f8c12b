"""The fields of a chat request: supported, refused, and without effect."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, WithJsonSchema

from secl.server.entries import Text, Values
from secl.server.http.errors import unknown_field, unsupported
from secl.server.http.messages import Amount, Domain, Message
from secl.server.settings import MAX_CHOICES, Limits
from secl.writing import MAX_TOP, Writing

MAX_STOPS = 4
"""Maximum number of stop texts."""

WITHOUT_EFFECT = (
    "user", "safety_identifier", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
    "prediction",
)  # fmt: skip
"""Fields without effect on the reply; `warnings` names them."""

PENALTIES = ("frequency_penalty", "presence_penalty", "logit_bias")
"""Fields that only other servers support; here they must be 0 or empty."""

OBJECTS = ("json_object", "json_schema")
"""Types of `response_format` that ask for an object."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(ge=1, le=2**31)]


def _listed(value: object) -> object:
    if value is None or isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise ValueError("it must be a text, or a list of texts")


OneOrMore = Annotated[
    list[Text],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""A text, or a list of texts."""


class SeclOptions(BaseModel):
    """Fields of a chat request beyond OpenAI's.

    domain: kind of question. confidence: false asks for the texts alone. detail: "full" asks for the whole record.
    """

    model_config = ConfigDict(extra="forbid")
    domain: Domain = "default"
    confidence: StrictBool = True
    detail: Amount = "brief"


class StreamOptions(BaseModel):
    """OpenAI's options of a stream."""

    model_config = ConfigDict(extra="forbid")
    include_usage: StrictBool | None = None
    include_obfuscation: StrictBool | None = None


class JsonSchema(BaseModel):
    """The schema of an object; without `schema`, any object. Other fields have no effect."""

    model_config = ConfigDict(extra="allow")
    schema_: dict[str, Any] | None = Field(None, alias="schema")


class ResponseFormat(BaseModel):
    """Type of the answer: a text, any JSON object, or an object of a schema. Other servers support further types."""

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
    """A tool that the model may call. Other servers support further types of tools."""

    model_config = ConfigDict(extra="allow")
    type: str
    function: Function | None = None


class ChatRequest(BaseModel):
    """A request for a chat completion; docs/server.md describes the fields, `WITHOUT_EFFECT` lists ignored fields."""

    model_config = ConfigDict(extra="allow")
    model: str
    messages: list[Message]
    max_tokens: Count | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] | None = None
    stop: OneOrMore | None = None
    n: Count | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    logit_bias: dict[str, Number] | None = None
    max_completion_tokens: Count | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=MAX_TOP)] | None = None
    response_format: ResponseFormat | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    secl: Annotated[SeclOptions, BeforeValidator(lambda value: {} if value is None else value)] = SeclOptions()

    @property
    def object_wanted(self) -> ResponseFormat | None:
        """Format of the requested object; None if the request asks for a text."""
        wanted = self.response_format
        return wanted if wanted is not None and wanted.type in OBJECTS else None

    @property
    def choice(self) -> str:
        """ "auto", "required", "none", or the name of the tool to call."""
        chosen = self.tool_choice or ("auto" if self.tools else "none")
        named = chosen.get("function") if isinstance(chosen, dict) else None
        return str(named.get("name")) if isinstance(named, dict) else str(chosen)

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens of a text; None without a limit in the request."""
        return self.max_completion_tokens or self.max_tokens

    def most_tokens(self, limits: Limits) -> int:
        """Maximum number of tokens that the server writes."""
        return min(self.token_limit or limits.max_tokens, limits.max_tokens)

    @property
    def extra(self) -> dict[str, object]:
        """Fields that have an effect only on another server."""
        penalties = {name: value for name in PENALTIES if (value := getattr(self, name))}
        return penalties | {name: value for name, value in (self.model_extra or {}).items() if value is not None}

    def _check_supported(self) -> None:
        """Raise a `RequestError` (400) for a field with an unsupported value."""
        tokens, other, stops = self.max_tokens, self.max_completion_tokens, self.stop or []
        wanted = self.response_format
        if not self.tools and self.tool_choice not in (None, "none", "auto"):
            raise unsupported("tool_choice", "a tool_choice needs tools.")
        for number, tool in enumerate(self.tools or ()):
            if tool.type != "function" or tool.function is None:
                message = f"tools.{number} is of the type {tool.type[:40]!r}; only functions are called."
                raise unsupported(f"tools.{number}", message)
        if wanted is not None and wanted.type not in ("text", *OBJECTS):
            raise unsupported(
                "response_format", f"the type {wanted.type[:40]!r} of response_format is not supported here."
            )
        if None not in (tokens, other) and tokens != other:
            message = f"max_tokens is {tokens} and max_completion_tokens is {other}; they mean the same, so give one."
            raise unsupported("max_tokens", message)
        if self.top_logprobs is not None and not self.logprobs:
            raise unsupported("top_logprobs", "top_logprobs needs logprobs: true.")
        if len(stops) > MAX_STOPS or not all(stops):
            raise unsupported("stop", f"stop has {len(stops)} texts; give at most {MAX_STOPS}, none of them empty.")
        if (self.n or 1) > MAX_CHOICES:
            raise unsupported("n", f"n is {self.n}; this server writes at most {MAX_CHOICES} texts for a request.")

    def check(self, limits: Limits, *, takes_all: bool = False) -> list[str]:
        """Return a warning for each field that secl ignores or changes.

        `takes_all`: another server writes the texts and supports every field. Raises RequestError: 400; an unsupported
        field.
        """
        self._check_supported()
        idle = [] if takes_all else [*self.extra]
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

    def passed(self, body: Values, limits: Limits) -> tuple[Values, list[str]]:
        """Return the body of this request for another server, with warnings."""
        body = {name: value for name, value in body.items() if name != "secl"}
        names = ("max_tokens", "max_completion_tokens")
        lowered = {name: limits.max_tokens for name in names if (getattr(self, name) or 0) > limits.max_tokens}
        return body | lowered, self._cut(limits)

    def writing(self, limits: Limits) -> Writing:
        """Return the parameters of the texts; without a seed, sampled texts differ each time."""
        return Writing(
            max_tokens=self.most_tokens(limits),
            or_fewer=self.token_limit is None,
            temperature=self.temperature or 0.0,
            top_p=self.top_p or 1.0,
            seed=secrets.randbelow(2**32) if self.seed is None else self.seed,
            stop=tuple(self.stop or ()),
            n=self.n or 1,
            top_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            extra=self.extra,
        )
