"""vLLM: an endpoint that can do more. It answers for a model that learns in this process."""

from __future__ import annotations

import math
from pathlib import Path

from secl.backends.endpoint.token_server import CompletionRequest, TokenServer
from secl.backends.endpoint.versions import Versions
from secl.backends.endpoint.vllm_backend import VllmBackend
from secl.backends.local.model import LocalModel
from secl.backends.token_ids import SAMPLE
from secl.errors import ModelError, NotLoadedError, QuestionError, UnavailableError, check_finite, check_whole

WORKERS = 16
"""Requests that are under way together, unless said otherwise."""


def answer_by_vllm(
    learner: LocalModel,
    url: str,
    folder: Path,
    *,
    name: str = "secl",
    key: str | None = None,
    top: int = 20,
    workers: int = WORKERS,
    timeout: float = 120.0,
    tolerance: float = 0.1,
) -> VllmBackend:
    """Let a vLLM server answer for a model, whose own weights only learn from then on; the server loads every version.

    The server must serve the very model that the learner has, with float32 logits
    (`--hf-overrides '{"head_dtype": "float32"}'`): bfloat16 ones lie on a grid that is coarser than what is learned.
    The learner computes lessons, and the beams of DINCO: servers do not search for beams that end as ours do.

    Args:
        learner: trains on its own device, and holds the weights; nothing else may use it.
        url: address of the server, or of a load balancer in front of several.
        folder: where versions are published: the servers' VLLM_LORA_RESOLVER_CACHE_DIR.
        name: what the versions' names begin with. Learners that share servers need different names.
        key: the servers' API key.
        top: most probable tokens to ask for where an entropy is wanted; at most the servers' --max-logprobs, and the
            more, the nearer (see `secl.backends.entropy`).
        workers: requests that are under way together.
        timeout: seconds that the server may be silent.
        tolerance: how far (total variation of the ten bins) the server's stated confidence for a sample question may
            be from the learner's; one that is farther serves another model.

    Raises:
        ParameterError: an address or a number makes no sense.
        ModelError: the server does not answer, serves another model or does not find the published version.
        StorageError: the folder cannot be written.
    """
    check_whole("number of most probable tokens", top, 1)
    check_whole("number of requests at a time", workers, 1)
    check_finite("tolerance", tolerance, 0 < tolerance <= 1, "be above 0 and at most 1")
    server = TokenServer(url, key=key, timeout=timeout)
    try:
        server.refresh()
        # A server loads no adapter that was made for a model of another name.
        config = {**learner.adapter_config, "base_model_name_or_path": server.root}
        backend = VllmBackend(learner.backend, server, Versions(folder, config, name), top=top, workers=workers)
        backend.publish()
        _check_model(learner, server, backend.versions.folder / backend.published, tolerance)
    except BaseException:
        server.endpoint.close()
        raise
    learner.asker.backend, learner.writes_apart = backend, True
    return backend


def _check_model(learner: LocalModel, server: TokenServer, version: Path, tolerance: float) -> None:
    """Check that a server has the model that the learner has, and loads the adapter in a published folder.

    Raises:
        ModelError: it does not.
    """
    frozen = learner.answer(SAMPLE).frozen
    sequence = learner.prompting.confidence(SAMPLE, frozen.text)
    steps = [
        server.complete("", [sequence], CompletionRequest(top=0, only=digit))[0][0].log_p[digit]
        for digit in learner.backend.token_ids.digits
    ]
    p = [math.exp(log_p) for log_p in steps]
    distance = sum(abs(a / sum(p) - b) for a, b in zip(p, frozen.bins, strict=True)) / 2
    if distance > tolerance:
        raise ModelError(
            f"{server.url} does not serve the learner's model: on a sample question its stated confidence is "
            f"{distance:.2f} away (total variation), more than {tolerance:g}."
        )
    try:
        server.complete(version.name, [sequence], CompletionRequest())
    except (ModelError, QuestionError) as problem:
        if isinstance(problem, UnavailableError) and not isinstance(problem, NotLoadedError):
            raise
        raise ModelError(
            f"{problem} Start all servers with the same model name ({server.root}), --enable-lora, a "
            "--max-lora-rank that is large enough, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and "
            f"VLLM_LORA_RESOLVER_CACHE_DIR={version.parent}."
        ) from problem
