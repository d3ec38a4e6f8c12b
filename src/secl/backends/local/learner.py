"""The part of a model in this process that learns: its adapter, and one lesson at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.cases import Case
from secl.backends.local.backend import LocalBackend
from secl.backends.local.loading.model_parts import layers_of
from secl.errors import ModelError, QuestionError
from secl.question import Question
from secl.records import Reply, Update


@dataclass(frozen=True, slots=True)
class LocalLearner:
    """The adapter of a `secl.backends.local.model.LocalModel`, and its lessons; a `secl.model.Learner`.

    Attributes:
        backend: engine in this process, which has the adapter.
        asker: its backend gets each new version, for example to publish the version to vLLM servers.
        latest_case: returns the latest answer, if the latest question is the given one.
        forget: makes the model forget its answers, because later updates may repeat version numbers.
    """

    backend: LocalBackend
    asker: Asker
    latest_case: Callable[[Question], Case | None]
    forget: Callable[[], None]

    @property
    def version(self) -> int:
        return self.backend.adapter.version

    @property
    def relative_norm(self) -> float:
        return self.backend.adapter.relative_norm

    @property
    def config(self) -> dict[str, object]:
        """PEFT's configuration of the adapter as JSON values, with lists for sets; empty if no module can learn."""
        values: dict[str, object] = {}
        with suppress(ModelError):
            values = json.loads(json.dumps(self.backend.adapter.config.to_dict(), default=sorted))
        return values

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply` towards `target`; `question` must be the latest answered question.

        Raises:
            QuestionError: the model has answered another question since.
        """
        case = self.latest_case(question)
        if case is None:
            raise QuestionError(f"{question.mention} is not the latest question; answer it again first.")
        answer = case.by(self.version)
        training = self.asker.backend.train(answer.reading, answer.digit_position(reply), target)
        self.asker.meter.spend("learning", training.tokens)
        return Update(
            version=self.version, before=reply.stated, target=target, after=training.after, losses=training.losses
        )

    def reset(self) -> None:
        self.backend.adapter.reset()
        self.asker.backend.publish()

    def snapshot(self) -> bytes:
        return self.backend.adapter.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.backend.adapter.restore(snapshot)
        self.forget()

    def weights(self) -> bytes:
        return self.backend.adapter.weights()

    def load_version(self, weights: bytes, version: int) -> None:
        self.backend.adapter.load_version(weights, version)
        self.forget()

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass in this process; the hook may wait for other work."""
        self.backend.writer.alone = False  # another thread may compute while this thread pauses
        for layer in layers_of(self.backend.model):
            layer.register_forward_pre_hook(lambda *_arguments: hook())
