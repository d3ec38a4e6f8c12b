"""The record of a question and its parts. Read this after `secl.question`: other modules map one part to the next.

    question -> reply -> decision -> evidence -> update -> record

A record of SmolLM2 under the method "posterior", shortened:

    position    28
    question    "What is the capital of Kenya?", options Praia, Mombasa, Maseru, Nairobi, reference "D"
    reply       answer "B", bins (0.12, 0.04, ..., 0.70), so stated 0.75; entropy 1.95 nats, version 0
    decision    in_burst False; statistic None: the gate "never" has none
    evidence    candidates: letters in two orders, likelihoods (`secl.evidence`)
    posterior   probabilities (0.01, 0.12, 0.04, 0.82), own 1, weights letters 0.0 and likelihood 0.5
    labelled    confidence 0.82, low 0.52, high 0.95, labels 0
    outcome     "idle", update None
    correct     False, about the reply "B"; answers_best True, so `text` is "Nairobi" and `confidence` 0.82
    ledger      147 tokens for the answer, 37 for the second order, 32 for the likelihoods

All parts are frozen and hold plain Python values, so a record can be stored, compared and replayed without a model.
Probabilities lie in [0, 1], entropies are in nats.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from secl.display import Shown
from secl.evidence import Evidence, Labelled, Posterior, Thought
from secl.ledger import Ledger
from secl.question import GivenAnswer, Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer with the confidence that it states.

    Attributes:
        text: the answer as written, without the confidence line.
        answer: the option letter, the number, or the short text read from it; None if nothing could be read.
        bins: ten probabilities of the digits 0 to 9, renormalised to sum to 1; bin k stands for [k/10, (k+1)/10). Empty
            where no confidence was asked for, which is nan then, as are entropy and digit_mass.
        digit_mass: probability of the ten digits together before that, in [0, 1]; low mass means the model did not
            want to say a digit.
        entropy: mean full-vocabulary entropy over the answer tokens and the confidence token, in nats (H_t); over those
            of them that are known. Of a field: the sum over its tokens under the schema, nan if unknown.
        log_probability: natural logarithm of the probability of the answer's tokens together, 0 or less; nan if
            unknown (a given answer, of a model behind an endpoint).
        option_log_p: natural logarithms of the probabilities of all option letters where the answer's letter stands;
            empty for an open question.
        version: the adapter version that wrote it; 0 is the untouched model.
        prompt_tokens: tokens before the answer; None if they were not counted.
        answer_tokens: of the answer as it was written, with what ended it; None if they were not counted.
        thought: what the model thought before the answer; None if it answered at once.
    """

    text: str
    answer: str | None
    bins: tuple[float, ...]
    digit_mass: float
    entropy: float
    log_probability: float
    option_log_p: tuple[float, ...] = ()
    version: int = 0
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    thought: Thought | None = None

    @property
    def stated(self) -> float:
        """Stated confidence, soft read-out (Eq. soft_conf): the expected bin centre, in [0.05, 0.95]."""
        if not self.bins:
            return math.nan
        # Rounded once: the built-in sum rounds otherwise from Python 3.12 on, and this is stored with the bins.
        return math.fsum(p * (k + 0.5) / 10 for k, p in enumerate(self.bins))

    @property
    def stated_hard(self) -> float:
        """Stated confidence, hard read-out: the centre of the most probable bin (the lower one of a tie)."""
        return (max(range(10), key=lambda k: self.bins[k]) + 0.5) / 10 if self.bins else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A gate's decision about one reply.

    Attributes:
        alarm: this question fired the gate.
        in_burst: this question belongs to a burst (the one that fires is its first member).
        remaining: questions of the burst still to come after this one.
        statistic: the gate's test statistic before any reset; None while it has nothing to test.
    """

    alarm: bool
    in_burst: bool
    remaining: int
    statistic: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One learning step on one question (three optimizer steps by default).

    Attributes:
        version: the adapter version that it made.
        before: stated confidence when the lesson began; in a run, that of the record's reply.
        target: where the loss pulled it (Eq. target).
        after: confidence of the same reply under the new version.
        losses: the loss before each optimizer step.
    """

    version: int
    before: float
    target: float
    after: float
    losses: tuple[float, ...]


LearningOutcome = Literal["idle", "agreed", "no_signal", "trained", "waiting", "dropped", "failed", "given", "field"]
"""What learning did with a question.

    idle       nothing was to be learned: outside bursts, or learning is off or paused
    agreed     stated confidence and signal are within the bin gate
    no_signal  the evidence gives no signal
    trained    an update
    waiting    a lesson may follow (between `Calibrator.answer` and `Calibrator.learn`, or in a server's backlog)
    dropped    a server's backlog was full, or learning was paused or rolled back
    failed     the update was taken back
    given      the answer came from elsewhere and was rated (`Calibrator.rate_window`)
    field      the answer is a field of an object (`Calibrator.weigh`)
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Record(Shown):
    """Everything known about one question of a stream, enough to say later why it got its number.

    Attributes:
        position: place in the stream, from 0.
        question: as asked.
        reply: of the adapted model; its confidence never depends on this question's own update.
        frozen: reply of the frozen model to the same question.
        decision: of the gate on `reply.entropy`.
        evidence: what else the frozen model was asked.
        posterior: of the candidates; None where none was computed.
        answers_best: whether the posterior's most probable candidate is what is answered, and not the model's own
            answer.
        labelled: what labels make of the confidence; None if that was not asked.
        accept: lowest `label_free` of an answer that is accepted, when this one was given; None without a threshold.
        signal: what is learned from, normalised P(True) of the answer (Eq. normp) unless another signal was chosen;
            None without usable evidence.
        outcome: what learning did.
        update: present exactly when `outcome` is "trained".
        correct, frozen_correct: whether `reply` and `frozen` are right; None without a reference.
        label: whether `answer` is correct by its label (`with_label`), which overrides a reference; None without a
            label, and always None in storage, where labels have a log of their own.
        ledger: tokens that went through the network for this question.
        plain_tokens: tokens of one plain answering pass: the unit of a forward-pass equivalent.
    """

    position: int
    question: Question
    reply: Reply
    frozen: Reply
    decision: Decision
    evidence: Evidence
    posterior: Posterior | None = None
    answers_best: bool = False
    labelled: Labelled | None = None
    accept: float | None = None
    signal: float | None
    outcome: LearningOutcome
    update: Update | None
    correct: bool | None
    frozen_correct: bool | None
    label: bool | None = None
    ledger: Ledger
    plain_tokens: float

    def with_label(self, correct: bool) -> Record:
        """Return the same with what people said of `answer`: that settles it for every reply that gave this answer."""
        own, frozen = self.reply.answer == self.answer, self.frozen.answer == self.answer
        return replace(
            self,
            label=correct,
            correct=correct if own else self.correct,
            frozen_correct=correct if frozen else self.frozen_correct,
        )

    @property
    def text(self) -> str | None:
        """The returned answer as text, with options the text of one; None if no answer could be read."""
        return None if self.answer is None else self.question.text_of(self.answer)

    @property
    def letter(self) -> str | None:
        """The letter of the returned option; None for an open question, and where no answer could be read."""
        return self.answer if self.question.options else None

    @property
    def confidence(self) -> float:
        """Probability in [0, 1] that `text` is correct, after labels if there are any; nan if it is unknown."""
        return self.label_free if self.labelled is None else self.labelled.confidence

    @property
    def low(self) -> float:
        """Lower end of the 90 % credible interval of `confidence`; nan if it was not computed."""
        return math.nan if self.labelled is None else self.labelled.low

    @property
    def high(self) -> float:
        """Upper end of the 90 % credible interval of `confidence`; nan if it was not computed."""
        return math.nan if self.labelled is None else self.labelled.high

    @property
    def candidates(self) -> tuple[tuple[str, float], ...]:
        """Possible answers with their probabilities before labels, the most probable first; empty without a posterior.

        The rest of 1 belongs to answers that are not listed; equal options share one entry.
        """
        posterior = self.posterior
        if posterior is None:
            return ()
        count = len(posterior.candidates) - posterior.none_last
        pairs = dict(zip(posterior.candidates[:count], posterior.probabilities, strict=False))
        return tuple(sorted(pairs.items(), key=lambda pair: -pair[1]))

    @property
    def accepted(self) -> bool | None:
        """Whether the confidence before labels reaches `accept`; None without a threshold, False without an answer.

        Labels do not move this confidence, so a threshold keeps its meaning when labels arrive.
        """
        return None if self.accept is None else self.answer is not None and self.label_free >= self.accept

    @property
    def given(self) -> bool:
        """Whether the answer was given to the model, which rated it, and not written by it."""
        return self.outcome == "given"

    @property
    def gated(self) -> bool:
        """Whether the gate looked at the entropy of the reply; it looks at whole answers of the model itself."""
        return self.outcome not in ("given", "field")

    def as_given(self) -> GivenAnswer:
        """Return the given answer that this record is about, with the rivals that came with it."""
        question, reply = self.question, self.reply
        if question.options:
            return GivenAnswer(question, question.named(reply.text), correct=self.correct)
        compared, p_true = self.evidence.candidates, self.evidence.p_true
        rivals: tuple[str, ...] = ()
        if compared is not None and compared.source.startswith("given"):
            rivals = compared.candidates[1 : 1 + int(re.findall(r"\d+", compared.source)[0])]
        elif p_true is not None and p_true.distractor_source.startswith("given"):
            rivals = p_true.candidates[1:]
        return GivenAnswer(question, reply.text, rivals, self.correct)

    @property
    def best_answer(self) -> str | None:
        """The most probable candidate, an option's letter or a text; the model's own answer without a posterior."""
        posterior = self.posterior
        if posterior is None or posterior.best == posterior.own:
            return self.reply.answer
        return self.question.letters[posterior.best] if self.question.options else posterior.candidates[posterior.best]

    @property
    def answer(self) -> str | None:
        """The returned answer: the model's own, or the most probable candidate if `answers_best`."""
        return self.best_answer if self.answers_best else self.reply.answer

    @property
    def label_free(self) -> float:
        """Probability that `answer` is right, without labels: by the posterior where there is one, else as stated."""
        if self.posterior is None:
            return self.reply.stated
        if self.answers_best:
            return self.posterior.probabilities[self.posterior.best]
        return self.reply.stated if self.posterior.confidence is None else self.posterior.confidence

    def _facts(self) -> dict[str, object]:
        """Return the facts that `repr` and a notebook show (`secl.display.Shown`)."""
        shown: dict[str, object] = {"text": self.text, "letter": self.letter, "confidence": self.confidence}
        shown |= {"low": self.low, "high": self.high, "candidates": self.candidates[:3]}
        judged = self.correct if self.label is None and self.answer == self.reply.answer else self.label
        shown |= {"accepted": self.accepted, "correct": judged}
        known = {name: value for name, value in shown.items() if value not in (None, ()) and value == value}  # no nan
        return {**known, "question": self.question.text}
