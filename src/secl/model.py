"""What a model must be able to do, so that everything above it can stay free of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from secl.errors import ParameterError
from secl.records import DincoEvidence, PTrue, Question, Reply, Update
from secl.validation import check_finite, check_whole

Dtype = Literal["auto", "bf16", "fp16", "fp32"]
"""Precision of the network's body."""

Device = Literal["auto", "cpu", "cuda", "mps"]
"""Where the network computes."""

PTrueKind = Literal["vocabulary", "pair"]
"""P("True") over the full vocabulary, or against "False" alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """A question answered by the adapted and by the frozen model.

    Attributes:
        reply: of the adapted model, at the version it had when asked.
        frozen: of the frozen model (version 0).
        plain_tokens: tokens of one plain answering pass (prompt, answer and confidence), the unit of cost.
        adapting: tokens that this call spent on the adapted model's answer.
        scoring: tokens that this call spent on P(True) and distractors, because they share a pass with the answer.
    """

    reply: Reply
    frozen: Reply
    plain_tokens: float
    adapting: float = 0.0
    scoring: float = 0.0


def check_training(*, rank: int, alpha: float, learning_rate: float, epochs: int, beta: float, seed: int) -> None:
    """Let settings of an adapter and its training pass that make sense; no model is needed for that.

    Raises:
        ParameterError: a number outside its range.

    >>> check_training(rank=8, alpha=16.0, learning_rate=5e-5, epochs=3, beta=0.0, seed=42)
    """
    check_whole("rank", rank, 1)
    check_finite("scaling lora_alpha", alpha, alpha > 0, "be above 0")
    check_finite("learning rate", learning_rate, learning_rate > 0, "be above 0")
    check_whole("number of epochs", epochs, 1)
    check_finite("weight beta of the KL term", beta, beta >= 0, "be 0 or more")
    if not 0 <= seed < 2**63:
        raise ParameterError(f"The seed must be a whole number from 0 to 2^63 - 1, not {seed}.")


class Model(Protocol):
    """A chat model with a frozen self and an adapter that learns.

    `secl.testing.ScriptedModel` is a small one for tests and examples; `secl.LocalModel` is the real one.

    Attributes:
        name: what the user called it.
        tau: the temperature that suits its P(True).
        version: updates in the present adapter; 0 is the untouched model.
        tokens: tokens that have gone through the whole network so far (see `Ledger`).
    """

    name: str
    tau: float

    @property
    def version(self) -> int: ...

    @property
    def tokens(self) -> float: ...

    def prefetch(self, questions: Sequence[Question], scored: Sequence[bool], *, weights_fixed: bool) -> None:
        """Compute together what can be known of coming questions; it changes speed and nothing else.

        Args:
            questions: that `answer` will be called with, in this order; some may have had their turn already.
            judged: for each whether a `score_p_true` call will follow.
            weights_fixed: no learning is expected before the last of them.
        """
        ...

    def answer(self, question: Question, *, score_next: bool = False) -> ModelAnswer:
        """Answer a question; `score_next` promises a `score_p_true` call, so that both can share one pass."""
        ...

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """P(True) of the reply's answer and of its distractors, from the frozen model; None if there is no answer."""
        ...

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers of the frozen model, drawn at temperature 1, nucleus 0.95; read like `Reply.answer`."""
        ...

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Beams of the frozen model, verified and compared with each other and with the samples; None without any."""
        ...

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply`, the latest answer to `question`, towards `target`."""
        ...

    def reset(self) -> None:
        """Forget everything learned."""
        ...

    def snapshot(self) -> bytes:
        """The whole state of learning."""
        ...

    def restore(self, snapshot: bytes) -> None:
        """Return to a snapshot, bit for bit."""
        ...

    def weights(self) -> bytes:
        """The adapter's weights alone: what a version is."""
        ...

    def load_version(self, weights: bytes, version: int) -> None:
        """Go back to a version by its weights; the optimizer starts anew, the next update takes a new number."""
        ...

    @property
    def relative_norm(self) -> float:
        """How far learning has moved the weights: norm of the change over norm of what was changed; 0 is untouched."""
        ...
