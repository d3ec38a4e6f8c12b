"""What is learned from one answer: nothing, or one step of the stated confidence towards its target (Eq. target)."""

from __future__ import annotations

from secl.metrics.probability import bin_index, directional_target
from secl.model import Model
from secl.question import Question
from secl.records import LearningOutcome, Reply, Update
from secl.settings import LoopSettings

BINS = 10
"""In which confidences are stated."""


def teach(
    model: Model, question: Question, reply: Reply, signal: float | None, rule: LoopSettings
) -> tuple[LearningOutcome, Update | None]:
    """Skip without a signal or where the bins agree, else move the stated confidence of a reply towards the target.

    Args:
        model: whose latest answer the reply is.
        question: as asked.
        reply: with the confidence that is stated now.
        signal: in [0, 1]; None without usable evidence.
        rule: bins of the signal, bin gate, loss, and how far a step goes.
    """
    if signal is None:
        return "no_signal", None
    stated = reply.confidence
    if rule.bin_gate is not None and abs(bin_index(stated) - bin_index(signal)) <= rule.bin_gate:
        return "agreed", None
    if rule.signal_bins == "centre":
        signal = (bin_index(signal) + 0.5) / BINS
    target = signal if rule.loss == "mse" else directional_target(stated, signal, rule.alpha, rule.delta)
    return "trained", model.learn(question, reply, target)
