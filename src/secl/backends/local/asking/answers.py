"""Answers of the frozen and the adapted model to a window of questions.

The frozen model never changes, so its answers and its P(True) can be computed for a whole window of questions at once
and never go stale. The adapted model reads the same token sequences: while its weights stand still for a whole window
too, else one question at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.candidates import among_options, compare_answers
from secl.backends.local.asking.cases import Answer, Case, Turn, read_answers, read_evidence, read_reply
from secl.backends.local.asking.thoughts import think, think_again
from secl.prompts.parsing import is_brief, read_answer
from secl.records import Reply

Job = Callable[[], None]

Windows = dict[Hashable, list[Case]]
"""Windows of questions as the frozen model answers them, by questions and evidence."""


class Answering:
    """Answers windows of questions.

    Args:
        asker: reads and writes.
        rewrites: whether the adapted model answers anew; if not, it reads the frozen model's answer, and what it adds
            is its confidence.
        windows: of other models that ask alike; None without any.
    """

    def __init__(self, asker: Asker, *, rewrites: bool, windows: Windows | None = None) -> None:
        self.asker, self.rewrites, self.windows = asker, rewrites, windows

    def prefetch(self, cases: Sequence[Case], version: int) -> dict[Turn, Case]:
        """Answer questions with the frozen model and, unless 0, an adapted version; one that comes twice goes once."""
        window: dict[Turn, Case] = {}
        for case in cases:
            known = window.setdefault(case.turn, case)
            known.kinds |= case.kinds
        window, jobs = self._frozen(window)
        if version:
            jobs += self._adapt([*window.values()], version)
        for case in window.values():
            if case.draft is not None:
                case.draft.begun = None  # keys and values of prompts take gigabytes
        self.asker.backend.together(jobs)
        return window

    def _frozen(self, window: dict[Turn, Case]) -> tuple[dict[Turn, Case], list[Job]]:
        """Answers of the frozen model, and the jobs that are left to do; none if they were shared."""
        key = tuple((turn, case.kinds) for turn, case in window.items())
        known = None if self.windows is None else self.windows.get(key)
        if known is not None:
            return dict(zip(window, [case.copy() for case in known], strict=True)), []
        cases = [*window.values()]
        think(self.asker, cases)
        self._read_choices([case for case in cases if case.question.options])
        self._read_open([case for case in cases if not case.question.options])
        jobs: list[Job] = [partial(read_reply, self.asker, case, case.frozen, 0) for case in cases]
        jobs += [partial(read_evidence, self.asker, case) for case in cases]
        if self.windows is None:
            return window, jobs
        self.asker.backend.together(jobs)
        self.windows[key] = [case.copy() for case in cases]
        return window, []

    def adapt(self, case: Case, version: int) -> None:
        """Add the answer of an adapted version in the place of an older one's.

        No record pays for readings that an update made stale, because a resumed run does not repeat them.
        """
        self.asker.backend.together(self._adapt([case], version))

    def reply(self, case: Case, version: int, letter: str | None) -> Reply:
        """Return the reply of a version; of multiple choice to a letter, where one was given before."""
        answer = case.answer_of(version)
        if letter is not None and case.question.options and letter != answer.reply.text:
            answer = Answer(answer.reading, None, answer.tokens, answer.counts)
            read_reply(self.asker, case, answer, version, letter)
        return answer.reply

    def _read_choices(self, cases: Sequence[Case]) -> None:
        """Multiple choice: a branch for every letter, so that letter and confidence come in one pass."""
        for case in cases:
            case.judged = case.question.options if "p_true" in case.kinds else ()
            if "candidates" in case.kinds:
                case.comparison = among_options(self.asker, case.question, behind_thought=case.thought is not None)
        self._read(cases)
        think_again(self.asker, cases)

    def _read_open(self, cases: Sequence[Case]) -> None:
        """Open questions: answers that are not there yet are written as one batch, then all are read together, beside
        what they are compared with where that is wanted."""
        if not cases:
            return
        asker = self.asker
        for case in cases:
            question, case.text = case.question, case.given
            if case.written:
                case.draft = asker.answer_draft(question, case.thought)
            elif question.free and case.draft is None:
                case.draft = Draft(asker.prompting.answer(question, case.thought_text), "text", 0, free=True)
            # A free answer may be longer than anything in a list; whoever needs one writes it when the answer is there.
            brief = not question.free if case.text is None else is_brief(case.text, question.form)
            if "p_true" in case.kinds and brief:
                case.listing = asker.list_of_answers(question)
        # Lists end later than answers, so they are a batch of their own.
        drafts = [case.draft for case in cases if case.draft is not None and case.written]
        asker.backend.write([drafts, [case.listing for case in cases if case.listing is not None]])
        for case in cases:
            if case.draft is not None and case.written:
                case.text = asker.answer_in(case.draft)
            case.answer = read_answer(case.text or "", case.question.form) if "candidates" in case.kinds else None
        compare_answers(asker, cases)
        self._read(cases)

    def _read(self, cases: Sequence[Case]) -> None:
        """Read the answers with the frozen model; count the tokens that writing took."""
        if cases:
            read_answers(self.asker, [*cases, *(each for case in cases for each in case.further)])
        for case in cases:
            answer, draft, positions = case.frozen, case.draft, case.frozen.reading.bundle.positions
            if draft is not None and case.written:
                answer.tokens += draft.tokens
                answer.counts = len(draft.prompt), len(draft.written)
            else:
                answer.counts = positions[0][1], 1 if answer.text is None else len(positions) - 2

    def _adapt(self, cases: Sequence[Case], version: int) -> list[Job]:
        """Write and read what is needed of the adapted answers; the jobs that are left read the replies off."""
        readings = self.asker.backend.adapt([case.frozen.reading for case in cases], version)
        for case, reading in zip(cases, readings, strict=True):
            case.version = version
            case.adapted = Answer(reading, case.frozen.text, reading.tokens, case.frozen.counts)
        if self.rewrites:
            self._rewrite([case for case in cases if case.written], version)
        return [partial(self._read_adapted, case, version) for case in cases]

    def _rewrite(self, cases: Sequence[Case], version: int) -> None:
        """Replace open answers if the adapted model writes another one: its confidence is about its own answer."""
        backend, drafts = self.asker.backend, [case.draft for case in cases if case.draft is not None]
        rewritten = backend.rewrite(drafts, [case.answer_of(version).reading for case in cases], version)
        changed = [
            (case, Case(case.question, draft=draft, text=self.asker.answer_in(draft), thought=case.thought))
            for case, draft in zip(cases, rewritten, strict=True)
            if draft is not None
        ]
        self._read([new for _, new in changed])
        readings = backend.adapt([new.frozen.reading for _, new in changed], version)
        for (case, new), reading in zip(changed, readings, strict=True):
            tokens = case.answer_of(version).tokens + new.frozen.tokens + reading.tokens
            case.adapted = Answer(reading, new.text, tokens, new.frozen.counts)

    def _read_adapted(self, case: Case, version: int) -> None:
        letter = None
        if case.question.options and not self.rewrites:
            letter = self.asker.readout.choice(case.question, case.frozen.reading, 0).answer
        read_reply(self.asker, case, case.answer_of(version), version, letter)
