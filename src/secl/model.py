"""What a model must be able to do: implement this Protocol, and the model can run, serve and resume.

No tensors here: `secl.LocalModel` is a transformers model, `secl.testing.ScriptedModel` a rule for tests and examples,
and `examples/third_party_model.py` a small one from outside the library.
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
from secl.writing import Piece, Writing, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """A question answered by the adapted and by the frozen model.

    `plain_tokens` are those of one plain answering pass (prompt, answer and confidence): the unit of cost.
    """

    reply: Reply
    frozen: Reply
    plain_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """The frozen model's reading of an answer from elsewhere.

    Attributes:
        reply: the given answer as if this model had written it: how sure it states to be of it, and how probable and
            how surprising its words are.
        evidence: P(True) of the answer at least, and what else was asked for; without an answer that can be read, none.
        plain_tokens: tokens of one plain pass over prompt, answer and confidence.
    """

    reply: Reply
    evidence: Evidence
    ledger: Ledger
    plain_tokens: float


class Model(Protocol):
    """A chat model with a frozen base and an adapter that learns.

    `answer` and `learn` use the adapted model; every other query goes to the *frozen* one. One thread uses a model at a
    time.

    Attributes:
        tau: the temperature that suits its P(True).
        letters: correlation of its option letters between two orders of the options, place effects removed, -1 to 1;
            None if it was not measured.
        writes_apart: whether texts are written elsewhere, so that `write` may run in several threads at once, also
            during other calls.
    """

    name: str
    tau: float
    letters: float | None
    meter: Meter
    answer_weights: AnswerWeights
    writes_apart: bool

    @property
    def fingerprint(self) -> str:
        """Changes with the weights and whatever else of the model the records depend on; a resumed run checks it."""

    @property
    def environment(self) -> dict[str, str | int]:
        """Device, precision and threads, on which the last digit of a record may depend."""

    @property
    def adapter_config(self) -> dict[str, object]:
        """Configuration of the adapter as plain JSON values, in PEFT's words; empty without one."""

    @property
    def version(self) -> int:
        """Number of the latest update in the present adapter; 0 is the untouched model."""

    @property
    def relative_norm(self) -> float:
        """Norm of the change of the weights over the norm of what was changed; 0 is the untouched model."""

    def check(self, question: Question) -> None:
        """Check that the model can answer a question.

        Raises:
            QuestionError: it cannot; the question is too long, say.
        """

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[str | Written | None] = (),
    ) -> None:
        """Compute together what upcoming questions need. Without it every call must still work.

        A question that turns out to be one that the model cannot answer raises its error in `answer`.

        Args:
            questions: those that `answer` will be called with, in this order; some may have been answered already.
            evidence: for each what will be asked about its answer.
            weights_fixed: no update is expected before the last of them.
            written: for each the answer that it will be given, as in `answer`; empty for none at all.
        """

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Written | None = None
    ) -> ModelAnswer:
        """Answer a question, and state a confidence.

        Args:
            evidence: what will be asked about the answer, so that both can share a pass.
            written: the answer, where this model gave one before, as `write` gave it or as `Reply.text`: it is read,
                whatever the present weights would write or choose, and the reply is about it.
        """

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Write free answers with the untouched weights, as the model would without this library.

        The pieces of all texts come in turn. The same question, of the form "text", and the same writing give the same
        texts. An iterator that is closed early stops writing.

        Raises:
            QuestionError: the model cannot answer the question; a `TooLongError` names both numbers of tokens.
        """

    def memory_share(self, question: Question, writing: Writing) -> float:
        """Fraction of the memory for texts that `write` needs at most, up to 1; 0 if texts are written elsewhere."""

    def check_given(self, given: GivenAnswer) -> None:
        """Check that the model can rate an answer from elsewhere.

        Raises:
            QuestionError: it cannot; the answer or a rival is too long, say.
        """

    def rate_given(
        self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]
    ) -> Sequence[Rating | QuestionError]:
        """Rate answers from elsewhere with the frozen model; they may share passes. One it cannot rate has an error.

        Nothing of it depends on what the model itself would answer, and nothing changes the model. `evidence` is asked
        for beyond P(True) of each answer: "candidates", and "p_true" for that of its rivals too.
        """

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Letters under further orders and likelihoods of all candidates; None if there are none to compare."""

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """Return P(True) of the reply's answer and of its distractors; None without a readable answer."""

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers, drawn at temperature 1, in the form of `Reply.answer`."""

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Answers found by beam search, verified and compared with each other and with the samples; None if none."""

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply`, the latest answer of this model, towards `target` (Eq. loss).

        Raises:
            NotFiniteError: what was computed is not finite; everything is as it was, and the error has the tokens.
        """

    def reset(self) -> None:
        """Go back to version 0 with an empty optimizer; numbers of versions are never used twice."""

    def snapshot(self) -> bytes:
        """Return the whole state of learning: weights, optimizer, version, random state."""

    def restore(self, snapshot: bytes) -> None:
        """Return to a snapshot, bit for bit."""

    def weights(self) -> bytes:
        """Return the adapter's weights alone: what a version is."""

    def load_version(self, weights: bytes, version: int) -> None:
        """Go back to a version by its weights; the optimizer starts anew, the next update takes a new number."""

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` now and then during long computations; it may block, or raise to abandon them."""

    def close(self) -> None:
        """Release connections and files; the model is not used afterwards."""
