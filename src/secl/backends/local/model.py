"""A chat model whose adapter learns in this process. Answers come from this process or from vLLM servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from secl.backends.base import Engine, Trainer
from secl.backends.local import dinco
from secl.backends.local.adapter import Adapter
from secl.backends.local.backend import LocalBackend
from secl.backends.local.loading.loader import Loaded, ModelCache, load
from secl.backends.local.loading.model_parts import layers_of
from secl.backends.local.objects import StructuredWriting
from secl.backends.token_driver import Answer, TokenDriver
from secl.backends.token_model import TokenModel, check_arguments
from secl.errors import ModelError, QuestionError, TooLongError
from secl.evidence import DincoEvidence
from secl.flow.model import Answered, SharedAnswers, key_of
from secl.ledger import Meter
from secl.question import Question
from secl.records import Reply, Update
from secl.settings.groups import AdapterSettings, AnswerWeights, ChatTemplate, Device, Dtype, Quantize, Thinking
from secl.writing import SamplingParameters


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


class LocalModel(TokenModel, StructuredWriting):
    """A transformers chat model with a LoRA adapter that learns to state its confidence; a `secl.model.Model`.

    Args:
        loaded: result of `secl.backends.local.loading.loader.load`.
        adapter: settings of LoRA and learning. If unset, layers and modules come from the model's preset.
        answer_weights: which weights write the answers, "adapted" or "frozen".
        nli: hub id or folder of the NLI model that compares answers for DINCO; None asks this model itself.
        seed: seed of the adapter's initial weights, and of sampled answers and distractors.
        shared: cache of frozen answers for models with the same weights; None if not shared.
        others: see `secl.backends.token_model.TokenModel`.

    Attributes:
        backend: engine with the weights in this process.
        driver: asks `backend`, or vLLM servers (`secl.backends.endpoint.vllm.connect.answer_by_vllm`).
        learner: the adapter with its lessons; None for a driver of another engine.
        meter: counts tokens by purpose.
        described: name of the preset, and whether passes take the fast or the plain path: "preset smollm2; fast path".

    Raises:
        ModelError: the model or the NLI model cannot be used, or the adapter does not fit the model.
        ParameterError: unknown layers, an invalid `thinking`, or a seed outside 0 to 2^63 - 1.
    """

    def __init__(
        self,
        loaded: Loaded,
        adapter: AdapterSettings | None = None,
        *,
        paper: bool = False,
        distractors: int = 4,
        answer_weights: AnswerWeights = "adapted",
        nli: str | None = None,
        thinking: Thinking = "off",
        seed: int = 42,
        shared: SharedAnswers | None = None,
    ) -> None:
        check_arguments(loaded, thinking, seed)
        self.backend = LocalBackend(loaded, adapter or AdapterSettings(), seed=seed)
        self.described, self.adapted = self.backend.described, self.backend.adapted
        self.upstream: object = (
            None  # an `Upstream` (`secl.backends.endpoint.client`) if vLLM servers write the answers
        )
        # Models share readings only with equal precision and first adapted layer, because the last digits of
        # probabilities depend on both.
        computed = str(loaded.model.dtype), self.backend.first
        alike = loaded.fingerprint, *computed, paper, distractors, thinking, seed
        super().__init__(
            loaded,
            self.backend,
            self.backend.token_ids,
            rules=self.backend.rules,
            paper=paper,
            distractors=distractors,
            thinking=thinking,
            seed=seed,
            shared=None if shared is None else shared.to(*alike),
        )
        self._trainer: Trainer = self.backend
        self._answer_weights = answer_weights
        self._nli = None if nli is None else dinco.nli_model(nli, self.backend.device)
        if self._nli is not None:
            self.fingerprint += f"+{self._nli.fingerprint}"

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        *,
        dtype: Dtype = "auto",
        device: Device = "auto",
        device_map: Literal["auto"] | None = None,
        quantize: Quantize | None = None,
        chat_template: ChatTemplate = "own",
        cache: ModelCache | None = None,
        **settings: Any,
    ) -> LocalModel:
        """Load a model as `secl.backends.local.loading.loader.load` does; `settings` are the constructor's.

        A `cache` keeps the weights for the next model of the same name.
        """
        loading = cache.load if cache else load
        loaded = loading(
            name, dtype=dtype, device=device, device_map=device_map, quantize=quantize, chat_template=chat_template
        )
        return cls(loaded, **settings)

    @property
    def learner(self) -> LocalLearner:
        """The adapter with its lessons; without a state of its own, so that models form no reference cycles."""
        return LocalLearner(
            self.backend,
            self._trainer,
            self.driver,
            self.meter,
            self._answer_weights,
            self._latest_answer,
            self._forget,
        )

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.learner.version, "tau": self.tau}

    def answer_by(self, engine: Engine, trainer: Trainer) -> None:
        """Let servers read and write instead of this process, which then only trains."""
        self.driver, self._trainer = replace(self.driver, engine=engine), trainer

    @property
    def adapter(self) -> Adapter:
        return self.backend.adapter

    @property
    def environment(self) -> dict[str, str | int]:
        return {**self.backend.environment, **super().environment}

    def memory_share(self, question: Question, sampling: SamplingParameters) -> float:
        """Return which share of the memory for texts these texts need; see `secl.model.Model.memory_share`."""
        if self.upstream is not None:
            return 0.0
        thinking = 0
        if self.prompting.thinks:
            generation, sampling = self.prompting.with_thought(question, sampling, self.backend.limit)
            thinking = generation.limit
        else:
            sampling = self.prompting.with_room(question, sampling, self.backend.limit)
        needed = sampling.n * (len(self.prompting.answer(question)) + thinking + (sampling.max_tokens or 0))
        if needed > self.backend.text_tokens:
            raise TooLongError(
                f"n is {sampling.n} and each text has up to {sampling.max_tokens} tokens, so the request needs memory "
                f"for {needed} tokens, but there is room for {self.backend.text_tokens}; ask for fewer texts or tokens."
            )
        return needed / self.backend.text_tokens

    def _rewrites(self, weights_fixed: bool) -> bool:
        return self.learner.answer_weights == "adapted" and not (weights_fixed and self.learner.version == 0)

    def _adapt(self, answered: Sequence[Answered], *, weights_fixed: bool) -> None:
        if weights_fixed and self.learner.version:
            adapted = self.learner.adapt([_answer(each) for each in answered])
            for each, answer in zip(answered, adapted, strict=True):
                each.adapted = answer

    def _present(self, known: Answered, letter: str | None) -> Reply:
        answer, version = _answer(known), self.learner.version
        if version:
            if known.adapted is None or known.adapted.version != version:
                # Replace an older version's reading. A resumed run does not repeat that reading, so the ledger omits
                # it.
                (known.adapted,) = self.learner.adapt([answer])
            answer = known.adapted
            self.meter.spend("adapting", answer.tokens)
        if letter is None or letter == answer.reply.text:
            return answer.reply
        return self.driver.reply(answer, letter)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Return DINCO's evidence about the most probable options or open answers; None if no answer is readable."""
        if question.options:
            log_p = self._frozen_reply(question).option_log_p
            best = sorted(range(len(log_p)), key=lambda i: -log_p[i])[: dinco.BEAMS]
            answers = [question.letters[i] for i in best]
        else:
            answers = dinco.beam_answers(self.driver, self.backend.writer, self.meter, question)
        if not answers:
            return None
        return dinco.gather(self.driver, self.meter, self._nli, question, answers, reply.answer, samples)

    def _frozen_reply(self, question: Question) -> Reply:
        if self._latest is not None and self._latest.case.question == question:
            return self._latest.case.reply
        (answered,) = self._ask({key_of(question, None): (None, set())}).values()
        self.meter.spend("comparing", sum(answered.run.spent.values()))
        return answered.case.reply

    def _latest_answer(self, question: Question) -> Answer | None:
        latest = self._latest
        if latest is None or latest.case.question != question:
            return None
        answer: Answer = latest.adapted if self.learner.version else _answer(latest)
        return answer

    def _forget(self) -> None:
        # Later updates may repeat version numbers, so answers of the old versions must not be reused.
        self._window, self._latest = {}, None


def _answer(answered: Answered) -> Answer:
    """Return the frozen model's answer as the driver read it."""
    if answered.case.stated is None:
        raise ValueError("the flow of a question ended without a reply")
    answer: Answer = answered.case.stated.state
    return answer
