"""Connect a model that learns in this process to vLLM servers that answer and load its versions from folders."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from secl.backends.base import Bundle, Continuation, Position, Trainer, Training
from secl.backends.endpoint.client import Endpoint, Upstream
from secl.backends.endpoint.vllm.engine import VllmEngine, VllmReading
from secl.backends.endpoint.vllm.server import READ_TIMEOUT, CompletionRequest, TokenServer, Versions
from secl.backends.generation import Generation
from secl.backends.local.backend import LocalBackend, LocalReading
from secl.backends.local.model import LocalModel
from secl.backends.token_ids import SAMPLE
from secl.errors import ModelError, NotFiniteError, NotLoadedError, QuestionError
from secl.records import Reply


class VllmTrainer(Trainer):
    """Trains the `learner` in this process. Servers read and write with its versions."""

    def __init__(self, learner: LocalBackend, engine: VllmEngine, versions: Versions) -> None:
        self.learner, self.engine, self.versions = learner, engine, versions
        self._name, self._naming = "", threading.Lock()
        self._learning = False

    def adapt(self, readings: Sequence[VllmReading], version: int) -> Sequence[VllmReading | LocalReading]:
        """Read with an adapted version.

        In a burst, almost every question makes a new version. So the learner itself reads a single question with a
        version that it is training. secl then need not write a folder, and servers need not load the version.
        """
        if self._learning and not self._name and len(readings) == 1:
            bundle = readings[0].bundle
            (frozen,) = self.learner.read([Bundle(bundle.answers, bundle.positions)])
            (adapted,) = self.learner.adapt([frozen], version)
            return [replace(adapted, tokens=frozen.tokens + adapted.tokens)]
        name = partial(self.name_of, version)
        return [VllmReading(self.engine, reading.bundle, version, name) for reading in readings]

    def rewrite(
        self, generations: Sequence[Generation], readings: Sequence[VllmReading | LocalReading], version: int
    ) -> list[Generation | None]:
        """Write the generations' answers again, with an adapted version.

        Servers write from the start. The learner writes from the first token that differs.
        """
        local = [reading for reading in readings if isinstance(reading, LocalReading)]
        if local:
            return self.learner.rewrite(generations, local, version)
        begun = [generation.again(version) for generation in generations]
        return [*self.engine.map(lambda generation: self.engine.finish(generation, self.name_of(version)), begun)]

    def name_of(self, version: int) -> str:
        """Return the servers' name for the learner's version; the first call publishes the version.

        Raises:
            ValueError: the learner has another version.
            StorageError: writing the folder fails.
        """
        with self._naming:  # parallel requests call this method
            adapter = self.learner.adapter
            if version != adapter.version:
                raise ValueError(f"Version {version} was requested, but the learner has version {adapter.version}.")
            if not self._name or not self.versions.keep(self._name):
                self._name = self.versions.publish(version, adapter.weights())
            return self._name

    def train(self, reading: VllmReading | LocalReading, position: Position, target: float) -> Training:
        """Train at a position. Servers load the new version when a request first names it."""
        if isinstance(reading, LocalReading):
            training = self.learner.train(reading, position, target)
        else:
            sequence = reading.bundle.prefix(position)
            (passed,) = self.learner.read([Bundle([sequence])])
            try:
                training = self.learner.train(passed, (0, len(sequence)), target)
            except NotFiniteError as problem:
                problem.tokens += passed.tokens
                raise
            training = replace(training, tokens=passed.tokens + training.tokens)
        self.renew(learning=True)
        return training

    def renew(self, *, learning: bool) -> None:
        """Forget the published name, so that the next request with an adapted version publishes the present weights."""
        self._name, self._learning = "", learning


TOLERANCE = 0.1
"""Maximum difference between a server and a learner that have the same model and precision. It applies to the stated
confidence for a sample question (total variation of the ten bins), and to ln P of a text (nats per token)."""

LORA_B = "lora_B"
"""Part of the names of matrices that are zero before the first update."""

TRIAL_SCALES = (0.02, 0.1, 0.5)
"""Standard deviations of random adapter weights, tried in order until the stated confidence changes."""


def answer_by_vllm(model: LocalModel, url: str, folder: Path, *, key: str | None = None) -> VllmTrainer:
    """Let a vLLM server answer for a model, which then only learns and computes the beams of DINCO.

    The server must have the learner's model with float32 logits (`--hf-overrides '{"head_dtype": "float32"}'`), because
    an update changes logits by less than bfloat16 resolves.

    Args:
        url: address of the server, or of a load balancer in front of several.
        folder: the servers' VLLM_LORA_RESOLVER_CACHE_DIR, in which secl writes the versions.
        key: the servers' API key.

    Raises:
        ParameterError: `url` is not a URL.
        ModelError: the server does not answer, has another model, or does not find the published version.
        StorageError: the folder cannot be written.
    """
    endpoint = Endpoint(url, key=key, silence=READ_TIMEOUT)
    try:
        server, learner = TokenServer(endpoint), model.backend
        # A server loads an adapter only if the adapter's configuration has the server's model name.
        versions = Versions(folder, {**model.learner.config, "base_model_name_or_path": server.root})
        engine = VllmEngine(server, learner.rules, len(learner.token_ids.tokenizer), learner.limit)
        trainer = VllmTrainer(learner, engine, versions)
        _check_model(model, trainer)
    except BaseException:
        endpoint.close()
        raise
    model.answer_by(engine, trainer)
    model.upstream = Upstream(endpoint, server.base, takes_all=False)
    return trainer


def _check_model(model: LocalModel, trainer: VllmTrainer) -> None:
    """Raise a `ModelError` unless the server has the learner's model and precision, and uses the adapter."""
    server = trainer.engine.server
    load_ours = f"The server runs {server.root}; start it with the model and precision of this process."
    frozen = model.answer(SAMPLE).frozen
    sequence = model.prompting.confidence(SAMPLE, frozen.text)
    if (problem := _differs(model, trainer, frozen, TOLERANCE)) is not None:
        raise ModelError(f"{server.url} does not serve the model that learns in this process: {problem} {load_ours}")
    (reading,) = model.backend.read([Bundle(spans=[Continuation(sequence, 1)])])
    (row,) = server.read([sequence])
    distance = abs(sum(row) - reading.likelihoods()[0]) / len(row)
    if distance > TOLERANCE:
        raise ModelError(
            f"{server.url} and this process compute different log-probabilities for the same text: they differ by "
            f"{distance:.2f} nats per token, more than {TOLERANCE:g}. {load_ours}"
        )
    snapshot = model.learner.snapshot()
    try:
        adapted = _on_trial(model, frozen)
        # Random weights amplify rounding, so the tolerance is half of the change that they cause, if this is more than
        # `TOLERANCE`. A server that ignores the weights differs by the whole change.
        unlike = _differs(model, trainer, adapted, max(TOLERANCE, _difference(adapted.bins, frozen.bins) / 2))
    except (NotLoadedError, QuestionError) as problem:
        unlike = str(problem)
    finally:
        model.learner.restore(snapshot)
        trainer.renew(learning=True)
    if unlike is not None:
        raise ModelError(
            f"{server.url} does not use the learned weights: {unlike} Start all servers with the same model name "
            f"({server.root}), --enable-lora, a large enough --max-lora-rank, --lora-target-modules with all trained "
            "modules, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and "
            f"VLLM_LORA_RESOLVER_CACHE_DIR={trainer.versions.folder}."
        )


def _on_trial(model: LocalModel, frozen: Reply) -> Reply:
    """Return the learner's answer with random adapter weights that change the stated confidence, if possible."""
    tensors, draw = load(model.learner.weights()), np.random.default_rng(0)
    noise = {
        name: draw.standard_normal(tensor.shape, np.float32)
        for name, tensor in sorted(tensors.items())
        if LORA_B in name
    }
    for scale in TRIAL_SCALES:
        weights = tensors | {name: scale * values for name, values in noise.items()}
        model.learner.load_version(save(weights), 1)
        adapted = model.answer(SAMPLE).reply
        if _difference(adapted.bins, frozen.bins) > 2 * TOLERANCE:
            break
    return adapted


def _differs(model: LocalModel, trainer: VllmTrainer, reply: Reply, tolerance: float) -> str | None:
    """Return a sentence if the server's stated confidence for the sample question is too far from the learner's."""
    thought = None if reply.thought is None else reply.thought.text
    sequence = model.prompting.confidence(SAMPLE, reply.text, thought)
    name = trainer.name_of(reply.version) if reply.version else ""
    digits = tuple(model.backend.token_ids.digits)
    ((step,),) = trainer.engine.server.complete(name, [sequence], CompletionRequest(ids=digits))
    p = [math.exp(step.log_p[digit]) for digit in digits]
    distance = _difference([each / sum(p) for each in p], reply.bins)
    if distance <= tolerance:
        return None
    return f"on a sample question the stated confidences differ by {distance:.2f}, more than {tolerance:.2g}."


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the total variation of two distributions over the ten bins, in [0, 1]."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
