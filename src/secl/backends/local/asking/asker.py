"""Questions to one model: its prompts, read-out, meter and seed."""

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
    """Asks one model about questions and answers.

    Attributes:
        learner: the model in this process, which trains and searches for beams.
        backend: engine that reads and writes: the learner, or servers with the same model.
        seed: seed of all samples.
        verdicts: P(True) and its tokens by question, candidates and source; None if not shared with other models.
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

    def answer_draft(self, question: Question, thinking: Draft | None) -> Draft:
        """Return the draft of a greedy answer to an open question, with or without a thought before the answer."""
        if thinking is None or thinking.thought is None:
            return Draft.answer(self.prompting.answer(question), question.form)
        # After a thought the answer is the number alone, like a few words.
        form: Form = "short" if question.form == "number" else question.form
        draft = Draft.answer(self.prompting.answer(question, thinking.thought.text), form)
        return replace(draft, thought=thinking.thought, begun=thinking.begun)

    def answer_in(self, draft: Draft) -> str:
        """Return the answer in a draft."""
        return self.learner.rules.answer(draft)

    def p_true(self, question: Question, reply: Reply, of_options: PTrue | None, listing: Draft | None) -> PTrue:
        """Return P(True) of the answer of a reply, and of its rivals; `listing` as for `distractors`.

        `of_options` is the P(True) of all options in order, if known.
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
        """Return the draft of a list of answers to an open question: greedy, or sampled with the number `attempt`."""
        seed = None if attempt is None else self.seed_for(question, attempt)
        prompt, listed = self.prompting.answer_list(question), self.prompting.listed
        limit, top_p = list_tokens(question.form, listed), self.prompting.top_p
        return Draft(prompt, question.form, limit, lines=listed, seed=seed, top_p=top_p)

    def distractors(self, question: Question, answer: str, listing: Draft | None) -> tuple[Distractors, int]:
        """Return plausible other answers to an open question, and the tokens of newly written lists.

        `listing` is the greedy list; None to write it.
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
