"""The part of a model in this process that learns: its adapter, its own answers, and one lesson at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from secl.backends.base import Trainer
from secl.backends.local.backend import LocalBackend
from secl.backends.local.loading.model_parts import layers_of
from secl.backends.token_driver import Answer, TokenDriver
from secl.errors import ModelError, QuestionError
from secl.ledger import Meter
from secl.question import Question
from secl.records import Reply, Update
from secl.settings.groups import AnswerWeights


@dataclass(frozen=True, slots=True)
class LocalLearner:
    """The adapter of a `secl.backends.local.model.LocalModel`, its answers and its lessons; a `secl.model.Learner`.

    Attributes:
        backend: the network in this process, which has the adapter.
        trainer: reads and writes with adapted weights: the network, or vLLM servers.
        driver: asks the frozen model.
        answer_weights: "adapted" if the adapted model writes its own answers; "frozen" if the adapted model only states
            a confidence in the frozen model's answers.
        latest: returns the frozen model's latest answer, and the adapted model's, if the latest question is the given
            one; else None.
        forget: makes the model forget its answers, because later updates may repeat version numbers.
    """

    backend: LocalBackend
    trainer: Trainer
    driver: TokenDriver
    meter: Meter
    answer_weights: AnswerWeights
    latest: Callable[[Question], Answer | None]
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

    def adapt(self, answers: Sequence[Answer]) -> list[Answer]:
        """Return the adapted model's answers to the same questions, with the confidences that it states.

        It chooses options by its own letters, and writes open answers of its own, unless it keeps the frozen answers.
        """
        readings = self.trainer.adapt([answer.reading for answer in answers], self.version)
        adapted = [
            replace(answer, version=self.version, reading=reading, tokens=reading.tokens)
            for answer, reading in zip(answers, readings, strict=True)
        ]
        if self.answer_weights == "adapted":
            adapted = self._rewrite(adapted)
        letters = [answer.reply.answer if self._keeps_letter(answer) else None for answer in answers]
        replies = self.driver.engine.map(lambda each: self.driver.reply(*each), [*zip(adapted, letters, strict=True)])
        return [replace(answer, reply=reply) for answer, reply in zip(adapted, replies, strict=True)]

    def _keeps_letter(self, answer: Answer) -> bool:
        return self.answer_weights == "frozen" and answer.text is None

    def _rewrite(self, answers: Sequence[Answer]) -> list[Answer]:
        """Replace open answers that the adapted model writes differently; its confidence is about its own answer."""
        driver, written = self.driver, [answer for answer in answers if answer.written]
        generations = [answer.generation for answer in written if answer.generation is not None]
        rewritten = self.trainer.rewrite(generations, [answer.reading for answer in written], self.version)
        changed = [
            (answer, generation)
            for answer, generation in zip(written, rewritten, strict=True)
            if generation is not None
        ]
        texts = [driver.rules.answer(generation) for _, generation in changed]
        frozen = driver.engine.read(
            [
                driver.read_text(answer.question, text, generation, answer.thought)
                for (answer, generation), text in zip(changed, texts, strict=True)
            ]
        )
        adapted = self.trainer.adapt(frozen, self.version)
        new = {
            id(answer): replace(
                answer,
                text=text,
                generation=generation,
                reading=own,
                tokens=answer.tokens + first.tokens + generation.tokens + own.tokens,
                counts=(len(generation.prompt), len(generation.written)),
            )
            for (answer, generation), text, first, own in zip(changed, texts, frozen, adapted, strict=True)
        }
        return [new.get(id(answer), answer) for answer in answers]

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply` towards `target`; `question` must be the latest answered question.

        Raises:
            QuestionError: the model has answered another question since.
        """
        answer = self.latest(question)
        if answer is None:
            raise QuestionError(f"{question.mention} is not the latest question; answer it again first.")
        training = self.trainer.train(answer.reading, answer.digit_position(reply), target)
        self.meter.spend("learning", training.tokens)
        return Update(
            version=self.version, before=reply.stated, target=target, after=training.after, losses=training.losses
        )

    def reset(self) -> None:
        self.backend.adapter.reset()
        self.trainer.renew(learning=True)

    def snapshot(self) -> bytes:
        return self.backend.adapter.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.backend.adapter.restore(snapshot)
        self.forget()
        self.trainer.renew(learning=True)

    def weights(self) -> bytes:
        return self.backend.adapter.weights()

    def load_version(self, weights: bytes, version: int) -> None:
        self.backend.adapter.load_version(weights, version)
        self.forget()
        self.trainer.renew(learning=False)

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass in this process; the hook may wait for other work."""
        self.backend.writer.alone = False  # another thread may compute while this thread pauses
        for layer in layers_of(self.backend.model):
            layer.register_forward_pre_hook(lambda *_arguments: hook())
