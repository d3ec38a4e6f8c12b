"""Bundles of token sequences, and the interfaces of the engines that read, write and train."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

from secl.backends.generation import Generation
from secl.backends.token_ids import distinct_tokens
from secl.ledger import Purpose
from secl.writing import Chunk, SamplingParameters

TokenSequence = Sequence[int]

Position = tuple[int, int]
"""A position between tokens of a bundle: (index of a sequence, number of its tokens before the position)."""


@dataclass(frozen=True)
class Continuation:
    """A token sequence that ends with a text of interest; `start` is the number of the text's first token.

    The last token need not go through the network, because no token follows.
    """

    tokens: TokenSequence
    start: int


@dataclass(frozen=True)
class Bundle:
    """Token sequences that share a pass. They usually belong to one question and have a common beginning.

    The frozen model reads all sequences, an adapted version only `answers`.

    Attributes:
        answers: sequences with answers.
        positions: positions in the answers at which an adapted version gives its probabilities.
        verdicts: sequences that end before a word whose probability is read, such as True or Yes.
        orders: sequences with reordered options that end before an option letter.
        spans: texts whose likelihoods are read.
        generation: generation whose prompt and text begin the first sequence. The backend reuses the generation's
            `begun` or `steps`.
    """

    answers: Sequence[TokenSequence] = ()
    positions: Sequence[Position] = ()
    verdicts: Sequence[TokenSequence] = ()
    orders: Sequence[TokenSequence] = ()
    spans: Sequence[Continuation] = ()
    generation: Generation | None = None

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
        """Number of distinct tokens for each `Purpose`. A shared beginning counts only for the first purpose."""
        return dict(zip(self._parts, distinct_tokens(*self._parts.values()), strict=True))

    @property
    def size(self) -> int:
        """Number of distinct tokens."""
        return sum(self.tokens.values())

    def ends(self, purpose: Purpose) -> list[Position]:
        """Return the position at the end of each sequence that has this purpose."""
        before = 0
        for each, part in self._parts.items():
            if each == purpose:
                return [(before + i, len(sequence)) for i, sequence in enumerate(part)]
            before += len(part)
        return []

    def prefix(self, position: Position) -> TokenSequence:
        """Return the tokens before a position."""
        number, length = position
        return self.sequences[number][:length]


class Statistics(NamedTuple):
    """Result of `Reading.text_statistics`, in nats.

    Attributes:
        log_p: full-vocabulary log-probability of each token of the text.
        log_probability: their sum.
        entropy: mean entropy over all positions.
        next_log_p: full-vocabulary log-probabilities of `next_ids` at the last position.
        top: the most probable tokens at the place of each token, with their log-probabilities; empty if not requested.
    """

    log_p: tuple[float, ...]
    log_probability: float
    entropy: float
    next_log_p: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...] = ()


class Reading(Protocol):
    """Probabilities that one version of the model gives to tokens of a bundle."""

    @property
    def bundle(self) -> Bundle: ...

    @property
    def tokens(self) -> float:
        """Number of tokens through the network. A token that goes through n of L layers counts n/L.

        The frozen model reads the whole bundle, an adapted version only the bundle's `answers`.
        """

    def logits(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Return log-probabilities of the tokens `ids` at each position, up to a constant for each position."""

    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Return full-vocabulary log-probabilities of the tokens `ids` at each position."""

    def highest_log_p(self, positions: Sequence[Position]) -> list[float]:
        """Return the log-probability of the most probable next token at each position."""

    def likelihoods(self) -> list[float]:
        """Return the log-probabilities of the texts in the bundle's `spans`."""

    def text_statistics(
        self, positions: Sequence[Position], tokens: Sequence[int], next_ids: Sequence[int], *, top: int = 0
    ) -> Statistics:
        """Return the statistics of a text.

        `positions` holds the position before each of `tokens`, and then the position of `next_ids`. `top`: number of
        the most probable tokens to return at each place.
        """


@dataclass(frozen=True)
class Training:
    """Losses before the optimizer steps of an update, the stated confidence afterwards, and the cost in tokens."""

    losses: tuple[float, ...]
    after: float
    tokens: float


T = TypeVar("T")
S = TypeVar("S")


class Engine(Protocol):
    """What reads and writes token ids with the frozen model: a network in this process, or vLLM servers."""

    limit: int
    """Maximum number of tokens of a prompt with its answer."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Properties on which the last digits of results depend, such as device and precision."""

    def read(self, bundles: Sequence[Bundle]) -> Sequence[Reading]:
        """Read bundles."""

    def write(self, batches: Sequence[Sequence[Generation]]) -> None:
        """Finish generations. Generations of one batch go through the network together.

        The engine may keep its state in `Generation.begun`. Then `read` and later generations do not recompute the
        prompt.
        """

    def write_texts(
        self, prompt: TokenSequence, sampling: SamplingParameters, ends: Sequence[int] = ()
    ) -> Iterator[Chunk]:
        """Write texts after a prompt. The last chunk of each text holds its generation.

        Args:
            sampling: parameters with a `max_tokens` that fits into the model's window.
            ends: ids of tokens that end a text, besides the model's own end tokens.
        """

    def map(self, work: Callable[[T], S], items: Sequence[T]) -> list[S]:
        """Return `work` of each item, which computes results from readings; in parallel if this is faster."""

    def close(self) -> None:
        """Close connections and end threads, if any."""
        return


class Trainer(Protocol):
    """What reads and writes with adapted weights, and trains them.

    A version is the number of the update that produced the weights.
    """

    def adapt(self, readings: Sequence[Any], version: int) -> Sequence[Reading]:
        """Read the bundles of the frozen model's readings again, only at their `positions`."""

    def rewrite(
        self, generations: Sequence[Generation], readings: Sequence[Any], version: int
    ) -> list[Generation | None]:
        """Return the generations as an adapted version writes them.

        An entry is None if the version's `readings` show that the version would write the same text.
        """

    def train(self, reading: Any, position: Position, target: float) -> Training:
        """Move the confidence stated at a position towards `target`; the new weights become the present version."""

    def renew(self, *, learning: bool) -> None:  # noqa: ARG002
        """Note that the adapter has other weights; with `learning`, further updates follow soon.

        A network in this process always uses the present weights.
        """
        return
