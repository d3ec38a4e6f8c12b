"""The model that answers, scores its own answers and learns, written once for all backends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from secl.backends.answers import Answering, Prefetched
from secl.backends.base import TokenBackend
from secl.backends.candidates import CandidateProbe
from secl.backends.dinco import BEAMS, DincoProbe
from secl.backends.distractors import DistractorProbe, Distractors
from secl.backends.entailment import Entailment, SelfEntailment
from secl.backends.generation import Draft
from secl.backends.local.adapter import Adapter, plain_config
from secl.backends.p_true import PTrueProbe
from secl.backends.prompting import Prompting
from secl.backends.rating import Rater
from secl.backends.readout import Readout, shares
from secl.backends.sampling import draw_many
from secl.backends.seeds import question_seed
from secl.cost import Meter, Purpose
from secl.display import Shown
from secl.errors import QuestionError, TooLongError
from secl.evidence import CandidateEvidence, DincoEvidence, EvidenceKind, PTrue
from secl.given import GivenAnswer
from secl.model import ModelAnswer, Rating
from secl.prompts.parsing import as_written, is_brief, read_answer
from secl.prompts.thoughts import answers_alone
from secl.question import Question
from secl.records import Reply, Update
from secl.settings import AnswerWeights, PromptSettings, PTrueKind
from secl.writing import Piece, Writing

B = TypeVar("B", bound=TokenBackend[Any])


class ChatModel(Shown, Generic[B]):
    """A chat model with an adapter that learns to state its confidence; it satisfies `secl.model.Model`.

    Args:
        backend: reads and writes token sequences, and trains the adapter.
        p_true: "vocabulary" for the full-vocabulary probability of True in all its spellings, "token" for that of the
            one token.
        prompts: how it is asked; our way unless given.
        orders: further orders of the options that letters are read under, 0 or more.
        answer_weights: whose weights write the answers, "adapted" or "frozen".
        entailment: compares answers for DINCO; None asks the model itself.
        seed: of sampled answers and distractors.

    Attributes:
        meter: counts tokens by purpose where they are spent.
    """

    def __init__(
        self,
        backend: B,
        *,
        p_true: PTrueKind = "vocabulary",
        prompts: PromptSettings | None = None,
        orders: int = 1,
        answer_weights: AnswerWeights = "adapted",
        entailment: Entailment | None = None,
        seed: int = 42,
    ) -> None:
        self.backend = backend
        self.name = backend.name
        self.tau = backend.tau
        self.letters = backend.letters
        self.fingerprint = backend.fingerprint
        self.seed = seed
        self.answer_weights = answer_weights
        self.writes_apart = backend.writes_apart
        self.meter = Meter()
        self.prompting = Prompting(backend.token_ids, prompts)
        self.readout = Readout(backend.token_ids, p_true)
        rewrites = answer_weights == "adapted"
        self.candidate_probe = CandidateProbe(backend, self.prompting, self.readout, orders, self.meter, self._seed_for)
        self.answering = Answering(backend, self.prompting, self.readout, self.candidate_probe, rewrites=rewrites)
        entailment = entailment or SelfEntailment(backend, self.prompting, self.readout, self.meter)
        self.distractor_probe = DistractorProbe(backend, self.prompting, self.meter, self._seed_for)
        self.p_true_probe = PTrueProbe(backend, self.prompting, self.readout, self.meter)
        self.dinco_probe = DincoProbe(backend, self.prompting, self.readout, entailment, self.meter)
        self.rater = Rater(backend, self.prompting, self.readout, orders, self._seed_for)
        self._window: dict[tuple[Question, str | None], Prefetched] = {}
        self._latest: Prefetched | None = None

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "tau": self.tau}

    @property
    def adapter(self) -> Adapter:
        """The trained weights."""
        return self.backend.adapter

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how the model computes: device, precision, threads."""
        return self.backend.environment

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

    def check(self, question: Question) -> None:
        """Check that the model can answer a question.

        Raises:
            QuestionError: it has more options than letters, or is longer than the model can read.
        """
        self.prompting.check_length(question, self.backend.limit)

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
            self.prompting.check_length(question, self.backend.limit, text)
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
            self.prompting.check_length(question, self.backend.limit, written)
            (item,) = self.answering.prefetch([question], [evidence], version, [turn[1]])
        if version and item.version != version:
            self.answering.adapt([item], version)
        self._latest = item
        self.distractor_probe.forget()
        answer = item.answer(version)
        item.used = True
        self.meter.spend("answering", item.tokens)
        for purpose, tokens in item.evidence_tokens.items():
            self.meter.spend(purpose, tokens)
        if version:
            self.meter.spend("adapting", item.adapted_tokens)
        return ModelAnswer(
            reply=answer.reply,
            frozen=item.frozen.reply,
            plain_tokens=float(len(item.frozen.reading.bundle.answers[0])),
        )

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Write free answers with the untouched weights; see `secl.model.Model.write`."""
        prompt, room = self.prompting.answer(question), self.prompting.room(question, self.backend.limit)
        least = 1 if writing.or_fewer else writing.max_tokens or 1
        if room < least:
            wanted = f" and {least} for its answer" if least > 1 else ""
            raise TooLongError(
                f"the conversation takes {len(prompt)} tokens{wanted}, more than the {len(prompt) + max(0, room)} that "
                "the model can read beside the question for its confidence; shorten it, or ask for fewer tokens."
            )
        writing = replace(writing, max_tokens=min(room, writing.max_tokens or room))
        return answers_alone(self.backend.write_texts(prompt, writing))

    def check_given(self, given: GivenAnswer) -> None:
        """Check that the model can read a given answer and its rivals; raises `QuestionError` as `check` does."""
        for answer in (given.answer, *given.rivals):
            self.prompting.check_length(given.question, self.backend.limit, answer)

    def rate_given(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        """Rate answers from elsewhere; see `secl.model.Model.rate_given`."""
        for each in given:
            self.check_given(each)
        return self.rater.rate(given, evidence)

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """P(True) of the answer and of its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        if not question.options:
            distractors = self._distractors(question, reply.answer)
            return self.p_true_probe.of_open(question, (reply.answer, *distractors.answers), distractors.source)
        item = self._latest_item(question)
        return self.p_true_probe.of_options(question, reply.answer, None if item is None else item.verdicts)

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Letters under further orders of the candidates; likelihoods of options, or further answers.

        Returns:
            None without a readable answer, or where it is too long to be compared with others.
        """
        if reply.answer is None:
            return None
        item = self._latest_item(question)
        known = None if item is None else item.candidates
        if question.options:
            return known or self.candidate_probe.of_options(question)
        if known is not None and known.candidates[0] == reply.answer:
            return known
        return self.candidate_probe.of_open(question, reply.answer)

    def _distractors(self, question: Question, answer: str) -> Distractors:
        if not is_brief(answer, question.form):
            return Distractors([], "none")
        item = self._latest_item(question)
        return self.distractor_probe.of(question, answer, None if item is None else item.listing)

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers of the frozen model at temperature 1; option letters come from the pass that answered.

        Draws depend on the question and the seed, but servers with other hardware may draw otherwise.
        """
        if question.options:
            p = self._option_shares(question, "sampling")
            return tuple(question.letters[i] for i in draw_many(p, count, self._seed_for(question, "samples")))
        prompt = self.prompting.answer(question)
        seeds = [self._seed_for(question, f"sample {i}") for i in range(count)]
        drafts = [Draft.answer(prompt, question.form, seed=seed) for seed in seeds]
        self.backend.write([drafts])
        self.meter.spend("sampling", sum(draft.tokens for draft in drafts))
        return tuple(read_answer(self.backend.rules.answer(draft), question.form) for draft in drafts)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Evidence for DINCO; of multiple choice, the beams are the options with the most probable letters."""
        if question.options:
            p = self._option_shares(question, "comparing")
            answers = [question.letters[i] for i in sorted(range(len(p)), key=lambda i: -p[i])[:BEAMS]]
        else:
            answers = self.dinco_probe.beams(question)
        return self.dinco_probe.of(question, answers, reply.answer, samples) if answers else None

    def _option_shares(self, question: Question, purpose: Purpose) -> tuple[float, ...]:
        """The frozen model's probabilities of the option letters."""
        item = self._latest_item(question)
        if item is None:
            (item,) = self.answering.prefetch([question], [()], 0, [])
            self.meter.spend(purpose, item.tokens)
        return shares(item.frozen.reply.option_log_p)

    def _seed_for(self, question: Question, purpose: object) -> int:
        return question_seed(self.seed, question, purpose)

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
        training = self.backend.train(reading, item.digit_position(reading, reply), target)
        self.meter.spend("learning", training.tokens)
        return Update(
            version=self.version, before=reply.confidence, target=target, after=training.after, losses=training.losses
        )

    def reset(self) -> None:
        self.adapter.reset()
        self.backend.publish()

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
        self.backend.publish()

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass in this process, so that other work can go first."""
        self.backend.set_pause_hook(hook)

    def close(self) -> None:
        """End connections and threads."""
        self.backend.close()


def _as_written(question: Question, text: str | None) -> str | None:
    """A text as it stands in the conversation; None for multiple choice, whose letter is read in the same pass."""
    return None if text is None or question.options else as_written(text, question.form)
