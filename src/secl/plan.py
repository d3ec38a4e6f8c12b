"""What a method and its settings mean for the loop: which evidence is gathered where, and which answer is returned."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self, get_args

from secl.errors import ParameterError
from secl.evidence import EvidenceKind
from secl.methods import Method
from secl.question import Question
from secl.settings.groups import AnswerName, EvidenceOn, LoopSettings, ViewName


@dataclass(frozen=True, slots=True)
class EvidencePlan:
    """Which kinds of evidence a loop gathers.

    Attributes:
        weighs_p_true: whether the posterior reads P(True).
        answer: which answer is returned, the model's own or the best candidate; None for the best one of a question
            with options.
    """

    kinds: frozenset[EvidenceKind]
    on: EvidenceOn
    weighs_p_true: bool
    answer: AnswerName | None = None

    @classmethod
    def of(cls, method: Method, loop: LoopSettings, views: Collection[ViewName], extra: Iterable[EvidenceKind]) -> Self:
        """Combine a method's evidence with `extra` kinds and with what the posterior's views read."""
        kinds: set[EvidenceKind] = {*method.evidence, *extra}
        weighs_p_true = "p_true" in views
        if weighs_p_true and "candidates" in kinds:
            kinds.add("p_true")
        return cls(frozenset(kinds), loop.evidence_on or method.evidence_on, weighs_p_true, loop.answer)

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

    def returns_best(self, question: Question) -> bool:
        """Whether the best candidate is returned and not the own answer; a text is returned as it was written."""
        best = self.answer == "best" or (self.answer is None and bool(question.options))
        return best and "candidates" in self.kinds and not question.free
