"""Questions with their answers and evidence. The model writes an answer itself, or rates a given answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from secl.backends.base import Bundle, Position, Reading
from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.open_answers import FREE_TOKENS, PROGRAM_TOKENS, Way, compare, computed, rounds, settled
from secl.evidence import (
    OPTIONS,
    CandidateEvidence,
    EvidenceKind,
    LetterOrder,
    Likelihood,
    PTrue,
    Sample,
    Source,
    Thought,
)
from secl.ledger import Purpose
from secl.prompts.parsing import is_brief, read_answer
from secl.prompts.programs import FENCE, OPENING
from secl.prompts.templates import as_choice, orders_of_answers, other_order
from secl.question import Question
from secl.records import Reply

Turn = tuple[Question, str | None, Thought | None]
"""A question, a given answer to it, and the thought before the given answer; None if not given."""


@dataclass
class Case:
    """A question with the answer of one version of the model, and with the evidence so far.

    Attributes:
        given: an answer from elsewhere: an option letter, or a text from `Prompting.given`. None if the model answers.
        kinds: kinds of evidence that are requested besides the answer.
        answer: the answer read from the text, or the given option; None if unreadable or not needed.
        rivals: other given answers, which differ from the answer in meaning.
        thought: the model's thought before the answer; None if the model answers without a thought.
        further: cases of the same question with a second or third thought, each for its own order of the options.
        order: for a case in `further`, the numbers of the options in the order of its prompt; else empty.
        draft: draft of the thought until the thought is written, then draft of the open answer; None without a draft.
        text: the whole open answer; None for multiple choice, and before the answer is written.
        listing: a written list of answers, for distractors; None if no list is needed.
        comparison: bundle with the prompts for comparing candidates; None if not requested, or without candidates.
            `orders` has a prompt for each order of the candidates. `spans` has the text of each option twice: after
            the question, and without a question.
        sampling: number of tokens spent on sampled answers.
        judged, source: texts to judge by P(True), and their source.
        finding: number of tokens spent on finding the judged texts.
        version: version of the model that answers; 0 is the frozen model.
        reading: probabilities of the answer and its evidence under this version; `read_answers` sets `reading`.
        tokens: number of tokens through the network to write and read the answer.
        counts: number of tokens of prompt and answer; None for the rating of a given answer.
        reply: answer and stated confidence of this version; `read_reply` sets `reply`.
        p_true: evidence about `judged`; None if not requested.
        candidates: evidence about the candidates; None without a comparison. `read_evidence` adds the
            log-probabilities of letters and texts.
        adapted: the case of the latest answer of the adapted model; None before an adapted answer.
    """

    question: Question
    given: str | None = None
    kinds: frozenset[EvidenceKind] = frozenset()
    answer: str | None = None
    rivals: Sequence[str] = ()
    thought: Thought | None = None
    order: tuple[int, ...] = ()
    further: Sequence[Case] = ()
    draft: Draft | None = None
    text: str | None = None
    listing: Draft | None = None
    comparison: Bundle | None = None
    sampling: int = 0
    judged: Sequence[str] = ()
    source: Source = OPTIONS
    finding: int = 0
    version: int = 0
    reading: Reading = field(init=False)
    tokens: float = field(init=False)
    counts: tuple[int | None, int | None] = (None, None)
    reply: Reply = field(init=False)
    p_true: PTrue | None = None
    candidates: CandidateEvidence | None = None
    adapted: Case | None = None

    @property
    def turn(self) -> Turn:
        return self.question, self.given, None if self.given is None else self.thought

    @property
    def thought_text(self) -> str | None:
        return None if self.thought is None else self.thought.text

    @property
    def written(self) -> bool:
        """Whether the model writes the answer."""
        return not self.question.options and self.given is None

    @property
    def spent(self) -> dict[Purpose, float]:
        """Number of the frozen model's tokens by purpose, as if this case went through the network alone."""
        parts = self.reading.bundle.tokens
        listing = 0 if self.listing is None else len(self.listing.prompt) + self.listing.tokens
        return {
            **parts,
            "answering": self.tokens - sum(parts.values()) + parts["answering"],
            "scoring": parts["scoring"] + listing + self.finding,
            "reordering": parts["reordering"] + sum(each.tokens for each in self.further),
            "sampling": self.sampling,
        }

    def by(self, version: int) -> Case:
        """Return the case of the adapted answer, or of the frozen answer for version 0."""
        return self.adapted if version and self.adapted is not None else self

    def read_by(self, version: int, reading: Reading) -> Case:
        """Return a case of the same answer, read by an adapted version."""
        adapted = copy(self)
        adapted.version, adapted.reading, adapted.tokens = version, reading, reading.tokens
        return adapted

    def digit_position(self, reply: Reply) -> Position:
        """Return the position at which the confidence of a reply is stated."""
        positions = self.reading.bundle.positions
        return positions[1 + self.question.letters.index(reply.text)] if self.question.options else positions[-1]

    def copy(self) -> Case:
        """Return a copy with its own draft, for another model with the same weights."""
        copied = copy(self)
        copied.draft = copy(self.draft)
        return copied


def read_answers(asker: Asker, cases: Sequence[Case]) -> None:
    """Read the answer of each case, its judged texts and its candidates with the frozen model."""
    bundles = []
    for case in cases:
        prompting, question, thought = asker.prompting, case.question, case.thought_text
        if case.text is None:
            bundle = replace(prompting.choices(question, thought), draft=case.draft)
        else:
            bundle = prompting.written(question, case.text, case.draft, thought)
        bundle = replace(bundle, verdicts=prompting.verdicts(question, case.judged))
        if case.comparison is not None:
            bundle = replace(bundle, orders=case.comparison.orders, spans=case.comparison.spans)
        bundles.append(bundle)
    for case, reading in zip(cases, asker.backend.read(bundles), strict=True):
        case.reading, case.tokens = reading, reading.tokens


def read_reply(asker: Asker, case: Case, letter: str | None = None) -> None:
    """Set the reply of an answer; for multiple choice, the reply is the most probable letter or a given letter."""
    if case.text is None:
        reply = asker.readout.choice(case.question, case.reading, case.version, letter)
    else:
        reply = asker.readout.open(case.question, case.text, case.reading, case.version)
    prompt, written = case.counts
    case.reply = replace(reply, prompt_tokens=prompt, answer_tokens=written, thought=case.thought)


def read_evidence(asker: Asker, case: Case) -> None:
    """Complete the evidence of a case: P(True) of the judged texts, and the candidates' letters and likelihoods."""
    if case.judged:
        case.p_true = asker.readout.p_true(case.reading, case.judged, case.source)
    if case.candidates is not None:
        candidates = read_candidates(asker, case.candidates, case.reading)
        further = tuple(_letters(asker, each) for each in case.further)
        case.candidates = replace(candidates, letters=(*candidates.letters, *further))


def read_candidates(asker: Asker, candidates: CandidateEvidence, reading: Reading) -> CandidateEvidence:
    """Return the evidence about candidates with the log-probabilities from a reading of `Case.comparison`."""
    count = len(candidates.candidates)
    rows, likelihoods = asker.readout.letters(reading, count), reading.likelihoods()
    half = len(likelihoods) // 2
    texts = [
        Likelihood(given=given, alone=alone, tokens=len(span.tokens) - span.start)
        for given, alone, span in zip(likelihoods[:half], likelihoods[half:], reading.bundle.spans, strict=False)
    ]
    letters = (
        replace(each, log_p=tuple(row[each.order.index(number)] for number in range(count)))
        for each, row in zip(candidates.letters, rows, strict=True)
    )
    return replace(candidates, letters=tuple(letters), likelihoods=(*texts, *[None] * (count - half)))


def _letters(asker: Asker, case: Case) -> LetterOrder:
    """Return the letters of a case in `Case.further`, in the order of the question's options."""
    reply = asker.readout.choice(case.question, case.reading, 0)
    log_p = tuple(reply.option_log_p[case.order.index(number)] for number in range(len(case.order)))
    return LetterOrder(order=case.order, log_p=log_p, thought=case.thought, bins=reply.bins)


def compared(asker: Asker, question: Question, answer: str, thought: Thought | None = None) -> CandidateEvidence | None:
    """Compare an answer with its candidates in a separate pass; return None for an answer that cannot be compared."""
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
    """Prepare a comparison of options by likelihoods, and by letters for the options in reversed order.

    If the answer follows a thought, the comparison also reads the letters in the question's order without the thought.
    """
    question, prompting, count = case.question, asker.prompting, len(case.question.options)
    orders = [tuple(range(count))] * (case.thought is not None) + [other_order(count)]
    case.comparison = Bundle(
        orders=prompting.orders(question, orders), spans=prompting.spans(question, question.options)
    )
    case.candidates = CandidateEvidence(
        candidates=question.options, letters=_unread(orders), likelihoods=(), source=OPTIONS
    )


def _unread(orders: Iterable[tuple[int, ...]]) -> tuple[LetterOrder, ...]:
    return tuple(LetterOrder(order=order, log_p=()) for order in orders)


def compare_answers(asker: Asker, cases: Iterable[Case]) -> None:
    """Sample answers to open questions, and prepare comparisons of the distinct answers and "None of these" as options.

    A case gets no comparison if the answer is too long, if the option letters do not suffice, or if a prompt with all
    options is longer than the model can read.
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
    """Return the number of tokens of drafts; each prompt counts once, and prompts in `read` do not count."""
    prompts = {tuple(draft.prompt) for draft in drafts} - {*map(tuple, read)}
    return sum(map(len, prompts)) + sum(draft.tokens for draft in drafts)


def sampled(asker: Asker, question: Question, count: int) -> tuple[str | None, ...]:
    """Return `count` sampled answers to an open question; None for unreadable answers."""
    numbers = range(count)
    thoughts: Sequence[Draft | None] = [None] * count
    if asker.prompting.thinks:
        thoughts = asker.sampled_thoughts([(question, number) for number in numbers])
    drafts = [_sample(asker, Case(question), number, thoughts[number]) for number in numbers]
    asker.backend.write([drafts])
    asker.meter.spend("sampling", writing_tokens(drafts))
    return tuple(read_answer(asker.answer_in(draft), question.form, question.text) for draft in drafts)


def _draw(asker: Asker, cases: Sequence[Case]) -> list[list[Draft]]:
    """Sample answers to several questions together; a second round adds answers to questions that are not `settled`."""
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
        thoughts = dict(zip(again, asker.sampled_thoughts(again), strict=True))
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
    answer = read_answer(asker.answer_in(draft), case.question.form, case.question.text)
    cut_off = len(draft.written) >= draft.limit
    text = answer if answer is not None and not cut_off and is_brief(answer, draft.form) else None
    # ln P of an answer excludes the end token.
    log_p = sum(draft.log_p[:-1]) if draft.log_p else None
    return Sample(text=text, candidate=None, log_p=log_p, thought=draft.thought)
