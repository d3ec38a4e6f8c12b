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
from secl.backends.vllm.pool import PAUSE, Fleet
from secl.backends.vllm.versions import Versions
from secl.validation import check_whole

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel

WORKERS = 16
"""Requests that are under way together, unless said otherwise."""


class VllmModel(ChatModel[VllmBackend]):
    """Answers with vLLM servers; a `LocalModel` learns, and every version of it is published to them.

    The servers must serve the very model that the learner has, with float32 logits
    (`--hf-overrides '{"head_dtype": "float32"}'`): bfloat16 ones lie on a grid that is coarser than what is learned.
    The evidence for DINCO comes from the learner: servers do not search for beams that end as ours do.

    Args:
        learner: trains on its own device, and holds the weights; nothing else may use it.
        urls: addresses of the servers.
        folder: where versions are published; all servers must see it under the same path.
        name: what the versions are called there: "NAME-3". Learners that share servers need different names.
        key: the servers' API key.
        top: most probable tokens to ask for where an entropy is wanted; at most the servers' --max-logprobs, and the
            more, the nearer (see `secl.backends.entropy`).
        workers: requests that are under way together.
        timeout: seconds that one request may take.
        pause: seconds before a server that failed is tried again.
        tolerance: how far (total variation of the ten bins) a server's stated confidence for a sample question may be
            from the learner's; one that is farther serves another model, and is left out.

    Attributes:
        fleet: the servers and how they are.
        versions: what is published.

    Raises:
        ParameterError: an address or a number makes no sense.
        ModelError: no server can be used; the message says what is wrong with each.
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
        pause: float = PAUSE,
        tolerance: float = 0.1,
    ) -> None:
        check_whole("number of most probable tokens", top, 1)
        check_whole("number of requests at a time", workers, 1)
        self.learner = learner
        self.versions = Versions(folder, learner.adapter_config, name)
        endpoints = [Endpoint(url, key=key, timeout=timeout) for url in urls]
        self.fleet = Fleet(endpoints, self.versions, accept=ModelCheck(learner, tolerance), pause=pause)
        try:
            self.fleet.meet()
            backend = VllmBackend(learner.backend, self.fleet, self.versions, top=top, workers=workers)
            backend.publish()
        except BaseException:
            self.fleet.close()
            raise
        nli = learner.dinco_probe.entailment
        super().__init__(
            backend,
            p_true=learner.readout.kind,
            orders=learner.candidate_probe.orders,
            answer_weights=learner.answer_weights,
            entailment=None if isinstance(nli, SelfEntailment) else nli,
            seed=learner.seed,
        )
        self.fingerprint = learner.fingerprint
