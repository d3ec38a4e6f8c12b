"""`secl.load` loads a model whose answers come with the probability that they are correct."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from secl.calibrated_model import CalibratedModel
from secl.errors import ParameterError
from secl.runs.cache import ReadingCache, with_cache
from secl.runs.loading import build_calibrator, load_local, load_model
from secl.runs.loading import calibration as calibration_of
from secl.runs.settings import Recipe
from secl.settings.groups import ChatTemplate, Device, Dtype, Quantize, Thinking

if TYPE_CHECKING:
    from secl.model import Model

MODEL_ATTRIBUTES = ("answer", "gather", "fingerprint")
"""Attributes of a `secl.model.Model` that a transformers model lacks."""


class LoadedModel(Protocol):
    """A loaded model of transformers, or of PEFT."""

    config: Any

    def generate(self, *args: Any, **kwargs: Any) -> Any: ...


class LoadedTokenizer(Protocol):
    """A tokenizer of transformers."""

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> Any: ...


def load(
    source: str | Path | Model | LoadedModel = "smollm2",
    /,
    tokenizer: LoadedTokenizer | None = None,
    *,
    method: str = "posterior",
    thinking: Thinking = "off",
    accept: float | None = None,
    calibration: str | Path | None = None,
    engine: Literal["openai", "vllm"] = "openai",
    model: str = "",
    api_key: str | None = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
    device_map: Literal["auto"] | None = None,
    quantize: Quantize | None = None,
    chat_template: ChatTemplate = "own",
    seed: int = 42,
    cache: bool = False,
    settings: Mapping[str, object] | None = None,
) -> CalibratedModel:
    """Load a chat model that gives every answer the probability that it is correct.

    Args:
        source: a preset such as "smollm2", a hub id, a folder, or a GGUF file; the URL of a server with OpenAI's API,
            such as "http://localhost:8000"; a loaded transformers model, which secl never changes; or any
            `secl.model.Model`.
        tokenizer: the tokenizer of a loaded transformers model.
        method: "posterior" compares all candidates and never changes a weight. "secl", the paper's method, trains an
            adapter in bursts. `secl methods` lists all methods.
        thinking: how long the model thinks before it answers: "off", "auto" (no limit), or a number of tokens.
        accept: lowest confidence at which an answer is accepted, in [0, 1]; None for no threshold.
        calibration: folder of a labelled run of the same model and method, whose labels calibrate the confidences.
        engine: "vllm" reads token ids on a vLLM server, with likelihoods; this process then has the tokenizer. "openai"
            sends chats to any server.
        model: name of the model on a server; not needed if the server has one model. With vLLM, a folder or hub id with
            the model's tokenizer; by default the one that the server names.
        api_key: key of the server; by default the environment variable SECL_ENDPOINT_KEY.
        dtype: precision of the weights: auto, bf16, fp16 or fp32.
        device: auto, cpu, cuda, one of several GPUs such as cuda:1, or mps.
        device_map: "auto" spreads the model over all devices of this machine. For another placement, load the model
            with transformers, and pass the model and its tokenizer.
        quantize: "8bit" or "4bit" quantises the linear layers (bitsandbytes).
        chat_template: "plain" asks without the model's chat template, in the form "Question: ... Answer:". Base models
            need it. A plain template has no earlier turns and no tools.
        seed: seed of sampled answers and of the adapter's initial weights.
        cache: whether to keep what the model answers on the disk, and to take answers to equal questions from there, as
            `secl run` does (docs/runs.md). The cache has the texts of your questions.
        settings: any other setting by its name, as in {"loop.alpha": 0.3, "gate.name": "always"}
            (docs/reference/settings.md).

    Raises:
        ModelError: the model cannot be used.
        ParameterError: an unknown method or setting, or arguments that do not fit together.

    >>> import secl
    >>> model = secl.load(secl.testing.ScriptedModel(), method="secl", settings={"gate.name": "always"})
    >>> model.ask("What is 1 plus 1?", options=["3", "2"]).decision.in_burst
    True
    """
    values: dict[str, object] = {"method": method, "loop.accept": accept, "seed": seed, "prompts.thinking": thinking}
    values["model.chat_template"] = chat_template
    if calibration is not None:
        values["model.calibration"] = str(calibration)
    if isinstance(source, str | Path):
        values |= {"model.dtype": dtype, "model.device": device, "model.device_map": device_map}
        values |= {"model.quantize": quantize, **_name_settings(str(source), engine, model)}
    recipe = Recipe.of(values | dict(settings or {}))  # reports bad settings before a large model loads
    if cache:
        _check_cacheable(source, recipe)
    backend = _backend(source, tokenizer, recipe, api_key)
    if cache:
        backend = with_cache(backend, ReadingCache(), recipe)
    return CalibratedModel(build_calibrator(recipe, backend, calibration_of(recipe, backend)))


def _name_settings(source: str, engine: str, model: str) -> dict[str, object]:
    if source.startswith(("http://", "https://")):
        return {"model.engine": engine, "model.endpoint": source, "model.name": model}
    if model:
        raise ParameterError(f"model={model!r} names the model of a server, and {source!r} is not a URL; drop model=.")
    if engine != "openai":
        raise ParameterError(f"engine={engine!r} asks a server, and {source!r} is not a URL; drop engine=.")
    return {"model.name": source}


def _check_cacheable(source: object, recipe: Recipe) -> None:
    if recipe.learns:
        raise ParameterError(f"the method {recipe.method!r} changes the model, so nothing can be cached; drop cache=.")
    if not isinstance(source, str | Path) and not getattr(source, "fingerprint", ""):
        raise ParameterError(
            "cache= needs weights that cannot change meanwhile; load the model by its hub id, folder, GGUF file or URL."
        )


def _backend(source: Any, tokenizer: Any, recipe: Recipe, api_key: str | None) -> Model:
    if tokenizer is not None and isinstance(source, str | Path):
        raise ParameterError(
            f"a tokenizer belongs to a loaded model, but {str(source)!r} is the name of a model; drop tokenizer=."
        )
    if isinstance(source, str | Path):
        return load_model(recipe, key=api_key)
    if all(hasattr(source, name) for name in MODEL_ATTRIBUTES):
        if recipe.prompts.thinking != "off":
            raise ParameterError("the argument thinking has no effect on a model of your own; drop thinking=.")
        if recipe.model.chat_template != "own":
            raise ParameterError("chat_template has no effect on a model of your own; drop chat_template=.")
        model: Model = source
        return model
    from secl.backends.local.loading.loader import adopt  # torch takes seconds to import

    return load_local(recipe, loaded=adopt(source, tokenizer, recipe.model.chat_template))
