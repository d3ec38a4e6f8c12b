"""Prompts, read-out, meter and seed of a model, in this process or on servers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secl.backends.base import Bundle, TokenBackend
from secl.backends.generation import Draft, items_of, list_tokens, question_seed
from secl.backends.local.asking.readout import Readout
from secl.backends.local.backend import LocalBackend
from secl.backends.open_answers import NOTHING, Distractors, choose_distractors
from secl.backends.prompting import Prompting
from secl.evidence import PTrue, Thought
from secl.ledger import Meter
from secl.prompts.parsing import is_brief
from secl.question import Form, Question
from secl.records import Reply

Verdicts = dict[Hashable, tuple[PTrue, float]]


@dataclass
class Asker:
    """Asks about questions and answers.

    Attributes:
        learner: the weights in this process; trains, and searches for beams.
        backend: reads and writes: the learner itself, or servers of the same model.
        prompting: builds the token sequences.
        readout: reads the replies.
        meter: counts the tokens by purpose.
        seed: of all that is drawn.
        verdicts: P(True) of candidates by question, candidates and their source, with its tokens; shared with others
            that ask alike, None without any.
    """

    learner: LocalBackend
    backend: TokenBackend[Any]
    prompting: Prompting
    readout: Readout
    meter: Meter
    seed: int
    verdicts: Verdicts | None = None

    def seed_for(self, question: Question, purpose: object) -> int:
        """Return a seed for one purpose of one question."""
        return question_seed(self.seed, question, purpose)

    def answer_draft(self, question: Question, thought: Thought | None) -> Draft:
        """Return a greedy answer to an open question, to be written: at once, or after a thought."""
        if thought is None:
            return Draft.answer(self.prompting.answer(question), question.form)
        # Behind a thought a number stands alone, as a few words do.
        form: Form = "short" if question.form == "number" else question.form
        return replace(Draft.answer(self.prompting.answer(question, thought.text), form), thought=thought)

    def answer_in(self, draft: Draft) -> str:
        """Return the answer in a draft."""
        return self.learner.rules.answer(draft)

    def p_true(self, question: Question, reply: Reply, of_options: PTrue | None, listing: Draft | None) -> PTrue:
        """Return P(True) of the answer of a reply, and of its rivals; `listing` as for `distractors`.

        `of_options` is that of all options in their order, where it is known already.
        """
        answer = reply.answer or ""
        if not question.options:
            rivals = NOTHING
            if is_brief(answer, question.form):
                rivals, tokens = self.distractors(question, answer, listing)
                self.meter.spend("scoring", tokens)
            return self._judge(question, (answer, *rivals.answers), rivals.source, reply.thought)
        known = of_options or self._judge(question, question.options, "options", reply.thought)
        own = question.letters.index(answer)
        order = [own, *(number for number in range(len(question.options)) if number != own)]
        return replace(
            known,
            candidates=tuple(known.candidates[i] for i in order),
            probabilities=tuple(known.probabilities[i] for i in order),
            false_probabilities=tuple(known.false_probabilities[i] for i in order),
        )

    def _judge(self, question: Question, candidates: Sequence[str], source: str, thought: Thought | None) -> PTrue:
        key = (question, tuple(candidates), source, thought if self.prompting.show_thought else None)
        known = None if self.verdicts is None else self.verdicts.get(key)
        if known is None:
            (reading,) = self.backend.read([Bundle(verdicts=self.prompting.verdicts(question, candidates, thought))])
            known = self.readout.p_true(reading, candidates, source), reading.tokens
            if self.verdicts is not None:
                self.verdicts[key] = known
        p_true, tokens = known
        self.meter.spend("scoring", tokens)
        return p_true

    def list_of_answers(self, question: Question, attempt: int | None = None) -> Draft:
        """Return a list of answers to an open question, to be written: the greedy one, or a drawn one."""
        seed = None if attempt is None else self.seed_for(question, attempt)
        prompt, listed = self.prompting.answer_list(question), self.prompting.listed
        limit, top_p = list_tokens(question.form, listed), self.prompting.top_p
        return Draft(prompt, question.form, limit, lines=listed, seed=seed, top_p=top_p)

    def distractors(self, question: Question, answer: str, listing: Draft | None) -> tuple[Distractors, int]:
        """Plausible other answers to an open question, and the tokens of lists that had to be written.

        `listing` is the greedy list, written and paid for already; None to write it.
        """
        tokens = 0

        def items(attempt: int | None, draft: Draft | None = None) -> list[str]:
            nonlocal tokens
            if draft is None:
                draft = self.list_of_answers(question, attempt)
                self.backend.write([[draft]])
                tokens += len(draft.prompt) + draft.tokens
            return items_of(self.learner.rules.text(draft), question.form, self.prompting.listed)

        count = self.prompting.distractors
        return choose_distractors(answer, question.form, count, items(None, listing), items), tokens
