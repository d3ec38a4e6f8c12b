"""What an open answer is compared with: further answers that the model draws, and its choice among all of them.

What the model generates and what it recognises are different evidence. The first is how often it says the same again,
the second the letter of the answer among its own distinct answers and "None of these", so that nothing has to assume
that one of them is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from secl.backends.base import TokenBackend
from secl.backends.distractors import SeedFor
from secl.backends.generation import Draft
from secl.backends.prompting import Prompting
from secl.evidence import Sample
from secl.grading.same import group
from secl.prompts.parsing import is_brief, read_answer
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Question

FIRST = 3
"""Answers that are drawn at first. Where all say what the answer says, no more are."""

FURTHER = 2
"""Answers that are drawn beyond these where one of them says something else."""

LISTED = 3
"""Most other answers, the most frequent ones, that the model chooses among."""

FREE_TOKENS = 64
"""Most tokens of a further answer where no form is asked for; longer ones are no answer like a brief one."""


@dataclass(frozen=True)
class Drawn:
    """What was drawn for a question.

    Attributes:
        candidates: the answer first, then others that say something else.
        samples: the further answers.
        tokens: that went through the network for them.
        source: where the others come from.
    """

    candidates: tuple[str, ...]
    samples: tuple[Sample, ...]
    tokens: float
    source: str


def settled(question: Question, answer: str, drawn: Sequence[str | None], rivals: Sequence[str] = ()) -> bool:
    """Whether all that was drawn says what the answer says, so that no more has to be drawn."""
    _, numbers = group(question, drawn, (answer, *rivals))
    return all(number == 0 for number in numbers)


def compare(
    question: Question,
    answer: str,
    drawn: Sequence[tuple[str | None, float | None]],
    tokens: float = 0.0,
    rivals: Sequence[str] = (),
) -> Drawn:
    """Which of the further answers say the same.

    Args:
        question: without options.
        answer: to it.
        drawn: further answers, with their log-probabilities.
        tokens: that they took.
        rivals: other answers that were given.

    >>> compare(Question("Capital of Peru?"), "Lima", [("It is Lima.", -1.0), ("Cusco", -3.0)]).candidates
    ('Lima', 'Cusco')
    """
    known = (answer, *rivals)
    different, numbers = group(question, [text for text, _ in drawn], known)
    counts = [numbers.count(number) for number in range(len(different))]
    others = sorted(range(len(known), len(different)), key=lambda number: -counts[number])[:LISTED]
    kept = [*range(len(known)), *others]
    counted = {"given": len(rivals), "sampled": len(others)}
    source = "+".join(f"{name}:{count}" for name, count in counted.items() if count)
    return Drawn(
        candidates=tuple(different[number] for number in kept),
        samples=tuple(
            Sample(text=text, candidate=kept.index(number) if number in kept else None, log_p=log_p)
            for (text, log_p), number in zip(drawn, numbers, strict=True)
        ),
        tokens=tokens,
        source=source or "none",
    )


class AnswerSampler:
    """Draws further answers of the frozen model.

    Args:
        backend: writes.
        prompting: builds the token sequences.
        seed_for: gives a seed that depends on a question and a purpose alone.
    """

    def __init__(self, backend: TokenBackend[Any], prompting: Prompting, seed_for: SeedFor) -> None:
        self.backend = backend
        self.prompting = prompting
        self.seed_for = seed_for

    def draw(self, asked: Sequence[tuple[Question, str, Sequence[str]]]) -> list[Drawn]:
        """Draw for several questions together.

        Args:
            asked: questions without options, an answer to each, and rivals that were given to it.
        """
        if not asked:
            return []
        drafts = [self._drafts(question, range(FIRST)) for question, _, _ in asked]
        self.backend.write([[draft for own in drafts for draft in own]])
        further = [
            []
            if settled(question, answer, [self._text(draft) for draft in own], rivals)
            else self._drafts(question, range(FIRST, FIRST + FURTHER))
            for (question, answer, rivals), own in zip(asked, drafts, strict=True)
        ]
        self.backend.write([[draft for own in further for draft in own]])
        return [
            compare(
                question,
                answer,
                [(self._text(draft), self._log_p(draft)) for draft in (*own, *more)],
                sum(draft.tokens for draft in (*own, *more)),
                rivals,
            )
            for (question, answer, rivals), own, more in zip(asked, drafts, further, strict=True)
        ]

    def _drafts(self, question: Question, numbers: Sequence[int]) -> list[Draft]:
        prompt = self.prompting.answer(question)
        limit = FREE_TOKENS if question.free else MAX_ANSWER_TOKENS[question.form]
        # The same seeds as self-consistency's, whose first samples these are.
        return [Draft(prompt, question.form, limit, seed=self.seed_for(question, f"sample {i}")) for i in numbers]

    def _text(self, draft: Draft) -> str | None:
        answer = read_answer(self.backend.rules.answer(draft), draft.form)
        cut_off = len(draft.written) >= draft.limit
        return answer if answer is not None and not cut_off and is_brief(answer, draft.form) else None

    def _log_p(self, draft: Draft) -> float | None:
        """Of the text without what ends it, like that of the answer."""
        return sum(draft.log_p[:-1]) if draft.log_p else None
