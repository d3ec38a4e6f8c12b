"""A chat model whose adapter learns in this process; it answers here, or vLLM servers answer for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from secl.backends.generation import Draft
from secl.backends.local import dinco, rating
from secl.backends.local.adapter import Adapter, plain_config
from secl.backends.local.answers import Answering, Prefetched
from secl.backends.local.asker import Asker
from secl.backends.local.backend import LocalBackend
from secl.backends.local.candidates import among_answers, among_options, compare_now
from secl.backends.local.loading import Loaded, ModelCache, load
from secl.backends.local.nli import NliModel
from secl.backends.local.readout import Readout, Verdicts, p_true_of, shares
from secl.backends.local.writer import draw_many
from secl.backends.open_answers import Distractors
from secl.backends.prompting import Prompting
from secl.display import Shown
from secl.errors import ParameterError, QuestionError, TooLongError
from secl.evidence import CandidateEvidence, DincoEvidence, EvidenceKind, PTrue
from secl.model import ModelAnswer, Rating
from secl.prompts.parsing import as_written, is_brief, read_answer
from secl.prompts.thoughts import answers_alone
from secl.question import GivenAnswer, Question
from secl.records import Meter, Purpose, Reply, Update
from secl.settings import AdapterSettings, AnswerWeights, Device, DeviceMap, Dtype, PromptSettings, PTrueKind, Quantize
from secl.writing import Piece, Writing


class LocalModel(Shown):
    """A transformers chat model with a LoRA adapter that learns to state its confidence; a `secl.model.Model`.

    Args:
        loaded: from `secl.backends.local.loading.load`.
        adapter: its size and how it is trained; layers and modules that it leaves open come from the model's preset.
        p_true: "vocabulary" for the full-vocabulary probability of True in all its spellings, "token" for that of the
            one token.
        prompts: how it is asked; our way unless given.
        answer_weights: whose weights write the answers, "adapted" or "frozen".
        nli: hub id or folder of the NLI model that compares answers for DINCO; None asks this model itself.
        max_batch_tokens: most tokens in a pass that several questions share; see `LocalBackend`.
        seed: of the adapter's initial weights, and of sampled answers and distractors.

    Attributes:
        backend: the weights, here.
        asker: what asks, and of whom: `backend`, or servers (`secl.backends.endpoint.vllm.answer_by_vllm`).
        meter: counts tokens by purpose where they are spent.
        writes_apart: whether texts are written elsewhere (`secl.model.Model`).

    Raises:
        ModelError: the model or the NLI model cannot be used, or the adapter does not fit it.
        ParameterError: unknown layers, another kind of P(True), or a seed outside 0 to 2^63 - 1.
    """

    def __init__(
        self,
        loaded: Loaded,
        adapter: AdapterSettings | None = None,
        *,
        p_true: PTrueKind = "vocabulary",
        prompts: PromptSettings | None = None,
        answer_weights: AnswerWeights = "adapted",
        nli: str | None = None,
        max_batch_tokens: int | None = None,
        seed: int = 42,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ParameterError(f"The seed must be a whole number from 0 to 2^63 - 1, not {seed}.")
        self.backend = LocalBackend(loaded, adapter or AdapterSettings(), seed=seed, max_batch_tokens=max_batch_tokens)
        self.name = loaded.name
        self.tau = loaded.preset.tau
        self.letters = loaded.preset.letters
        self.fingerprint = loaded.fingerprint
        self.answer_weights = answer_weights
        self.writes_apart = False
        self.meter = Meter()
        ids = self.backend.token_ids
        self.prompting = Prompting(ids, prompts)
        self.asker = Asker(self.backend, self.backend, self.prompting, Readout(ids, p_true), self.meter, seed)
        self.answering = Answering(self.asker, rewrites=answer_weights == "adapted")
        self._nli = None if nli is None else NliModel(nli, self.backend.device)
        if self._nli is not None:
            self.fingerprint += f"+{self._nli.fingerprint}"
        self._window: dict[tuple[Question, str | None], Prefetched] = {}
        self._latest: Prefetched | None = None

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        *,
        dtype: Dtype = "auto",
        device: Device = "auto",
        device_map: DeviceMap | None = None,
        quantize: Quantize | None = None,
        cache: ModelCache | None = None,
        **settings: Any,
    ) -> LocalModel:
        """Load a model as `secl.backends.local.loading.load` does; `settings` as for the constructor.

        A `cache` keeps the weights for the next model of that name.
        """
        loading = cache.load if cache else load
        loaded = loading(name, dtype=dtype, device=device, device_map=device_map, quantize=quantize)
        return cls(loaded, **settings)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "tau": self.tau}

    @property
    def adapter(self) -> Adapter:
        """The trained weights."""
        return self.backend.adapter

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how the model computes: device, precision, threads."""
        return {**self.backend.environment, **self.asker.backend.environment}

    @property
    def described(self) -> str:
        """Where its settings come from, what is adapted, and which path passes take, for people."""
        return self.backend.described

    @property
    def adapter_config(self) -> dict[str, Any]:
        """Configuration of the adapter in PEFT's terms, as JSON values."""
        return plain_config(self.adapter.config.to_dict())

    @property
    def version(self) -> int:
        return self.adapter.version

    @property
    def relative_norm(self) -> float:
        return self.adapter.relative_norm

    def check(self, question: Question, given: str | None = None) -> None:
        """Check that the model can answer a question, or read an answer that was given to it.

        Raises:
            QuestionError: it has more options than letters, or is longer than the model can read.
        """
        self.prompting.check_length(question, self.asker.backend.limit, given)

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[str | None] = (),
    ) -> None:
        """Answer a window of upcoming questions together; see `secl.model.Model.prefetch`."""
        # A question that comes twice in a window is looked at once, and each of its turns pays its part.
        turns: dict[tuple[Question, str | None], list[Collection[EvidenceKind]]] = {}
        for question, kinds, text in zip(questions, evidence, written or [None] * len(questions), strict=True):
            self.check(question, text)
            turns.setdefault((question, _as_written(question, text)), []).append(kinds)
        window = self.answering.prefetch(
            [question for question, _ in turns],
            [frozenset().union(*kinds) for kinds in turns.values()],
            self.version if weights_fixed else 0,
            [text for _, text in turns],
        )
        self._window = dict(zip(turns, window, strict=True))
        for turn, item in self._window.items():
            item.split(len(turns[turn]))

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
    ) -> ModelAnswer:
        """Answer and state a confidence, as the adapted and as the frozen model; see `secl.model.Model.answer`.

        Raises:
            QuestionError: the question has more options than letters, or is longer than the model can read.
            UnavailableError: no server answers (a `ModelError`; later one may).
        """
        version, turn = self.version, (question, _as_written(question, written))
        item = self._window.get(turn)
        if item is None:
            self.check(question, written)
            (item,) = self.answering.prefetch([question], [evidence], version, [turn[1]])
        if version and item.version != version:
            self.answering.adapt(item, version)
        self._latest = item
        self.meter.spend("answering", item.tokens)
        for purpose, tokens in item.evidence_tokens.items():
            self.meter.spend(purpose, tokens)
        if version:
            self.meter.spend("adapting", item.adapted_tokens)
        return ModelAnswer(
            reply=item.answer(version).reply,
            frozen=item.frozen.reply,
            plain_tokens=float(len(item.frozen.reading.bundle.answers[0])),
        )

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Write free answers with the untouched weights; see `secl.model.Model.write`."""
        backend, prompt = self.asker.backend, self.prompting.answer(question)
        room = self.prompting.room(question, backend.limit)
        least = 1 if writing.or_fewer else writing.max_tokens or 1
        if room < least:
            wanted = f" and {least} for its answer" if least > 1 else ""
            raise TooLongError(
                f"the conversation takes {len(prompt)} tokens{wanted}, more than the {len(prompt) + max(0, room)} that "
                "the model can read beside the question for its confidence; shorten it, or ask for fewer tokens."
            )
        writing = replace(writing, max_tokens=min(room, writing.max_tokens or room))
        return answers_alone(backend.write_texts(prompt, writing))

    def check_given(self, given: GivenAnswer) -> None:
        """Check that the model can read a given answer and its rivals; raises `QuestionError` as `check` does."""
        for answer in (given.answer, *given.rivals):
            self.check(given.question, answer)

    def rate_given(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        """Rate answers from elsewhere; see `secl.model.Model.rate_given`."""
        for each in given:
            self.check_given(each)
        return rating.rate(self.asker, given, evidence)

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """P(True) of the answer and of its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        item = self._latest_item(question)
        if not question.options:
            distractors = Distractors([], "none")
            if is_brief(reply.answer, question.form):
                listing = None if item is None else item.listing
                distractors = self.asker.distractors(question, reply.answer, listing)
            candidates = (reply.answer, *distractors.answers)
            return p_true_of(candidates, self.asker.judge(question, candidates), distractors.source)
        known = None if item is None else item.verdicts
        verdicts = known or self.asker.judge(question, question.options)
        own = question.letters.index(reply.answer)
        order = [own, *(i for i in range(len(question.options)) if i != own)]
        ordered = Verdicts(tuple(verdicts.true[i] for i in order), tuple(verdicts.false[i] for i in order))
        return p_true_of([question.options[i] for i in order], ordered, "options")

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Letters under further orders of the candidates; likelihoods of options, or further answers.

        Returns:
            None without a readable answer, or where it is too long to be compared with others.
        """
        if reply.answer is None:
            return None
        item = self._latest_item(question)
        known = None if item is None else item.candidates
        if known is not None and (question.options or known.candidates[0] == reply.answer):
            return known
        if question.options:
            return compare_now(self.asker, among_options(self.asker, question))
        (comparison,) = among_answers(self.asker, [(question, reply.answer, ())])
        return None if comparison is None else compare_now(self.asker, comparison)

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers of the frozen model at temperature 1; option letters come from the pass that answered.

        Draws depend on the question and the seed, but servers with other hardware may draw otherwise.
        """
        asker = self.asker
        if question.options:
            p = self._option_shares(question, "sampling")
            return tuple(question.letters[i] for i in draw_many(p, count, asker.seed_for(question, "samples")))
        prompt = self.prompting.answer(question)
        seeds = [asker.seed_for(question, f"sample {i}") for i in range(count)]
        drafts = [Draft.answer(prompt, question.form, seed=seed) for seed in seeds]
        asker.backend.write([drafts])
        self.meter.spend("sampling", sum(draft.tokens for draft in drafts))
        return tuple(read_answer(asker.answer_in(draft), question.form) for draft in drafts)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Evidence for DINCO; of multiple choice, the beams are the options with the most probable letters."""
        if question.options:
            p = self._option_shares(question, "comparing")
            answers = [question.letters[i] for i in sorted(range(len(p)), key=lambda i: -p[i])[: dinco.BEAMS]]
        else:
            answers = dinco.beam_answers(self.asker, question)
        return dinco.gather(self.asker, self._nli, question, answers, reply.answer, samples) if answers else None

    def _option_shares(self, question: Question, purpose: Purpose) -> tuple[float, ...]:
        """The frozen model's probabilities of the option letters."""
        item = self._latest_item(question)
        if item is None:
            (item,) = self.answering.prefetch([question], [()], 0, [])
            self.meter.spend(purpose, item.tokens)
        return shares(item.frozen.reply.option_log_p)

    def _latest_item(self, question: Question) -> Prefetched | None:
        return self._latest if self._latest is not None and self._latest.question == question else None

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply` towards `target`; `question` must be the latest one answered.

        Raises:
            QuestionError: another question was answered since.
        """
        item = self._latest_item(question)
        if item is None:
            raise QuestionError(f"{question.mention} is not the latest one answered; answer it again first.")
        reading = item.answer(self.version).reading
        training = self.asker.backend.train(reading, item.digit_position(reading, reply), target)
        self.meter.spend("learning", training.tokens)
        return Update(
            version=self.version, before=reply.confidence, target=target, after=training.after, losses=training.losses
        )

    def reset(self) -> None:
        self.adapter.reset()
        self.asker.backend.publish()

    def snapshot(self) -> bytes:
        return self.adapter.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.adapter.restore(snapshot)
        self._forget()

    def weights(self) -> bytes:
        return self.adapter.weights()

    def load_version(self, weights: bytes, version: int) -> None:
        self.adapter.load_version(weights, version)
        self._forget()

    def _forget(self) -> None:
        # Updates after this one may take numbers that were given before, so nothing seen under them may be used again.
        self._window, self._latest = {}, None
        self.asker.backend.publish()

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass in this process, so that other work can go first."""
        self.backend.set_pause_hook(hook)

    def close(self) -> None:
        """End connections and threads."""
        self.asker.backend.close()


def _as_written(question: Question, text: str | None) -> str | None:
    """A text as it stands in the conversation; None for multiple choice, whose letter is read in the same pass."""
    return None if text is None or question.options else as_written(text, question.form)
