"""The methods by name, and `Plan`: what a calibrator gathers, returns and learns.

A method names a gate and kinds of evidence, and says whether to learn. `Plan.of` combines a method with settings.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, replace
from typing import Self, get_args

from secl.errors import NotFiniteError, ParameterError
from secl.evidence import Evidence, EvidenceKind
from secl.metrics.probability import BINS, bin_index, directional_target
from secl.model import Model, beam_search_of, learner_of
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import LearningOutcome, Record, Reply, Update
from secl.scores import Score
from secl.settings.groups import EvidenceOn, LoopSettings


@dataclass(frozen=True, slots=True)
class Method:
    """A choice of gate, evidence and estimators.

    Attributes:
        gate: name of the gate in `secl.gates.GATES`.
        main: names of the most important scores of its reports, the most important last; empty to show all scores.
        evidence: kinds of evidence to gather in addition to the kind that the training signal needs.
        paper: default of the setting `paper`.
    """

    gate: str
    evidence_on: EvidenceOn
    main: tuple[str, ...]
    note: str
    learns: bool = False
    evidence: tuple[EvidenceKind, ...] = ()
    paper: bool = False

    def shows(self, score: Score, evidence: Collection[EvidenceKind]) -> bool:
        """Return whether a report shows a score if the run has these kinds of evidence in addition to the method's."""
        if score.learned and not self.learns:
            return False
        gathered = {*self.evidence, *(["p_true"] if self.learns else [])}
        usual = not score.extra and (score.needs is None or score.needs in gathered)
        return not self.main or score.name in self.main or usual or score.needs in evidence

    def foremost(self, names: Container[str]) -> str:
        """Return the method's most important score among these names, or "stated" if the method has none of them."""
        return next((name for name in reversed(self.main) if name in names), "stated")


METHODS: dict[str, Method] = {
    "secl": Method(
        "entropy-shift", "burst", ("norm_p_true", "secl"), "learn in bursts when the entropy shifts", learns=True
    ),
    "secl-paper": Method(
        "page-hinkley",
        "burst",
        ("norm_p_true", "secl"),
        "SECL as the paper says; docs/paper.md lists what the paper leaves open",
        learns=True,
        paper=True,
    ),
    "posterior": Method(
        "never",
        "always",
        ("posterior_best", "posterior"),
        "a probability for every candidate, without learning or labels (the default)",
        evidence=("candidates",),
    ),
    "stated": Method("never", "burst", ("stated_hard", "stated"), "the stated confidence (Verbalized)"),
    "p_true": Method("never", "always", ("p_true",), "raw P(True)", evidence=("p_true",)),
    "norm_p_true": Method("never", "always", ("norm_p_true",), "normalised P(True)", evidence=("p_true",)),
    "self_consistency": Method("never", "always", ("self_consistency",), "agreement of samples", evidence=("samples",)),
    "dinco": Method(
        "never",
        "always",
        ("dinco_greedy", "dinco"),
        "confidence relative to beam answers with NLI weights, averaged with self-consistency",
        evidence=("samples", "dinco"),
    ),
    "label_free": Method(
        "entropy-shift",
        "burst",
        ("label_free_temperature", "label_free_platt"),
        "temperature and Platt scaling, fitted to normalised P(True) in bursts; the weights stay unchanged",
        evidence=("p_true",),
    ),
    "baselines": Method(
        "never",
        "always",
        (),
        "all estimators that need no learning, on the same answers",
        evidence=("candidates", "p_true", "samples", "dinco"),
    ),
}


def method(name: str) -> Method:
    if name not in METHODS:
        raise ParameterError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}.")
    return METHODS[name]


def method_to_follow(name: str) -> Method:
    """Return a method for a `Calibrator`; raise a ParameterError if the method changes prompts and training."""
    chosen = method(name)
    if chosen.paper:
        raise ParameterError(
            f"the method {name!r} changes prompts and training, which a Calibrator cannot change; take "
            f"secl run --method {name}."
        )
    return chosen


@dataclass(frozen=True, slots=True)
class Plan:
    """A method combined with settings, for a `secl.learning.Calibrator`.

    Attributes:
        gate: name of the gate that decides when to learn; a gate given to the `Calibrator` overrides this name.
        signal: the training signal.
        posterior: combines evidence about all candidates.
        kinds: kinds of evidence to gather, in bursts or for every question (`on`).
        learns: whether lessons may change the weights.
        loop: settings of the learning rule, of the returned answer and of the threshold.
        paper: whether lessons round the signal to the centre of its bin, as the paper does.
    """

    gate: str
    signal: Score
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
        signal: Score,
        posterior: PosteriorRule,
        loop: LoopSettings,
        *,
        evidence: Iterable[EvidenceKind] = (),
        learns: bool | None = None,
        paper: bool = False,
    ) -> Self:
        """Return a plan that gathers the kinds of evidence of method, signal, posterior and `evidence`.

        Raises:
            ParameterError: an unknown kind of evidence.
        """
        learns = method.learns if learns is None else learns
        kinds: set[EvidenceKind] = {*method.evidence, *evidence}
        if learns and signal.needs is not None:
            kinds.add(signal.needs)
        if "candidates" in kinds and "p_true" in posterior.views:
            kinds.add("verdicts")
        for kind in sorted(kinds):
            if kind not in get_args(EvidenceKind):
                raise ParameterError(f"evidence is {kind!r}; it must be one of {', '.join(get_args(EvidenceKind))}.")
        on = loop.evidence_on or method.evidence_on
        return cls(method.gate, signal, posterior, frozenset(kinds), on, learns, loop, paper)

    def wanted(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """Return the kinds of evidence to gather about an answer, in a burst or outside."""
        return self.kinds if in_burst or self.on == "always" else frozenset()

    def weighed(self, in_burst: bool) -> frozenset[EvidenceKind]:
        """Return the kinds of evidence that the posterior needs, before secl reports the confidence."""
        wanted = self.wanted(in_burst)
        if "candidates" not in wanted:
            return frozenset()
        # One field of a record holds P(True) of distractors and of candidates, so secl gathers both at once.
        return wanted & {"candidates", "verdicts", "p_true"} if "verdicts" in wanted else frozenset({"candidates"})

    @property
    def rated(self) -> frozenset[EvidenceKind]:
        """Kinds of evidence about a given answer, in addition to the answer's P(True)."""
        kinds: set[EvidenceKind] = {"candidates"}
        if "p_true" in self.kinds:
            kinds.add("p_true")
        if "p_true" in self.posterior.views:
            kinds.add("verdicts")
        return frozenset(kinds)

    def returns_best(self, question: Question) -> bool:
        """Return whether secl returns the best candidate, not the model's own answer; False for the form "text"."""
        best = self.loop.answer == "best" or (self.loop.answer is None and bool(question.options))
        return best and "candidates" in self.kinds and not question.free

    def gather(self, model: Model, record: Record, reply: Reply) -> Evidence:
        """Return the record's evidence with all wanted kinds; the frozen model gives the kinds that are missing."""
        wanted, question, evidence = self.wanted(record.decision.in_burst), record.question, record.evidence
        missing = set[EvidenceKind]()
        if "p_true" in wanted and evidence.p_true is None:
            missing.add("p_true")
        if "samples" in wanted or "dinco" in wanted:
            missing.add("samples")
        found = model.gather(question, reply, missing, samples=self.loop.samples)
        evidence = replace(evidence, p_true=evidence.p_true or found.p_true, samples=found.samples)
        if "dinco" in wanted:
            dinco = beam_search_of(model).dinco(question, reply, evidence.samples or ())
            evidence = replace(evidence, dinco=dinco)
        return evidence

    def check(self, model: Model) -> None:
        """Raise a ParameterError if the plan learns or takes evidence of DINCO, but the model cannot."""
        if self.learns:
            learner_of(model)
        if "dinco" in self.kinds:
            beam_search_of(model)

    def teach(
        self, model: Model, question: Question, reply: Reply, signal: float | None
    ) -> tuple[LearningOutcome, Update | None]:
        """Move the stated confidence of the model's latest reply one step towards the target (Eq. target).

        There is no update if the bins of confidence and signal differ by at most `bin_gate`.

        Args:
            reply: the latest reply, with the confidence that the present weights state.
            signal: the training signal, in [0, 1]. None skips the lesson.

        Returns:
            the outcome; and the update, or None unless the outcome is "trained".
        """
        if signal is None:
            return "no_signal", None
        stated, rule = reply.stated, self.loop
        if rule.bin_gate is not None and abs(bin_index(stated) - bin_index(signal)) <= rule.bin_gate:
            return "agreed", None
        if self.paper:
            signal = (bin_index(signal) + 0.5) / BINS
        target = signal if rule.loss == "mse" else directional_target(stated, signal, rule.alpha, rule.delta)
        try:
            return "trained", learner_of(model).learn(question, reply, target)
        except NotFiniteError as problem:
            model.meter.spend("learning", problem.tokens)
            return "failed", None
