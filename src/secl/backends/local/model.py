"""A chat model whose adapter learns in this process. Answers come from this process or from vLLM servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from secl.backends.base import Engine, Trainer
from secl.backends.local import dinco
from secl.backends.local.adapter import Adapter
from secl.backends.local.backend import LocalBackend
from secl.backends.local.calls import CallWriter
from secl.backends.local.loading.loader import Loaded
from secl.backends.local.loading.model_parts import layers_of
from secl.backends.local.objects import ObjectWriter, write_all
from secl.backends.token_driver import Answer
from secl.backends.token_model import TokenModel
from secl.errors import ModelError, QuestionError, SeclError, TooLongError
from secl.evidence import DincoEvidence
from secl.fields.calls import WrittenReply
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.fields.values import WrittenObject
from secl.flow.model import Answered, SharedAnswers, key_of
from secl.question import Question
from secl.records import Reply, Update
from secl.settings.groups import AdapterSettings, AnswerWeights, Thinking
from secl.writing import SamplingParameters


class LocalModel(TokenModel):
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
        meter: counts tokens by purpose.
        described: name of the preset, and whether passes take the fast or the plain path: "preset smollm2; fast path".

    Raises:
        ModelError: the model or the NLI model cannot be used, or the adapter does not fit the model.
        ParameterError: unknown layers.
    """

    shares_passes = True

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
        self.trainer: Trainer = self.backend
        self._answer_weights = answer_weights
        self._nli = None if nli is None else dinco.nli_model(nli, self.backend.device)
        if self._nli is not None:
            self.fingerprint += f"+{self._nli.fingerprint}"

    @property
    def learner(self) -> LocalModel:
        """This model; see `secl.model.Learner`."""
        return self

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "tau": self.tau}

    def answer_by(self, engine: Engine, trainer: Trainer) -> None:
        """Let servers read and write instead of this process, which then only trains."""
        self.driver, self.trainer = replace(self.driver, engine=engine), trainer

    @property
    def environment(self) -> dict[str, str | int]:
        return {**self.backend.environment, **super().environment}

    @property
    def adapter(self) -> Adapter:
        return self.backend.adapter

    @property
    def version(self) -> int:
        return self.adapter.version

    @property
    def relative_norm(self) -> float:
        return self.adapter.relative_norm

    @property
    def config(self) -> dict[str, object]:
        """PEFT's configuration of the adapter as JSON values, with lists for sets; empty if no module can learn."""
        values: dict[str, object] = {}
        with suppress(ModelError):
            values = json.loads(json.dumps(self.adapter.config.to_dict(), default=sorted))
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
        if self._answer_weights == "adapted":
            adapted = self._rewrite(adapted)
        keeps = self._answer_weights == "frozen"
        letters = [answer.reply.answer if keeps and answer.text is None else None for answer in answers]
        replies = self.driver.engine.map(lambda each: self.driver.reply(*each), [*zip(adapted, letters, strict=True)])
        return [replace(answer, reply=reply) for answer, reply in zip(adapted, replies, strict=True)]

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
        answer = self.latest_answer(question)
        if answer is None:
            raise QuestionError(f"{question.mention} is not the latest question; answer it again first.")
        training = self.trainer.train(answer.reading, answer.digit_position(reply), target)
        self.meter.spend("learning", training.tokens)
        return Update(
            version=self.version, before=reply.stated, target=target, after=training.after, losses=training.losses
        )

    def reset(self) -> None:
        self.adapter.reset()
        self.trainer.renew(learning=True)

    def snapshot(self) -> bytes:
        return self.adapter.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.adapter.restore(snapshot)
        self._forget()
        self.trainer.renew(learning=True)

    def weights(self) -> bytes:
        return self.adapter.weights()

    def load_version(self, weights: bytes, version: int) -> None:
        self.adapter.load_version(weights, version)
        self._forget()
        self.trainer.renew(learning=False)

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass in this process; the hook may wait for other work."""
        self.backend.writer.alone = False  # another thread may compute while this thread pauses
        for layer in layers_of(self.backend.model):
            layer.register_forward_pre_hook(lambda *_arguments: hook())

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

    @cached_property
    def objects(self) -> ObjectWriter:
        return ObjectWriter(self.backend, self.driver, self.name)

    @cached_property
    def calls(self) -> CallWriter:
        return CallWriter(self.backend, self.driver, self.name)

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write JSON objects with the frozen weights; see `secl.fields.extraction.WritesObjects`.

        Raises the errors of `secl.backends.local.constrained.GrammarWriter`.
        """
        return write_all(self.objects, requests, samples)

    def check_schema(self, schema: Schema) -> tuple[str, ...]:
        """Return a sentence for each keyword of a schema that cannot constrain the model.

        Raises ParameterError: llguidance is missing, or rejects the schema.
        """
        return self.objects.remarks(schema)

    def write_calls(
        self, requests: Sequence[CallRequest], samples: Callable[[CallRequest, WrittenReply], int]
    ) -> list[Objects[WrittenReply] | SeclError]:
        """Write replies that may call tools, with the frozen weights; see `secl.fields.calls.WritesCalls`.

        Raises the errors of `write_objects`.
        """
        return write_all(self.calls, requests, samples)

    def _rewrites(self, weights_fixed: bool) -> bool:
        return self._answer_weights == "adapted" and not (weights_fixed and self.version == 0)

    def _adapt(self, answered: Sequence[Answered], *, weights_fixed: bool) -> None:
        if weights_fixed and self.version:
            adapted = self.adapt([_answer(each) for each in answered])
            for each, answer in zip(answered, adapted, strict=True):
                each.adapted = answer

    def _present(self, known: Answered, letter: str | None) -> Reply:
        answer, version = _answer(known), self.version
        if version:
            if known.adapted is None or known.adapted.version != version:
                # Replace an older version's reading. A resumed run does not repeat that reading, so the ledger omits
                # it.
                (known.adapted,) = self.adapt([answer])
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

    def latest_answer(self, question: Question) -> Answer | None:
        latest = self._latest
        if latest is None or latest.case.question != question:
            return None
        answer: Answer = latest.adapted if self.version else _answer(latest)
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
