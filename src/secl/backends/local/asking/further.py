"""What the model writes besides its answer: thoughts before answers, and further answers as evidence about candidates.

The model writes all thoughts of a window as one batch. Answers after further thoughts, further answers to open
questions, letters in further orders and likelihoods are evidence about the candidates of a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from secl.backends.base import Bundle
from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.cases import Case, read_answers, read_candidates
from secl.backends.open_answers import FREE_TOKENS, PROGRAM_TOKENS, Way, compare, computed, rounds, settled
from secl.evidence import CandidateEvidence, LetterOrder, Sample, Thought
from secl.prompts.parsing import is_brief, read_answer
from secl.prompts.programs import FENCE, OPENING
from secl.prompts.templates import as_choice, in_order, orders_of_answers, other_order
from secl.question import Question
from secl.writing import Piece, Writing

THOUGHTS = 3
"""Maximum number of thoughts about a question with options. Thoughts of samples are numbered from this number on."""


def think(asker: Asker, cases: Sequence[Case]) -> None:
    """Write the thought before each answer.

    If a question has options and their comparison is requested, also sample a second thought over the other order of
    the options.
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
    """Write again, without the thought, the answers that were empty after it."""
    drafts = []
    for case in cases:
        draft, thought = case.draft, case.thought
        if draft is not None and thought is not None and thought.text and not asker.answer_in(draft).strip():
            case.thought = replace(thought, text="")
            case.draft = asker.answer_draft(case.question, replace(draft, thought=case.thought, begun=None))
            drafts.append(case.draft)
    asker.backend.write([drafts])


def sampled_thoughts(asker: Asker, wanted: Iterable[tuple[Question, int]]) -> list[Draft]:
    """Sample a thought for each question and sample number."""
    asked = [(asker.prompting.thought(question, asker.backend.limit), question, number) for question, number in wanted]
    drafts = [asker.drawn(draft, question, f"thought {number}") for draft, question, number in asked]
    asker.think(drafts)
    return drafts


def sampled_letters(asker: Asker, question: Question, count: int) -> tuple[str | None, ...]:
    """Sample thoughts about a question with options, and return the most probable letter after each thought."""
    thoughts = sampled_thoughts(asker, [(question, THOUGHTS + number) for number in range(count)])
    cases = [Case(question, thought=draft.thought, draft=draft) for draft in thoughts]
    read_answers(asker, cases)
    asker.meter.spend("sampling", sum(case.tokens for case in cases))
    return tuple(asker.readout.choice(question, case.reading, 0).answer for case in cases)


def texts_behind_thoughts(asker: Asker, question: Question, writing: Writing) -> Iterator[Piece]:
    """Write free answers, each after a thought of its own.

    Thoughts have the temperature, top_p and seeds of the answers. The model writes all thoughts first. If a thought
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
                        draft=replace(piece.draft, thought=tried),
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


def compared(asker: Asker, question: Question, answer: str, thought: Thought | None = None) -> CandidateEvidence | None:
    """Return the evidence about the candidates from a separate pass; None for an answer that cannot be compared."""
    case = Case(question, answer=answer, thought=thought)
    if question.options:
        compare_options(asker, case)
    else:
        compare_answers(asker, [case])
    if case.comparison is None or case.candidates is None:
        return None
    (reading,) = asker.backend.read([case.comparison])
    asker.meter.spend("sampling", case.sampling)
    for purpose in ("reordering", "likelihood"):
        asker.meter.spend(purpose, reading.bundle.tokens[purpose])
    return read_candidates(asker, case.candidates, reading)


def compare_options(asker: Asker, case: Case) -> None:
    """Compare options by letters in the other order, or in both orders after a thought, and by likelihoods."""
    question, prompting, count = case.question, asker.prompting, len(case.question.options)
    orders = [tuple(range(count))] * (case.thought is not None) + [other_order(count)]
    case.comparison = Bundle(
        orders=prompting.orders(question, orders), spans=prompting.spans(question, question.options)
    )
    case.candidates = CandidateEvidence(
        candidates=question.options, letters=_unread(orders), likelihoods=(), source="options"
    )


def _unread(orders: Iterable[tuple[int, ...]]) -> tuple[LetterOrder, ...]:
    return tuple(LetterOrder(order=order, log_p=()) for order in orders)


def compare_answers(asker: Asker, cases: Iterable[Case]) -> None:
    """Draw further answers to open questions. The distinct answers and "None of these" become options.

    Cases get no comparison if the answer is too long, if the model has too few letters, or if the model cannot read all
    candidates together.
    """
    brief = [case for case in cases if case.answer is not None and is_brief(case.answer, case.question.form)]
    for case, drafts in zip(brief, _draw(asker, brief), strict=True):
        _compare(asker, case, drafts)


def _compare(asker: Asker, case: Case, drafts: Sequence[Draft]) -> None:
    drawn = compare(
        case.question, case.answer or "", [_sample_of(asker, case, draft) for draft in drafts], rivals=case.rivals
    )
    if len(drawn.candidates) >= len(asker.readout.token_ids.letters):
        return
    choice = as_choice(case.question, drawn.candidates)
    orders = orders_of_answers(len(drawn.candidates), asker.seed_for(case.question, "candidates"))
    bundle = Bundle(orders=asker.prompting.orders(choice, orders))
    if max(map(len, bundle.sequences)) > asker.backend.limit:
        return
    case.comparison = bundle
    case.candidates = replace(drawn, candidates=choice.options, letters=_unread(orders))
    case.sampling = writing_tokens(drafts, [] if case.draft is None else [case.draft.prompt])


def writing_tokens(drafts: Sequence[Draft], read: Iterable[Sequence[int]] = ()) -> int:
    """Return the number of tokens of one question's drafts; each prompt counts once, prompts in `read` do not count."""
    prompts = {tuple(draft.prompt) for draft in drafts} - {*map(tuple, read)}
    return sum(map(len, prompts)) + sum(draft.tokens for draft in drafts)


def sampled(asker: Asker, question: Question, count: int) -> tuple[str | None, ...]:
    """Return further answers to an open question."""
    numbers = range(count)
    thoughts: Sequence[Draft | None] = [None] * count
    if asker.prompting.thinks:
        thoughts = sampled_thoughts(asker, [(question, number) for number in numbers])
    drafts = [_sample(asker, Case(question), number, thoughts[number]) for number in numbers]
    asker.backend.write([drafts])
    asker.meter.spend("sampling", writing_tokens(drafts))
    return tuple(read_answer(asker.answer_in(draft), question.form) for draft in drafts)


def _draw(asker: Asker, cases: Sequence[Case]) -> list[list[Draft]]:
    """Draw the frozen model's further answers to several questions together, in two rounds."""
    drawn: list[list[Draft]] = [[] for _ in cases]
    for number in range(2):
        wanted = [
            (case, own, way)
            for case, own in zip(cases, drawn, strict=True)
            if not number
            or not settled(
                case.question, case.answer or "", [_sample_of(asker, case, each) for each in own], case.rivals
            )
            for way in rounds(case.question, thinks=case.thought is not None)[number]
        ]
        again = [(case.question, way) for case, _, way in wanted if case.thought is not None and way is not None]
        thoughts = dict(zip(again, sampled_thoughts(asker, again), strict=True))
        further = [_draft(asker, case, way, thoughts) for case, _, way in wanted]
        asker.backend.write([further])
        for (case, own, _), draft in zip(wanted, further, strict=True):
            own.append(draft)
            if case.draft is not None and case.draft.begun is None and case.thought is None:
                case.draft.begun = draft.begun
    return drawn


def _draft(asker: Asker, case: Case, way: Way, thoughts: Mapping[tuple[Question, int], Draft]) -> Draft:
    if way is None:
        return Draft(asker.prompting.program(case.question), "text", PROGRAM_TOKENS, stop=(FENCE,))
    draft = _sample(asker, case, way, thoughts.get((case.question, way)))
    return replace(draft, limit=min(draft.limit, FREE_TOKENS)) if case.question.free else draft


def _sample(asker: Asker, case: Case, number: int, thought: Draft | None) -> Draft:
    draft = asker.answer_draft(case.question, thought)
    if thought is None and case.draft is not None:
        draft.begun = case.draft.begun
    return asker.drawn(draft, case.question, f"sample {number}")


def _sample_of(asker: Asker, case: Case, draft: Draft) -> Sample:
    if draft.stop:
        return computed(OPENING + asker.learner.rules.text(draft))
    answer = read_answer(asker.answer_in(draft), case.question.form)
    cut_off = len(draft.written) >= draft.limit
    text = answer if answer is not None and not cut_off and is_brief(answer, draft.form) else None
    # Without the end token, like the log-probability of the answer.
    log_p = sum(draft.log_p[:-1]) if draft.log_p else None
    return Sample(text=text, candidate=None, log_p=log_p, thought=draft.thought)
