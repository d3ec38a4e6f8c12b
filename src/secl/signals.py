"""Signals: a probability that the answer is right, computed from a reply and the evidence about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args

from secl.errors import ParameterError
from secl.evidence import COUNTED, DincoEvidence, Evidence, EvidenceKind
from secl.grading.texts import answer_key
from secl.metrics.probability import normalised_p_true
from secl.question import Question
from secl.records import Reply
from secl.settings.groups import Formula, SignalName

MATCH = 0.9
"""Agreement in DINCO above which a sample counts as the same answer."""

Matrix = Sequence[Sequence[float]]


def answer_probability(reply: Reply) -> float | None:
    """Return the joint probability of the answer's tokens; None if unknown."""
    known = reply.answer is not None and not math.isnan(reply.log_probability)
    return min(1.0, math.exp(reply.log_probability)) if known else None


def token_entropy(reply: Reply) -> float:
    """Return exp(-H), where H is the mean token entropy in nats: 1 over the effective number of choices per token."""
    return math.exp(-reply.entropy)


class Signal(Protocol):
    """Maps a reply and the evidence about it to a probability in [0, 1], or to None if undefined."""

    @property
    def needs(self) -> EvidenceKind:
        """The kind of evidence that the signal needs."""

    def __call__(self, question: Question, reply: Reply, evidence: Evidence) -> float | None: ...

    def answer(self, question: Question, reply: Reply, evidence: Evidence) -> str | None:
        """Return the answer that the signal rates."""


@dataclass(frozen=True, slots=True)
class _ReplySignal:
    """Base of signals about the reply's own answer."""

    def answer(self, question: Question, reply: Reply, evidence: Evidence) -> str | None:  # noqa: ARG002
        return reply.answer


@dataclass(frozen=True, slots=True)
class NormalisedPTrue(_ReplySignal):
    """P(True) of the answer relative to its distractors (the paper's Eq. `normp`); None without a distractor.

    Equal options count as one candidate. `formula`: "log" is softmax(log P / tau), "exp" is softmax(P / tau) as in
    Eq. normp.
    """

    tau: float = 1.0
    formula: Formula = "log"
    needs: ClassVar[EvidenceKind] = "p_true"

    def __call__(self, question: Question, reply: Reply, evidence: Evidence) -> float | None:  # noqa: ARG002
        p_true = evidence.p_true
        if p_true is None:
            return None
        distinct: dict[str, float] = {}
        for candidate, probability in zip(p_true.candidates, p_true.probabilities, strict=True):
            distinct.setdefault(candidate, probability)
        return normalised_p_true([*distinct.values()], self.tau, self.formula) if len(distinct) > 1 else None


@dataclass(frozen=True, slots=True)
class RawPTrue(_ReplySignal):
    """P(True) of the answer alone (Kadavath et al. 2022). Often overconfident: models tend to accept any answer."""

    needs: ClassVar[EvidenceKind] = "p_true"

    def __call__(self, question: Question, reply: Reply, evidence: Evidence) -> float | None:  # noqa: ARG002
        return None if evidence.p_true is None else evidence.p_true.probabilities[0]


@dataclass(frozen=True, slots=True)
class SelfConsistency:
    """Share of the samples that give the same answer (Wang et al. 2023), up to differences that grading ignores.

    `policy`: "greedy" rates the reply's answer, "mode" the most frequent sample (the earliest in a tie).
    """

    policy: Literal["greedy", "mode"] = "greedy"
    needs: ClassVar[EvidenceKind] = "samples"

    def __call__(self, question: Question, reply: Reply, evidence: Evidence) -> float | None:
        answer = self.answer(question, reply, evidence)
        if not evidence.samples or answer is None:
            return None
        same = [key_of(question, text) == key_of(question, answer) for text in evidence.samples if text is not None]
        return sum(same) / len(evidence.samples)

    def answer(self, question: Question, reply: Reply, evidence: Evidence) -> str | None:
        if self.policy == "greedy":
            return reply.answer
        readable = [sample for sample in evidence.samples or () if sample is not None]
        keys = [key_of(question, sample) for sample in readable]
        return readable[keys.index(Counter(keys).most_common(1)[0][0])] if keys else None


def key_of(question: Question, answer: str | None) -> object:
    """Return a key that is equal for equal options, and for texts that grading treats as equal; None for None."""
    if answer is None:
        return None
    return question.option(answer) if answer in question.letters else answer_key(answer, question.form)


@dataclass(frozen=True, slots=True)
class DincoSignal:
    """Confidence normalised over beam distractors, averaged with self-consistency (Wang et al. 2025).

    `policy`: "beam" rates the most probable beam, as published; "greedy" rates the reply's answer, with the beams as
    its distractors.
    """

    policy: Literal["beam", "greedy"] = "beam"
    needs: ClassVar[EvidenceKind] = "dinco"

    def __call__(self, question: Question, reply: Reply, evidence: Evidence) -> float | None:
        dinco = evidence.dinco
        main = self._main(question, reply, dinco)
        if dinco is None or main is None:
            return None
        order = [main, *(i for i in range(dinco.beams) if i != main)]
        entails = [[dinco.entails[i][j] for j in order] for i in order]
        contradicts = [[dinco.contradicts[i][j] for j in order] for i in order]
        nvc = normalised_verbalised_confidence([dinco.p_yes[i] for i in order], entails, contradicts)
        return (nvc + consistency(dinco.agreement[main][:COUNTED])) / 2

    def answer(self, question: Question, reply: Reply, evidence: Evidence) -> str | None:
        main = self._main(question, reply, evidence.dinco)
        return None if evidence.dinco is None or main is None else evidence.dinco.answers[main]

    def _main(self, question: Question, reply: Reply, dinco: DincoEvidence | None) -> int | None:
        """Return the index of the rated candidate; None if the reply's answer is not among the candidates."""
        if dinco is None:
            return None
        if self.policy == "beam":
            return 0
        keys = [answer_key(answer, question.form) for answer in dinco.answers]
        own = None if reply.answer is None else answer_key(reply.answer, question.form)
        return keys.index(own) if own in keys else None


def normalised_verbalised_confidence(p_yes: Sequence[float], entails: Matrix, contradicts: Matrix) -> float:
    """Return NVC: P("Yes") of the answer, divided by the weighted sum of P("Yes") over all candidates (at least 1).

    The answer has weight 1. The weight of a distractor is its contradiction of the answer (mean of both directions),
    divided by 1 + the sum of P(entail) from the other distractors. Candidate 0 is the answer. In the matrices, row i
    and column j have the probability that candidate i entails or contradicts candidate j.
    """
    mass = p_yes[0]
    distractors = range(1, len(p_yes))
    for i in distractors:
        opposition = (contradicts[0][i] + contradicts[i][0]) / 2
        repeated = sum(entails[j][i] for j in distractors if j != i)
        mass += p_yes[i] * opposition / (1 + repeated)
    return p_yes[0] / max(1.0, mass)


def consistency(agreement: Sequence[float]) -> float:
    """Return SC: the share of samples that agree with the answer. The answer itself counts as a sample."""
    return (1 + sum(same > MATCH for same in agreement)) / (len(agreement) + 1)


def make_signal(name: SignalName, tau: float, formula: Formula = "log", *, paper: bool = False) -> Signal:
    """Return the training signal called `name`; with `paper`, self-consistency rates the most frequent sample."""
    match name:
        case "norm_p_true":
            return NormalisedPTrue(tau, formula)
        case "p_true":
            return RawPTrue()
        case "self_consistency":
            return SelfConsistency("mode" if paper else "greedy")
    raise ParameterError(f"there is no signal {name!r}; the signals are {', '.join(get_args(SignalName))}.")
