"""The model that answers, judges itself and learns: one pass over a question's shared prefix serves all three."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from secl.backends.local.adapter import Adapter, parse_layers, plain_config
from secl.backends.local.dinco import BEAMS, DincoProbe
from secl.backends.local.distillation import Distiller
from secl.backends.local.fast.select_network import check_usable, connect
from secl.backends.local.fast.shared_network import UNLIMITED
from secl.backends.local.generation import MAX_LIST_TOKENS, Draft, Generator
from secl.backends.local.loading import Loaded, ModelCache, load
from secl.backends.local.model_parts import layers_of
from secl.backends.local.nli import NliModel, SelfEntailment
from secl.backends.local.prefetch import Prefetched, Prefetcher, Reading
from secl.backends.local.readout import Reader, ends_of
from secl.backends.local.token_ids import SAMPLE, TokenIds, render
from secl.cost import Meter, Purpose
from secl.data.grading import answer_key
from secl.errors import ParameterError, QuestionError
from secl.model import ModelAnswer
from secl.prompts.templates import (
    MAX_ANSWER_TOKENS,
    answer_prompt,
    confidence_prompt,
    distractor_prompt,
)
from secl.records import DincoEvidence, PTrue, Question, Reply, Update
from secl.settings import AdapterSettings, Device, Dtype, PTrueKind

MARGIN = 16
"""Tokens of a prompt beyond the question and the answer that no estimate counts: branches, verdicts, line breaks."""


class LocalModel:
    """A transformers chat model on this machine, with a LoRA adapter that learns to state its confidence.

    Args:
        loaded: from `secl.backends.local.loading.load`.
        layers: which layers to adapt ("last:4", "all", "12-15"); None takes the model's preset.
        modules: linear modules to adapt; None takes the preset.
        rank, alpha: of LoRA.
        learning_rate: of AdamW.
        epochs: optimizer steps per question.
        beta: weight of the KL term; 0 leaves it out.
        p_true: "vocabulary" for the full-vocabulary probability of True, "pair" for True / (True + False).
        nli: hub id or folder of the NLI model that DINCO asks; None asks this model itself.
        seed: of the adapter's initial weights, and of sampled answers and distractors.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        layers: str | None = None,
        modules: Sequence[str] | None = None,
        rank: int = 8,
        alpha: float = 16,
        learning_rate: float = 5e-5,
        epochs: int = 3,
        beta: float = 0.0,
        p_true: PTrueKind = "vocabulary",
        nli: str | None = None,
        seed: int = 42,
    ) -> None:
        if p_true not in ("vocabulary", "pair"):
            raise ParameterError(f"p_true is {p_true!r}; it is 'vocabulary' or 'pair'.")
        AdapterSettings(rank=rank, lora_alpha=alpha, learning_rate=learning_rate, epochs=epochs, beta=beta)
        model = loaded.model
        chosen = parse_layers(layers or loaded.preset.layers, model.config.num_hidden_layers)
        self.name = loaded.name
        self.tau = loaded.preset.tau
        self.fingerprint = loaded.fingerprint
        self.words = TokenIds.of(loaded.tokenizer, loaded.name)
        self.adapter = Adapter(
            model,
            chosen,
            modules or loaded.preset.modules,
            rank=rank,
            alpha=alpha,
            learning_rate=learning_rate,
            seed=seed,
        )
        self.device = model.device
        self.dtype = model.dtype
        self.distiller = Distiller(epochs, beta)
        sample = self.words.encode(render(loaded.tokenizer, answer_prompt(SAMPLE)))
        check_usable(loaded.name, model, sample)
        self.network = connect(model, self.adapter, min(chosen), sample)
        self.generator = Generator(model, loaded.tokenizer, seed, loaded.written)
        self.limit = min(self.network.window, int(getattr(model.config, "max_position_embeddings", None) or UNLIMITED))
        self.reader = Reader(self.network.head, self.words, p_true, self.device)
        self.ahead = Prefetcher(self.words, self.network, self.reader, self.generator, self.adapter)
        entailment: NliModel | SelfEntailment = SelfEntailment(self.words, self.network, self.reader)
        if nli is not None:
            entailment = NliModel(nli, self.device)
            self.fingerprint += f"+{entailment.fingerprint}"
        self.dinco_probe = DincoProbe(self.words, self.network, self.reader, self.generator, entailment)
        self.meter = Meter()
        self._looks: dict[Question, Prefetched] = {}
        self._latest: Prefetched | None = None

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        *,
        dtype: Dtype = "auto",
        device: Device = "auto",
        cache: ModelCache | None = None,
        **settings: Any,
    ) -> LocalModel:
        """Load a model by preset name, hub id, folder or GGUF file; `settings` as for the constructor.

        A `cache` keeps the weights for the next model of that name.
        """
        return cls((cache.load if cache else load)(name, dtype=dtype, device=device), **settings)

    @property
    def adapter_config(self) -> dict[str, Any]:
        """The LoRA configuration in PEFT's words."""
        return plain_config(self.adapter.config.to_dict())

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how the network computes: device, type of the body, threads."""
        body = str(self.dtype).removeprefix("torch.")
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        return {"device": name, "dtype": body, "threads": torch.get_num_threads()}

    @property
    def version(self) -> int:
        return self.adapter.version

    def check(self, question: Question) -> None:
        """Let a question pass that this model can answer.

        Raises:
            QuestionError: the question has more options than letters, or is longer than the model can read.
        """
        if len(question.options) > len(self.words.letters):
            raise QuestionError(
                f"question {question.id!r} has {len(question.options)} options, but this model has single tokens for "
                f"{len(self.words.letters)} letters only."
            )
        prompts = [answer_prompt(question)]
        if not question.options:
            prompts += [confidence_prompt(question, ""), distractor_prompt(question)]
        longest = max(len(self.words.encode(render(self.words.tokenizer, prompt))) for prompt in prompts)
        needed = longest + max(MAX_ANSWER_TOKENS[question.form], MAX_LIST_TOKENS[question.form]) + MARGIN
        if needed > self.limit:
            raise QuestionError(
                f"question {question.id!r} takes {needed} tokens with its answer, more than the {self.limit} that the "
                "model can read; shorten it."
            )

    def prefetch(self, questions: Sequence[Question], scored: Sequence[bool], *, weights_fixed: bool) -> None:
        """Prefetch a window of upcoming questions in shared passes; see `secl.model.Model.prefetch`."""
        for question in questions:
            self.check(question)
        wanted: dict[Question, list[bool]] = {}
        for question, flag in zip(questions, scored, strict=True):
            wanted.setdefault(question, []).append(flag)
        looks = self.ahead.look(list(wanted), [any(flags) for flags in wanted.values()])
        if weights_fixed and self.version:
            self.ahead.adapt(looks)
        for look in looks:
            look.split(len(wanted[look.question]))
        self._looks = {look.question: look for look in looks}

    @torch.no_grad()
    def answer(self, question: Question, *, score_next: bool = False) -> ModelAnswer:
        """Answer and state a confidence, as the adapted and as the frozen model.

        Raises:
            QuestionError: the question has more options than letters, or is longer than the model can read.
        """
        look = self._looks.get(question)
        if look is None:
            self.check(question)
            (look,) = self.ahead.look([question], [score_next])
        self._latest = look
        self.meter.spend("answering", look.tokens - look.scoring)
        self.meter.spend("scoring", look.scoring)
        frozen = reply = self._read(look.frozen, question, look.frozen.answering.frozen(look.frozen.nodes), 0)
        if self.version:
            if look.version != self.version:
                self.ahead.adapt([look])
            if look.states is not None:
                reply = self._read(look.now, question, look.states, self.version)
        if self.version:
            self.meter.spend("adapting", look.adapted_tokens)
        look.used = True
        return ModelAnswer(reply=reply, frozen=frozen, plain_tokens=look.plain_tokens)

    def _read(self, reading: Reading, question: Question, states: Tensor, version: int) -> Reply:
        if question.options:
            return self.reader.choice(question, states, version)
        before_digit = len(states) - 1
        rows = [*range(before_digit - 1), before_digit]
        written = torch.from_numpy(reading.written).to(self.device)
        return self.reader.reply(question, reading.text, states[rows], written, version)

    @torch.no_grad()
    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """P(True) of the answer and of its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        look = self._latest if self._latest is not None and self._latest.question == question else None
        if not question.options:
            prompt = self.ahead.list_prompt(question)
            listed = look.listed if look is not None else None
            if listed is None:
                draft = Draft.list(prompt, question.form)
                self.generator.write([draft])
                self.meter.spend("scoring", draft.tokens)
                listed = self.generator.items(draft)
            others, strategy, tokens = self.generator.distractors(prompt, question, reply.answer, listed)
            self.meter.spend("scoring", tokens)
            candidates = [reply.answer, *others]
            return PTrue(
                candidates=tuple(candidates),
                probabilities=self._judge(question, candidates),
                distractor_source=strategy,
            )
        if look is not None and look.judge_nodes is not None:
            p_true = self.reader.p_true(look.frozen.answering.frozen(look.judge_nodes))
        else:
            p_true = self._judge(question, question.options)
        first = question.letters.index(reply.answer)
        order = [first, *(i for i in range(len(question.options)) if i != first)]
        return PTrue(
            candidates=tuple(question.options[i] for i in order),
            probabilities=tuple(p_true[i] for i in order),
            distractor_source="options",
        )

    def _judge(self, question: Question, candidates: Sequence[str]) -> tuple[float, ...]:
        scoring = self.network.run(self.ahead.verdicts(question, candidates))
        self.meter.spend("scoring", len(scoring.trie.tokens))
        return self.reader.p_true(scoring.frozen(ends_of(scoring.trie)))

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers of the frozen model at temperature 1; option letters come from the pass that answered."""
        if not question.options:
            answers, tokens = self.generator.samples(self.ahead.answer_prompt(question), question, count)
            self.meter.spend("sampling", tokens)
            return tuple(answers)
        places = self.generator.draw_options(self._option_shares(question, "sampling"), question, count)
        return tuple(question.letters[place] for place in places)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Evidence for DINCO; of multiple choice, the beams are the options with the most probable letters."""
        if question.options:
            shares = self._option_shares(question, "comparing")
            order = sorted(range(len(shares)), key=lambda i: -shares[i])[:BEAMS]
            answers = [question.letters[i] for i in order]
        else:
            answers, tokens = self.dinco_probe.beams(self.ahead.answer_prompt(question), question.form)
            self.meter.spend("comparing", tokens)
        beams = len(answers)
        if not beams:
            return None
        keys = [answer_key(answer, question.form) for answer in answers]
        rated = [0]
        if reply.answer is not None:
            own = answer_key(reply.answer, question.form)
            if own not in keys:
                answers, keys = [*answers, reply.answer], [*keys, own]
            rated = sorted({0, keys.index(own)})
        evidence, tokens = self.dinco_probe.compare(question, answers, beams, rated, samples)
        self.meter.spend("comparing", tokens)
        return evidence

    def _option_shares(self, question: Question, purpose: Purpose) -> tuple[float, ...]:
        """The frozen model's probabilities of the option letters."""
        look = self._latest
        if look is None or look.question != question:
            (look,) = self.ahead.look([question], [False])
            self.meter.spend(purpose, look.tokens)
        states = look.frozen.answering.frozen(look.frozen.nodes[:1])
        return self.reader.options(len(question.options), states)[0]

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply` towards `target`; `question` must be the latest one answered.

        Raises:
            QuestionError: another question was answered since.
        """
        look = self._latest
        if look is None or look.question != question:
            raise QuestionError(f"question {question.id!r} is not the latest one answered; answer it again first.")
        reading = look.now if self.version else look.frozen
        place = 1 + question.letters.index(reply.text) if question.options else -1
        node = reading.nodes[[place]]
        replay = reading.answering.adapted(node)
        losses, after = self.distiller.train(
            self.adapter, self.network.head, replay, reading.answering.frozen(node), self.reader.digits, target
        )
        self.meter.spend("learning", replay.tokens * (3 * self.distiller.epochs + 1))
        return Update(version=self.version, before=reply.confidence, target=target, after=after, losses=losses)

    def reset(self) -> None:
        self.adapter.reset()

    def snapshot(self) -> bytes:
        return self.adapter.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.adapter.restore(snapshot)
        # Updates after this one take numbers that were given before, so nothing seen under them may be used again.
        self._looks, self._latest = {}, None

    def load_version(self, weights: bytes, version: int) -> None:
        self.adapter.load_version(weights, version)
        self._looks, self._latest = {}, None

    @property
    def relative_norm(self) -> float:
        return self.adapter.relative_norm

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass, so that other work on the machine can go first."""
        for layer in layers_of(self.generator.model):
            layer.register_forward_pre_hook(lambda *_arguments: hook())

    def close(self) -> None:
        """Nothing to release: the weights go with the last reference."""

    def weights(self) -> bytes:
        return self.adapter.weights()
