"""Bundles of token sequences, and the interface of the engines that read and write them."""

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
"""A place in a bundle: (index of a sequence, number of its tokens before the place)."""


@dataclass(frozen=True)
class Span:
    """A token sequence that ends with a text of interest; `start` is the number of the text's first token.

    The last token need not go through the network, because no token follows.
    """

    tokens: TokenSequence
    start: int


@dataclass(frozen=True)
class Bundle:
    """Token sequences that share a pass, usually about one question and with a common beginning.

    The adapted model reads only `answers`; the frozen model reads everything.

    Attributes:
        answers: sequences with answers.
        positions: positions in the answers at which the adapted model is read.
        verdicts: sequences that end before a word whose probability is read, such as True or Yes.
        orders: sequences that end before an option letter, with the options in another order.
        spans: texts whose likelihoods are read.
        draft: a written text with which the first sequence begins. The backend goes on from `Draft.begun`.
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
        """All sequences, in the order in which a `Position` counts them."""
        return [sequence for part in self._parts.values() for sequence in part]

    @cached_property
    def tokens(self) -> dict[Purpose, int]:
        """Number of distinct tokens by purpose; a shared beginning counts once, for the first purpose."""
        return dict(zip(self._parts, distinct_tokens(*self._parts.values()), strict=True))

    @property
    def size(self) -> int:
        """Number of distinct tokens."""
        return sum(self.tokens.values())

    def ends(self, purpose: Purpose) -> list[Position]:
        """Return the position at the end of each sequence of a purpose."""
        before = 0
        for each, part in self._parts.items():
            if each == purpose:
                return [(before + i, len(sequence)) for i, sequence in enumerate(part)]
            before += len(part)
        return []

    @property
    def span_positions(self) -> list[list[Position]]:
        """Positions before each token of each text in `spans`."""
        ends = self.ends("likelihood")
        return [
            [(number, length) for length in range(span.start, end + 1)]
            for (number, end), span in zip(ends, self.spans, strict=True)
        ]

    def prefix(self, position: Position) -> TokenSequence:
        """Return the tokens before a position."""
        number, length = position
        return self.sequences[number][:length]


Statistics = tuple[float, float, tuple[float, ...]]
"""Result of `Reading.text_statistics` in nats: log-probability of the text, mean entropy of the next-token distribution
at all positions, and full-vocabulary log-probabilities of `next_ids` at the last position."""


class Reading(Protocol):
    """A bundle as read by one version of the model."""

    @property
    def bundle(self) -> Bundle: ...

    @property
    def tokens(self) -> float:
        """Number of tokens through the network, counted as in `secl.ledger.Ledger`.

        The frozen model reads the tokens of the bundle, an adapted version those of the bundle's answers.
        """

    def logits(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Return log-probabilities of the tokens `ids` at each position, up to a constant for each position."""

    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Return full-vocabulary log-probabilities of the tokens `ids` at each position."""

    def likelihoods(self) -> list[float]:
        """Return the log-probabilities of the texts in the bundle's `spans`."""

    def text_statistics(
        self, positions: Sequence[Position], tokens: Sequence[int], next_ids: Sequence[int]
    ) -> Statistics:
        """Return the statistics of a text.

        `positions` holds the position before each of the text's `tokens`, and finally the position at which `next_ids`
        are read.
        """


@dataclass(frozen=True)
class Training:
    """Losses before the optimizer steps of an update, the stated confidence afterwards, and the cost in tokens."""

    losses: tuple[float, ...]
    after: float
    tokens: float


R = TypeVar("R", bound=Reading)


class TokenBackend(Protocol[R]):
    """The engine of a model: a network in this process, or servers.

    Version 0 is the frozen model. The version of adapted weights is the number of the update that produced them.
    """

    limit: int
    """Maximum number of tokens of a prompt with its answer."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Properties on which the last digits of results depend, such as device and precision."""

    def read(self, bundles: Sequence[Bundle]) -> Sequence[R]:
        """Read bundles with the frozen model."""

    def adapt(self, readings: Sequence[R], version: int) -> Sequence[R]:
        """Read the bundles of `readings` with an adapted version, at the bundles' `positions`."""

    def write(self, batches: Sequence[Sequence[Draft]]) -> None:
        """Finish drafts with the frozen model. Drafts of one batch go through the network together.

        The backend may set `Draft.begun` to a state from which `read` and later drafts after the same prompt can go on.
        """

    def write_texts(self, prompt: TokenSequence, writing: Writing, ends: Sequence[int] = ()) -> Iterator[Piece]:
        """Write texts after a prompt with the frozen model; `max_tokens` is set, and fits into the model's window.

        The last piece of each text holds its draft. `ends` are further ids of tokens that end a text.
        """

    def rewrite(self, drafts: Sequence[Draft], readings: Sequence[R], version: int) -> list[Draft | None]:
        """Return the drafts as an adapted version writes them.

        An entry is None if the version's `readings` show that the version would write the same text.
        """

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run jobs that read results, in parallel if parallel jobs are faster."""

    def train(self, reading: R, position: Position, target: float) -> Training:
        """Move the confidence stated at a position towards `target`; the new weights become the present version."""

    def publish(self) -> None:
        """Make servers use the adapter's present weights; an engine in this process uses them without this call."""
        return

    def close(self) -> None:
        """Close connections and end threads, if any."""
        return
