"""What a loop does: the one place where a method and its settings become evidence, a signal, weights and an answer."""

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
        gate: name of the gate that decides when to learn, unless the loop is given another.
        signal: the training signal.
        posterior: combines evidence about all candidates.
        kinds: of evidence that is gathered, each where `on` says.
        learns: whether lessons may change the weights.
        loop: the learning rule, which answer is returned, and the threshold.
        paper: whether a lesson is held to the letter of the paper.
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
        """Combine a method's evidence with `evidence`, with that of the signal, and with what the posterior reads.

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
        """Return the evidence to gather about an answer, in a burst or outside."""
        return self.kinds if in_burst or self.on == "always" else frozenset()

    def weighed(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """Return the evidence to gather with the answer, before the confidence: the posterior needs it."""
        wanted = self.wanted(in_burst)
        return wanted & {"candidates", *self._read} if "candidates" in wanted else frozenset()

    @property
    def rated(self) -> frozenset[EvidenceKind]:
        """Evidence about an answer from elsewhere, beyond its own P(True). Candidates are always compared."""
        asked: set[EvidenceKind] = {"candidates", *self._read, *(kind for kind in self.kinds if kind == "p_true")}
        return frozenset(asked)

    @property
    def _read(self) -> frozenset[EvidenceKind]:
        """Evidence that the posterior reads besides the candidates."""
        return frozenset({"p_true"} if "p_true" in self.posterior.views else ())

    def returns_best(self, question: Question) -> bool:
        """Whether the best candidate is returned and not the own answer; a text is returned as it was written."""
        best = self.loop.answer == "best" or (self.loop.answer is None and bool(question.options))
        return best and "candidates" in self.kinds and not question.free
