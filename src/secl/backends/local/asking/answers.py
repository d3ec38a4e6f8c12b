"""Answers of the frozen model and the adapted model to a window of questions.

The frozen model never changes. So secl computes a whole window's answers and P(True) together, and they stay valid. The
adapted model reads the same token sequences. It reads a whole window while its weights are fixed, and otherwise one
question at a time.

Ratings of given answers use the same prompts, with the given answer in place of the model's own. So the rating of the
model's own answer equals the model's confidence in this answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from copy import copy
from functools import partial

from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker, Verdicts
from secl.backends.local.asking.cases import Case, Turn, read_answers, read_evidence, read_reply
from secl.backends.local.asking.further import (
    compare_answers,
    compare_options,
    think,
    think_again,
    write_unanswered,
)
from secl.backends.open_answers import distinct
from secl.evidence import Evidence, EvidenceKind
from secl.ledger import Ledger
from secl.model import Rating
from secl.prompts.parsing import is_brief, read_answer
from secl.question import GivenAnswer
from secl.records import Reply

Job = Callable[[], None]

Windows = dict[Hashable, list[Case]]
"""Windows of questions as the frozen model answers them, by questions and evidence."""


class SharedAnswers:
    """A cache of frozen answers for models with the same weights; its owner clears it after each window."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[Windows, Verdicts]] = {}

    def to(self, *key: Hashable) -> tuple[Windows, Verdicts]:
        """Return the cached windows and verdicts of models with equal weights, adapted layers, prompts and seed."""
        return self._answers.setdefault(key, ({}, {}))

    def clear(self) -> None:
        """Delete all answers; models keep references to the emptied dictionaries."""
        for windows, verdicts in self._answers.values():
            windows.clear()
            verdicts.clear()


class Answering:
    """Answers windows of questions.

    Args:
        rewrites: whether the adapted model writes its own answer; otherwise it states its confidence in the frozen
            model's answer.
        windows: cache of answers, shared with models that have the same prompts and seed; None if not shared.
    """

    def __init__(self, asker: Asker, *, rewrites: bool, windows: Windows | None = None) -> None:
        self.asker, self.rewrites, self.windows = asker, rewrites, windows

    def prefetch(self, cases: Sequence[Case], version: int) -> dict[Turn, Case]:
        """Answer each distinct question with the frozen model and, unless `version` is 0, an adapted version."""
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
        """Return the frozen model's answers and the remaining jobs; shared answers leave no jobs."""
        key = tuple((turn, case.kinds) for turn, case in window.items())
        known = None if self.windows is None else self.windows.get(key)
        if known is not None:
            return dict(zip(window, [case.copy() for case in known], strict=True)), []
        cases = [*window.values()]
        if self.asker.prompting.thinks:
            think(self.asker, cases)
        self._read_choices([case for case in cases if case.question.options])
        self._read_open([case for case in cases if not case.question.options])
        jobs: list[Job] = [partial(read_reply, self.asker, case) for case in cases]
        jobs += [partial(read_evidence, self.asker, case) for case in cases]
        if self.windows is None:
            return window, jobs
        self.asker.backend.together(jobs)
        self.windows[key] = [case.copy() for case in cases]
        return window, []

    def adapt(self, case: Case, version: int) -> None:
        """Replace the answer of an older adapted version.

        No record's cost includes the replaced reading, because a resumed run does not repeat this reading.
        """
        self.asker.backend.together(self._adapt([case], version))

    def reply(self, case: Case, version: int, letter: str | None) -> Reply:
        """Return the reply of a version; `letter` is a given answer to a multiple-choice question."""
        answer = case.by(version)
        if letter is not None and case.question.options and letter != answer.reply.text:
            answer = copy(answer)
            read_reply(self.asker, answer, letter)
        return answer.reply

    def _read_choices(self, cases: Sequence[Case]) -> None:
        """Answer multiple-choice questions. Each letter gets a branch, so that one pass gives letter and confidence."""
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
            # A free answer may be longer than the items of a list, so its list is written later, if needed.
            brief = not question.free if case.text is None else is_brief(case.text, question.form)
            if "p_true" in case.kinds and brief:
                case.listing = asker.list_of_answers(question)
        # Lists are longer than answers, so they form a batch of their own.
        drafts = [case.draft for case in cases if case.draft is not None and case.written]
        asker.backend.write([drafts, [case.listing for case in cases if case.listing is not None]])
        write_unanswered(asker, [case for case in cases if case.written])
        for case in cases:
            if case.draft is not None and case.written:
                case.text = asker.answer_in(case.draft)
            case.answer = read_answer(case.text or "", case.question.form) if "candidates" in case.kinds else None
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
        """Write and read the adapted answers; return jobs that read the replies."""
        readings = self.asker.backend.adapt([case.reading for case in cases], version)
        for case, reading in zip(cases, readings, strict=True):
            case.adapted = case.read_by(version, reading)
        if self.rewrites:
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
        if case.question.options and not self.rewrites:
            letter = self.asker.readout.choice(case.question, case.reading, 0).answer
        read_reply(self.asker, case.by(version), letter)

    def rate(self, answers: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        """Rate answers with the frozen model; see `secl.model.Model.rate_given`. Each rating holds its own cost."""
        cases, asker = [self._given(each, frozenset(evidence)) for each in answers], self.asker
        asker.backend.write([[case.listing for case in cases if case.listing is not None]])
        if "candidates" in evidence:
            compare_answers(asker, [case for case in cases if not case.question.options])
        for case in cases:
            self._find_rivals(case)
        read_answers(asker, cases)
        jobs: list[Job] = [partial(read_reply, asker, case, case.given) for case in cases]
        asker.backend.together(jobs + [partial(read_evidence, asker, case) for case in cases])
        return list(map(_rating, cases))

    def _given(self, rated: GivenAnswer, kinds: frozenset[EvidenceKind]) -> Case:
        """Return the case of a given answer, before its rivals are known."""
        question, text = rated.question, rated.answer
        if question.options:
            case = Case(question, text, kinds, question.option(text))
            if "candidates" in kinds:
                compare_options(self.asker, case)
            return case
        answer = read_answer(text, question.form)
        given = self.asker.prompting.given(question, text)
        case = Case(question, given, kinds, answer, text=given)
        if answer is not None:
            case.rivals = distinct(answer, rated.rivals, question.form, count=len(rated.rivals))
            if "p_true" in kinds and not case.rivals:
                case.listing = self.asker.list_of_answers(question)
        return case

    def _find_rivals(self, case: Case) -> None:
        """Find the texts to judge by P(True): the answer, and the other options, given rivals, or distractors."""
        rivals: Sequence[str] = ()
        case.source = "none"
        if "p_true" in case.kinds:
            if case.question.options:
                rivals = [case.question.option(letter) for letter in case.question.letters if letter != case.given]
                case.source = "options"
            elif case.rivals:
                rivals, case.source = case.rivals, f"given:{len(case.rivals)}"
            elif case.listing is not None:
                found, case.finding = self.asker.distractors(case.question, case.answer or "", case.listing)
                rivals, case.source = found.answers, found.source
        case.judged = () if case.answer is None else (case.answer, *rivals)


def _rating(case: Case) -> Rating:
    return Rating(
        reply=case.reply,
        evidence=Evidence(p_true=case.p_true, candidates=case.candidates),
        ledger=Ledger(**{purpose: float(tokens) for purpose, tokens in case.spent.items()}),
        plain_tokens=float(len(case.reading.bundle.answers[0])),
    )
