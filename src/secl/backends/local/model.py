"""A chat model on this machine."""

from __future__ import annotations

from typing import Any

from secl.backends.chat_model import ChatModel
from secl.backends.local.backend import LocalBackend
from secl.backends.local.loading import Loaded, ModelCache, load
from secl.backends.local.nli import NliModel
from secl.errors import ParameterError
from secl.settings import AdapterSettings, AnswerWeights, Device, Dtype, PromptSettings, PTrueKind, Quantize


class LocalModel(ChatModel[LocalBackend]):
    """A transformers chat model on this machine, with a LoRA adapter that learns to state its confidence.

    Args:
        loaded: from `secl.backends.local.loading.load`.
        adapter: its size and how it is trained; layers and modules that it leaves open come from the model's preset.
        p_true: "vocabulary" for the full-vocabulary probability of True in all its spellings, "token" for that of the
            one token.
        prompts: how it is asked; our way unless given.
        orders: further orders of the options that letters are read under, 0 or more.
        answer_weights: whose weights write the answers, "adapted" or "frozen".
        nli: hub id or folder of the NLI model that compares answers for DINCO; None asks this model itself.
        max_batch_tokens: most tokens in a pass that several questions share; see `LocalBackend`.
        seed: of the adapter's initial weights, and of sampled answers and distractors.

    Raises:
        ModelError: the model or the NLI model cannot be used, or the adapter does not fit it.
        ParameterError: unknown layers, another kind of P(True), or a seed outside 0 to 2^63 - 1.
    """

    def __init__(
        self,
        loaded: Loaded,
        adapter: AdapterSettings | None = None,
        *,
        p_true: PTrueKind = "vocabulary",
        prompts: PromptSettings | None = None,
        orders: int = 1,
        answer_weights: AnswerWeights = "adapted",
        nli: str | None = None,
        max_batch_tokens: int | None = None,
        seed: int = 42,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ParameterError(f"The seed must be a whole number from 0 to 2^63 - 1, not {seed}.")
        backend = LocalBackend(loaded, adapter or AdapterSettings(), seed=seed, max_batch_tokens=max_batch_tokens)
        entailment = None if nli is None else NliModel(nli, backend.device)
        super().__init__(
            backend,
            p_true=p_true,
            prompts=prompts,
            orders=orders,
            answer_weights=answer_weights,
            entailment=entailment,
            seed=seed,
        )
        if entailment is not None:
            self.fingerprint += f"+{entailment.fingerprint}"

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        *,
        dtype: Dtype = "auto",
        device: Device = "auto",
        device_map: str | None = None,
        quantize: Quantize | None = None,
        cache: ModelCache | None = None,
        **settings: Any,
    ) -> LocalModel:
        """Load a model as `secl.backends.local.loading.load` does; `settings` as for the constructor.

        A `cache` keeps the weights for the next model of that name.
        """
        loading = cache.load if cache else load
        loaded = loading(name, dtype=dtype, device=device, device_map=device_map, quantize=quantize)
        return cls(loaded, **settings)
