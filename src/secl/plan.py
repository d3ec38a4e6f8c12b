"""The plan of a loop. Only this module turns a method and its settings into evidence, a signal, weights and answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, get_args

from secl.errors import ParameterError
from secl.evidence import EvidenceKind
from secl.methods import Method
from secl.question import Question
from secl.settings.groups import EvidenceOn, LoopSettings

if TYPE_CHECKING:
    from secl.posterior.rule import PosteriorRule
    from secl.signals import Signal  # imports SciPy


@dataclass(frozen=True, slots=True)
class Plan:
    """A method with its settings, as the loop follows it.

    Attributes:
        gate: name of the gate that decides when to learn, unless the loop has another.
        signal: the training signal.
        posterior: combines evidence about all candidates.
        kinds: kinds of evidence to gather, in bursts or for every question (`on`).
        learns: whether lessons may change the weights.
        loop: the learning rule, which answer is returned, and the threshold.
        paper: whether lessons follow the paper exactly.
    """

    gate: str
    signal: Signal
    posterior: PosteriorRule
    kinds: frozenset[EvidenceKind]
    on: EvidenceOn
    learns: bool
    loop: LoopSettings
    paper: bool = False

    @classmethod
    def of(
        cls,
        method: Method,
        signal: Signal,
        posterior: PosteriorRule,
        loop: LoopSettings,
        *,
        evidence: Iterable[EvidenceKind] = (),
        learns: bool | None = None,
        paper: bool = False,
    ) -> Self:
        """Combine the evidence that the method, the signal and the posterior need with further `evidence`.

        Raises:
            ParameterError: an unknown kind of evidence.
        """
        learns = method.learns if learns is None else learns
        kinds = {*method.evidence, *evidence, *([signal.needs] if learns else [])}
        if "candidates" in kinds and "p_true" in posterior.views:
            kinds.add("p_true")
        for kind in sorted(kinds):
            if kind not in get_args(EvidenceKind):
                raise ParameterError(f"evidence is {kind!r}; it must be one of {', '.join(get_args(EvidenceKind))}.")
        on = loop.evidence_on or method.evidence_on
        return cls(method.gate, signal, posterior, frozenset(kinds), on, learns, loop, paper)

    def wanted(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """Return the kinds of evidence to gather about an answer, in a burst or outside."""
        return self.kinds if in_burst or self.on == "always" else frozenset()

    def weighed(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """Return the kinds of evidence that the posterior needs, gathered before the confidence is reported."""
        wanted = self.wanted(in_burst)
        read = {"candidates", "p_true"} if "p_true" in self.posterior.views else {"candidates"}
        return wanted & read if "candidates" in wanted else frozenset()

    @property
    def rated(self) -> frozenset[EvidenceKind]:
        """Kinds of evidence about an answer from elsewhere, in addition to its own P(True)."""
        asked = "p_true" in self.kinds or "p_true" in self.posterior.views
        return frozenset({"candidates", "p_true"} if asked else {"candidates"})

    def returns_best(self, question: Question) -> bool:
        """Return whether the answer is the best candidate; otherwise, and for every text, it is the model's own."""
        best = self.loop.answer == "best" or (self.loop.answer is None and bool(question.options))
        return best and "candidates" in self.kinds and not question.free
