"""Plausible answers to an open question to compare its answer with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from secl.prompts.distractors import COUNT, distinct, near_numbers
from secl.records import Form

SAMPLED_LISTS = 2
"""Lists that are sampled where the greedy list names too few answers."""


@dataclass(frozen=True)
class Distractors:
    """Answers that differ from the one they are compared with, and from each other.

    Attributes:
        answers: `COUNT` of them, or fewer when a model has no more to say.
        source: how many came from where, like "listed:2+sampled:1+numeric:1"; "none" without any.
    """

    answers: list[str]
    source: str


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
        if len(answers) == COUNT:
            break
        answers = distinct(answer, [*answers, *sample_list(attempt)], form)
    counts["sampled"] = len(answers) - sum(counts.values())
    source = "+".join(f"{name}:{count}" for name, count in counts.items() if count)
    return Distractors(answers, source or "none")
