"""The interface of a model: runs and servers accept every class that implements this Protocol.

A subclass of `Model` inherits defaults: `prefetch` and `close` do nothing, and `check` accepts every question.

Implementations are `secl.LocalModel` (transformers), `secl.backends.endpoint.model.EndpointModel` (a server with
OpenAI's API), `secl.testing.ScriptedModel` (a rule, for tests and examples), and `examples/third_party_model.py` (a
small model from outside the library).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from secl.errors import QuestionError
from secl.evidence import CandidateEvidence, DincoEvidence, Evidence, EvidenceKind, PTrue
from secl.ledger import Ledger, Meter
from secl.question import GivenAnswer, Question
from secl.records import Reply, Update
from secl.settings.groups import AnswerWeights
from secl.writing import Piece, Writing


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


class Model(Protocol):
    """A chat model with a frozen base and an adapter that learns.

    `answer` and `learn` use the adapted model; every other query goes to the *frozen* model. One thread uses a model
    at a time.

    Attributes:
        tau: temperature of normalised P(True) that suits this model.
        letters: correlation of option letters between two orders of the options, after removal of position effects,
            from -1 to 1. None if not measured.
        writes_apart: whether `write` may run in several threads at once and during other calls, as on a server.
    """

    name: str
    tau: float
    letters: float | None = None
    meter: Meter
    answer_weights: AnswerWeights
    writes_apart: bool = False

    @property
    def fingerprint(self) -> str:
        """Text that identifies the weights and all other properties of the model on which records depend."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Device, precision and threads, on which the last digit of a record may depend."""

    @property
    def adapter_config(self) -> dict[str, object]:
        """Configuration of the adapter as plain JSON values, with PEFT's names; empty without an adapter."""
        return {}

    @property
    def version(self) -> int:
        """Number of the latest update in the present adapter; 0 is the frozen model."""

    @property
    def relative_norm(self) -> float:
        """Norm of the change of the adapted weights, divided by the norm of these weights; 0 is the frozen model."""

    def check(self, question: Question) -> None:
        """Raise a QuestionError if the model cannot answer a question, for example a question that is too long."""
        return

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[str | Piece | None] = (),
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
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Piece | None = None
    ) -> ModelAnswer:
        """Answer a question, and state a confidence.

        Args:
            evidence: kinds of evidence that will be requested, so that they can share a pass with the answer.
            written: an earlier answer of this model: its `Reply.text`, or the joined pieces of `write`. The model then
                writes no new answer, and states its confidence in the earlier answer.
        """

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Write free answers with the frozen weights, as the model would without this library.

        The pieces of several texts may alternate. For questions of the form "text", equal arguments always give equal
        texts. Closing the iterator early stops the model.

        Raises:
            QuestionError: the model cannot answer the question; a `TooLongError` names the number of tokens and the
                limit.
        """

    def memory_share(self, question: Question, writing: Writing) -> float:
        """Return the share of the memory for texts, from 0 to 1, that `write` needs at most; 0 if a server writes."""
        return 0.0

    def check_given(self, given: GivenAnswer) -> None:
        """Raise a QuestionError if the model cannot rate an answer, for example an answer that is too long."""
        return

    def rate_given(
        self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]
    ) -> Sequence[Rating | QuestionError]:
        """Rate answers from elsewhere with the frozen model in shared passes; return errors for unusable answers.

        Ratings do not depend on the model's own answer, and do not change the model. Each rating has P(True) of the
        answer. `evidence` may also request "candidates", and "p_true" for P(True) of the answer's rivals.
        """

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Return letters in further orders and likelihoods for all candidates; None with fewer than two candidates."""

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """Return P(True) of the reply's answer and of its distractors; None without a readable answer."""

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Return `count` answers, drawn at temperature 1, in the form of `Reply.answer`; None for unreadable ones."""

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Return the evidence of DINCO: beam answers, compared with each other and with `samples`; None without any."""

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply`, the latest answer of this model, towards `target` (Eq. loss).

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
        """Return the present weights of the adapter as bytes, for `load_version`."""

    def load_version(self, weights: bytes, version: int) -> None:
        """Go back to a version by its weights, with an empty optimizer; the next update takes a new number."""

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Set a hook that long computations call often. The hook may block, or raise an error to end a computation."""

    def close(self) -> None:
        """Release connections and files; the model cannot be used afterwards."""
        return
