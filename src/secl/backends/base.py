"""Requests to an engine and its results: bundles of token sequences, and readings of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from secl.backends.generation import Draft
from secl.backends.token_ids import distinct_tokens
from secl.ledger import Purpose
from secl.writing import Piece, Writing

TokenSequence = Sequence[int]

Position = tuple[int, int]
"""A next token of interest: (sequence index in the bundle, prefix length)."""


@dataclass(frozen=True)
class Span:
    """A token sequence whose end, from `start` on, is a text of interest; no backend reads the last token."""

    tokens: TokenSequence
    start: int


@dataclass(frozen=True)
class Bundle:
    """Token sequences about one question, with a common beginning, that are read together.

    Attributes:
        answers: sequences that hold answers; the frozen and the adapted model read them.
        positions: where an adapted model will be asked about the answers.
        verdicts: sequences that end before a verdict; the frozen model alone reads these, and what follows.
        orders: sequences that end before an option letter, with the options in another order.
        spans: candidates, after the question and after none, whose likelihood is wanted.
        draft: the text that the first answer repeats, from `TokenBackend.write` or `write_texts`; a backend goes on
            from what it kept in it.
    """

    answers: Sequence[TokenSequence] = ()
    positions: Sequence[Position] = ()
    verdicts: Sequence[TokenSequence] = ()
    orders: Sequence[TokenSequence] = ()
    spans: Sequence[Span] = ()
    draft: Draft | None = None

    @cached_property
    def _parts(self) -> dict[Purpose, Sequence[TokenSequence]]:
        spans = [span.tokens[:-1] for span in self.spans]
        return {"answering": self.answers, "scoring": self.verdicts, "reordering": self.orders, "likelihood": spans}

    @cached_property
    def sequences(self) -> list[TokenSequence]:
        """All sequences in the order that positions count them in."""
        return [sequence for part in self._parts.values() for sequence in part]

    @cached_property
    def tokens(self) -> dict[Purpose, int]:
        """Distinct tokens by purpose: tokens that several sequences begin with count once, for the first purpose."""
        return dict(zip(self._parts, distinct_tokens(*self._parts.values()), strict=True))

    @property
    def size(self) -> int:
        """Distinct tokens of all sequences."""
        return sum(self.tokens.values())

    def ends(self, purpose: Purpose) -> list[Position]:
        """Return the end of each sequence that serves a purpose."""
        before = 0
        for each, part in self._parts.items():
            if each == purpose:
                return [(before + i, len(sequence)) for i, sequence in enumerate(part)]
            before += len(part)
        return []

    @property
    def span_positions(self) -> list[list[Position]]:
        """Positions before the tokens of each text in `spans`."""
        ends = self.ends("likelihood")
        return [
            [(number, length) for length in range(span.start, end + 1)]
            for (number, end), span in zip(ends, self.spans, strict=True)
        ]

    def prefix(self, position: Position) -> TokenSequence:
        """Return the tokens before a position."""
        number, length = position
        return self.sequences[number][:length]


@dataclass(frozen=True)
class TextStatistics:
    """Statistics of an existing text under one version of the model.

    Attributes:
        log_probability: of the text (nats).
        entropy: mean over the next-token distributions at all positions (nats).
        next_log_p: full-vocabulary log-probabilities of some tokens at the last position.
    """

    log_probability: float
    entropy: float
    next_log_p: tuple[float, ...]


class Reading(Protocol):
    """One version of the model as a reader of one bundle."""

    @property
    def bundle(self) -> Bundle: ...

    @property
    def tokens(self) -> float:
        """Tokens through the network: those of the bundle, or of its answers for an adapted version."""

    def logits(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Log-probabilities of the tokens `ids` at each position, up to a constant of the position."""

    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Natural logarithms of the full-vocabulary probabilities of the tokens `ids` at each position."""

    def likelihoods(self) -> list[float]:
        """Natural logarithms of the probabilities of the texts in the bundle's `spans`."""

    def text_statistics(
        self, positions: Sequence[Position], tokens: Sequence[int], next_ids: Sequence[int]
    ) -> TextStatistics:
        """Of a text: `tokens` stand at all positions but the last; `next_ids` are tokens to look up at the last."""


@dataclass(frozen=True)
class Training:
    """The effect of an update: the loss before each optimizer step, the stated confidence afterwards, and its cost."""

    losses: tuple[float, ...]
    after: float
    tokens: float


R = TypeVar("R", bound=Reading)


class TokenBackend(Protocol[R]):
    """The engine of a model: a network in this process, or servers.

    Version 0 is the frozen model; the adapted one has the number of the update that made its weights.
    """

    limit: int
    """Most tokens that a prompt with its answer may have."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Device and precision."""

    def read(self, bundles: Sequence[Bundle]) -> Sequence[R]:
        """Read bundles with the frozen model."""

    def adapt(self, readings: Sequence[R], version: int) -> Sequence[R]:
        """Read the same bundles with an adapted version, at their `positions`."""

    def write(self, batches: Sequence[Sequence[Draft]]) -> None:
        """Finish drafts with the frozen model; drafts of one batch go through the network together.

        `Draft.begun` of each is set to whatever `read` and later drafts after the same prompt can go on from.
        """

    def write_texts(self, prompt: TokenSequence, writing: Writing, ends: Sequence[int] = ()) -> Iterator[Piece]:
        """Write texts after a prompt with the frozen model; `max_tokens` is given, and there is room for them.

        The last piece of each text holds its draft. `ends` are further ids of tokens that end a text.
        """

    def rewrite(self, drafts: Sequence[Draft], readings: Sequence[R], version: int) -> list[Draft | None]:
        """New drafts by an adapted version; None for a draft that it would write as it is, by its `readings`."""

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do jobs that read, at the same time where that is faster."""

    def train(self, reading: R, position: Position, target: float) -> Training:
        """Move the confidence that is stated at a position towards `target`, and publish the new version."""

    def publish(self) -> None:
        """Make the weights in the adapter the present version."""

    def close(self) -> None:
        """End connections and threads."""
