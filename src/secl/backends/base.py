"""What passes between the model and what reads and writes for it: bundles of token sequences, and what is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from secl.backends.generation import Draft
from secl.writing import Piece, Writing

TokenSequence = Sequence[int]

Position = tuple[int, int]
"""Where a next token is of interest: the number of a sequence in its bundle, and how many of its tokens come before."""


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
        spans: candidates, behind the question and behind none, whose likelihood is wanted.
        written: the draft whose text the first answer repeats; a backend that kept the log-probabilities
            from writing it need not read that text again.
        begun: the prompt of a text that may have been written behind it a moment ago (`TokenBackend.write_texts`).
    """

    answers: Sequence[TokenSequence] = ()
    positions: Sequence[Position] = ()
    verdicts: Sequence[TokenSequence] = ()
    orders: Sequence[TokenSequence] = ()
    spans: Sequence[Span] = ()
    written: Draft | None = None
    begun: TokenSequence | None = None

    @property
    def sequences(self) -> list[TokenSequence]:
        """All sequences in the order that positions count them in."""
        return [*self.answers, *self.verdicts, *self.orders, *(span.tokens[:-1] for span in self.spans)]

    @property
    def verdict_positions(self) -> list[Position]:
        """The end of each sequence in `verdicts`."""
        return [(len(self.answers) + i, len(sequence)) for i, sequence in enumerate(self.verdicts)]

    @property
    def order_positions(self) -> list[Position]:
        """The end of each sequence in `orders`."""
        first = len(self.answers) + len(self.verdicts)
        return [(first + i, len(sequence)) for i, sequence in enumerate(self.orders)]

    @property
    def span_positions(self) -> list[list[Position]]:
        """Where the tokens of each text in `spans` come next."""
        first = len(self.answers) + len(self.verdicts) + len(self.orders)
        return [
            [(first + i, length) for length in range(span.start, len(span.tokens))] for i, span in enumerate(self.spans)
        ]

    def prefix(self, position: Position) -> TokenSequence:
        """The tokens before a position."""
        number, length = position
        return self.sequences[number][:length]


@dataclass(frozen=True)
class EvidenceTokens:
    """Tokens that went through the network for a bundle beyond its answers; each part counts beyond those before it."""

    verdicts: float = 0.0
    orders: float = 0.0
    spans: float = 0.0

    @classmethod
    def of(cls, bundle: Bundle, cost: Callable[[int], float]) -> EvidenceTokens:
        """Split what a bundle cost: `cost` gives the tokens of so many of its first sequences together."""
        ends = [len(bundle.answers)]
        for part in (bundle.verdicts, bundle.orders, bundle.spans):
            ends.append(ends[-1] + len(part))
        costs = [cost(end) for end in ends]
        return cls(*(after - before for before, after in itertools.pairwise(costs)))


@dataclass(frozen=True)
class TextStatistics:
    """What one version of the model says of a text that stands there already, and of one position behind it.

    The log-probability of the text, the mean entropy of the next-token distributions at all positions (nats), and the
    full-vocabulary log-probabilities of some tokens at the last position.
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
        """Tokens that went through the network for the bundle, its share where several bundles went together."""

    @property
    def evidence_tokens(self) -> EvidenceTokens:
        """How many of `tokens` were not for the answers."""

    def logits(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Log-probabilities of the tokens `ids` at each position, up to a constant of the position."""

    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        """Natural logarithms of the full-vocabulary probabilities of the tokens `ids` at each position."""

    def likelihoods(self) -> list[float]:
        """Natural logarithms of the probabilities of the texts in the bundle's `spans`."""

    def text_statistics(
        self, positions: Sequence[Position], tokens: Sequence[int], next_ids: Sequence[int]
    ) -> TextStatistics:
        """Of a text: `tokens` stand at all positions but the last, where the tokens `next_ids` are of interest."""


@dataclass(frozen=True)
class Training:
    """What an update did: the loss before each optimizer step, the stated confidence after the last, and its tokens."""

    losses: tuple[float, ...]
    after: float
    tokens: float


R = TypeVar("R", bound=Reading)


class TokenBackend(Protocol[R]):
    """What reads and writes for a model: a network in this process, or servers of the same model.

    Version 0 is the frozen model; the adapted one has the number of the update that made its weights.
    """

    limit: int
    """Most tokens that a prompt with its answer may have."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how it computes."""

    def read(self, bundles: Sequence[Bundle]) -> Sequence[R]:
        """Read bundles with the frozen model."""

    def adapt(self, readings: Sequence[R], version: int) -> Sequence[R]:
        """Read the same bundles with an adapted version, at their `positions`."""

    def write(self, batches: Sequence[Sequence[Draft]]) -> None:
        """Finish drafts with the frozen model; drafts of one batch go through the network together.

        What is needed to read their answers may be kept until `release`.
        """

    def write_texts(self, prompt: TokenSequence, writing: Writing) -> Iterator[Piece]:
        """Write texts behind a prompt with the frozen model; `max_tokens` is given, and there is room for them.

        What is needed to read on behind the prompt may be kept for a while (`Bundle.begun`).
        """

    def rewrite(self, drafts: Sequence[Draft], readings: Sequence[R], version: int) -> list[Draft | None]:
        """New drafts by an adapted version; None for a draft that it would write as it is, by its `readings`."""

    def release(self) -> None:
        """Let go of what was kept of drafts to go on from: a window of answers is complete."""

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do jobs that read, at the same time where that is faster."""

    def train(self, reading: R, position: Position, target: float) -> Training:
        """Move the confidence that is stated at a position towards `target`, and publish the new version."""

    def publish(self) -> None:
        """Make the weights in the adapter the present version."""

    def close(self) -> None:
        """End connections and threads."""
