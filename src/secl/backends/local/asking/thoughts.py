"""Thoughts before answers, and further thoughts about the same question, whose answers are evidence about the first.

All thoughts of a window are written as one batch. The answer, its confidence and the letters are read after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.cases import Case, read_answers
from secl.evidence import Thought
from secl.prompts.templates import other_order
from secl.question import Question

FURTHER = 3
"""Thoughts of a question whose options are compared; those of samples are drawn with other seeds."""


def think(asker: Asker, cases: Sequence[Case]) -> None:
    """Write the thought before each answer.

    With options, a second thought over their other order is sampled besides it if candidates are compared.
    """
    thinking = [case for case in cases if asker.prompting.thinks(case.question)]
    for case in thinking:
        if case.question.options and "candidates" in case.kinds:
            case.further = [_further(asker, case.question, 1)]
    further = [each for case in thinking for each in case.further]
    _write(asker, [*thinking, *further])


def think_again(asker: Asker, cases: Sequence[Case]) -> None:
    """Sample a third thought about each question for whose first two thoughts the model chose different options."""
    third = []
    for case in cases:
        if len(case.further) == 1 and len({_chosen(asker, each) for each in (case, *case.further)}) > 1:
            third.append(_further(asker, case.question, 2))
            case.further = [*case.further, third[-1]]
    _write(asker, third)
    read_answers(asker, third)


def sampled_thoughts(asker: Asker, wanted: Iterable[tuple[Question, int]]) -> list[Thought]:
    """Sample a thought for each question and number of a sample."""
    drafts = [_draft(asker, question, asker.seed_for(question, f"thought {number}")) for question, number in wanted]
    asker.backend.write([drafts])
    return [asker.learner.rules.thought(draft) for draft in drafts]


def sampled_letters(asker: Asker, question: Question, count: int) -> tuple[str | None, ...]:
    """Sample thoughts about a question with options, and read the most probable letter after each."""
    thoughts = sampled_thoughts(asker, [(question, FURTHER + number) for number in range(count)])
    cases = [Case(question, thought=thought) for thought in thoughts]
    read_answers(asker, cases)
    asker.meter.spend("sampling", sum(case.frozen.tokens for case in cases))
    return tuple(asker.readout.choice(question, case.frozen.reading, 0).answer for case in cases)


def _further(asker: Asker, question: Question, number: int) -> Case:
    count = len(question.options)
    order = other_order(count) if number % 2 else tuple(range(count))
    shown = replace(question, options=tuple(question.options[i] for i in order), reference=None, grader="")
    return Case(shown, order=order, seed=asker.seed_for(question, f"thought {number}"))


def _draft(asker: Asker, question: Question, seed: int | None) -> Draft:
    draft = asker.prompting.thought(question, asker.backend.limit)
    return draft if seed is None else replace(draft, seed=seed, top_p=asker.prompting.top_p)


def _write(asker: Asker, cases: Sequence[Case]) -> None:
    drafts = [_draft(asker, case.question, case.seed) for case in cases]
    if drafts:
        asker.backend.write([drafts])
    for case, draft in zip(cases, drafts, strict=True):
        case.thought = asker.learner.rules.thought(draft)


def _chosen(asker: Asker, case: Case) -> str:
    """Return the text of the option that the model chose after a thought."""
    return case.question.text_of(asker.readout.choice(case.question, case.frozen.reading, 0).text)
