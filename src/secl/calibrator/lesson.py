"""Evidence about an answer, and the update that it causes: none, or one step towards the target (Eq. target)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from secl.errors import NotFiniteError
from secl.evidence import Evidence, EvidenceKind
from secl.metrics.probability import BINS, bin_index, directional_target
from secl.model import Model
from secl.question import Question
from secl.records import LearningOutcome, Record, Reply, Update
from secl.settings.groups import LoopSettings


def gather(model: Model, record: Record, reply: Reply, wanted: Collection[EvidenceKind], samples: int) -> Evidence:
    """Gather from the frozen model the wanted kinds of evidence that the record lacks."""
    question, evidence = record.question, record.evidence
    if "p_true" in wanted and evidence.p_true is None:
        evidence = replace(evidence, p_true=model.score_p_true(question, reply))
    if "samples" in wanted or "dinco" in wanted:
        evidence = replace(evidence, samples=model.sample(question, samples))
    if "dinco" in wanted:
        evidence = replace(evidence, dinco=model.dinco(question, reply, evidence.samples or ()))
    return evidence


def teach(
    model: Model, question: Question, reply: Reply, signal: float | None, rule: LoopSettings, *, paper: bool = False
) -> tuple[LearningOutcome, Update | None]:
    """Move the stated confidence of the model's latest reply towards the target, unless the bins agree.

    Args:
        reply: with the confidence that the present weights state.
        signal: in [0, 1]; None without usable evidence, which skips the lesson.
        rule: bin gate, loss, and the size of a step.
        paper: whether to round the signal to the centre of its bin.
    """
    if signal is None:
        return "no_signal", None
    stated = reply.stated
    if rule.bin_gate is not None and abs(bin_index(stated) - bin_index(signal)) <= rule.bin_gate:
        return "agreed", None
    if paper:
        signal = (bin_index(signal) + 0.5) / BINS
    target = signal if rule.loss == "mse" else directional_target(stated, signal, rule.alpha, rule.delta)
    try:
        return "trained", model.learn(question, reply, target)
    except NotFiniteError as problem:
        model.meter.spend("learning", problem.tokens)
        return "failed", None
