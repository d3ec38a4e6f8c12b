"""The flow of a question: its answer, and the evidence about the answer and its alternatives."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from secl.evidence import (
    OPTIONS,
    CandidateEvidence,
    Evidence,
    EvidenceKind,
    FactEvidence,
    LetterOrder,
    Likelihood,
    PTrue,
    Sample,
    Source,
)
from secl.facts.spans import find_spans
from secl.facts.tokens import complete_other, read_facts
from secl.flow.further import (
    NO_DISTRACTORS,
    OWN,
    SAMPLED_LISTS,
    Distractors,
    choose_distractors,
    compare,
    computed,
    distinct,
    items_of,
    question_seed,
    rounds,
    settled,
)
from secl.flow.requests import (
    Choose,
    Driver,
    Flow,
    Judge,
    Read,
    ReadWithin,
    Request,
    StateConfidence,
    Stated,
    Text,
    Write,
)
from secl.prompts.parsing import is_brief, read_answer
from secl.prompts.templates import NONE_OF_THESE, as_choice, orders_of_answers, other_order
from secl.question import GivenAnswer, Question
from secl.records import Reply

MAX_THOUGHTS = 3
"""Maximum number of thoughts about a question with options. Thoughts of samples have numbers from 3 on."""

LONGEST_KNOWN = 300
"""Maximum number of characters of a question whose words are no facts in the answer. A longer message holds a document,
and what the answer takes from a document can be wrong."""

DOUBTFUL, MOST_DOUBTFUL = math.log(0.6), 8
"""A fact of a lower ln probability is doubtful; maximum number of doubtful facts of a text with other candidates."""

Kinds = Collection[EvidenceKind]

P_TRUE_KINDS: frozenset[EvidenceKind] = frozenset({"p_true", "verdicts"})
"""Kinds of evidence from P(True): of the answer and its distractors, and of the candidates of the posterior."""


@dataclass
class Case:
    """A question with its answer and the evidence so far.

    Attributes:
        reply: the model's answer or the given answer, with its stated confidence.
        stated: the same as the driver returned it; None if the reply comes from elsewhere.
        requested: kinds of evidence that the flow has requested, even if there is none, as for a long answer.
        rated: whether the answer comes from elsewhere.
        rivals: other given answers, which differ from the answer in meaning.
        spare: samples of the second round, written before it is known whether it is needed.
        drawn: number of rounds of `samples` so far (`secl.flow.further.rounds`).
        listed: answers that the model lists; None before a list is written.
        distractors: answers to compare by P(True), besides the candidates of the posterior.
        verdicts: P(True) and P(False) by answer; None for an unreadable verdict.
        letters: letters of the options, or of the candidates of an open question, in several orders.
        likelihoods: likelihood of each option; None if the driver gives none.
        compared: evidence about the candidates; None without candidates.
        answers: answers drawn for self-consistency; None if not drawn.
        facts: the values in a free text; None for other answers.
    """

    question: Question
    driver: Driver
    reply: Reply = field(init=False)
    stated: Stated | None = None
    requested: set[EvidenceKind] = field(default_factory=set)
    rated: bool = False
    rivals: Sequence[str] = ()
    samples: list[Sample] = field(default_factory=list)
    spare: list[Sample] = field(default_factory=list)
    drawn: int = 0
    listed: list[str] | None = None
    distractors: Distractors | None = None
    verdicts: dict[str, tuple[float, float] | None] = field(default_factory=dict)
    letters: list[LetterOrder] = field(default_factory=list)
    likelihoods: dict[str, Likelihood | None] = field(default_factory=dict)
    compared: CandidateEvidence | None = None
    answers: tuple[str | None, ...] | None = None
    facts: tuple[FactEvidence, ...] | None = None

    def about(self, reply: Reply) -> Case:
        """Return the case of another reply to the same question, with everything that does not depend on the reply."""
        if reply.answer == self.reply.answer or self.question.options:
            case = replace(self, letters=[*self.letters], verdicts=dict(self.verdicts), requested={*self.requested})
        else:
            case = Case(self.question, self.driver, drawn=self.drawn, listed=self.listed)
            case.samples, case.spare = [*self.samples], [*self.spare]
        case.reply = reply
        return case

    def take(self, requests: Iterable[Request], results: Iterable[Any]) -> None:
        """Add the results of requests."""
        for request, result in zip(requests, results, strict=True):
            match request:
                case Write(what="list", draw=None):
                    self.listed = self.items(result)
                case Write(what="program"):
                    self.samples.append(computed(result.text))
                case Write(draw=draw, spare=spare):
                    if result is not None:
                        further = replace(sample_of(self.question, result), own=draw == OWN)
                        (self.spare if spare else self.samples).append(further)
                case Choose():
                    self.letters += [] if result is None else [result]
                case Judge(answer=answer):
                    self.verdicts[answer] = result
                case Read(option=option):
                    self.likelihoods[option] = result
                case StateConfidence():
                    self.stated, self.reply = result, result.reply

    def items(self, text: Text) -> list[str]:
        return items_of(text.text, self.question.form, self.driver.distractors + 1)

    @property
    def p_true(self) -> PTrue | None:
        """P(True) of the answer first, then of its distractors, then of the other judged answers."""
        question, answer = self.question, self.reply.answer
        if answer is None or self.verdicts.get(question.text_of(answer)) is None:
            return None
        distractors = self.distractors or NO_DISTRACTORS
        if question.options and len(self.verdicts) > 1:
            others = [question.option(letter) for letter in question.letters if letter != answer]
            distractors = Distractors(others, OPTIONS)
        first = {question.text_of(answer), *distractors.answers}
        texts = dict.fromkeys([question.text_of(answer), *distractors.answers, *self.verdicts])
        read = [(text, *verdict) for text in texts if (verdict := self.verdicts.get(text)) is not None]
        judged, true, false = zip(*read, strict=True)
        return PTrue(
            candidates=judged,
            probabilities=true,
            false_probabilities=false,
            source=distractors.source,
            extra=sum(text not in first for text in judged),
        )

    def evidence(self, kinds: Kinds) -> Evidence:
        """Return the evidence of these kinds; None for each kind that is not there."""
        return Evidence(
            p_true=self.p_true if P_TRUE_KINDS & {*kinds} else None,
            candidates=self.compared if "candidates" in kinds else None,
            samples=self.answers if "samples" in kinds else None,
            facts=self.facts if "candidates" in kinds else None,
        )


def answer(case: Case, kinds: Kinds, text: Text | None = None, *, judge: bool = True) -> Flow:
    """Answer a question, or take its written answer `text`, state a confidence, and gather evidence.

    `judge`: whether to judge an open answer; False if another version of the model may answer differently.
    """
    question, thinks = case.question, case.driver.thinks
    if question.options:
        yield from _ask_options(case, StateConfidence(question, think=thinks), kinds, question.options)
        return
    if text is None:
        writes = [Write(question, think=thinks)]
        # Only brief answers are compared with others, and a free answer may be long.
        beside = [] if question.free else _plan_texts(case, kinds, thinks=thinks)
        text, *further = yield [*writes, *beside]
        case.take(beside, further)
        thinks = False
    now = {*kinds} if judge else {*kinds} - P_TRUE_KINDS
    state = StateConfidence(question, text, think=thinks and text.thought is None)
    yield from _ask_about(case, state, read_answer(text.text, question.form, question.text), now)


def rate(case: Case, given: GivenAnswer, kinds: Kinds) -> Flow:
    """State a confidence in an answer from elsewhere, judge it, and gather evidence; the model does not think."""
    question, case.rated = case.question, True
    if question.options:
        own = question.option(given.answer)
        rivals = [
            text for letter, text in zip(question.letters, question.options, strict=True) if letter != given.answer
        ]
        judged = [own, *(rivals if P_TRUE_KINDS & {*kinds} else ())]
        yield from _ask_options(case, StateConfidence(question, given.answer), kinds, judged)
        return
    answer = read_answer(given.answer, question.form, question.text)
    if answer is not None:
        case.rivals = distinct(answer, given.rivals, question.form, count=len(given.rivals))
    state = StateConfidence(question, case.driver.text_of(question, given.answer, rated=True))
    yield from _ask_about(case, state, answer, kinds)


def gather(case: Case, kinds: Kinds) -> Flow:
    """Gather the evidence about `case.reply` that is missing."""
    question, answer = case.question, case.reply.answer
    if answer is None:
        return
    missing = {*kinds} - case.requested - {"samples", "dinco"}
    if question.options and missing:
        yield from _ask_options(case, None, missing, question.options)
    elif missing:
        yield from _ask_about(case, None, answer, missing)


def sample(case: Case, count: int) -> Flow:
    """Draw answers for self-consistency; set `case.answers`. After a thought, each answer has its own thought."""
    question, thinks = case.question, case.driver.thinks
    if not question.options:
        texts = yield [Write(question, draw=number, think=thinks) for number in range(count)]
        case.answers = tuple(read_answer(each.text, question.form, question.text) for each in texts)
    elif thinks:
        given = tuple(range(len(question.options)))
        drawn = yield [Choose(question, given, draw=MAX_THOUGHTS + number) for number in range(count)]
        case.answers = tuple(None if each is None else question.letters[_best(each)] for each in drawn)
    else:
        stated = case.stated  # by the frozen model; `case.reply` may be that of an adapted version
        if stated is None:
            (stated,) = yield [StateConfidence(question)]
        case.answers = case.driver.draw_letters(question, stated.reply.option_log_p, count)


def _ask_options(case: Case, state: StateConfidence | None, kinds: Kinds, judged: Sequence[str]) -> Flow:
    """Choose an option and state the confidence (`state`), unless known, and ask about all options.

    If the model thinks, it thinks a second time, and chooses with the options in reversed order. It also chooses
    without a thought in both orders, unless it always thinks. If the second thought leads to another option, the model
    thinks a third time.
    """
    question, driver = case.question, case.driver
    case.requested |= {*kinds} | (P_TRUE_KINDS if P_TRUE_KINDS & {*kinds} else frozenset())
    given, other = tuple(range(len(question.options))), other_order(len(question.options))
    thinks = state.think if state is not None else case.reply.thought is not None
    requests: list[Request] = [] if state is None else [state]
    if "candidates" in kinds:
        orders = [other]
        if thinks:
            orders = [] if driver.always_thinks else [given, other]
            requests.append(Choose(question, other, draw=1))
        requests += [Choose(question, order) for order in orders]
        requests += [Read(question, option) for option in question.options if driver.likelihoods]
    if len(judged) == 1 or P_TRUE_KINDS & {*kinds}:
        requests += [Judge(question, text) for text in judged]
    case.take(requests, (yield requests))
    if "candidates" not in kinds or case.reply.answer is None:
        return
    own = question.text_of(case.reply.answer)
    if any(question.options[_best(each)] != own for each in case.letters if each.thought is not None):
        third = [Choose(question, given, draw=2)]
        case.take(third, (yield third))
    case.compared = CandidateEvidence(
        candidates=question.options,
        letters=tuple(sorted(case.letters, key=lambda each: each.thought is not None)),
        likelihoods=tuple(case.likelihoods.get(option) for option in question.options),
        source=OPTIONS,
    )


def _ask_about(case: Case, state: StateConfidence | None, answer: str | None, kinds: Kinds) -> Flow:
    """State the confidence in an open answer, unless known, judge a given one, and gather evidence about `answer`."""
    question = case.question
    case.requested |= {*kinds}
    thinks = case.reply.thought is not None if state is None else state.behind_thought
    brief = answer is not None and is_brief(answer, question.form)
    # The tokens of a fact, which are read anyway, rank as well as samples, which take four times as long.
    compares = answer is not None and brief and "candidates" in kinds and not _states_facts(question, answer)
    planned = {*kinds} if compares else {*kinds} - {"candidates"}
    if brief and (beside := _plan_texts(case, planned, thinks=thinks)):
        case.take(beside, (yield beside))
    if answer is not None and compares:
        for ways in rounds(question, thinks=thinks, rated=case.rated)[case.drawn :]:
            if settled(question, answer, case.samples, case.rivals):
                break
            case.drawn += 1
            further = [] if case.spare else _draws(question, ways, thinks=thinks)
            case.samples, case.spare = [*case.samples, *case.spare], []
            if further:
                case.take(further, (yield further))
        case.compared = compare(question, answer, case.samples, rivals=case.rivals)
    texts = [answer] if answer is not None and (case.rated or P_TRUE_KINDS & {*kinds}) else []
    if answer is not None and "p_true" in kinds:
        case.distractors = yield from _find_distractors(case, answer, brief=brief)
        texts += case.distractors.answers
    requests: list[Request] = [] if state is None else [state]
    choices: list[Choose] = []
    if case.compared is not None and "candidates" in kinds:
        choices = _choices(case, case.compared.candidates)
    requests += choices
    if case.compared is not None and "verdicts" in kinds:
        texts += [each for each in case.compared.candidates if each != NONE_OF_THESE]
    requests += [Judge(question, each) for each in dict.fromkeys(texts)]
    if requests:
        case.take(requests, (yield requests))
    if question.free and answer is not None and case.stated is not None and "candidates" in kinds:
        complete = not (state is not None and isinstance(state.answer, Text)) or state.answer.complete
        yield from _find_facts(case, answer, complete=complete)
    if case.compared is not None and "candidates" in kinds:
        case.compared = _with_letters(case.compared, case.letters) if choices else None


def _known(question: Question) -> str:
    """Return the words of a question that are no facts in the answer."""
    return question.text if len(question.text) <= LONGEST_KNOWN else ""


def _states_facts(question: Question, answer: str) -> bool:
    return question.free and bool(find_spans(answer, known=_known(question)))


def _find_facts(case: Case, text: str, *, complete: bool) -> Flow:
    """Find the facts of a text, and other values in place of doubtful facts.

    With a passage, also read the facts without the passage.
    """
    question, tokens = case.question, None if case.stated is None else case.stated.tokens
    case.facts = read_facts(text, tokens, known=_known(question), passage=question.context, complete=complete)
    if not case.driver.likelihoods:
        case.facts = tuple(replace(fact, others=()) for fact in case.facts)
        return
    yield from _complete_others(case, text)
    if case.facts and question.context:
        without = replace(question, context="")
        alone = yield [ReadWithin(without, text, fact.start, fact.end) for fact in case.facts]
        case.facts = tuple(replace(fact, alone=log_p) for fact, log_p in zip(case.facts, alone, strict=True))


def _complete_others(case: Case, text: str) -> Flow:
    """Continue the text with the beginnings of other values in place of the first doubtful facts."""
    facts, continues = [*(case.facts or ())], not (case.driver.thinks or case.reply.thought)
    doubtful = [fact for fact in facts if continues and fact.value < DOUBTFUL][:MOST_DOUBTFUL]
    others = [(fact, beginning, log_p) for fact in doubtful for beginning, log_p in fact.others]
    writes = [
        Write(case.question, "continuation", begun=text[: fact.start].rstrip() + beginning)
        for fact, beginning, _ in others
    ]
    written = (yield writes) if writes else []
    found: dict[int, dict[str, float]] = {}
    for (fact, beginning, log_p), continued in zip(others, written, strict=True):
        value = complete_other(text, fact, beginning, continued.text)
        if value is not None:
            found.setdefault(fact.start, {}).setdefault(value, log_p)
    case.facts = tuple(replace(fact, others=(*found.get(fact.start, {}).items(),)) for fact in facts)


def _plan_texts(case: Case, kinds: Kinds, *, thinks: bool) -> list[Write]:
    """Return the texts that do not depend on the answer: the first round of samples, and a list of answers."""
    writes: list[Write] = []
    if "candidates" in kinds and not case.drawn:
        case.drawn = 1
        first, second = rounds(case.question, thinks=thinks, rated=case.rated)
        writes += _draws(case.question, first, thinks=thinks)
        if not thinks and case.question.form != "number":  # reasoning and thoughts are long
            writes += [replace(each, spare=True) for each in _draws(case.question, second, thinks=False)]
    if "p_true" in kinds and case.listed is None and not case.rivals:
        writes.append(Write(case.question, "list"))
    return writes


def _draws(question: Question, ways: Iterable[int | None], *, thinks: bool) -> list[Write]:
    return [Write(question, "program") if way is None else Write(question, draw=way, think=thinks) for way in ways]


def _find_distractors(case: Case, answer: str, *, brief: bool) -> Generator[list[Write], list[Text], Distractors]:
    """Return the given rivals, or else answers that the model lists."""
    question, rivals = case.question, case.rivals
    if rivals:
        return Distractors([*rivals], Source("answers", given=len(rivals)))
    if not brief:
        return NO_DISTRACTORS
    lists: list[list[str]] = []
    while True:
        found = choose_distractors(answer, question.form, case.driver.distractors, case.listed or [], lists)
        if len(found.answers) == case.driver.distractors or len(lists) == SAMPLED_LISTS:
            return found
        (text,) = yield [Write(question, "list", draw=len(lists))]
        lists.append(case.items(text))


def _choices(case: Case, candidates: Sequence[str]) -> list[Choose]:
    """Return requests for the letters of all candidates and "None of these"; none if the model cannot read them."""
    choice = as_choice(case.question, candidates)
    if len(candidates) >= case.driver.letters or not case.driver.fits(choice):
        return []
    seed = question_seed(case.driver.seed, case.question, "candidates")
    return [Choose(choice, order) for order in orders_of_answers(len(candidates), seed)]


def _with_letters(compared: CandidateEvidence, letters: Sequence[LetterOrder]) -> CandidateEvidence:
    """Return the evidence about an open answer with the readable letters of its candidates."""
    candidates = (*compared.candidates, NONE_OF_THESE)
    return replace(compared, candidates=candidates, letters=tuple(letters), likelihoods=(None,) * len(candidates))


def _best(letters: LetterOrder) -> int:
    """Return the number of the most probable option."""
    return letters.log_p.index(max(letters.log_p))


def sample_of(question: Question, text: Text) -> Sample:
    """Return the answer in a sampled text; its text is None if it is unreadable, too long or cut off."""
    answer = read_answer(text.text, question.form, question.text)
    usable = answer is not None and text.complete and is_brief(answer, text.form)
    return Sample(text=answer if usable else None, candidate=None, log_p=text.log_p, thought=text.thought)
