"""The conversion of a model's log-probabilities to replies and P(True)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from secl.backends.base import Bundle, Engine, Position, Reading, Statistics
from secl.backends.local.writer import draw_many
from secl.backends.token_ids import TokenIds
from secl.data.benchmarks import quiz
from secl.errors import ModelError
from secl.prompts.parsing import read_answer
from secl.prompts.templates import answer_prompt
from secl.question import Question
from secl.records import Reply

PROBED, FACTS = ("capitals", "science"), 12
"""Domains of the built-in quiz, and number of questions from each, for `prefers_prefill`."""

PREFILL_GAIN = 0.3
"""secl drops the prefix "Answer:" if this raises the mean ln P of a reply's first token by at least this many nats.

For smaller gains secl keeps the prefix, because the constants of the posterior were measured with the prefix.
"""


TOP = 5
"""Number of the most probable tokens that are read at the place of each token of a free text."""


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

    def open(self, question: Question, text: str, reading: Reading, version: int) -> tuple[Reply, Statistics]:
        """Return the reply to an open question from the reading of its answer `text`, with the text's statistics."""
        *inside, _after, digit = reading.bundle.positions
        (sequence,) = reading.bundle.answers
        own = [sequence[length] for _, length in inside]
        top = TOP if question.free else 0
        statistics = reading.text_statistics([*inside, digit], own, self.token_ids.digits, top=top)
        answer = read_answer(text, question.form, question.text)
        return _reply(text.strip(), answer, statistics, version), statistics

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

    def verdicts(self, reading: Reading) -> list[tuple[float, float]]:
        """Return P(True) and P(False) after each of the bundle's `verdicts`."""
        if not (positions := reading.bundle.ends("scoring")):
            return []
        true, false = self.token_ids.true, self.token_ids.false
        if self.paper:
            true, false = true[:1], false[:1]
        p = _double(reading.log_p(positions, (*true, *false))).exp()
        p_true, p_false = p[:, : len(true)].sum(-1), p[:, len(true) :].sum(-1)
        return [(min(1.0, one), min(1.0, other)) for one, other in zip(p_true.tolist(), p_false.tolist(), strict=True)]

    def letters(self, reading: Reading, questions: Sequence[Question]) -> list[list[float]]:
        """Return ln P of the letters of each question's options, after the bundle's `orders`."""
        if not (positions := reading.bundle.ends("reordering")):
            return []
        most = max(len(question.options) for question in questions)
        rows = reading.log_p(positions, self.token_ids.letters[:most])
        return [row[: len(question.options)] for row, question in zip(rows, questions, strict=True)]

    def draw(self, log_p: Sequence[float], count: int, seed: int, top_p: float) -> list[int]:
        """Return the numbers of `count` options, drawn with the probabilities of their letters."""
        return draw_many(shares(log_p), count, seed, top_p)


def _reply(text: str, answer: str | None, statistics: Statistics, version: int) -> Reply:
    digits = _double(statistics.next_log_p)
    return Reply(
        text=text,
        answer=answer,
        bins=tuple(digits.softmax(-1).tolist()),
        digit_mass=min(1.0, digits.exp().sum().item()),
        entropy=statistics.entropy,
        log_probability=min(0.0, statistics.log_probability),
        version=version,
    )


def shares(logits: Sequence[float]) -> tuple[float, ...]:
    """Return logits, or log-probabilities, as probabilities that sum to 1."""
    return tuple(_double(logits).softmax(-1).tolist())


def prefers_prefill(engine: Engine, ids: TokenIds) -> bool:
    """Return whether a model without a preset should begin short replies with "Answer:".

    One pass over 24 questions of the built-in quiz compares the mean ln P of the most probable first token with and
    without the prefix. SmolLM2 answers better without the prefix, which raises its ln P by 1.2.
    Qwen2.5-Coder-1.5B answers better with the prefix, although dropping the prefix raises its ln P by .09
    (docs/lab/log.md).
    """
    facts = [Question(each.text) for domain in PROBED for each in quiz(domain, FACTS)]
    prompts = [answer_prompt(fact, prefilled=prefilled) for prefilled in (True, False) for fact in facts]
    (reading,) = engine.read([Bundle(verdicts=[ids.encode(ids.render(prompt)) for prompt in prompts])])
    log_p = reading.highest_log_p(reading.bundle.ends("scoring"))
    return fmean(log_p[len(facts) :]) - fmean(log_p[: len(facts)]) < PREFILL_GAIN


def _double(values: Sequence[float] | list[list[float]]) -> Tensor:
    # Always on the CPU, because some devices have no float64.
    return torch.tensor(values, dtype=torch.float64)
