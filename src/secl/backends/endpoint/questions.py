"""Requests about one question: its answer and confidence, and evidence about the candidates.

Each request asks for one piece of evidence. Independent requests run at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, cast

from secl.backends.endpoint.candidates import EvidenceKinds, Findings
from secl.backends.endpoint.chat import Requests
from secl.backends.endpoint.names import DIGITS, bins_of, entropy, read_names, spelled, within
from secl.backends.generation import items_of, list_tokens, question_seed
from secl.backends.open_answers import (
    FREE_TOKENS,
    NOTHING,
    PROGRAM_TOKENS,
    Distractors,
    choose_distractors,
    compare,
    computed,
    distinct,
    rounds,
    settled,
)
from secl.evidence import NO_OTHERS, OPTIONS, CandidateEvidence, LetterOrder, Sample, Source, Thought
from secl.prompts.parsing import as_written, is_brief, read_answer, trim_answer
from secl.prompts.templates import (
    MAX_ANSWER_TOKENS,
    answer_prompt,
    as_choice,
    digit_prompt,
    distractor_prompt,
    in_order,
    order_prompt,
    orders_of_answers,
    other_order,
    p_true_prompt,
    program_prompt,
)
from secl.question import LETTERS, GivenAnswer, Question
from secl.records import Reply
from secl.settings.groups import NUCLEUS
from secl.writing import Piece, Token, Writing, joined

COMPARING: EvidenceKinds = frozenset({"p_true", "candidates"})
"""Evidence about candidates."""


class EndpointAsker:
    """Asks a server about questions. Instances are thread-safe. Raises the errors of `Requests`."""

    def __init__(self, requests: Requests, distractors: int, seed: int) -> None:
        self.requests, self._ask = requests, partial(requests.send, top_p=NUCLEUS)
        self.distractors, self.seed, self.listed = distractors, seed, distractors + 1

    def answer(self, question: Question, evidence: EvidenceKinds, written: str | Piece | None = None) -> Findings:
        """Answer a question, or take its `written` answer, and gather evidence."""
        findings = Findings(question)
        if question.options:
            self._choose(findings, None, evidence)
            return findings
        thought: Thought | None = None
        if written is None and question.free:
            (written,) = joined(self.requests.write(question, Writing(max_tokens=MAX_ANSWER_TOKENS[question.form])))
        if written is None:
            pending = self._ask(answer_prompt(question), MAX_ANSWER_TOKENS[question.form], think=question)
            drawn = findings.take("answering", pending)
            text, tokens, thought = trim_answer(drawn.text, question.form), drawn.tokens, drawn.whole_thought
        elif isinstance(written, str):
            text, tokens = written, ()
        else:
            thought = written.whole_thought
            text, tokens = written.text, cast(tuple[Token, ...], written.draft or ())
            findings.pay("answering", written.length)
        self._state(findings, text, within(tokens, text.strip()), thought)
        self.gather(findings, evidence)
        return findings

    def rate(self, rated: GivenAnswer, evidence: EvidenceKinds) -> Findings:
        """Rate an answer from elsewhere.

        secl always requests P(True) of the answer. It requests P(True) of the rivals only if `evidence` has "p_true".
        """
        question, findings = rated.question, Findings(rated.question)
        if question.options:
            self._choose(findings, rated.answer, evidence)
        else:
            self._state(findings, as_written(rated.answer, question.form), (), None)
            answer = findings.reply.answer
            if answer is not None:
                findings.rivals = distinct(answer, rated.rivals, question.form, count=len(rated.rivals))
            self.gather(findings, evidence)
        if "p_true" not in evidence and findings.reply.answer is not None:
            self._probe(findings, [findings.own], {"p_true"}, NO_OTHERS)()
        return findings

    def gather(self, findings: Findings, evidence: EvidenceKinds) -> None:
        """Request the evidence that `findings` lacks, if the reply has a readable answer."""
        missing = (evidence & COMPARING) - findings.requested
        if findings.reply.answer is None or not missing:
            return
        findings.requested |= missing
        if findings.question.options:
            texts, source = findings.question.options, OPTIONS
        elif findings.drawn is not None or "candidates" in missing:
            drawn = findings.drawn = findings.drawn or self._draw(findings, findings.reply.answer)
            if drawn is None:
                missing -= {"candidates"}
            texts, source = ((findings.reply.answer,), NO_OTHERS) if drawn is None else (drawn.candidates, drawn.source)
        else:
            distractors = self._distractors(findings, findings.reply.answer)
            texts, source = (findings.reply.answer, *distractors.answers), distractors.source
        self._probe(findings, texts, missing, source)()

    def sample(self, question: Question, numbers: Iterable[int], limit: int | None = None) -> list[Piece]:
        """Draw an answer to an open question at temperature 1 for each of `numbers`, which set the seeds."""
        seeds = [question_seed(self.seed, question, f"sample {number}") for number in numbers]
        limit = limit or MAX_ANSWER_TOKENS[question.form]
        drawn = [self._ask(answer_prompt(question), limit, seed=seed, think=question) for seed in seeds]
        return [pending.result() for pending in drawn]

    def _draw(self, findings: Findings, answer: str) -> CandidateEvidence | None:
        """Draw further answers to an open question, and group them with its answer; None for a long answer."""
        question, rivals = findings.question, findings.rivals
        if not is_brief(answer, question.form):
            return None
        limit = FREE_TOKENS if question.free else None
        drawn: list[Sample] = []
        for ways in rounds(question, thinks=self.requests.abilities.thinks_first):
            if drawn and settled(question, answer, drawn, rivals):
                break
            if None in ways:
                written = self._ask(program_prompt(question), PROGRAM_TOKENS)
                drawn.append(computed(findings.take("sampling", written).text))
            for sampled in self.sample(question, [way for way in ways if way is not None], limit):
                findings.pay("sampling", sampled.length)
                drawn.append(_read_sample(sampled, question))
        return compare(question, answer, drawn, rivals=rivals)

    def _choose(self, findings: Findings, named: str | None, evidence: EvidenceKinds) -> None:
        """Choose the letter `named`, or else the most probable letter, and request its confidence and the evidence."""
        question = findings.question
        findings.requested |= evidence & COMPARING
        prompt = order_prompt(question, range(len(question.options)))
        pending, read_probe = (
            self._ask(prompt, think=question if named is None else None),
            self._probe(findings, question.options, evidence, OPTIONS, thought=named is None),
        )
        answered = findings.take("answering", pending)
        letters, thought = read_names(answered.tokens, question.letters), answered.whole_thought
        # Without log-probabilities, the text itself may still be a letter.
        letter = named or (spelled(answered.text, question.letters) if letters is None else letters.best)
        log_p = {each: letters.of(each) for each in question.letters} if letters is not None and letters.best else {}
        asked = digit_prompt(prompt, _with_thought(thought, letter or answered.text))
        stated = findings.take("answering", self._ask(asked))
        findings.reply = Reply(
            text=letter or answered.text.strip(),
            answer=letter,
            log_probability=math.nan if letter is None else log_p.get(letter, math.nan),
            option_log_p=tuple(log_p.values()),
            thought=thought,
            **_stated(stated.tokens, [] if letters is None else [letters.entropy]),
        )
        if letter is not None:
            read_probe()

    def _state(self, findings: Findings, text: str, tokens: Sequence[Token], thought: Thought | None) -> None:
        """Request the confidence in an open answer, and set the reply. Without `tokens`, the answer's ln P is nan."""
        question = findings.question
        asked = digit_prompt(answer_prompt(question), _with_thought(thought, text if question.free else text.strip()))
        stated = findings.take("answering", self._ask(asked)).tokens
        findings.reply = Reply(
            text=text.strip(),
            answer=read_answer(text, question.form, question.text),
            log_probability=math.fsum(token.log_p for token in tokens) if tokens else math.nan,
            thought=thought,
            **_stated(stated, [entropy(token) for token in tokens if token.top]),
        )

    def _distractors(self, findings: Findings, answer: str) -> Distractors:
        """Return distractors of an open answer: its rivals, or else answers that the model lists."""
        question, rivals = findings.question, findings.rivals
        if rivals:
            return Distractors([*rivals], Source("answers", given=len(rivals)))
        if not is_brief(answer, question.form):
            return NOTHING

        def listed(seed: int | None = None) -> list[str]:
            prompt, tokens = distractor_prompt(question, self.listed), list_tokens(question.form, self.listed)
            written = findings.take("scoring", self._ask(prompt, tokens, seed=seed))
            return items_of(written.text, question.form, self.listed)

        def sample_list(attempt: int) -> list[str]:
            return listed(question_seed(self.seed, question, attempt))

        return choose_distractors(answer, question.form, self.distractors, listed(), sample_list)

    def _probe(
        self,
        findings: Findings,
        texts: Sequence[str],
        evidence: EvidenceKinds,
        source: Source,
        *,
        thought: bool = False,
    ) -> Callable[[], None]:
        """Request evidence, and return a function that waits for the results and adds the results to `findings`.

        An open question becomes a multiple-choice question with the candidates and "None of these" as options.

        `thought`: whether the answer follows a thought. If so, the model thinks a second time, and chooses a letter
        with the options in reversed order. It also chooses without a thought in both orders, unless it always thinks.
        If the second thought leads to another option, the model thinks a third time and chooses again.
        """
        question = choice = findings.question
        orders: Iterable[tuple[int, ...]] = ()
        abilities, letters = self.requests.abilities, []
        if "candidates" in evidence and question.options:
            other = other_order(len(texts))
            orders = [other]
            if thought and abilities.thinks_first:
                seed = question_seed(self.seed, question, "thought")
                asked = self._ask(order_prompt(choice, other), seed=seed, think=in_order(choice, other))
                letters = [(other, asked)]
                orders = [tuple(range(len(texts))), other] if abilities.off is not None else []
        elif "candidates" in evidence and len(texts) < len(LETTERS):
            choice = as_choice(question, texts)
            orders = orders_of_answers(len(texts), question_seed(self.seed, question, "candidates"))
        letters += [(order, self._ask(order_prompt(choice, order))) for order in orders]
        judged = texts if "p_true" in evidence else ()
        verdicts = [self._ask(p_true_prompt(question, each)) for each in judged]

        def read() -> None:
            if letters:
                findings.candidates = found = findings.read_letters(choice.options, letters, source)
                own = findings.reply.answer
                further = [each.log_p for each in found.letters if each.thought is not None]
                if own and any(log_p.index(max(log_p)) != question.letters.index(own) for log_p in further):
                    findings.candidates = replace(found, letters=(*found.letters, *self._third(findings, source)))
            if verdicts:
                findings.p_true = findings.read_verdicts(texts, verdicts, source)

        return read

    def _third(self, findings: Findings, source: Source) -> tuple[LetterOrder, ...]:
        """Return the letters after a third thought, with the options in the question's order."""
        question, given = findings.question, tuple(range(len(findings.question.options)))
        seed = question_seed(self.seed, question, "thought 2")
        pending = self._ask(order_prompt(question, given), seed=seed, think=question)
        return findings.read_letters(question.options, [(given, pending)], source).letters


def _read_sample(sampled: Piece, question: Question) -> Sample:
    """Return the answer in a sampled text, with its log-probability if known."""
    text = trim_answer(sampled.text, question.form)
    answer = read_answer(text, question.form, question.text)
    tokens = within(sampled.tokens, text.strip())
    log_p = math.fsum(token.log_p for token in tokens) if tokens else math.nan
    brief = answer is not None and sampled.finish == "stop" and is_brief(answer, question.form)
    return Sample(
        text=answer if brief else None,
        candidate=None,
        log_p=None if math.isnan(log_p) else log_p,
        thought=sampled.whole_thought,
    )


def _with_thought(thought: Thought | None, answer: str) -> str:
    """Return the thought and the answer as one text, because templates drop thoughts of earlier turns."""
    return answer if thought is None or thought.text is None else f"{thought.text}\n\n{answer}"


def _stated(tokens: Sequence[Token], entropies: Sequence[float]) -> dict[str, Any]:
    """Return the `bins`, `digit_mass` and `entropy` of a `Reply`, from the tokens that state its confidence.

    Without log-probabilities of the digit, `bins` is (). `entropy` is the mean of the answer's `entropies` and the
    digit's entropy. If all are unknown, `entropy` is 0, because gates do not accept nan.
    """
    digit = read_names(tokens, DIGITS)
    if digit is None:
        return {"bins": (), "digit_mass": math.nan, "entropy": fmean(entropies or [0.0])}
    bins, mass = bins_of(digit)
    return {"bins": bins, "digit_mass": mass, "entropy": fmean([*entropies, digit.entropy])}
