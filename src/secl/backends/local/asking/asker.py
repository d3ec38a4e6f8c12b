"""Questions to one model, and the conversion of its log-probabilities to replies and P(True)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from secl.backends.base import Bundle, Position, Reading, Statistics, TokenBackend
from secl.backends.generation import Draft, items_of, list_tokens, question_seed
from secl.backends.local.backend import LocalBackend
from secl.backends.open_answers import NOTHING, Distractors, choose_distractors
from secl.backends.prompting import Prompting
from secl.backends.token_ids import TokenIds
from secl.data.quiz import quiz
from secl.errors import ModelError
from secl.evidence import OPTIONS, PTrue, Source
from secl.ledger import Meter
from secl.prompts.parsing import is_brief, read_answer
from secl.prompts.templates import answer_prompt
from secl.question import Question
from secl.records import Reply

Verdicts = dict[Hashable, tuple[PTrue, float]]

PROBED, FACTS = ("capitals", "science"), 12
"""Domains of the built-in quiz, and number of questions from each, for `prefers_prefill`."""

PREFILL_GAIN = 0.3
"""secl drops the prefix "Answer:" if this raises the mean ln P of a reply's first token by at least this many nats.

For smaller gains secl keeps the prefix, because the constants of the posterior were measured with the prefix.
"""


@dataclass
class Asker:
    """Asks one model about questions and answers.

    Attributes:
        learner: the model in this process, which trains, and runs beam search for DINCO.
        backend: engine that reads and writes: the learner, or servers with the same model.
        seed: seed of all samples.
        verdicts: cache of P(True) and its cost in tokens, shared with other models; None if not shared.
    """

    learner: LocalBackend
    backend: TokenBackend[Any]
    prompting: Prompting
    readout: Readout
    meter: Meter
    seed: int
    verdicts: Verdicts | None = None

    def seed_for(self, question: Question, purpose: object) -> int:
        """Return a seed that depends on `self.seed`, the question and a purpose, such as "sample 0"."""
        return question_seed(self.seed, question, purpose)

    def drawn(self, draft: Draft, question: Question, purpose: object) -> Draft:
        """Return a copy of a draft that samples its tokens, with the seed from `seed_for`."""
        return replace(draft, seed=self.seed_for(question, purpose), top_p=self.prompting.top_p)

    def answer_draft(self, question: Question, thinking: Draft | None) -> Draft:
        """Return the draft of a greedy answer to an open question, after the thought in `thinking`, if any."""
        if thinking is None or thinking.thought is None:
            return self.prompting.answer_draft(question)
        draft = self.prompting.answer_draft(question, thinking.thought.text)
        return replace(draft, thought=thinking.thought, begun=thinking.begun)

    def think(self, thoughts: Sequence[Draft]) -> None:
        """Write thoughts, and set the `Draft.thought` of each draft."""
        self.backend.write([thoughts])
        for draft in thoughts:
            draft.thought = self.learner.rules.thought(draft)

    def sampled_thoughts(self, wanted: Iterable[tuple[Question, int]]) -> list[Draft]:
        """Sample a thought for each pair of question and sample number."""
        drafts = [
            self.drawn(self.prompting.thought(question, self.backend.limit), question, f"thought {number}")
            for question, number in wanted
        ]
        self.think(drafts)
        return drafts

    def answer_in(self, draft: Draft) -> str:
        return self.learner.rules.answer(draft)

    def p_true(self, question: Question, reply: Reply, of_options: PTrue | None, listing: Draft | None) -> PTrue:
        """Return P(True) of a reply's answer, and of the other options or of distractors.

        Args:
            of_options: P(True) of all options in order, if known.
            listing: see `distractors`.
        """
        answer = reply.answer or ""
        if not question.options:
            rivals = NOTHING
            if is_brief(answer, question.form):
                rivals, tokens = self.distractors(question, answer, listing)
                self.meter.spend("scoring", tokens)
            return self._judge(question, (answer, *rivals.answers), rivals.source)
        known = of_options or self._judge(question, question.options, OPTIONS)
        own = question.letters.index(answer)
        order = [own, *(number for number in range(len(question.options)) if number != own)]
        return replace(
            known,
            candidates=tuple(known.candidates[i] for i in order),
            probabilities=tuple(known.probabilities[i] for i in order),
            false_probabilities=tuple(known.false_probabilities[i] for i in order),
        )

    def _judge(self, question: Question, candidates: Sequence[str], source: Source) -> PTrue:
        key = (question, tuple(candidates), source)
        known = None if self.verdicts is None else self.verdicts.get(key)
        if known is None:
            (reading,) = self.backend.read([Bundle(verdicts=self.prompting.verdicts(question, candidates))])
            known = self.readout.p_true(reading, candidates, source), reading.tokens
            if self.verdicts is not None:
                self.verdicts[key] = known
        p_true, tokens = known
        self.meter.spend("scoring", tokens)
        return p_true

    def list_of_answers(self, question: Question, attempt: int | None = None) -> Draft:
        """Return the draft of a list of answers to an open question: greedy if `attempt` is None, else sampled."""
        prompt, listed = self.prompting.answer_list(question), self.prompting.listed
        draft = Draft(prompt, question.form, list_tokens(question.form, listed), lines=listed)
        return draft if attempt is None else self.drawn(draft, question, attempt)

    def distractors(self, question: Question, answer: str, listing: Draft | None) -> tuple[Distractors, int]:
        """Return plausible other answers to an open question, and the number of tokens for newly written lists.

        `listing` is the greedy list; None to write it.
        """
        tokens = 0

        def items(attempt: int | None, draft: Draft | None = None) -> list[str]:
            nonlocal tokens
            if draft is None:
                draft = self.list_of_answers(question, attempt)
                self.backend.write([[draft]])
                tokens += len(draft.prompt) + draft.tokens
            return items_of(self.learner.rules.text(draft), question.form, self.prompting.listed)

        count = self.prompting.distractors
        return choose_distractors(answer, question.form, count, items(None, listing), items), tokens


class Readout:
    """Reads letters, confidence digits, entropies and P(True).

    P(True) is the total full-vocabulary probability of all spellings of True; with `paper`, of the token True alone.
    """

    def __init__(self, token_ids: TokenIds, *, paper: bool = False) -> None:
        self.token_ids = token_ids
        self.paper = paper

    def choice(self, question: Question, reading: Reading, version: int, named: str | None = None) -> Reply:
        """Return the reply to a multiple-choice question: the most probable letter, or the letter `named`."""
        letter, *digits = reading.bundle.positions
        (logits,) = reading.logits([letter], self.token_ids.letters[: len(question.options)])
        chosen = logits.index(max(logits)) if named is None else question.letters.index(named)
        own = [self.token_ids.letters[chosen]]
        statistics = reading.text_statistics([letter, digits[chosen]], own, self.token_ids.digits)
        reply = _reply(question.letters[chosen], question.letters[chosen], statistics, version)
        # The difference of ln P and logit is the same for all letters, so ln P of the chosen letter gives the others.
        constant = reply.log_probability - logits[chosen]
        return replace(reply, option_log_p=tuple(min(0.0, logit + constant) for logit in logits))

    def open(self, question: Question, text: str, reading: Reading, version: int) -> Reply:
        """Return the reply to an open question from the reading of its answer `text`."""
        *inside, _after, digit = reading.bundle.positions
        (sequence,) = reading.bundle.answers
        own = [sequence[length] for _, length in inside]
        statistics = reading.text_statistics([*inside, digit], own, self.token_ids.digits)
        return _reply(text.strip(), read_answer(text, question.form, question.text), statistics, version)

    def options(self, reading: Reading, positions: Sequence[Position], count: int) -> list[tuple[float, ...]]:
        """Return the probabilities of the first `count` option letters at each position, normalised to sum to 1."""
        return [shares(row) for row in reading.logits(positions, self.token_ids.letters[:count])]

    def p_yes(self, reading: Reading, positions: Sequence[Position]) -> tuple[float, ...]:
        """Return P(Yes) / (P(Yes) + P(No)) at each position."""
        if not self.token_ids.yes_no:
            raise ModelError(
                "DINCO needs Yes and No as single tokens, but the tokenizer splits them; choose another method."
            )
        return tuple(shares(row)[0] for row in reading.logits(positions, self.token_ids.yes_no))

    def p_true(self, reading: Reading, candidates: Sequence[str], source: Source) -> PTrue:
        """Return P(True) and P(False) of each candidate; the bundle's `verdicts` has a prompt for each candidate."""
        true, false = self.token_ids.true, self.token_ids.false
        if self.paper:
            true, false = true[:1], false[:1]
        p = _double(reading.log_p(reading.bundle.ends("scoring"), (*true, *false))).exp()
        p_true, p_false = p[:, : len(true)].sum(-1), p[:, len(true) :].sum(-1)
        return PTrue(
            candidates=tuple(candidates),
            probabilities=tuple(min(1.0, value) for value in p_true.tolist()),
            false_probabilities=tuple(min(1.0, value) for value in p_false.tolist()),
            source=source,
        )

    def letters(self, reading: Reading, count: int) -> tuple[tuple[float, ...], ...]:
        """Return ln P of the first `count` option letters after each prompt in the bundle's `orders`."""
        if not (positions := reading.bundle.ends("reordering")):
            return ()
        return tuple(tuple(row) for row in reading.log_p(positions, self.token_ids.letters[:count]))


def _reply(text: str, answer: str | None, statistics: Statistics, version: int) -> Reply:
    log_probability, entropy, next_log_p = statistics
    digits = _double(next_log_p)
    return Reply(
        text=text,
        answer=answer,
        bins=tuple(digits.softmax(-1).tolist()),
        digit_mass=min(1.0, digits.exp().sum().item()),
        entropy=entropy,
        log_probability=min(0.0, log_probability),
        version=version,
    )


def shares(logits: Sequence[float]) -> tuple[float, ...]:
    """Return logits, or log-probabilities, as probabilities that sum to 1."""
    return tuple(_double(logits).softmax(-1).tolist())


def prefers_prefill(backend: LocalBackend) -> bool:
    """Return whether a model without a preset should begin short replies with "Answer:".

    One pass over 24 questions of the built-in quiz compares the mean ln P of the most probable first token with and
    without the prefix. SmolLM2 answers better without the prefix, which raises its ln P by 1.2.
    Qwen2.5-Coder-1.5B answers better with the prefix, although dropping the prefix raises its ln P by .09
    (docs/lab/log.md).
    """
    facts = [Question(each.text) for domain in PROBED for each in quiz(domain, FACTS)]
    ids = backend.token_ids
    prompts = [answer_prompt(fact, prefilled=prefilled) for prefilled in (True, False) for fact in facts]
    (reading,) = backend.read([Bundle(verdicts=[ids.encode(ids.render(prompt)) for prompt in prompts])])
    positions = reading.bundle.ends("scoring")
    rows = reading.log_p(positions, reading.most_likely(positions))
    log_p = [row[i] for i, row in enumerate(rows)]
    return fmean(log_p[len(facts) :]) - fmean(log_p[: len(facts)]) < PREFILL_GAIN


def _double(values: Sequence[float] | list[list[float]]) -> Tensor:
    # Always on the CPU, because some devices have no float64.
    return torch.tensor(values, dtype=torch.float64)
