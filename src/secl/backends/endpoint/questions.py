"""What a server is asked about one question: its answer and confidence, and evidence about the candidates.

Every request asks for one thing, and those that do not need each other's answers are under way together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from statistics import fmean

from secl.backends.endpoint.chat import Pending, Requests
from secl.backends.endpoint.reading import DIGITS, VERDICTS, Choice, Completion, bins_of, entropy, read_choice, within
from secl.backends.generation import MAX_LIST_TOKENS, items_of, question_seed
from secl.backends.open_answers import (
    FIRST,
    FREE_TOKENS,
    FURTHER,
    ORDERS,
    Distractors,
    Drawn,
    choose_distractors,
    compare,
    settled,
)
from secl.evidence import CandidateEvidence, EvidenceKind, LetterOrder, PTrue
from secl.prompts.distractors import distinct
from secl.prompts.orders import as_choice, further_orders, orders_of_answers
from secl.prompts.parsing import as_written, is_brief, read_answer, trim_answer
from secl.prompts.templates import (
    MAX_ANSWER_TOKENS,
    NONE_OF_THESE,
    answer_prompt,
    digit_prompt,
    distractor_prompt,
    order_prompt,
    p_true_prompt,
)
from secl.question import LETTERS, GivenAnswer, Question
from secl.records import Purpose, Reply
from secl.settings import PTruePrompt
from secl.writing import Token, Written

Kinds = AbstractSet[EvidenceKind]

COMPARING: Kinds = frozenset({"p_true", "candidates"})
"""Evidence that needs candidates."""


@dataclass
class Findings:
    """What was found out about one question.

    Attributes:
        question: as asked.
        spent: tokens by purpose.
        plain_tokens: those of the answer and its confidence.
        requested: kinds of evidence that were asked for, whatever came of it.
        reply: the model's answer, or the answer that was given.
        rivals: that were given to it.
        distractors: answers for normalised P(True) of an open answer; None where none were looked for yet.
        drawn: what an open answer is compared with; None where that was not asked for.
        p_true: P(True) of the candidates; None where it was not asked for, or could not be read.
        candidates: letters of the candidates; None where they were not asked for, or there is nothing to compare.
    """

    question: Question
    spent: dict[Purpose, float] = field(default_factory=dict)
    plain_tokens: float = 0.0
    requested: set[EvidenceKind] = field(default_factory=set)
    reply: Reply = field(init=False)
    rivals: Sequence[str] = ()
    distractors: Distractors | None = None
    drawn: Drawn | None = None
    p_true: PTrue | None = None
    candidates: CandidateEvidence | None = None

    def take(self, purpose: Purpose, pending: Pending) -> Completion:
        """Wait for what a request gives, and count its tokens."""
        completion = pending.result()
        self.pay(purpose, completion.length)
        return completion

    def pay(self, purpose: Purpose, tokens: float) -> None:
        """Count tokens."""
        self.spent[purpose] = self.spent.get(purpose, 0.0) + tokens
        if purpose == "answering":
            self.plain_tokens += tokens


@dataclass(frozen=True)
class Probe:
    """What is under way about the candidates of a question.

    Attributes:
        texts: of the candidates.
        letters: what gives the letters in each order; None where they are not wanted, or there is nothing to compare.
        verdicts: what gives the verdict on each candidate; empty where they are not wanted.
        source: where the candidates come from.
    """

    texts: Sequence[str]
    letters: Mapping[tuple[int, ...], Pending] | None
    verdicts: Sequence[Pending]
    source: str


class Asking:
    """Asks a server about questions. Several threads may use it at once.

    All methods raise `QuestionError` where the server refuses a question, and `UnavailableError` where it does not
    answer now.

    Args:
        requests: to the server.
        p_true_prompt: the question that P(True) is asked by.
        seed: of what is drawn.
    """

    def __init__(self, requests: Requests, *, p_true_prompt: PTruePrompt, seed: int) -> None:
        self._ask = requests.send
        self.p_true_prompt, self.seed = p_true_prompt, seed

    def answer(self, question: Question, evidence: Kinds, written: Written | None = None) -> Findings:
        """Answer a question, unless it has been answered already, and gather evidence."""
        findings = Findings(question)
        if question.options:
            self._choose(findings, None, evidence)
            return findings
        listing = self._list(question) if evidence & COMPARING == {"p_true"} and not question.free else None
        if written is None:
            drawn = findings.take("answering", self._ask(answer_prompt(question), MAX_ANSWER_TOKENS[question.form]))
            text, tokens = trim_answer(drawn.text, question.form), drawn.tokens
        else:
            text, tokens = written.text, written.tokens
            findings.pay("answering", written.prompt_tokens + written.completion_tokens)
        self._state(findings, text, within(tokens, text.strip()))
        if listing is not None and findings.reply.answer is not None:
            findings.distractors = self._distractors(findings, findings.reply.answer, listing)
        self.gather(findings, evidence)
        return findings

    def rate(self, given: GivenAnswer, evidence: Kinds) -> Findings:
        """Rate an answer from elsewhere; of its rivals, P(True) is asked only where that is wanted."""
        question, findings = given.question, Findings(given.question)
        if question.options:
            self._choose(findings, given.answer, evidence)
        else:
            self._state(findings, as_written(given.answer, question.form), ())
            answer = findings.reply.answer
            rivals = [] if answer is None else distinct(answer, given.rivals, question.form, count=len(given.rivals))
            findings.rivals = rivals
            findings.distractors = Distractors(rivals, f"given:{len(rivals)}") if rivals else None
            self.gather(findings, evidence)
        if "p_true" not in evidence and findings.reply.answer is not None:
            self._read(findings, self._probe(question, [_own(findings)], {"p_true"}, "none"))
        return findings

    def gather(self, findings: Findings, evidence: Kinds) -> None:
        """Add the evidence that is wanted and not there yet; nothing without a readable answer."""
        missing = (evidence & COMPARING) - findings.requested
        if findings.reply.answer is None or not missing:
            return
        findings.requested |= missing
        if findings.question.options:
            texts, source = findings.question.options, "options"
        elif findings.drawn is not None or "candidates" in missing:
            drawn = findings.drawn = findings.drawn or self._draw(findings, findings.reply.answer)
            if drawn is None:
                missing -= {"candidates"}
            texts, source = ((findings.reply.answer,), "none") if drawn is None else (drawn.candidates, drawn.source)
        else:
            if findings.distractors is None:
                findings.distractors = self._distractors(findings, findings.reply.answer)
            texts, source = (findings.reply.answer, *findings.distractors.answers), findings.distractors.source
        self._read(findings, self._probe(findings.question, texts, missing, source))

    def sample(self, question: Question, numbers: Iterable[int], limit: int | None = None) -> list[Completion]:
        """Further answers to an open question, drawn at temperature 1: those of some numbers."""
        seeds = [question_seed(self.seed, question, f"sample {number}") for number in numbers]
        limit = limit or MAX_ANSWER_TOKENS[question.form]
        drawn = [self._ask(answer_prompt(question), limit, seed=seed) for seed in seeds]
        return [pending.result() for pending in drawn]

    def _draw(self, findings: Findings, answer: str) -> Drawn | None:
        """Further answers to an open question, and what they say; None where the answer is too long for that."""
        question, rivals = findings.question, findings.rivals
        if not is_brief(answer, question.form):
            return None
        limit = FREE_TOKENS if question.free else None
        drawn: list[tuple[str | None, float | None]] = []
        for numbers in (range(FIRST), range(FIRST, FIRST + FURTHER)):
            if drawn and settled(question, answer, [text for text, _ in drawn], rivals):
                break
            for completion in self.sample(question, numbers, limit):
                findings.pay("sampling", completion.length)
                drawn.append(_read_sample(completion, question))
        return compare(question, answer, drawn, rivals=rivals)

    def _choose(self, findings: Findings, given: str | None, evidence: Kinds) -> None:
        """The likeliest letter, or the given one, with its confidence; what else is wanted is asked meanwhile."""
        question = findings.question
        findings.requested |= evidence & COMPARING
        prompt = order_prompt(question, range(len(question.options)))
        pending, probe = self._ask(prompt), self._probe(question, question.options, evidence, "options")
        answered = findings.take("answering", pending)
        letters = read_choice(answered.tokens, question.letters)
        letter = given or letters.best
        stated = findings.take("answering", self._ask(digit_prompt(prompt, letter or answered.text)))
        findings.reply = _reply(
            letter or answered.text.strip(),
            letter,
            read_choice(stated.tokens, DIGITS),
            entropies=[letters.entropy],
            log_probability=letters.of(letter) if letter else math.nan,
            option_log_p=tuple(map(letters.of, question.letters)) if letters.best else (),
        )
        if letter is not None:
            self._read(findings, probe)

    def _state(self, findings: Findings, text: str, tokens: Sequence[Token]) -> None:
        """An open answer with its confidence; its tokens, if they are known, say how probable it is."""
        question = findings.question
        prompt = digit_prompt(answer_prompt(question), text if question.free else text.strip())
        findings.reply = _reply(
            text.strip(),
            read_answer(text, question.form),
            read_choice(findings.take("answering", self._ask(prompt)).tokens, DIGITS),
            entropies=[entropy(token) for token in tokens],
            log_probability=math.fsum(token.log_p for token in tokens) if tokens else math.nan,
        )

    def _list(self, question: Question, seed: int | None = None) -> Pending:
        """A list of answers to compare an open answer with."""
        return self._ask(distractor_prompt(question), MAX_LIST_TOKENS[question.form], seed=seed)

    def _distractors(self, findings: Findings, answer: str, listing: Pending | None = None) -> Distractors:
        """Answers to compare an open answer with, from a list that is under way already or a new one."""
        question = findings.question
        if not is_brief(answer, question.form):
            return Distractors([], "none")
        listing = listing or self._list(question)

        def items(pending: Pending) -> list[str]:
            return items_of(findings.take("scoring", pending).text, question.form)

        def sample_list(attempt: int) -> list[str]:
            return items(self._list(question, question_seed(self.seed, question, attempt)))

        return choose_distractors(answer, question.form, items(listing), sample_list)

    def _probe(self, question: Question, texts: Sequence[str], evidence: Kinds, source: str) -> Probe:
        """Begin to ask about candidates; an open question becomes a choice between them and "None of these"."""
        letters = None
        if "candidates" in evidence and question.options:
            orders = further_orders(len(texts), ORDERS)
            letters = {order: self._ask(order_prompt(question, order)) for order in orders}
        elif "candidates" in evidence and len(texts) < len(LETTERS):
            choice = as_choice(question, texts)
            orders = orders_of_answers(len(texts), ORDERS, question_seed(self.seed, question, "candidates"))
            letters = {order: self._ask(order_prompt(choice, order)) for order in orders}
        judged = [p_true_prompt(question, text, self.p_true_prompt) for text in texts] if "p_true" in evidence else []
        verdicts = [self._ask(prompt) for prompt in judged]
        return Probe(texts, letters, verdicts, source)

    def _read(self, findings: Findings, probe: Probe) -> None:
        """Wait for what is under way, and read it."""
        options = probe.texts if findings.question.options else (*probe.texts, NONE_OF_THESE)
        orders = []
        for order, pending in (probe.letters or {}).items():
            letters = read_choice(findings.take("reordering", pending).tokens, LETTERS[: len(options)])
            if letters.best is not None:
                log_p = tuple(letters.of(LETTERS[order.index(number)]) for number in range(len(options)))
                orders.append(LetterOrder(order=order, log_p=log_p))
        if probe.letters is not None:
            nothing = (None,) * len(options)  # no chat API tells how likely a text is
            findings.candidates = CandidateEvidence(
                candidates=tuple(options),
                letters=tuple(orders),
                likelihoods=nothing,
                samples=() if findings.drawn is None else findings.drawn.samples,
                source=probe.source,
            )
        if probe.verdicts:
            findings.p_true = self._read_verdicts(findings, probe)

    def _read_verdicts(self, findings: Findings, probe: Probe) -> PTrue | None:
        """P(True) of the candidates with a verdict that can be read, the answer first; None without one on that."""
        read: dict[str, tuple[float, float]] = {}
        for text, pending in zip(probe.texts, probe.verdicts, strict=True):
            verdict = read_choice(findings.take("scoring", pending).tokens, VERDICTS)
            if verdict.best is not None:
                true, false = (math.exp(verdict.of(word)) for word in VERDICTS)
                read[text] = true, false
        own = _own(findings)
        if own not in read:
            return None
        texts = [own, *(text for text in read if text != own)]
        return PTrue(
            candidates=tuple(texts),
            probabilities=tuple(read[text][0] for text in texts),
            false_probabilities=tuple(read[text][1] for text in texts),
            distractor_source=probe.source,
        )


def _read_sample(completion: Completion, question: Question) -> tuple[str | None, float | None]:
    """What a further answer says, and how probable its text is, where the server tells."""
    text = trim_answer(completion.text, question.form)
    answer = read_answer(text, question.form)
    tokens = within(completion.tokens, text.strip())
    log_p = math.fsum(token.log_p for token in tokens) if tokens else None
    return (answer if answer is not None and is_brief(answer, question.form) else None), log_p


def _own(findings: Findings) -> str:
    """The text of the answer."""
    answer = str(findings.reply.answer)
    return findings.question.option(answer) if findings.question.options else answer


def _reply(
    text: str,
    answer: str | None,
    stated: Choice,
    *,
    entropies: Sequence[float],
    log_probability: float,
    option_log_p: tuple[float, ...] = (),
) -> Reply:
    """A reply; its entropy is the mean over what is known of its tokens, and the digit."""
    bins, mass = bins_of(stated)
    return Reply(
        text=text,
        answer=answer,
        bins=bins,
        digit_mass=mass,
        entropy=fmean([*entropies, stated.entropy]),
        log_probability=log_probability,
        option_log_p=option_log_p,
    )
