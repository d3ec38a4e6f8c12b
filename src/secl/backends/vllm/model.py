"""A chat model whose answers come from vLLM servers, while a model in this process learns for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from secl.backends.chat_model import ChatModel
from secl.backends.entailment import SelfEntailment
from secl.backends.vllm.backend import VllmBackend
from secl.backends.vllm.client import Endpoint
from secl.backends.vllm.model_check import ModelCheck
from secl.backends.vllm.servers import Servers
from secl.backends.vllm.versions import Versions
from secl.validation import check_whole

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel

WORKERS = 16
"""Requests that are under way together, unless said otherwise."""


class VllmModel(ChatModel[VllmBackend]):
    """Answers with vLLM servers; a `LocalModel` learns, and the servers load every version of it by its name.

    The servers must serve the very model that the learner has, with float32 logits
    (`--hf-overrides '{"head_dtype": "float32"}'`): bfloat16 ones lie on a grid that is coarser than what is learned.
    The learner computes lessons, and the beams of DINCO: servers do not search for beams that end as ours do.

    Args:
        learner: trains on its own device, and holds the weights; nothing else may use it.
        urls: addresses of the servers, or of a load balancer in front of them.
        folder: where versions are published: the servers' VLLM_LORA_RESOLVER_CACHE_DIR.
        name: what the versions' names begin with. Learners that share servers need different names.
        key: the servers' API key.
        top: most probable tokens to ask for where an entropy is wanted; at most the servers' --max-logprobs, and the
            more, the nearer (see `secl.backends.entropy`).
        workers: requests that are under way together.
        timeout: seconds that one request may take.
        tolerance: how far (total variation of the ten bins) a server's stated confidence for a sample question may be
            from the learner's; one that is farther serves another model.

    Raises:
        ParameterError: an address or a number makes no sense.
        ModelError: no server answers, or one of them serves another model or does not find the published version.
        StorageError: the folder cannot be written.
    """

    def __init__(
        self,
        learner: LocalModel,
        urls: Sequence[str],
        folder: Path,
        *,
        name: str = "secl",
        key: str | None = None,
        top: int = 20,
        workers: int = WORKERS,
        timeout: float = 120.0,
        tolerance: float = 0.1,
    ) -> None:
        check_whole("number of most probable tokens", top, 1)
        check_whole("number of requests at a time", workers, 1)
        self.learner = learner
        servers = Servers([Endpoint(url, key=key, timeout=timeout) for url in urls])
        try:
            met = servers.meet()
            # A server loads no adapter that was made for a model of another name.
            config = {**learner.adapter_config, "base_model_name_or_path": met[0].root}
            backend = VllmBackend(learner.backend, servers, Versions(folder, config, name), top=top, workers=workers)
            backend.publish()
            check = ModelCheck(learner, tolerance)
            for endpoint in met:
                check(endpoint, backend.versions.folder / backend.published)
        except BaseException:
            servers.close()
            raise
        nli = learner.dinco_probe.entailment
        super().__init__(
            backend,
            p_true=learner.readout.kind,
            prompts=learner.prompting.prompts,
            orders=learner.candidate_probe.orders,
            answer_weights=learner.answer_weights,
            entailment=None if isinstance(nli, SelfEntailment) else nli,
            seed=learner.seed,
        )
        self.fingerprint = learner.fingerprint
