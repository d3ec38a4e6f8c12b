"""Answers of the frozen model and the adapted model to a window of questions.

The frozen model never changes, so it answers all questions of a window together. The adapted model reads the same token
sequences. It reads the whole window together only while its weights are fixed; otherwise it reads one question at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial

from secl.backends.generation import Draft
from secl.backends.local.asking import dinco
from secl.backends.local.asking.asker import Asker, Verdicts, shares
from secl.backends.local.asking.cases import (
    Case,
    Turn,
    compare_answers,
    compare_options,
    compared,
    read_answers,
    read_evidence,
    read_reply,
    sampled,
)
from secl.backends.local.asking.thoughts import sampled_letters, think, think_again, write_unanswered
from secl.backends.local.writer import draw_many
from secl.errors import QuestionError
from secl.evidence import CandidateEvidence, DincoEvidence, EvidenceKind, PTrue
from secl.ledger import Purpose
from secl.model import ModelAnswer
from secl.prompts.parsing import is_brief, read_answer
from secl.question import Question
from secl.records import Reply
from secl.settings.groups import AnswerWeights
from secl.writing import Piece

Job = Callable[[], None]

Windows = dict[Hashable, list[Case]]
"""The frozen model's answers to windows of questions; a key holds the questions and the kinds of evidence."""


class SharedAnswers:
    """A cache of the frozen model's answers for runs in lockstep, which clear the cache after each window."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[Windows, Verdicts]] = {}

    def to(self, *key: Hashable) -> tuple[Windows, Verdicts]:
        """Return the cached answers and P(True) of models with an equal `key` (weights, precision, prompts, seed)."""
        return self._answers.setdefault(key, ({}, {}))

    def clear(self) -> None:
        """Delete all answers; models keep references to the emptied dictionaries."""
        for windows, verdicts in self._answers.values():
            windows.clear()
            verdicts.clear()


class Answering:
    """The part of `secl.backends.local.model.LocalModel` that answers questions and gathers evidence about the answers.

    Attributes:
        answer_weights: "adapted" if the adapted model writes its own answers; "frozen" if the adapted model only states
            a confidence in the frozen model's answers.
        _nli: NLI model of DINCO; None asks the model itself.
        _windows: cache of answers, shared with models that have the same prompts and seed; None if not shared.
        _window: answered questions of the present window.
        _latest: the latest answered question with its evidence; None before the first answer.
    """

    asker: Asker
    answer_weights: AnswerWeights
    _nli: dinco.NliModel | None
    _windows: Windows | None
    _window: dict[Turn, Case]
    _latest: Case | None

    @property
    def version(self) -> int:
        return self.asker.learner.adapter.version

    def check(self, question: Question, given: str | None = None) -> None:
        """Check that the model can answer a question, or read a given answer.

        Raises:
            QuestionError: more options than letters, or a prompt longer than the model can read.
        """
        self.asker.prompting.check_length(question, self.asker.backend.limit, given)

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[str | Piece | None] = (),
    ) -> None:
        """Answer a window of upcoming questions together; see `secl.model.Model.prefetch`."""
        cases = []
        for case in map(self._case, questions, written or [None] * len(questions), evidence):
            with suppress(QuestionError):  # `answer` raises this error for that question alone
                self.check(case.question, case.given)
                cases.append(case)
        self._window = self._answered(cases, self.version if weights_fixed else 0)

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Piece | None = None
    ) -> ModelAnswer:
        """Answer and state a confidence with adapted and frozen weights; see `secl.model.Model.answer`.

        Raises:
            QuestionError: more options than letters, or a prompt longer than the model can read.
            UnavailableError: no server answers; a later try may succeed.
        """
        version, meter, case = self.version, self.asker.meter, self._case(question, written, evidence)
        turn = case.turn  # `case.turn` changes when the model writes a thought
        if turn not in self._window:
            self.check(question, case.given)
        case = self._window.get(turn) or self._answered([case], version)[turn]
        if version and (case.adapted is None or case.adapted.version != version):
            # Replace an older version's reading. A resumed run does not repeat that reading, so the ledger omits it.
            self.asker.backend.together(self._adapt([case], version))
        self._latest, adapted = case, case.by(version)
        for purpose, tokens in case.spent.items():
            meter.spend(purpose, tokens)
        if version:
            meter.spend("adapting", adapted.tokens)
        if question.options and written is not None and str(written) != adapted.reply.text:
            adapted = copy(adapted)
            read_reply(self.asker, adapted, str(written))
        plain_tokens = float(len(case.reading.bundle.answers[0]))
        return ModelAnswer(reply=adapted.reply, frozen=case.reply, plain_tokens=plain_tokens)

    def _case(self, question: Question, written: str | Piece | None, evidence: Collection[EvidenceKind]) -> Case:
        """Return the case of a question, and of its answer `written`, if given."""
        if written is None or question.options:
            return Case(question, kinds=frozenset(evidence))
        thinks = self.asker.prompting.thinks
        given = self.asker.prompting.given(question, str(written), behind_thought=thinks)
        case = Case(question, given, frozenset(evidence))
        if isinstance(written, Piece):
            case.draft = written.draft if isinstance(written.draft, Draft) else None
            case.thought = written.whole_thought if thinks else None
        return case

    def _answered(self, cases: Sequence[Case], version: int) -> dict[Turn, Case]:
        """Answer each distinct question with the frozen model and, unless `version` is 0, with an adapted version."""
        window: dict[Turn, Case] = {}
        for case in cases:
            known = window.setdefault(case.turn, case)
            known.kinds |= case.kinds
        window, jobs = self._frozen(window)
        if version:
            jobs += self._adapt([*window.values()], version)
        for case in window.values():
            for each in (case, *case.further):
                if each.draft is not None:
                    each.draft.begun = None  # keys and values take gigabytes
        self.asker.backend.together(jobs)
        return window

    def _frozen(self, window: dict[Turn, Case]) -> tuple[dict[Turn, Case], list[Job]]:
        """Return cases with the frozen model's answers, and jobs that set replies and evidence (none if cached)."""
        key = tuple((turn, case.kinds) for turn, case in window.items())
        known = None if self._windows is None else self._windows.get(key)
        if known is not None:
            return dict(zip(window, [case.copy() for case in known], strict=True)), []
        cases = [*window.values()]
        if self.asker.prompting.thinks:
            think(self.asker, cases)
        self._read_choices([case for case in cases if case.question.options])
        self._read_open([case for case in cases if not case.question.options])
        jobs: list[Job] = [partial(read_reply, self.asker, case) for case in cases]
        jobs += [partial(read_evidence, self.asker, case) for case in cases]
        if self._windows is None:
            return window, jobs
        self.asker.backend.together(jobs)
        self._windows[key] = [case.copy() for case in cases]
        return window, []

    def _read_choices(self, cases: Sequence[Case]) -> None:
        """Answer multiple-choice questions; one pass reads the letters, and the confidence digits after each letter."""
        for case in cases:
            case.judged = case.question.options if "p_true" in case.kinds else ()
            if "candidates" in case.kinds:
                compare_options(self.asker, case)
        self._read(cases)
        if self.asker.prompting.thinks:
            think_again(self.asker, cases)

    def _read_open(self, cases: Sequence[Case]) -> None:
        """Answer open questions: write missing answers as one batch, then read all answers and their comparisons."""
        asker = self.asker
        for case in cases:
            question, case.text = case.question, case.given
            if case.written:
                case.draft = asker.answer_draft(question, case.draft)
            elif question.free and case.draft is None:
                case.draft = Draft(asker.prompting.answer(question, case.thought_text), "text", 0, free=True)
            # Only brief answers need a list of other answers. secl does not know yet whether a free answer is brief.
            brief = not question.free if case.text is None else is_brief(case.text, question.form)
            if "p_true" in case.kinds and brief:
                case.listing = asker.list_of_answers(question)
        # Lists are longer than answers, so they form a second batch.
        drafts = [case.draft for case in cases if case.draft is not None and case.written]
        asker.backend.write([drafts, [case.listing for case in cases if case.listing is not None]])
        if asker.prompting.thinks:
            write_unanswered(asker, [case for case in cases if case.written])
        for case in cases:
            if case.draft is not None and case.written:
                case.text = asker.answer_in(case.draft)
            form, asked = case.question.form, case.question.text
            case.answer = read_answer(case.text or "", form, asked) if "candidates" in case.kinds else None
        compare_answers(asker, cases)
        self._read(cases)

    def _read(self, cases: Sequence[Case]) -> None:
        """Read the answers with the frozen model, and count the written tokens."""
        read_answers(self.asker, [*cases, *(each for case in cases for each in case.further)])
        for case in cases:
            draft, positions = case.draft, case.reading.bundle.positions
            if draft is not None and case.written:
                case.tokens += draft.tokens
                case.counts = len(draft.prompt), len(draft.written)
            else:
                case.counts = positions[0][1], 1 if case.text is None else len(positions) - 2

    def _adapt(self, cases: Sequence[Case], version: int) -> list[Job]:
        """Write and read the adapted model's answers; return jobs that set the replies of the cases."""
        readings = self.asker.backend.adapt([case.reading for case in cases], version)
        for case, reading in zip(cases, readings, strict=True):
            case.adapted = case.read_by(version, reading)
        if self.answer_weights == "adapted":
            self._rewrite([case for case in cases if case.written], version)
        return [partial(self._read_adapted, case, version) for case in cases]

    def _rewrite(self, cases: Sequence[Case], version: int) -> None:
        """Replace open answers that the adapted model writes differently.

        The adapted model's confidence is about its own answer.
        """
        backend, drafts = self.asker.backend, [case.draft for case in cases if case.draft is not None]
        rewritten = backend.rewrite(drafts, [case.by(version).reading for case in cases], version)
        changed = [
            (case, Case(case.question, draft=draft, text=self.asker.answer_in(draft), thought=case.thought))
            for case, draft in zip(cases, rewritten, strict=True)
            if draft is not None
        ]
        self._read([new for _, new in changed])
        readings = backend.adapt([new.reading for _, new in changed], version)
        for (case, new), reading in zip(changed, readings, strict=True):
            tokens = case.by(version).tokens + new.tokens + reading.tokens
            case.adapted = new.read_by(version, reading)
            case.adapted.tokens = tokens

    def _read_adapted(self, case: Case, version: int) -> None:
        letter = None
        if case.question.options and self.answer_weights == "frozen":
            letter = self.asker.readout.choice(case.question, case.reading, 0).answer
        read_reply(self.asker, case.by(version), letter)

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """Return P(True) of the answer and its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        case = self._latest_case(question)
        known, listing = (None, None) if case is None else (case.p_true, case.listing)
        return self.asker.p_true(question, reply, known, listing)

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Return the evidence about the candidates.

        Options get letters in other orders, and likelihoods; open questions get sampled answers and letters.
        None if the answer is unreadable or too long.
        """
        if reply.answer is None:
            return None
        case = self._latest_case(question)
        known = None if case is None else case.candidates
        if known is not None and (question.options or known.candidates[0] == reply.answer):
            return known
        if question.options and reply.thought is not None:
            (case,) = self._answered([Case(question, kinds=frozenset({"candidates"}))], 0).values()
            for purpose in ("reordering", "likelihood"):
                self.asker.meter.spend(purpose, case.spent[purpose])
            return case.candidates
        return compared(self.asker, question, reply.answer, reply.thought)

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Return `count` answers of the frozen model at temperature 1, each after a new thought if the model thinks.

        Samples depend only on question and seed; on servers, also on the hardware.
        """
        if not question.options:
            return sampled(self.asker, question, count)
        if self.asker.prompting.thinks:
            return sampled_letters(self.asker, question, count)
        p = self._option_shares(question, "sampling")
        drawn = draw_many(p, count, self.asker.seed_for(question, "samples"), self.asker.prompting.top_p)
        return tuple(question.letters[number] for number in drawn)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Return DINCO's evidence about the most probable options or open answers; None if no answer is readable."""
        if question.options:
            p = self._option_shares(question, "comparing")
            answers = [question.letters[i] for i in sorted(range(len(p)), key=lambda i: -p[i])[: dinco.BEAMS]]
        else:
            answers = dinco.beam_answers(self.asker, question)
        return dinco.gather(self.asker, self._nli, question, answers, reply.answer, samples) if answers else None

    def _option_shares(self, question: Question, purpose: Purpose) -> tuple[float, ...]:
        """Return the frozen model's probabilities of the option letters."""
        case = self._latest_case(question)
        if case is None:
            (case,) = self._answered([Case(question)], 0).values()
            self.asker.meter.spend(purpose, case.spent["answering"])
        return shares(case.reply.option_log_p)

    def _latest_case(self, question: Question) -> Case | None:
        return self._latest if self._latest is not None and self._latest.question == question else None
