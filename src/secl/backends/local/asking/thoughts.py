"""Thoughts before answers. The model writes all thoughts of a window as one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.cases import Case, read_answers
from secl.evidence import Thought
from secl.prompts.templates import in_order, other_order
from secl.question import Question
from secl.writing import Piece, Writing

THOUGHTS = 3
"""Maximum number of thoughts about a question with options. Thoughts of samples have numbers from 3 on."""


def think(asker: Asker, cases: Sequence[Case]) -> None:
    """Write the thought before each answer.

    If a question has options and their comparison is requested, also sample a second thought, with the options in
    reversed order.
    """
    thinking = [case for case in cases if case.thought is None]
    for case in thinking:
        case.draft = asker.prompting.thought(case.question, asker.backend.limit)
        if case.question.options and "candidates" in case.kinds:
            case.further = [_further(asker, case.question, 1)]
    further = [each for case in thinking for each in case.further]
    _write_thoughts(asker, [*thinking, *further])


def think_again(asker: Asker, cases: Sequence[Case]) -> None:
    """Sample a third thought about each question whose first two thoughts led to different options."""
    third = []
    for case in cases:
        if len(case.further) == 1 and len({_chosen(asker, each) for each in (case, *case.further)}) > 1:
            third.append(_further(asker, case.question, 2))
            case.further = [*case.further, third[-1]]
    _write_thoughts(asker, third)
    read_answers(asker, third)


def write_unanswered(asker: Asker, cases: Sequence[Case]) -> None:
    """Write an answer again without a thought if the answer after the thought was empty."""
    drafts = []
    for case in cases:
        draft, thought = case.draft, case.thought
        if draft is not None and thought is not None and thought.text and not asker.answer_in(draft).strip():
            case.thought = replace(thought, text="")
            case.draft = asker.answer_draft(case.question, replace(draft, thought=case.thought, begun=None))
            drafts.append(case.draft)
    asker.backend.write([drafts])


def sampled_letters(asker: Asker, question: Question, count: int) -> tuple[str | None, ...]:
    """Sample thoughts about a question with options, and return the most probable letter after each thought."""
    thoughts = asker.sampled_thoughts([(question, THOUGHTS + number) for number in range(count)])
    cases = [Case(question, thought=draft.thought, draft=draft) for draft in thoughts]
    read_answers(asker, cases)
    asker.meter.spend("sampling", sum(case.tokens for case in cases))
    return tuple(asker.readout.choice(question, case.reading, 0).answer for case in cases)


def texts_behind_thoughts(asker: Asker, question: Question, writing: Writing) -> Iterator[Piece]:
    """Write free answers, each after a separate thought.

    Thoughts use the temperature, top_p and seeds of the answers. The model writes all thoughts first. If a thought
    leads to an empty answer, the model answers without the thought.
    """
    prompting, write = asker.prompting, asker.backend.write_texts
    draft, answering = prompting.with_thought(question, writing, asker.backend.limit)
    thinking = replace(writing, max_tokens=draft.limit, stop=draft.stop, top_logprobs=None, extra={})
    thoughts: dict[int, Thought] = {}
    for piece in write(draft.prompt, thinking, draft.ends):
        if isinstance(piece.draft, Draft):
            thoughts[piece.choice] = asker.learner.rules.thought(piece.draft)
        yield Piece(choice=piece.choice, thought=piece.text or None)
    for number, thought in sorted(thoughts.items()):
        tokens, begun = thought.tokens, False
        for tried in (thought, replace(thought, text="")) if thought.text else (thought,):
            room = prompting.with_room(question, answering, asker.backend.limit, tried.text)
            for piece in write(prompting.answer(question, tried.text), replace(room, n=1, seed=writing.seed + number)):
                text = piece.text if begun else piece.text.lstrip()
                begun = begun or bool(text)
                last = piece
                if isinstance(piece.draft, Draft):
                    tokens += piece.completion_tokens
                    if not begun and tried.text:
                        break
                    last = replace(
                        piece,
                        prompt_tokens=len(draft.prompt),
                        completion_tokens=tokens,
                        whole_thought=tried,
                    )
                yield replace(last, choice=number, text=text)
            if begun:
                break


def _further(asker: Asker, question: Question, number: int) -> Case:
    count = len(question.options)
    order = other_order(count) if number % 2 else tuple(range(count))
    case = Case(in_order(question, order), order=order)
    draft = asker.prompting.thought(case.question, asker.backend.limit)
    case.draft = asker.drawn(draft, question, f"thought {number}")
    return case


def _write_thoughts(asker: Asker, cases: Sequence[Case]) -> None:
    asker.think([case.draft for case in cases if case.draft is not None])
    for case in cases:
        case.thought = None if case.draft is None else case.draft.thought


def _chosen(asker: Asker, case: Case) -> str:
    """Return the text of the option that the model chose after a thought."""
    return case.question.text_of(asker.readout.choice(case.question, case.reading, 0).text)
