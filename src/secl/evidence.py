"""Evidence that the frozen model gives about an answer, and confidences from this evidence, as immutable values.

Evidence about "What is the capital of Kenya?", answered B by SmolLM2 (its record is in `secl.records`):

    candidates              Praia    Mombasa    Maseru    Nairobi
    reply.option_log_p      -2.46      -1.89     -2.39      -2.57     ln P(letter), options in their own order
    letters[0].order            3          2         1          0     the first letter stands for candidate 3, Nairobi
    letters[0].log_p        -2.74      -0.80     -1.13      -2.13     ln P(letter), options in the reversed order
    likelihoods, given     -14.98      -5.20    -15.85      -2.21     ln P(text | question without options)
    likelihoods, alone     -16.55     -15.45    -24.58     -13.82     ln P(text | no question)
    likelihoods, tokens         2          3         3          1     number of tokens of the text
    probabilities            0.01       0.12      0.04       0.82     of the `Posterior`
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

EvidenceKind = Literal["p_true", "samples", "dinco", "candidates", "verdicts"]
"""Kinds of evidence from the frozen model. "p_true" is P(True) of the answer and its distractors, "verdicts" is P(True)
of all candidates of the posterior."""

SourceKind = Literal["options", "answers", "values", "fixed_values", "tools", "facts"]
"""What candidates are. "fixed_values" are numbers, booleans, or members of an enumeration. "facts" are values in a
text, and other values in their places."""


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of the candidates of a question, besides the rated answer.

    Attributes:
        kind: options of the question, answers to an open question, values of a field, or values in a text; "tools" if
            the field is the choice of a tool, or of no tool.
        given: number of candidates from the caller.
        listed: number of candidates from a list that the model wrote.
        numeric: number of near misses of a number.
        sampled: number of candidates from samples.

    >>> str(Source("answers", listed=3, numeric=1)), str(Source("answers")), str(Source("options"))
    ('listed:3+numeric:1', 'none', 'options')
    """

    kind: SourceKind
    given: int = 0
    listed: int = 0
    numeric: int = 0
    sampled: int = 0

    def __str__(self) -> str:
        names = ("given", "listed", "numeric", "sampled")
        counts = "+".join(f"{name}:{getattr(self, name)}" for name in names if getattr(self, name))
        return counts or ("none" if self.kind == "answers" else self.kind)

    @property
    def of_field(self) -> bool:
        """Whether the candidates are values of a field (`secl.fields`) or in a text (`secl.facts`)."""
        return self.kind not in ("options", "answers")


OPTIONS, NO_OTHERS = Source("options"), Source("answers")
"""Source of the options of a question, and of an open question's answer without other candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PTrue:
    """P(True) of an answer and of its distractors, from the frozen model.

    Attributes:
        candidates: the answer first, then its distractors, then other candidates of the posterior.
        probabilities: P("True") of each candidate.
        false_probabilities: P("False") of each candidate; may be empty.
        source: origin of the distractors.
        extra: number of candidates at the end that are no distractors, but candidates of the posterior.
    """

    candidates: tuple[str, ...]
    probabilities: tuple[float, ...]
    false_probabilities: tuple[float, ...] = ()
    source: Source
    extra: int = 0

    @property
    def compared(self) -> dict[str, float]:
        """P("True") by text of the answer and of its distractors."""
        count = len(self.candidates) - self.extra
        return dict(zip(self.candidates[:count], self.probabilities[:count], strict=True))

    @property
    def mass(self) -> float | None:
        """P("True") + P("False") of the answer; None without P("False"). The rest goes to other tokens."""
        false = self.false_probabilities[:1]
        return min(1.0, self.probabilities[0] + false[0]) if self.probabilities and false else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """The reasoning that a model wrote before an answer; no grader reads it.

    Attributes:
        text: the thought, without the marks around it; None if texts are not kept or a server hides the thought; "" if
            the answer after the thought was empty, so that the model answered again without a thought.
        tokens: length of the thought.
        cut: whether the token budget ended the thought.
    """

    text: str | None
    tokens: int
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterOrder:
    """Probabilities of the letters after a prompt that lists the candidates as options, in the order `order`.

    Attributes:
        order: for each letter, the number of its candidate, from 0.
        log_p: ln probability of each candidate's letter, in the order of the candidates.
        thought: the thought before the letter; None if the model answered at once.
        bins: `Reply.bins` of the confidence stated after the most probable letter; empty without a thought.
    """

    order: tuple[int, ...]
    log_p: tuple[float, ...]
    thought: Thought | None = None
    bins: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """Log-likelihood of a candidate as a text.

    Attributes:
        given: ln probability of the candidate as the answer to the question without its options, or of a fact in its
            text among values of its kind.
        alone: ln probability of the candidate without a question, or of a fact without the question's passage; nan for
            values of fields, and for facts without a passage.
        tokens: number of tokens of the candidate.
    """

    given: float
    alone: float
    tokens: int

    @property
    def pmi(self) -> float:
        """Pointwise mutual information in nats: ln P(candidate | question) - ln P(candidate)."""
        return self.given - self.alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A further answer of the frozen model, drawn at temperature 1, computed by a program, or its own answer.

    Attributes:
        text: the answer; None if unreadable.
        candidate: number of the candidate with the same meaning; None if no candidate has this meaning.
        log_p: ln probability of the tokens of the answer over the whole vocabulary; for a field, over the tokens that
            the schema allows. None for a program, and for a server without log-probabilities.
        program: whether a short program of the model computed the answer.
        own: whether the text is the model's own answer, at temperature 0, beside a given answer.
        thought: the thought before the answer; None if the model answered at once.
    """

    text: str | None
    candidate: int | None
    log_p: float | None
    program: bool = False
    own: bool = False
    thought: Thought | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateEvidence:
    """Evidence about the possible answers to a question.

    Attributes:
        candidates: the options in their order; for an open question the rated answer, other answers, and
            `NONE_OF_THESE` for all unlisted answers.
        letters: probabilities of the letters in further orders of the options.
        likelihoods: for each option its likelihood, or None if a server does not report likelihoods. For an open
            question, None for each candidate. For a field, the first likelihood is that of the model's own value as the
            reply to a request for this field alone.
        samples: further answers to an open question.
        source: origin of the candidates.
        words: number of words of the most probable text of each candidate, if texts are not kept.
    """

    candidates: tuple[str, ...]
    letters: tuple[LetterOrder, ...]
    likelihoods: tuple[Likelihood | None, ...]
    samples: tuple[Sample, ...] = ()
    source: Source
    words: tuple[int, ...] = ()


DINCO_SAMPLES = 5
"""Number of samples in the consistency term of DINCO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DincoEvidence:
    """Evidence of DINCO (Wang et al. 2025; formulas in `secl.scores`).

    Candidates are the answers of a beam search, the most probable first; a greedy answer outside the beams is the last.

    Attributes:
        candidates: texts of the candidates (for multiple choice, of the options).
        answers: the candidates in the form of `Reply.answer`.
        beams: number of beam answers, which are the first candidates.
        p_yes: for each candidate, P("Yes") / (P("Yes") + P("No")) as the reply to the question whether this candidate
            is right. The question shows no other candidate.
        entails, contradicts: probability that candidate i (row) entails or contradicts candidate j (column).
        agreement: for each candidate, its agreement with each sample: 1 for equal answers, else the mean entailment of
            both directions. Only the best beam and the greedy answer have agreements.
        nli_name: name of the NLI model that judges entailment; "self" for the answering model.
    """

    candidates: tuple[str, ...]
    answers: tuple[str, ...]
    beams: int
    p_yes: tuple[float, ...]
    entails: tuple[tuple[float, ...], ...]
    contradicts: tuple[tuple[float, ...], ...]
    agreement: tuple[tuple[float, ...], ...]
    nli_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactEvidence:
    """A value in a text that can be right or wrong, with the probability of its tokens.

    Attributes:
        start, end: place of the value in the text, in characters.
        kind: what the value is, such as "number" or "name" (`secl.facts.spans`).
        log_p: ln probability of the value's tokens after the text before it; nan if unknown.
        value: ln probability of the value among values of its kind (`secl.facts.tokens`); nan if unknown.
        tokens: number of these tokens; 0 if unknown.
        alone: `log_p` without the passage of the question; nan without a passage, or if unknown.
        in_passage: whether the value stands in the passage word by word; None without a passage.
        others: other values in this place, or the beginnings of such values, each with its ln probability among values
            of its kind.
    """

    start: int
    end: int
    kind: str
    log_p: float
    value: float
    tokens: int
    alone: float = math.nan
    in_passage: bool | None = None
    others: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence about an answer; None for each kind that was not gathered.

    Attributes:
        p_true, dinco, candidates: evidence of these kinds.
        samples: further answers to the question, drawn at temperature 1. An unreadable answer is None.
        facts: the values in a text, in order. In a record, `secl.records.Record.facts` has them instead.
    """

    p_true: PTrue | None = None
    samples: tuple[str | None, ...] | None = None
    dinco: DincoEvidence | None = None
    candidates: CandidateEvidence | None = None
    facts: tuple[FactEvidence, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """Probabilities that each candidate is right, from all views of the frozen model together.

    Attributes:
        candidates: texts of the candidates, as in `CandidateEvidence`.
        probabilities: probability of each candidate. Equal candidates have one common probability. The probabilities of
            different candidates sum to 1.
        own: index of the model's own answer among the candidates; None if the answer is not a candidate.
        none_last: whether the last candidate is "None of these", which stands for all unlisted answers.
        weights: name and weight of each view. `probabilities` is a softmax over the weighted sums of the views, minus
            `bias`.
        bias: subtracted part of each candidate's bias in the earlier questions with the same options; empty without
            such questions.
        shared: number of earlier questions with the same options, which determine `bias` and the scale of `weights`.
        reliability: how far the letters follow the options rather than their order, from 0 to 1; None without letters.
        questions: number of earlier questions from which secl estimated the reliability.
    """

    candidates: tuple[str, ...]
    probabilities: tuple[float, ...]
    own: int | None
    none_last: bool = False
    weights: tuple[tuple[str, float], ...]
    bias: tuple[float, ...] = ()
    shared: int = 0
    reliability: float | None
    questions: int

    @property
    def own_probability(self) -> float | None:
        """Probability that the model's own answer is right; None if the answer is not a candidate."""
        return None if self.own is None else self.probabilities[self.own]

    @property
    def unlisted(self) -> bool:
        """Whether "None of these" is the most probable candidate."""
        return self.none_last and self.probabilities[-1] == max(self.probabilities)

    @property
    def best(self) -> int:
        """Index of the most probable listed candidate. A tie goes to the model's own answer, else to the first."""
        high = max(self.probabilities[:-1] if self.none_last else self.probabilities)
        if self.own is not None and self.probabilities[self.own] == high:
            return self.own
        return self.probabilities.index(high)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedConfidence:
    """A confidence calibrated by the labels at the time of the answer (`secl.labels`).

    Attributes:
        uncalibrated: the confidence before calibration, in [0, 1].
        calibrated: the calibrated confidence; without labels equal to `uncalibrated`.
        low, high: bounds of the 90% credible interval, under the assumption that the map from `uncalibrated` to
            `calibrated` is a line in logits and lies within its prior; without labels, bounds of the prior's interval.
        labels: number of labels.
        of_domain: number of labels of the question's domain.
        until: number of the latest entry in the log of labels; 0 for an empty log.
        near: number of labels of a random sample whose calibrated confidences differ from this one by at most 0.1.
        near_right: number of right answers among these.
        accept: `Record.threshold` on the scale of `calibrated`; None without a threshold.
    """

    uncalibrated: float
    calibrated: float
    low: float
    high: float
    labels: int
    of_domain: int
    until: int
    near: int = 0
    near_right: int = 0
    accept: float | None = None
