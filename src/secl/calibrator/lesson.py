"""What is asked about an answer, and what is learned from it: nothing, or one step towards the target (Eq. target)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Self, get_args

from secl.errors import NotFiniteError, ParameterError
from secl.evidence import Evidence, EvidenceKind
from secl.methods import Method
from secl.metrics.probability import bin_index, directional_target
from secl.model import Model
from secl.question import Question
from secl.records import LearningOutcome, Record, Reply, Update
from secl.settings.groups import EvidenceOn, LoopSettings, ViewName

BINS = 10
"""In which confidences are stated."""


@dataclass(frozen=True, slots=True)
class EvidencePlan:
    """Which kinds of evidence a loop gathers.

    Attributes:
        kinds: all of them.
        on: "always", or for questions in bursts.
        weighs_p_true: whether the posterior reads P(True).

    Raises:
        ParameterError: an unknown kind.
    """

    kinds: frozenset[EvidenceKind]
    on: EvidenceOn
    weighs_p_true: bool

    @classmethod
    def of(cls, method: Method, loop: LoopSettings, views: Collection[ViewName], extra: Iterable[EvidenceKind]) -> Self:
        """Combine a method's evidence with `extra` kinds and with what the posterior's views read."""
        kinds: set[EvidenceKind] = {*method.evidence, *extra}
        weighs_p_true = "p_true" in views
        if weighs_p_true and "candidates" in kinds:
            kinds.add("p_true")
        return cls(frozenset(kinds), loop.evidence_on or method.evidence_on, weighs_p_true)

    def __post_init__(self) -> None:
        for kind in sorted(self.kinds):
            if kind not in get_args(EvidenceKind):
                raise ParameterError(f"evidence is {kind!r}; it must be one of {', '.join(get_args(EvidenceKind))}.")

    def wanted(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """What is gathered about the answer to a question in a burst, or outside of any."""
        return self.kinds if in_burst or self.on == "always" else frozenset()

    def weighed(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """What of it is gathered with the answer, because the posterior is a part of it."""
        wanted = self.wanted(in_burst)
        if "candidates" not in wanted:
            return frozenset()
        return wanted & ({"candidates", "p_true"} if self.weighs_p_true else {"candidates"})

    @property
    def rated(self) -> frozenset[EvidenceKind]:
        """What is asked about an answer from elsewhere beyond its own P(True); candidates are always compared."""
        return frozenset({"candidates", "p_true"} if self.weighs_p_true or "p_true" in self.kinds else {"candidates"})


def gather(model: Model, record: Record, reply: Reply, wanted: Collection[EvidenceKind], samples: int) -> Evidence:
    """Ask the frozen model for what is wanted about a reply and what the record does not have."""
    question, evidence = record.question, record.evidence
    if "p_true" in wanted and evidence.p_true is None:
        evidence = replace(evidence, p_true=model.score_p_true(question, reply))
    if "samples" in wanted or "dinco" in wanted:
        evidence = replace(evidence, samples=model.sample(question, samples))
    if "dinco" in wanted:
        evidence = replace(evidence, dinco=model.dinco(question, reply, evidence.samples or ()))
    return evidence


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
    stated = reply.stated
    if rule.bin_gate is not None and abs(bin_index(stated) - bin_index(signal)) <= rule.bin_gate:
        return "agreed", None
    if rule.signal_bins == "centre":
        signal = (bin_index(signal) + 0.5) / BINS
    target = signal if rule.loss == "mse" else directional_target(stated, signal, rule.alpha, rule.delta)
    try:
        return "trained", model.learn(question, reply, target)
    except NotFiniteError as problem:
        model.meter.spend("learning", problem.tokens)
        return "failed", None
