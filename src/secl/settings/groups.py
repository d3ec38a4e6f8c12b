"""Every setting, declared once: its name, type, range, default and meaning; and the messages of errors.

Flags, recipe files, sweep grids and manifests all use these groups. Components take groups as arguments: the calibrator
takes `LoopSettings`, the model `AdapterSettings`. Defaults are the paper's, except for the method, the gate and the
settings that the setting `paper` changes. Usual settings have short flags (`--gate`). All others have flags of their
names, such as `--evidence.tau`, which the help does not list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Annotated, ClassVar, Literal, Self, get_args, get_origin
from urllib.parse import urlsplit

from cyclopts import Parameter
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from secl.errors import ParameterError
from secl.evidence import EvidenceKind
from secl.question import Grader

OFF = "off"
"""Spelling of None, in flags and files, for a setting that can be switched off."""


class Settings(BaseModel):
    """Base of all groups: immutable, without unknown keys, and with errors of one sentence.

    Raises:
        ParameterError: an unknown key, or a value of the wrong type or outside its range; the message names the key,
            the value and what is allowed.
    """

    TABLE: ClassVar[str] = ""
    """Prefix of the group's settings, such as "gate."; empty for settings without a group."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as problem:
            raise ParameterError(describe(cls, problem)) from None


def describe(group: type[Settings], problem: ValidationError) -> str:
    """Return the first error of a validation as one sentence that names the key, the value and what is allowed."""
    error = problem.errors(include_url=False)[0]
    value = error["input"]
    if not error["loc"]:
        return f"{value!r} is not a table of settings; the settings are {', '.join(group.model_fields)}."
    key = str(error["loc"][0])
    if key not in group.model_fields:
        return f"there is no setting {group.TABLE + key!r}; the settings are {', '.join(group.model_fields)}."
    field = group.model_fields[key]
    # A flag gives a number as a text, whose quotes would mislead in the message.
    number = error["type"].startswith(("greater_than", "less_than", "finite"))
    return f"{group.TABLE}{key} is {value if number else repr(value)}; it must be {allowed(field)}."


_TYPES = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}


def allowed(field: FieldInfo) -> str:
    """Return the type and the range of a setting in words."""
    kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not NoneType]
    if get_origin(field.annotation) is Literal or get_origin(kinds[0]) is Literal:
        how_many = "a list of one or more" if get_origin(field.annotation) is tuple else "one"
        return f"{how_many} of {', '.join(map(str, kinds if isinstance(kinds[0], str) else get_args(kinds[0])))}"
    if get_origin(field.annotation) is tuple:
        return "a list of names"
    words = " ".join([_TYPES.get(kinds[0], "a table of settings"), *_range(field.metadata)])
    return f"{words}, or {OFF}" if any(isinstance(part, BeforeValidator) for part in field.metadata) else words


def _range(constraints: Iterable[object]) -> list[str]:
    bounds = {
        name: getattr(constraint, name)
        for constraint in constraints
        for name in ("ge", "gt", "le", "lt")
        if hasattr(constraint, name)
    }
    if {"ge", "le"} <= set(bounds):
        return [f"from {bounds['ge']} to {bounds['le']}"]
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    parts = [f"{words[name]} {bounds[name]:g}" if name != "lt" else f"below {bounds[name]}" for name in bounds]
    return [" and ".join(parts)] if parts else []


AnswerWeights = Literal["adapted", "frozen"]
"""Weights that write the answers. In either case, the adapted weights state the confidence."""

Dtype = Literal["auto", "bf16", "fp16", "fp32"]
"""Precision of the weights."""

Quantize = Literal["8bit", "4bit"]
"""Bits per weight of quantised linear layers."""

ChatTemplate = Literal["own", "plain"]
"""The form of prompts: the model's own chat template, or plain text for a base model."""


def check_device(name: str) -> str:
    """Return the name of a device, or raise a ParameterError."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise ParameterError(f"model.device is {name!r}; it must be auto, cpu, cuda, mps, or a GPU such as cuda:1.")
    return name


Device = Annotated[str, AfterValidator(check_device)]
"""The device of the network: auto, cpu, cuda, mps, or one of several GPUs by its number, such as cuda:1."""

EvidenceOn = Literal["burst", "always"]
Loss = Literal["directional", "mse"]
Accumulate = Literal["stream", "question"]
Order = Literal["forward", "reversed", "shuffled"]
Formula = Literal["log", "exp"]
EngineName = Literal["local", "vllm", "openai"]
AnswerName = Literal["own", "best"]


def _split(value: object) -> object:
    """Split the items of a list at commas: ["a,b", "c"] becomes ("a", "b", "c")."""
    if isinstance(value, list | tuple) and all(isinstance(names, str) for names in value):
        return tuple(name.strip() for names in value for name in names.split(",") if name.strip())
    return value


def _pairs(value: object) -> object:
    """Return pairs "key=name" from a list of pairs or from a table."""
    return tuple(f"{key}={name}" for key, name in value.items()) if isinstance(value, Mapping) else _split(value)


def _options(value: object) -> object:
    """Split the items of a list at "|": ["yes | no"] becomes ("yes", "no")."""
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return tuple(option.strip() for text in value for option in text.split("|"))
    return value


Options = Annotated[tuple[str, ...], BeforeValidator(_options)]
Pairs = Annotated[tuple[str, ...], BeforeValidator(_pairs)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
BinGate = Annotated[int | None, BeforeValidator(lambda value: None if value == OFF else value)]


NUCLEUS = 0.95
"""Nucleus (top-p) of sampled answers. With the setting `paper`, secl samples from all tokens."""

FLAT = Parameter(name="*", show_choices=False, show_default=False)
"""Makes a short flag of every field of a group."""

HIDDEN = Parameter(show=False)
"""Makes a flag that the help does not list; the flags of a group begin with its name, as in --evidence.tau."""


def by_name(name: str) -> Parameter:
    """Return the parameter of a field in a `FLAT` group whose flag is its whole name, such as --loop.alpha."""
    return Parameter(name=f"--{name}", show=False)


ENDPOINT_KEY = "SECL_ENDPOINT_KEY"
"""Environment variable with the API key of the model's server."""


def base_url(url: str) -> str:
    """Return the base address of a server; without a path, add "/v1".

    Reports and manifests show the address, so it must not contain a secret. Raises a ParameterError without the secret.
    """
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:  # the port is not a number, or brackets contain no IPv6 address
        whole = False
    if whole and (parts.query or parts.fragment or "@" in url):
        raise ParameterError(
            f"the endpoint {masked(url)!r} has a user, a query or a fragment, which reports would show; write "
            f"http://HOST:PORT/v1, and set {ENDPOINT_KEY} to the API key."
        )
    if not whole:
        raise ParameterError(f"the endpoint {masked(url)!r} is not a URL; write http://HOST:PORT/v1.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def masked(url: str) -> str:
    """Return an address without the parts that may contain a secret.

    >>> masked("http://me:secret@host:1/v1"), masked("http://host/v1?key=secret"), masked("me:se/c#ret@host")
    ('http://***@host:1/v1', 'http://host/v1?***', '***@host')
    """
    scheme, user, place = re.fullmatch(r"(?s)(.*?://|)(.*@|)(.*)", url).groups()  # type: ignore[union-attr]
    return scheme + (user and "***@") + re.sub(r"(?s)([?#]).*", r"\1***", place)


def _without_secret(url: str | None) -> str | None:
    if url is not None:
        base_url(url)
    return url


class ModelSettings(Settings):
    """Which model to load, and how; or which server has the model. The name "" stands for the server's only model."""

    TABLE = "model."

    name: Annotated[str, Parameter("--model")] = Field(
        "smollm2", description="Preset (smollm2), hub id, folder or GGUF file."
    )
    engine: EngineName | None = Field(None, description="Engine: local, openai (an OpenAI-compatible server) or vllm.")
    endpoint: Annotated[str | None, AfterValidator(_without_secret)] = Field(
        None, description="Base URL of a vLLM server, or with --engine openai of an OpenAI-compatible server."
    )
    versions: str | None = Field(None, description="Folder in which vLLM servers look for learned weights.")
    dtype: Dtype = Field("auto", description="Precision of the weights: auto, bf16, fp16 or fp32.")
    device: Device = Field("auto", description="Device: auto, cpu, cuda, cuda:1, ... or mps.")
    device_map: Literal["auto"] | None = Field(None, description="auto: spread the layers over all devices.")
    quantize: Quantize | None = Field(None, description="Quantize layers to 8bit or 4bit (bitsandbytes).")
    chat_template: ChatTemplate = Field(
        "own", description="plain: prompts without the model's chat template, for base models."
    )
    answer_weights: AnswerWeights | None = Field(None, description="Weights that write the answers: adapted or frozen.")
    calibration: str | None = Field(None, description="Run whose labels calibrate the confidences.")

    @property
    def answered_by(self) -> EngineName:
        """The engine of the model; an endpoint without an engine means vLLM."""
        return self.engine or ("vllm" if self.endpoint else "local")


def check_thinking(value: object) -> Literal["off", "auto"] | int:
    """Check how long a model may think, and return it as "off", "auto" or a number of tokens."""
    budget = int(value) if isinstance(value, str) and value.isdecimal() else value
    if budget in ("off", "auto") or (isinstance(budget, int) and not isinstance(budget, bool) and budget >= 1):
        return budget
    raise ParameterError(f"prompts.thinking is {value!r}; it must be off, auto, or a number of tokens of at least 1.")


Thinking = Annotated[Literal["off", "auto"] | int, BeforeValidator(check_thinking)]
"""How long a model thinks before it answers: not at all, without a limit, or at most this many tokens."""


class PromptSettings(Settings):
    """Settings of prompts."""

    TABLE = "prompts."

    thinking: Thinking = Field("off", description="Think before answering: off, auto, or at most this many tokens.")


class StreamSettings(Settings):
    """Which questions to ask, and in which order."""

    TABLE = "stream."

    benchmarks: Names = Field((), description="Benchmarks in order, for example mmlu,arc or capitals:50.")
    questions: str | None = Field(None, description="Your own file: CSV, JSONL, Parquet, XLSX, ...")
    columns: Pairs = Field((), description="Names of columns in your file, for example question=prompt,reference=gold.")
    options: Annotated[Options, Parameter("--option")] = Field(
        (), description="Answer option, the same for every row of your file; repeat the flag for each option."
    )
    template: str | None = Field(None, description="Question with columns in braces: 'Which team? {subject}: {body}'.")
    skip_bad: bool = Field(False, description="Skip questions that cannot be used, and list them.")
    per_domain: int | None = Field(None, ge=1, description="At most this many questions per domain; all by default.")
    limit: int | None = Field(
        None, ge=1, description="At most this many questions: the first ones, or with --order shuffled a random sample."
    )
    order: Order = Field("forward", description="Order of the domains: forward, reversed or shuffled.")
    grader: Grader = Field(
        "auto",
        description="Rule that compares open answers with references: auto, exact, contains, number, regex or overlap.",
    )
    data: str | None = Field(None, description="Folder of the benchmarks; by default SECL_DATA, or else the hub.")

    @property
    def named_columns(self) -> dict[str, str]:
        """Names of columns by meaning, as in {"question": "prompt"} (`secl.data.columns`)."""
        return dict(pair.split("=", 1) for pair in self.columns)

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        for pair in self.columns:
            if not all(pair.partition("=")):
                raise ParameterError(f"stream.columns is {pair!r}; it must be a list of pairs such as question=prompt.")
        return self


class ExtractSettings(Settings):
    """Which fields a run extracts from documents. Without a schema, the run asks questions."""

    TABLE = "extract."

    schema_file: Annotated[str | None, Parameter("--schema")] = Field(
        None, description="File with a JSON Schema of the object, or with JSON {name: description}."
    )
    text: str = Field("text", min_length=1, description="Column with the documents.")
    instruction: str = Field("", description="Rules for the values, in addition to the schema's descriptions.")


class GateSettings(Settings):
    """When to learn. By default, the method chooses the gate. The gate has the default of each parameter."""

    TABLE = "gate."

    name: Annotated[str | None, Parameter("--gate")] = Field(
        None, description="When to learn: entropy-shift, page-hinkley, always, never or FILE.py:CLASS."
    )
    burst: Annotated[int | None, by_name("gate.burst")] = Field(
        None, description="Questions in a burst; 50 by default."
    )
    warmup: Annotated[int | None, by_name("gate.warmup")] = Field(
        None, description="Questions of the warm-up; 30 by default."
    )
    threshold: Annotated[float | None, by_name("gate.threshold")] = Field(
        None, description="Statistic above which the gate fires."
    )
    ema: Annotated[float | None, by_name("gate.ema")] = Field(
        None, description="page-hinkley: weight of the newest entropy."
    )
    epsilon: Annotated[float | None, by_name("gate.epsilon")] = Field(
        None, description="page-hinkley: ignored rise, in nats."
    )

    def overrides(self) -> dict[str, object]:
        return self.model_dump(exclude={"name"}, exclude_none=True)


class EvidenceSettings(Settings):
    """Evidence about an answer, and the training signal that secl computes from the evidence."""

    TABLE = "evidence."

    signal: str = Field("norm_p_true", description="Training signal: norm_p_true, p_true or self_consistency.")
    tau: float | None = Field(None, gt=0, description="Temperature of normalised P(True); the model's own by default.")
    formula: Formula = Field("log", description="log: softmax(log P / tau); exp: softmax(P / tau).")
    distractors: int = Field(4, ge=1, le=9, description="Distractors of an open answer (K).")
    extra_evidence: Annotated[tuple[EvidenceKind, ...], BeforeValidator(_split)] = Field(
        (), description="Evidence to record in addition to the method's: candidates, p_true, samples, dinco."
    )
    nli: str | None = Field(None, description="NLI model for dinco; the model itself by default.")


ENDPOINT_VIEWS: tuple[str, ...] = ("letters", "samples", "text", "thoughts", "p_true")
"""Views that a server with OpenAI's API supports, which reports no likelihoods of texts."""

DEFAULT_VIEWS: tuple[str, ...] = ("letters", "likelihood", "samples", "text", "thoughts")
"""Views that the posterior combines by default."""


class PosteriorSettings(Settings):
    """The views that the posterior combines (`secl.posterior`)."""

    TABLE = "posterior."

    views: Names = Field(
        DEFAULT_VIEWS,
        description="Evidence to combine: letters, likelihood, samples, text, thoughts, p_true.",
    )


class LoopSettings(Settings):
    """When to gather evidence, the learning rule (Eq. target), the answer to return, and the threshold."""

    TABLE = "loop."

    evidence_on: Annotated[EvidenceOn | None, by_name("loop.evidence_on")] = Field(
        None, description="Gather evidence in bursts only (burst) or always; by default as the method does."
    )
    samples: Annotated[int, by_name("loop.samples")] = Field(
        10, ge=1, le=100, description="Samples of self-consistency (N)."
    )
    alpha: Annotated[float, by_name("loop.alpha")] = Field(
        0.5, gt=0, le=1, description="Fraction of the distance to the signal by which the target moves."
    )
    delta: Annotated[float, by_name("loop.delta")] = Field(
        0.15, gt=0, le=1, description="Cap on the distance to the signal, before multiplication by alpha."
    )
    bin_gate: Annotated[BinGate, by_name("loop.bin_gate")] = Field(
        1, ge=0, le=9, description="No update if confidence and signal are at most this many bins apart; or off."
    )
    loss: Annotated[Loss, by_name("loop.loss")] = Field(
        "directional", description="Target of the loss: directional (Eq. target) or mse (the signal itself)."
    )
    accumulate: Annotated[Accumulate, by_name("loop.accumulate")] = Field(
        "stream", description="Keep updates for the whole stream, or reset after each question: stream or question."
    )
    answer: AnswerName | None = Field(
        None,
        description="Answer to return: own (the model's) or best (the most probable candidate); by default best for "
        "questions with options that are not from a benchmark, else own.",
    )
    accept: float | None = Field(None, ge=0, le=1, description="Lowest accepted confidence; see secl threshold.")


class AdapterSettings(Settings):
    """LoRA and its training."""

    TABLE = "adapter."

    rank: int = Field(8, ge=1, description="LoRA rank.")
    lora_alpha: int = Field(16, ge=1, description="LoRA alpha; scales the change of the weights by alpha / rank.")
    layers: str | None = Field(
        None, description="Adapted layers, such as last:4, all or 12-15; the preset's by default."
    )
    modules: Names = Field((), description="Adapted linear modules; the preset's by default.")
    learning_rate: float = Field(5e-5, gt=0, description="AdamW learning rate.")
    epochs: int = Field(3, ge=1, description="Optimizer steps per question.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL term in the loss.")
