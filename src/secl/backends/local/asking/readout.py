"""From log-probabilities to replies and P(True): everything that is read off a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from secl.backends.base import Position, Reading, TextStatistics
from secl.backends.token_ids import TokenIds
from secl.errors import ModelError
from secl.evidence import PTrue
from secl.prompts.parsing import read_answer
from secl.question import Question
from secl.records import Reply


class Readout:
    """Reads letters, confidence digits, entropies and P(True).

    P(True) is the probability of True over the full vocabulary, in all its spellings or, in the `paper`, as that token
    alone.
    """

    def __init__(self, token_ids: TokenIds, *, paper: bool = False) -> None:
        self.token_ids = token_ids
        self.paper = paper

    def choice(self, question: Question, reading: Reading, version: int, named: str | None = None) -> Reply:
        """Return the reply to a multiple-choice question (see `Prompting.choices`): the likeliest or a given letter."""
        letter, *digits = reading.bundle.positions
        (logits,) = reading.logits([letter], self.token_ids.letters[: len(question.options)])
        chosen = logits.index(max(logits)) if named is None else question.letters.index(named)
        own = [self.token_ids.letters[chosen]]
        statistics = reading.text_statistics([letter, digits[chosen]], own, self.token_ids.digits)
        reply = _reply(question.letters[chosen], question.letters[chosen], statistics, version)
        # The chosen letter is known to the constant that all logits share, so the vocabulary is not read again.
        constant = reply.log_probability - logits[chosen]
        return replace(reply, option_log_p=tuple(min(0.0, logit + constant) for logit in logits))

    def open(self, question: Question, text: str, reading: Reading, version: int) -> Reply:
        """Return the reply to an open question, whose answer stands in the reading (see `Prompting.written`)."""
        *inside, _after, digit = reading.bundle.positions
        (sequence,) = reading.bundle.answers
        own = [sequence[length] for _, length in inside]
        statistics = reading.text_statistics([*inside, digit], own, self.token_ids.digits)
        return _reply(text.strip(), read_answer(text, question.form), statistics, version)

    def options(self, reading: Reading, positions: Sequence[Position], count: int) -> list[tuple[float, ...]]:
        """Probabilities of the first `count` option letters at each position, renormalised to sum to 1."""
        return [shares(row) for row in reading.logits(positions, self.token_ids.letters[:count])]

    def p_yes(self, reading: Reading, positions: Sequence[Position]) -> tuple[float, ...]:
        """P("Yes") against "No" at each position."""
        if not self.token_ids.yes_no:
            raise ModelError(
                "the tokenizer of the model splits Yes or No, which DINCO verifies by; choose a method without DINCO."
            )
        return tuple(shares(row)[0] for row in reading.logits(positions, self.token_ids.yes_no))

    def p_true(self, reading: Reading, candidates: Sequence[str], source: str) -> PTrue:
        """Return P(True) and P(False) of candidates, one for each verdict sequence of a bundle."""
        true, false = self.token_ids.true, self.token_ids.false
        if self.paper:
            true, false = true[:1], false[:1]
        p = _double(reading.log_p(reading.bundle.ends("scoring"), (*true, *false))).exp()
        p_true, p_false = p[:, : len(true)].sum(-1), p[:, len(true) :].sum(-1)
        return PTrue(
            candidates=tuple(candidates),
            probabilities=tuple(min(1.0, value) for value in p_true.tolist()),
            false_probabilities=tuple(min(1.0, value) for value in p_false.tolist()),
            distractor_source=source,
        )

    def letters(self, reading: Reading, count: int) -> tuple[tuple[float, ...], ...]:
        """ln P of the first `count` option letters at the end of each sequence in `orders` of a bundle."""
        if not (positions := reading.bundle.ends("reordering")):
            return ()
        return tuple(tuple(row) for row in reading.log_p(positions, self.token_ids.letters[:count]))


def _reply(text: str, answer: str | None, statistics: TextStatistics, version: int) -> Reply:
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
    """Logits, or log-probabilities, as probabilities that sum to 1."""
    return tuple(_double(logits).softmax(-1).tolist())


def _double(values: Sequence[float] | list[list[float]]) -> Tensor:
    # Always on the CPU, because some devices have no float64.
    return torch.tensor(values, dtype=torch.float64)
