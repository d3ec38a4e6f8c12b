"""Evidence: what the frozen model says beyond its answer, and what it comes to.

All are frozen and hold plain Python values, like the records that they are part of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EvidenceKind = Literal["p_true", "samples", "dinco", "candidates"]
"""What the frozen model can be asked about an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PTrue:
    """P(True) of an answer and of its distractors, from the frozen model.

    Attributes:
        candidates: the answer first, then its distractors.
        probabilities: P("True") of each candidate, in [0, 1].
        false_probabilities: P("False") of each candidate, measured the same way; empty where it was not.
        distractor_source: where the distractors come from, for example "options" or "listed:3+numeric:1".
    """

    candidates: tuple[str, ...]
    probabilities: tuple[float, ...]
    false_probabilities: tuple[float, ...] = ()
    distractor_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterOrder:
    """The letters of the candidates as options of the question, in one order.

    Attributes:
        order: the number of the candidate behind each letter.
        log_p: natural logarithm of the probability of each candidate's letter, in the order of the candidates.
    """

    order: tuple[int, ...]
    log_p: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """How probable a candidate is as a text.

    Attributes:
        given: natural logarithm of its probability as the answer to the question, without any options.
        alone: the same where no question is asked.
        tokens: its length.
    """

    given: float
    alone: float
    tokens: int

    @property
    def pmi(self) -> float:
        """Pointwise mutual information of question and candidate in nats: ln P(candidate | question) / P(candidate)."""
        return self.given - self.alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A further answer of the frozen model, drawn at temperature 1, or computed.

    Attributes:
        text: the answer; None if it could not be read.
        candidate: number of the candidate that says the same; None for something else, or nothing.
        log_p: natural logarithm of the probability that the model begins with it, over the whole vocabulary; None where
            the model's server does not tell, and of what a program computes.
        program: whether it is what the model's own short program computes, which it wrote without reasoning before.
    """

    text: str | None
    candidate: int | None
    log_p: float | None
    program: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateEvidence:
    """What the frozen model says about the possible answers to a question.

    Attributes:
        candidates: the options in their order; for an open question the answer, others that say something else, and
            `NONE_OF_THESE` for all that nobody named.
        letters: letters under other orders than that in which the options were asked.
        likelihoods: of each option; None for the candidates of an open question, and for all where the model's server
            gives none.
        samples: further answers to an open question.
        source: where the candidates come from: "options", or like "given:2+sampled:1".
        words: of each candidate, where the texts themselves are not kept.
    """

    candidates: tuple[str, ...]
    letters: tuple[LetterOrder, ...]
    likelihoods: tuple[Likelihood | None, ...]
    samples: tuple[Sample, ...] = ()
    source: str
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DincoEvidence:
    """What DINCO asks of the frozen model (Wang et al. 2025; formulas in `secl.metrics.dinco`).

    Candidates are the answers found by beam search, the most probable first, and behind them the greedy answer where it
    is none of these. Matrices have a row for each premise and a column for each hypothesis.

    Attributes:
        candidates: their texts (the option's text for multiple choice).
        answers: the same as `Reply.answer` would have them.
        beams: how many of the candidates come from the beam search.
        p_yes: P("Yes") against "No" that each is right, asked of each alone.
        entails: probability that candidate i entails candidate j.
        contradicts: probability that candidate i contradicts candidate j.
        agreement: for the best beam and the greedy answer, how much each sample says the same: 1 for equal answers,
            else the mean of both directions of entailment; empty for the other candidates.
        nli_name: what judged entailment: the name of an NLI model, or "self" for the answering model.
    """

    candidates: tuple[str, ...]
    answers: tuple[str, ...]
    beams: int
    p_yes: tuple[float, ...]
    entails: tuple[tuple[float, ...], ...]
    contradicts: tuple[tuple[float, ...], ...]
    agreement: tuple[tuple[float, ...], ...]
    nli_name: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the frozen model was asked beyond the question; None where it was not asked.

    Attributes:
        p_true: P(True) of the answer and of its distractors.
        samples: further answers to the question, drawn at temperature 1; None among them could not be read.
        dinco: beams, their verification and their entailment.
        candidates: letters under further orders of the options, likelihoods, and further answers to an open question.
    """

    p_true: PTrue | None = None
    samples: tuple[str | None, ...] | None = None
    dinco: DincoEvidence | None = None
    candidates: CandidateEvidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """How probable it is that each candidate is right, from all views of the frozen model together.

    Attributes:
        candidates: their texts, as in `CandidateEvidence`.
        probabilities: one for each candidate, in [0, 1]; equal candidates have the same one, and those of different
            ones sum to 1.
        own: number of the candidate that the model answered; None if it is none of them.
        none_last: whether the last candidate is "None of these", which is no answer.
        weights: the weight of each view, 0 or more, per nat.
        reliability: of the letters, how far they follow the options and not their order, from 0 to 1; None without any.
        questions: before this one that it was seen in; 0 where it is what was known of the model.
    """

    candidates: tuple[str, ...]
    probabilities: tuple[float, ...]
    own: int | None
    none_last: bool = False
    weights: tuple[tuple[str, float], ...]
    reliability: float | None
    questions: int

    @property
    def confidence(self) -> float | None:
        """Probability that the model's own answer is right; None if it is none of the candidates."""
        return None if self.own is None else self.probabilities[self.own]

    @property
    def best(self) -> int:
        """Number of the most probable answer among the candidates; of a tie the model's own, else the first."""
        high = max(self.probabilities[:-1] if self.none_last else self.probabilities)
        if self.own is not None and self.probabilities[self.own] == high:
            return self.own
        return self.probabilities.index(high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A confidence after the labels that people had given by then (`secl.labels`).

    Attributes:
        label_free: the confidence without any label, in [0, 1].
        confidence: the one with them; the same without any.
        low: lower end of the band that the right confidence lies in with a probability of 0.9.
        high: its upper end.
        labels: how many labels there were; without any, the band says how far confidences of other models were off.
        of_domain: how many of them were about the question's domain.
        until: number of the latest entry of the log of labels; 0 without any.
    """

    label_free: float
    confidence: float
    low: float
    high: float
    labels: int
    of_domain: int
    until: int
