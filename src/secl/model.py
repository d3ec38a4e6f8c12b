"""The interface of a model: runs and servers accept every class that implements the Protocol `Model`.

A subclass of `Model` needs only `name`, `fingerprint` and `answer`. Everything else has a default: no lessons, no
evidence, no free texts and no ratings; `prefetch` and `close` do nothing. Two Protocols stand for parts that only some
models have: `Learner` for lessons, and `SearchesBeams` for the evidence of DINCO.

Implementations are `LocalModel` (transformers), `EndpointModel` (a server with OpenAI's API), both in `secl.backends`,
`secl.testing.ScriptedModel` (a rule, for tests and examples), and `examples/third_party_model.py` (a small model from
outside the library).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from secl.errors import ParameterError, QuestionError
from secl.evidence import DincoEvidence, Evidence, EvidenceKind
from secl.ledger import Ledger, Meter
from secl.question import GivenAnswer, Question
from secl.records import Reply, Update
from secl.writing import Chunk, SamplingParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The answers of the adapted and of the frozen model to a question.

    `plain_tokens` is the length of one plain answering pass (prompt, answer and confidence), the unit of cost.
    """

    reply: Reply
    frozen: Reply
    plain_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """The frozen model's rating of a given answer.

    Attributes:
        reply: the given answer as if this model had written it, with stated confidence, probability and entropy.
        evidence: at least P(True) of the answer, and the requested kinds; empty for an unreadable answer.
        plain_tokens: tokens of one plain pass over prompt, answer and confidence.
    """

    reply: Reply
    evidence: Evidence
    ledger: Ledger
    plain_tokens: float


class Learner(Protocol):
    """The part of a model that learns: weights that lessons change, in numbered versions.

    `Model.answer` uses the present version; all other methods of a model use the frozen model.
    """

    @property
    def version(self) -> int:
        """Number of the latest update in the present weights; 0 is the frozen model."""

    @property
    def relative_norm(self) -> float:
        """Norm of the weights' change, divided by the norm of the weights: 0 for the frozen model, nan if unknown."""
        return math.nan

    @property
    def config(self) -> dict[str, object]:
        """Configuration of the adapter as plain JSON values, with PEFT's names; empty without an adapter."""
        return {}

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply`, the latest answer of the model, towards `target` (Eq. loss).

        Raises:
            NotFiniteError: a number is not finite. Weights and optimizer are unchanged.
        """

    def reset(self) -> None:
        """Go back to version 0 with an empty optimizer; later versions get new numbers."""

    def snapshot(self) -> bytes:
        """Return the state of learning: weights, optimizer, version and random state."""

    def restore(self, snapshot: bytes) -> None:
        """Restore a snapshot, bit for bit."""

    def weights(self) -> bytes:
        """Return the present weights as bytes, for `load_version`."""

    def load_version(self, weights: bytes, version: int) -> None:
        """Go back to a version by its weights, with an empty optimizer; the next update takes a new number."""

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Set a hook that long computations call often. The hook may block, or raise an error to end a computation."""
        return


class Model(Protocol):
    """A chat model with a frozen base.

    One thread uses a model at a time.

    Attributes:
        tau: temperature of normalised P(True) that suits this model.
        letters: correlation of option letters between two orders of the options, after removal of position effects,
            from -1 to 1. None if not measured.
        shares_passes: whether the questions of a window share passes (`prefetch`), so that rounding depends on the
            window.
    """

    name: str
    tau: float = 1.0
    letters: float | None = None
    shares_passes: bool = False

    @cached_property
    def meter(self) -> Meter:
        """Count of tokens by purpose."""
        return Meter()

    @property
    def fingerprint(self) -> str:
        """Text that identifies the weights and all other properties of the model on which records depend."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Device, precision and threads, on which the last digit of a record may depend."""
        return {}

    @cached_property
    def learner(self) -> Learner | None:
        """The part that learns; None for a model that cannot learn, such as a model on a server."""
        return None

    def check(self, question: Question, given: str | None = None) -> None:
        """Raise a QuestionError if the model cannot answer a question, or cannot read the answer `given` to it."""
        return

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[str | Chunk | None] = (),
    ) -> None:
        """Compute upcoming answers and evidence in shared passes. All other methods must work without this call.

        A question that the model cannot answer raises its error in `answer`, not here.

        Args:
            questions: the next arguments of `answer`, in this order; some may have been answered already.
            evidence: for each question the kinds of evidence that will be requested.
            weights_fixed: whether no update is expected before the last question.
            written: for each question the argument `written` of `answer`; may be empty.
        """
        return

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Chunk | None = None
    ) -> ModelAnswer:
        """Answer a question, and state a confidence.

        Args:
            evidence: kinds of evidence that will be requested, so that they can share a pass with the answer.
            written: an earlier answer of this model: its `Reply.text`, or the joined chunks of `write`. The model then
                writes no new answer, and states its confidence in the earlier answer.
        """

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        """Return the requested kinds of evidence about a reply. A kind that the model does not have stays None.

        "p_true" is P(True) of the reply's answer and of its distractors; None without a readable answer. "verdicts" is
        P(True) of the candidates, in the same field. "candidates" has letters in further orders and likelihoods for all
        candidates; None with fewer than two candidates. "samples" has as many answers as `samples` says, drawn at
        temperature 1.
        """
        return Evidence()

    def rate(
        self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]
    ) -> Sequence[Rating | QuestionError]:
        """Rate answers from elsewhere with the frozen model in shared passes; return errors for unusable answers.

        Ratings do not change the model. Each rating has P(True) of the answer. `evidence` may also request "verdicts",
        "p_true" for P(True) of the answer's rivals, and "candidates", which compares an open answer with the model's
        own answer and with samples.
        """
        return [QuestionError(f"the model {self.name!r} rates no answers from elsewhere.")] * len(given)

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        """Write free answers with the frozen weights, as the model would without this library.

        The chunks of several texts may alternate. For questions of the form "text", equal arguments always give equal
        texts. Closing the iterator early stops the model.

        Raises:
            QuestionError: the model cannot answer the question; a `TooLongError` names the number of tokens and the
                limit.
        """
        raise QuestionError(f"the model {self.name!r} writes no free texts; ask for options, a number or a few words.")

    def memory_share(self, question: Question, sampling: SamplingParameters) -> float:
        """Return the share of the memory for texts, from 0 to 1, that `write` needs at most."""
        return 0.0

    def close(self) -> None:
        """Release connections and files; the model cannot be used afterwards."""
        return


@runtime_checkable
class SearchesBeams(Protocol):
    """A model that can gather the evidence of DINCO, which needs a beam search."""

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Return beam answers, compared with each other and with `samples`; None without a readable answer."""


def learner_of(model: Model) -> Learner:
    """Return the part of a model that learns, or raise a ParameterError if the model cannot learn."""
    if model.learner is None:
        raise ParameterError(
            f"the model {model.name!r} cannot learn, because secl cannot change its weights; take a method that does "
            "not learn, such as posterior, or a model that runs in this process."
        )
    return model.learner


def version_of(model: Model) -> int:
    """Return the version of a model's weights; 0 for the frozen model, and for a model that cannot learn."""
    return 0 if model.learner is None else model.learner.version


def beam_search_of(model: Model) -> SearchesBeams:
    """Return a model that searches beams, or raise a ParameterError if the model cannot."""
    if not isinstance(model, SearchesBeams):
        raise ParameterError(
            f"the model {model.name!r} has no beam search, which DINCO needs; take another method, or a model that "
            "runs in this process."
        )
    return model


def check_given(model: Model, given: GivenAnswer) -> None:
    """Raise a QuestionError if a model cannot read a given answer or one of its rivals."""
    for answer in (given.answer, *given.rivals):
        model.check(given.question, answer)
