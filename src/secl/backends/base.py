"""Bundles of token sequences, and how engines read them."""

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
    """A token sequence that ends with a text of interest, which begins at `start`.

    Backends do not read the last token, because no token follows.
    """

    tokens: TokenSequence
    start: int


@dataclass(frozen=True)
class Bundle:
    """Token sequences about one question, which share a beginning and a pass.

    The adapted model reads the answers alone; the frozen model reads everything.

    Attributes:
        answers: sequences with answers.
        positions: positions in the answers at which the adapted model is read.
        verdicts: sequences that end before a verdict.
        orders: sequences that end before an option letter, with the options in another order.
        spans: candidates whose likelihood is read.
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
        """All sequences; the index of a sequence here is its index in positions."""
        return [sequence for part in self._parts.values() for sequence in part]

    @cached_property
    def tokens(self) -> dict[Purpose, int]:
        """Number of distinct tokens by purpose; a shared beginning counts once, for the first purpose."""
        return dict(zip(self._parts, distinct_tokens(*self._parts.values()), strict=True))

    @property
    def size(self) -> int:
        """Distinct tokens."""
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
"""Statistics of an existing text in nats: its log-probability, the mean entropy of the next-token distributions at all
positions, and full-vocabulary log-probabilities of some tokens at the last position."""


class Reading(Protocol):
    """A bundle as read by one version of the model."""

    @property
    def bundle(self) -> Bundle: ...

    @property
    def tokens(self) -> float:
        """Number of tokens through the network: of the bundle, or of the bundle's answers for an adapted version."""

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

        The text's `tokens` follow all positions except the last one. `next_ids` are read at the last position.
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

    Version 0 is the frozen model. Adapted weights have the number of the update that produced these weights.
    """

    limit: int
    """Maximum number of tokens of a prompt with its answer."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Device and precision."""

    def read(self, bundles: Sequence[Bundle]) -> Sequence[R]:
        """Read bundles with the frozen model."""

    def adapt(self, readings: Sequence[R], version: int) -> Sequence[R]:
        """Read the bundles with an adapted version, at their `positions`."""

    def write(self, batches: Sequence[Sequence[Draft]]) -> None:
        """Finish drafts with the frozen model. Drafts of one batch go through the network together.

        Set each `Draft.begun` to a state of the backend, from which `read` and later drafts after the same prompt can
        go on.
        """

    def write_texts(self, prompt: TokenSequence, writing: Writing, ends: Sequence[int] = ()) -> Iterator[Piece]:
        """Write texts after a prompt with the frozen model; `max_tokens` is set, and fits into the model's window.

        The last piece of each text holds its draft. `ends` are further ids of tokens that end a text.
        """

    def rewrite(self, drafts: Sequence[Draft], readings: Sequence[R], version: int) -> list[Draft | None]:
        """Return drafts as an adapted version writes them; None if its `readings` show that it repeats the draft."""

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run reading jobs, in parallel if parallel jobs are faster."""

    def train(self, reading: R, position: Position, target: float) -> Training:
        """Move the confidence stated at a position towards `target`, and publish the new version."""

    def publish(self) -> None:
        """Make the adapter's weights the present version; do nothing if the engine reads the weights themselves."""
        return

    def close(self) -> None:
        """Close connections and end threads, if any."""
        return
