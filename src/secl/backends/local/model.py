"""A chat model whose adapter learns in this process. Answers come from this process or from vLLM servers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from secl.backends.generation import thoughts_apart
from secl.backends.local.adapter import Adapter
from secl.backends.local.asking.answers import Answering, SharedAnswers
from secl.backends.local.asking.asker import Asker, Readout, prefers_prefill
from secl.backends.local.asking.cases import (
    Case,
    compare_answers,
    compare_options,
    read_answers,
    read_evidence,
    read_reply,
)
from secl.backends.local.asking.dinco import nli_model
from secl.backends.local.asking.thoughts import texts_behind_thoughts
from secl.backends.local.backend import LocalBackend
from secl.backends.local.learner import LocalLearner
from secl.backends.local.loading.loader import Loaded, ModelCache, load
from secl.backends.local.loading.thinking import check_at_once, with_budget
from secl.backends.local.objects import StructuredWriting
from secl.backends.open_answers import distinct
from secl.backends.prompting import Prompting
from secl.display import Shown
from secl.errors import ParameterError, QuestionError, TooLongError
from secl.evidence import NO_OTHERS, OPTIONS, Evidence, EvidenceKind, Source
from secl.ledger import Ledger, Meter
from secl.model import Rating, check_given
from secl.prompts.parsing import read_answer
from secl.question import GivenAnswer, Question
from secl.records import Reply
from secl.settings.groups import AdapterSettings, AnswerWeights, Device, Dtype, Quantize, Thinking, check_thinking
from secl.writing import Piece, Writing


class LocalModel(Answering, StructuredWriting, Shown):
    """A transformers chat model with a LoRA adapter that learns to state its confidence; a `secl.model.Model`.

    Args:
        loaded: result of `secl.backends.local.loading.loader.load`.
        adapter: settings of LoRA and learning. If unset, layers and modules come from the model's preset.
        paper: whether all prompts follow the paper (docs/paper.md lists our choices and the differences of secl's own
            prompts).
        distractors: number of distractors for an open answer, 1 to 9.
        answer_weights: which weights write the answers, "adapted" or "frozen".
        nli: hub id or folder of the NLI model that compares answers for DINCO; None asks this model itself.
        thinking: whether the model thinks before it answers: "off", "auto", or the maximum number of tokens.
        seed: seed of the adapter's initial weights, and of sampled answers and distractors.
        shared: cache of frozen answers for models with the same weights; None if not shared.

    Attributes:
        backend: engine with the weights in this process.
        asker: asks `backend`, or vLLM servers (`secl.backends.endpoint.vllm.connect.answer_by_vllm`).
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
        if not 0 <= seed < 2**63:
            raise ParameterError(f"The seed must be a whole number from 0 to 2^63 - 1, not {seed}.")
        thinking = check_thinking(thinking)
        if thinking == "off":
            check_at_once(loaded.name, loaded.thinker)
        self.backend = LocalBackend(loaded, adapter or AdapterSettings(), seed=seed)
        self.described, self.adapted = self.backend.described, self.backend.adapted
        self.name = loaded.name
        self.tau = loaded.preset.tau
        self.letters = loaded.preset.letters
        self.fingerprint = loaded.fingerprint
        self.answer_weights = answer_weights
        self.upstream: object = (
            None  # an `Upstream` (`secl.backends.endpoint.client`) if vLLM servers write the answers
        )
        self.meter = Meter()
        ids = self.backend.token_ids
        # Models share readings only with equal precision and first adapted layer, because the last digits of
        # probabilities depend on both.
        computed = str(loaded.model.dtype), self.backend.first
        alike = loaded.fingerprint, *computed, paper, distractors, thinking, seed
        self._windows, verdicts = (None, None) if shared is None else shared.to(*alike)
        known = loaded.preset.prefilled
        prefers = partial(prefers_prefill, self.backend) if known is None else lambda: known
        thinker = None if thinking == "off" else with_budget(loaded.thinker, thinking)
        self.prompting = Prompting(ids, prefers, paper=paper, distractors=distractors, thinker=thinker)
        readout = Readout(ids, paper=paper)
        self.asker = Asker(self.backend, self.backend, self.prompting, readout, self.meter, seed, verdicts)
        self._nli = None if nli is None else nli_model(nli, self.backend.device)
        if self._nli is not None:
            self.fingerprint += f"+{self._nli.fingerprint}"
        self._window, self._latest = {}, None

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
        """Load a model as `secl.backends.local.loading.loader.load` does; `settings` are the constructor's.

        A `cache` keeps the weights for the next model of the same name.
        """
        loading = cache.load if cache else load
        return cls(loading(name, dtype=dtype, device=device, device_map=device_map, quantize=quantize), **settings)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "tau": self.tau}

    @property
    def adapter(self) -> Adapter:
        return self.backend.adapter

    @property
    def environment(self) -> dict[str, str | int]:
        """Device, precision, threads and other facts that can change probabilities, for records of runs."""
        short = "prefilled" if self.prompting.prefilled else "plain"
        found = {**self.backend.environment, **self.asker.backend.environment, "short_replies": short}
        if self.prompting.thinks:
            found["thoughts"] = "requested" if self.prompting.thinker.request else "trained"
        return found

    @property
    def learner(self) -> LocalLearner:
        """The part that learns. It has no state of its own."""
        return LocalLearner(self.backend, self.asker, self._latest_case, self._forget)

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Write free answers with the frozen weights; see `secl.model.Model.write`."""
        backend = self.asker.backend
        if self.prompting.thinks:
            return thoughts_apart(texts_behind_thoughts(self.asker, question, writing))
        writing = self.prompting.with_room(question, writing, backend.limit)
        return thoughts_apart(backend.write_texts(self.prompting.answer(question), writing))

    def memory_share(self, question: Question, writing: Writing) -> float:
        """Return which share of the memory for texts these texts need; see `secl.model.Model.memory_share`."""
        if self.upstream is not None:
            return 0.0
        thinking = 0
        if self.prompting.thinks:
            draft, writing = self.prompting.with_thought(question, writing, self.backend.limit)
            thinking = draft.limit
        else:
            writing = self.prompting.with_room(question, writing, self.backend.limit)
        needed = writing.n * (len(self.prompting.answer(question)) + thinking + (writing.max_tokens or 0))
        if needed > self.backend.text_tokens:
            raise TooLongError(
                f"n is {writing.n} and each text has up to {writing.max_tokens} tokens, so the request needs memory "
                f"for {needed} tokens, but there is room for {self.backend.text_tokens}; ask for fewer texts or tokens."
            )
        return needed / self.backend.text_tokens

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        """Return evidence about a reply from the frozen model; see `secl.model.Model.gather`."""
        return Evidence(
            candidates=self.compare_candidates(question, reply) if "candidates" in evidence else None,
            p_true=self.score_p_true(question, reply) if "p_true" in evidence else None,
            samples=self.sample(question, samples) if "samples" in evidence else None,
        )

    def rate(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating | QuestionError]:
        """Rate answers from elsewhere; see `secl.model.Model.rate`.

        The prompts are the same as for the model's own answers, so rating an own answer gives the same confidence.
        """
        asker, outcomes = self.asker, list[Case | QuestionError]()
        for each in given:
            try:
                check_given(self, each)
                outcomes.append(_given(asker, each, frozenset(evidence)))
            except QuestionError as refusal:
                outcomes.append(refusal)
        cases = [each for each in outcomes if isinstance(each, Case)]
        asker.backend.write([[case.listing for case in cases if case.listing is not None]])
        if "candidates" in evidence:
            compare_answers(asker, [case for case in cases if not case.question.options])
        for case in cases:
            _find_rivals(asker, case)
        read_answers(asker, cases)
        jobs = [partial(read_reply, asker, case, case.given) for case in cases]
        asker.backend.together([*jobs, *(partial(read_evidence, asker, case) for case in cases)])
        return [_rating(each) if isinstance(each, Case) else each for each in outcomes]

    def _forget(self) -> None:
        # Later updates may repeat version numbers, so answers of the old versions must not be reused.
        self._window, self._latest = {}, None
        self.asker.backend.publish()

    def close(self) -> None:
        """End connections and threads."""
        self.asker.backend.close()


def _given(asker: Asker, rated: GivenAnswer, kinds: frozenset[EvidenceKind]) -> Case:
    """Return the case of a given answer, without the texts to judge, which `_find_rivals` sets."""
    question, text = rated.question, rated.answer
    if question.options:
        case = Case(question, text, kinds, question.option(text))
        if "candidates" in kinds:
            compare_options(asker, case)
        return case
    answer = read_answer(text, question.form, question.text)
    given = asker.prompting.given(question, text)
    case = Case(question, given, kinds, answer, text=given)
    if answer is not None:
        case.rivals = distinct(answer, rated.rivals, question.form, count=len(rated.rivals))
        if "p_true" in kinds and not case.rivals:
            case.listing = asker.list_of_answers(question)
    return case


def _find_rivals(asker: Asker, case: Case) -> None:
    """Set the texts to judge by P(True): the answer and its rivals.

    Rivals are the other options. For an open question, they are the given rivals, or distractors if none is given.
    """
    rivals: Sequence[str] = ()
    case.source = NO_OTHERS
    if "p_true" in case.kinds:
        if case.question.options:
            rivals = [case.question.option(letter) for letter in case.question.letters if letter != case.given]
            case.source = OPTIONS
        elif case.rivals:
            rivals, case.source = case.rivals, Source("answers", given=len(case.rivals))
        elif case.listing is not None:
            found, case.finding = asker.distractors(case.question, case.answer or "", case.listing)
            rivals, case.source = found.answers, found.source
    case.judged = () if case.answer is None else (case.answer, *rivals)


def _rating(case: Case) -> Rating:
    return Rating(
        reply=case.reply,
        evidence=Evidence(p_true=case.p_true, candidates=case.candidates),
        ledger=Ledger(**{purpose: float(tokens) for purpose, tokens in case.spent.items()}),
        plain_tokens=float(len(case.reading.bundle.answers[0])),
    )
