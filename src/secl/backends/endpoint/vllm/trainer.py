"""The adapter of a model in this process, whose versions vLLM servers load from folders."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from secl.backends.base import Bundle, Position, Trainer, Training
from secl.backends.endpoint.vllm.engine import VllmEngine, VllmReading
from secl.backends.endpoint.vllm.server import Versions
from secl.backends.generation import Generation
from secl.backends.local.backend import LocalBackend, LocalReading
from secl.errors import NotFiniteError


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
