"""A chat model whose adapter learns in this process; it answers here, or vLLM servers answer for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

from secl.backends.generation import Draft
from secl.backends.local.adapter import Adapter, plain_config
from secl.backends.local.asking import dinco, rating
from secl.backends.local.asking.answers import Answering
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.candidates import compared, sampled
from secl.backends.local.asking.cases import Case, Turn
from secl.backends.local.asking.nli import nli_model
from secl.backends.local.asking.prefill_probe import prefers_prefill
from secl.backends.local.asking.readout import Readout, shares
from secl.backends.local.backend import LocalBackend
from secl.backends.local.calls import CallWriter
from secl.backends.local.loading.loader import Loaded, ModelCache, load
from secl.backends.local.objects import ObjectWriter
from secl.backends.local.shared import SharedAnswers
from secl.backends.local.writer import draw_many
from secl.backends.prompting import Prompting
from secl.backends.text_stream import answers_alone
from secl.display import Shown
from secl.errors import ParameterError, QuestionError, SeclError, TooLongError
from secl.evidence import CandidateEvidence, DincoEvidence, EvidenceKind, PTrue
from secl.fields.calls import WrittenReply
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.fields.values import WrittenObject
from secl.ledger import Meter, Purpose
from secl.model import ModelAnswer, Rating
from secl.question import GivenAnswer, Question
from secl.records import Reply, Update
from secl.settings.groups import AdapterSettings, AnswerWeights, Device, Dtype, Quantize
from secl.writing import Piece, Writing, Written


class LocalModel(Shown):
    """A transformers chat model with a LoRA adapter that learns to state its confidence; a `secl.model.Model`.

    Args:
        loaded: from `secl.backends.local.loading.loader.load`.
        adapter: layers and modules that it leaves open come from the model's preset.
        paper: whether it is asked to the letter of the paper, where secl does otherwise (docs/paper.md).
        distractors: of an open answer, 1 to 9.
        answer_weights: whose weights write the answers, "adapted" or "frozen".
        nli: hub id or folder of the NLI model that compares answers for DINCO; None asks this model itself.
        seed: of the adapter's initial weights, and of sampled answers and distractors.

    Attributes:
        backend: the weights, here.
        asker: asks `backend`, or vLLM servers (`secl.backends.endpoint.vllm.connect.answer_by_vllm`).
        meter: counts tokens by purpose where they are spent.
        described: where its settings come from, what is adapted, and which path passes take, for people.

    Raises:
        ModelError: the model or the NLI model cannot be used, or the adapter does not fit it.
        ParameterError: unknown layers, or a seed outside 0 to 2^63 - 1.
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
        seed: int = 42,
        shared: SharedAnswers | None = None,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ParameterError(f"The seed must be a whole number from 0 to 2^63 - 1, not {seed}.")
        self.backend = LocalBackend(loaded, adapter or AdapterSettings(), seed=seed)
        self.described, self.adapted = self.backend.described, self.backend.adapted
        self.name = loaded.name
        self.tau = loaded.preset.tau
        self.letters = loaded.preset.letters
        self.fingerprint = loaded.fingerprint
        self.answer_weights = answer_weights
        self.writes_apart = False
        self.upstream: object = None  # `secl.backends.endpoint.client.Upstream` where servers answer
        self.meter = Meter()
        ids = self.backend.token_ids
        alike = loaded.fingerprint, *self.backend.shape, paper, distractors, seed
        windows, verdicts = (None, None) if shared is None else shared.to(*alike)
        known = loaded.preset.prefilled
        prefers = partial(prefers_prefill, self.backend) if known is None else lambda: known
        self.prompting = Prompting(ids, prefers, paper=paper, distractors=distractors)
        readout = Readout(ids, paper=paper)
        self.asker = Asker(self.backend, self.backend, self.prompting, readout, self.meter, seed, verdicts)
        self.answering = Answering(self.asker, rewrites=answer_weights == "adapted", windows=windows)
        self._nli = None if nli is None else nli_model(nli, self.backend.device)
        if self._nli is not None:
            self.fingerprint += f"+{self._nli.fingerprint}"
        self._window: dict[Turn, Case] = {}
        self._latest: Case | None = None

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        *,
        dtype: Dtype = "auto",
        device: Device = "auto",
        device_map: str | None = None,
        quantize: Quantize | None = None,
        cache: ModelCache | None = None,
        **settings: Any,
    ) -> LocalModel:
        """Load a model as `secl.backends.local.loading.loader.load` does; `settings` as for the constructor.

        A `cache` keeps the weights for the next model of that name.
        """
        loading = cache.load if cache else load
        return cls(loading(name, dtype=dtype, device=device, device_map=device_map, quantize=quantize), **settings)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "tau": self.tau}

    @property
    def adapter(self) -> Adapter:
        """The trained weights."""
        return self.backend.adapter

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how the model computes (device, precision, threads), and how its short replies begin."""
        short = "prefilled" if self.prompting.prefilled else "plain"
        return {**self.backend.environment, **self.asker.backend.environment, "short_replies": short}

    @property
    def adapter_config(self) -> dict[str, object]:
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
        written: Sequence[str | Written | None] = (),
    ) -> None:
        """Answer a window of upcoming questions together; see `secl.model.Model.prefetch`."""
        cases = []
        for case in map(self._case, questions, written or [None] * len(questions), evidence):
            with suppress(QuestionError):  # `answer` raises it for that question alone
                self.check(case.question, case.given)
                cases.append(case)
        self._window = self.answering.prefetch(cases, self.version if weights_fixed else 0)

    def _case(self, question: Question, written: str | Written | None, evidence: Collection[EvidenceKind]) -> Case:
        """A question, and what was written in answer to it as it stands in the conversation."""
        given = None if written is None or question.options else self.prompting.given(question, str(written))
        draft = written.draft if isinstance(written, Written) and isinstance(written.draft, Draft) else None
        return Case(question, given, frozenset(evidence), draft=draft)

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Written | None = None
    ) -> ModelAnswer:
        """Answer and state a confidence, as the adapted and as the frozen model; see `secl.model.Model.answer`.

        Raises:
            QuestionError: the question has more options than letters, or is longer than the model can read.
            UnavailableError: no server answers (a `ModelError`; later one may).
        """
        version, case = self.version, self._case(question, written, evidence)
        turn = case.turn
        if turn not in self._window:
            self.check(question, case.given)
        case = self._window.get(turn) or self.answering.prefetch([case], version)[turn]
        if version and case.version != version:
            self.answering.adapt(case, version)
        self._latest = case
        for purpose, tokens in case.spent.items():
            self.meter.spend(purpose, tokens)
        if version:
            self.meter.spend("adapting", case.answer_of(version).tokens)
        return ModelAnswer(
            reply=self.answering.reply(case, version, None if written is None else str(written)),
            frozen=case.frozen.reply,
            plain_tokens=float(len(case.frozen.reading.bundle.answers[0])),
        )

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Write free answers with the untouched weights; see `secl.model.Model.write`."""
        backend = self.asker.backend
        writing = self.prompting.with_room(question, writing, backend.limit)
        return answers_alone(backend.write_texts(self.prompting.answer(question), writing))

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write JSON objects with the frozen weights; see `secl.fields.extraction.WritesObjects`.

        Raises:
            ParameterError: servers answer for this model, or llguidance is missing.
            ModelError: llguidance cannot read the model's tokenizer.
        """
        return self.objects.write(requests, samples)

    def check_schema(self, schema: Schema) -> None:
        """Check that a schema can constrain the model.

        Raises:
            ParameterError, ModelError: it cannot; or as for `write_objects`.
        """
        self.objects.begun(schema.grammar)

    @cached_property
    def objects(self) -> ObjectWriter:
        """Writes JSON objects."""
        if self.asker.backend is not self.backend:
            raise ParameterError("extract works with models in this process so far, not with servers; load the model.")
        return ObjectWriter(self.backend, self.asker, self.name)

    def write_calls(
        self, requests: Sequence[CallRequest], samples: Callable[[CallRequest, WrittenReply], int]
    ) -> list[Objects[WrittenReply] | SeclError]:
        """Write replies with calls of tools with the frozen weights; see `secl.fields.calls.WritesCalls`.

        Raises:
            ParameterError, ModelError: as for `write_objects`.
        """
        return self.calls.write(requests, samples)

    @cached_property
    def calls(self) -> CallWriter:
        """Writes replies with calls of tools."""
        if self.asker.backend is not self.backend:
            raise ParameterError("call works with models in this process so far, not with servers; load the model.")
        return CallWriter(self.backend, self.asker, self.name)

    def memory_share(self, question: Question, writing: Writing) -> float:
        """Fraction of the memory for texts that their keys and values need; see `secl.model.Model.memory_share`."""
        if self.writes_apart:
            return 0.0
        writing = self.prompting.with_room(question, writing, self.backend.limit)
        needed = writing.n * (len(self.prompting.answer(question)) + (writing.max_tokens or 0))
        if needed > self.backend.text_tokens:
            raise TooLongError(
                f"{writing.n} texts of up to {writing.max_tokens} tokens need memory for {needed} tokens with their "
                f"conversation, more than the {self.backend.text_tokens} that there is room for; ask for fewer texts, "
                "or for fewer tokens."
            )
        return needed / self.backend.text_tokens

    def check_given(self, given: GivenAnswer) -> None:
        """Check that the model can read a given answer and its rivals; raises `QuestionError` as `check` does."""
        for answer in (given.answer, *given.rivals):
            self.check(given.question, answer)

    def rate_given(
        self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]
    ) -> list[Rating | QuestionError]:
        """Rate answers from elsewhere; see `secl.model.Model.rate_given`."""
        outcomes: dict[int, Rating | QuestionError] = {}
        for number, each in enumerate(given):
            try:
                self.check_given(each)
            except QuestionError as refusal:
                outcomes[number] = refusal
        rated = [number for number in range(len(given)) if number not in outcomes]
        ratings = rating.rate(self.asker, [given[number] for number in rated], evidence)
        outcomes |= zip(rated, ratings, strict=True)
        return [outcomes[number] for number in range(len(given))]

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """P(True) of the answer and of its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        case = self._latest_case(question)
        known, listing = (None, None) if case is None else (case.p_true, case.listing)
        return self.asker.p_true(question, reply.answer, known, listing)

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Letters under further orders of the candidates; likelihoods of options, or further answers.

        Returns:
            None without a readable answer, or where it is too long to be compared with others.
        """
        if reply.answer is None:
            return None
        case = self._latest_case(question)
        known = None if case is None else case.candidates
        if known is not None and (question.options or known.candidates[0] == reply.answer):
            return known
        return compared(self.asker, question, reply.answer)

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers of the frozen model at temperature 1; option letters come from the pass that answered.

        Draws depend on the question and the seed, but servers with other hardware may draw otherwise.
        """
        if not question.options:
            return sampled(self.asker, question, count)
        p = self._option_shares(question, "sampling")
        drawn = draw_many(p, count, self.asker.seed_for(question, "samples"), self.prompting.top_p)
        return tuple(question.letters[number] for number in drawn)

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
        case = self._latest_case(question)
        if case is None:
            case = self.answering.prefetch([Case(question)], 0)[question, None]
            self.meter.spend(purpose, case.spent["answering"])
        return shares(case.frozen.reply.option_log_p)

    def _latest_case(self, question: Question) -> Case | None:
        return self._latest if self._latest is not None and self._latest.question == question else None

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply` towards `target`; `question` must be the latest one answered.

        Raises:
            QuestionError: another question was answered since.
        """
        case = self._latest_case(question)
        if case is None:
            raise QuestionError(f"{question.mention} is not the latest one answered; answer it again first.")
        reading = case.answer_of(self.version).reading
        training = self.asker.backend.train(reading, case.digit_position(reading, reply), target)
        self.meter.spend("learning", training.tokens)
        return Update(
            version=self.version, before=reply.stated, target=target, after=training.after, losses=training.losses
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
