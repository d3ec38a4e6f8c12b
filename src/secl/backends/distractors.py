"""Plausible answers to an open question to compare its answer with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from secl.backends.base import TokenBackend
from secl.backends.generation import Draft
from secl.backends.prompting import Prompting
from secl.cost import Meter
from secl.prompts.distractors import DISTRACTORS, distinct, near_numbers
from secl.question import Form, Question

SeedFor = Callable[[Question, object], int]
"""Gives a seed that depends on a question and a purpose alone."""

SAMPLED_LISTS = 2
"""Lists that are sampled where the greedy list names too few answers."""


@dataclass(frozen=True)
class Distractors:
    """Answers that differ from the one they are compared with, and from each other.

    Attributes:
        answers: `DISTRACTORS` of them, or fewer when a model has no more to say.
        source: how many came from where, like "listed:2+sampled:1+numeric:1"; "none" without any.
    """

    answers: list[str]
    source: str


class DistractorProbe:
    """Finds distractors of an open answer, once for all that is asked about it.

    Args:
        backend: writes lists of answers.
        prompting: builds the token sequences.
        meter: counts the tokens.
        seed_for: of sampled lists.
    """

    def __init__(self, backend: TokenBackend[Any], prompting: Prompting, meter: Meter, seed_for: SeedFor) -> None:
        self.backend = backend
        self.prompting = prompting
        self.meter = meter
        self.seed_for = seed_for
        self._found: dict[tuple[Question, str], Distractors] = {}

    def forget(self) -> None:
        """Begin anew: a question that is answered again pays again, as it would after a resume."""
        self._found = {}

    def of(self, question: Question, answer: str, listing: Draft | None) -> Distractors:
        """Distractors of an answer.

        Args:
            question: without options.
            answer: to it.
            listing: a list of answers that was written already; None to write one.
        """
        if (question, answer) not in self._found:
            self._found[question, answer] = self._find(question, answer, listing)
        return self._found[question, answer]

    def _find(self, question: Question, answer: str, listing: Draft | None) -> Distractors:
        prompt = self.prompting.answer_list(question)
        if listing is None:
            listing = Draft.list(prompt, question.form)
            self.backend.write([[listing]])
            self.meter.spend("scoring", listing.tokens)

        def sample_list(attempt: int) -> list[str]:
            draft = Draft.list(prompt, question.form, seed=self.seed_for(question, attempt))
            self.backend.write([[draft]])
            self.meter.spend("scoring", draft.tokens)
            return self.backend.rules.items(draft)

        return choose_distractors(answer, question.form, self.backend.rules.items(listing), sample_list)


def choose_distractors(
    answer: str, form: Form, listed: Sequence[str], sample_list: Callable[[int], Sequence[str]]
) -> Distractors:
    """Choose distractors from a greedy list; what it lacks comes from near misses, for numbers, or sampled lists.

    Args:
        answer: that they must differ from.
        form: of the answer.
        listed: answers from a greedy list.
        sample_list: gives the answers of the i-th sampled list.

    >>> choose_distractors("12", "number", ["12.0", "13", "40"], lambda i: []).source
    'listed:2+numeric:2'
    """
    answers = distinct(answer, listed, form)
    counts = {"listed": len(answers)}
    if form == "number":
        answers = distinct(answer, [*answers, *near_numbers(answer)], form)
        counts["numeric"] = len(answers) - counts["listed"]
    for attempt in range(SAMPLED_LISTS):
        if len(answers) == DISTRACTORS:
            break
        answers = distinct(answer, [*answers, *sample_list(attempt)], form)
    counts["sampled"] = len(answers) - sum(counts.values())
    source = "+".join(f"{name}:{count}" for name, count in counts.items() if count)
    return Distractors(answers, source or "none")
