"""The record of a question and its parts. Read this module after `secl.question`.

    question -> reply -> evidence -> posterior -> record, and with learning also decision -> update

A record of SmolLM2 under the method "posterior", shortened:

    position    28
    question    "What is the capital of Kenya?", options Praia, Mombasa, Maseru, Nairobi, reference "D"
    reply       answer "B", bins (0.12, 0.04, ..., 0.70), so stated 0.75; entropy 1.95 nats, version 0
    evidence    candidates: letters in two orders, likelihoods (`secl.evidence`)
    posterior   probabilities (0.01, 0.12, 0.04, 0.82), own 1, weights letters 0.0 and likelihood 0.5
    labelled    confidence 0.82, low 0.52, high 0.95, labels 0
    learning    None: this method has no gate and learns nothing
    correct     False, about the reply "B"; best_returned True, so `text` is "Nairobi" and `confidence` 0.82
    ledger      147 tokens for the answer, 37 for the second order, 32 for the likelihoods

All parts are frozen and hold plain Python values, so a record can be stored, compared and replayed without a model.
Probabilities lie in [0, 1], entropies are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from secl.display import Shown
from secl.evidence import CalibratedConfidence, Evidence, Posterior, Thought
from secl.ledger import Ledger
from secl.question import Question
from secl.writing import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer with the confidence that it states.

    Attributes:
        text: the answer as written, without the confidence line.
        answer: the option letter, the number, or the short text read from it; None if nothing could be read.
        bins: ten probabilities of the digits 0 to 9, renormalised to sum to 1; bin k stands for [k/10, (k+1)/10). Empty
            if no confidence was asked for; the stated confidence, entropy and digit_mass are then nan.
        digit_mass: probability of the ten digits together before renormalisation, in [0, 1]. A low mass means that the
            model expects a token other than a digit.
        entropy: mean full-vocabulary entropy over the known tokens of answer and confidence, in nats (H_t). For a
            field, sum of the entropies of its tokens, over the tokens that the schema allows; nan if unknown.
        log_probability: ln probability of all tokens of the answer, 0 or less; nan if unknown, for example if a model
            on a server rates a given answer.
        option_log_p: for each option, ln probability of its letter as the answer; empty for an open question.
        version: the adapter version that wrote the answer; 0 is the frozen model.
        prompt_tokens: number of tokens before the answer; None if not counted.
        answer_tokens: number of tokens of the answer, including the token that ends the answer; None if not counted.
        thought: the thought before the answer; None if the model answered at once.
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
    def written(self) -> Chunk:
        """The answer with the thought before it, as an argument of `secl.model.Model.answer`."""
        prompt, own = self.prompt_tokens or 0, self.answer_tokens or 0
        return Chunk(text=self.text, prompt_tokens=prompt, completion_tokens=own, whole_thought=self.thought)

    @property
    def stated(self) -> float:
        """Stated confidence, soft read-out (Eq. soft_conf): the expected bin centre, in [0.05, 0.95]."""
        if not self.bins:
            return math.nan
        # Exports have this number, and the rounding of the built-in sum changed in Python 3.12; fsum rounds once.
        return math.fsum(p * (k + 0.5) / 10 for k, p in enumerate(self.bins))

    @property
    def stated_hard(self) -> float:
        """Stated confidence, hard read-out: the centre of the most probable bin, or of the lower bin in a tie."""
        return (max(range(10), key=lambda k: self.bins[k]) + 0.5) / 10 if self.bins else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A gate's decision about one reply.

    Attributes:
        alarm: whether this question fired the gate.
        in_burst: whether this question belongs to a burst. A burst begins with the question that fires the gate.
        remaining: number of later questions in the burst.
        statistic: the gate's test statistic for this reply; None if the gate made no test.
    """

    alarm: bool = False
    in_burst: bool = False
    remaining: int = 0
    statistic: float | None = None


UNTESTED = Decision()
"""The decision without a test: during the warm-up, by a gate that never opens, and about a given answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One learning step on one question (three optimizer steps by default).

    Attributes:
        version: number of the new adapter version.
        before: stated confidence when the lesson began; in a run, the stated confidence of the record's reply.
        target: the confidence that the loss aims at (Eq. target).
        after: confidence of the same reply under the new version.
        losses: the loss before each optimizer step.
    """

    version: int
    before: float
    target: float
    after: float
    losses: tuple[float, ...]


LearningOutcome = Literal["idle", "agreed", "no_signal", "trained", "waiting", "dropped", "failed"]
"""What learning did with a question.

    idle       no lesson: outside bursts, or learning is off or paused
    agreed     no update, because stated confidence and signal are in the same or neighbouring bins
    no_signal  the evidence gives no signal
    trained    an update changed the weights
    waiting    a lesson may follow (between `Calibrator.answer` and `Calibrator.learn`, or in a server's backlog)
    dropped    a server's backlog was full, or learning was paused or rolled back
    failed     the update was taken back, because a number was not finite
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What the gate and learning did with a question.

    Attributes:
        frozen: reply of the frozen model to the same question.
        frozen_correct: whether `frozen` is right; None if not graded.
        decision: the gate's decision about the entropy of the record's reply.
        outcome: what learning did.
        update: present exactly when `outcome` is "trained".
    """

    frozen: Reply
    frozen_correct: bool | None
    decision: Decision = UNTESTED
    outcome: LearningOutcome = "idle"
    update: Update | None = None


RecordKind = Literal["asked", "given", "field", "fact"]
"""What a record is about.

    asked      the model answered a question
    given      the answer came from elsewhere, and the model rated it (`Calibrator.rate_window`)
    field      the answer is a field of an object or a part of a tool call (`Calibrator.weigh`)
    fact       the answer is a value in a text (`Record.facts`)
"""


ConfidenceSource = Literal["stated", "posterior"]
"""The source of a confidence before labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidences:
    """The confidences of one answer, as probabilities in [0, 1]; nan if unknown.

    Attributes:
        calibrated: the confidence to use: `uncalibrated`, moved by labels if any exist; nan without a readable answer.
        uncalibrated: the confidence before labels: `posterior`, or `stated` without it.
        posterior: the posterior's probability of the returned answer.
        stated: the confidence that the model states in its own answer, which may differ from the returned answer.
    """

    calibrated: float
    uncalibrated: float
    posterior: float
    stated: float

    @property
    def source(self) -> ConfidenceSource:
        """Source of `uncalibrated`."""
        return "stated" if math.isnan(self.posterior) and not math.isnan(self.uncalibrated) else "posterior"

    @property
    def expected_grade(self) -> float:
        """Probability that the returned answer is graded as right: `calibrated`, or 0 for an unreadable answer."""
        return 0.0 if math.isnan(self.calibrated) else self.calibrated


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Record(Shown):
    """Everything known about one question of a stream, enough to explain its confidence later.

    Attributes:
        position: number of the question in the stream, from 0.
        kind: what the record is about.
        question: the question as asked.
        reply: reply of the model with its present weights; its confidence never depends on this question's own update.
        evidence: evidence of the frozen model about the answers to the question.
        posterior: probabilities of the candidates; None if not computed.
        best_returned: whether secl returns the most probable candidate instead of the model's own answer.
        labelled: the confidence calibrated by labels; None if not computed.
        threshold: lowest accepted `Confidences.uncalibrated`, which labels do not move; None without a threshold.
        signal: the training signal, by default normalised P(True) of the answer (Eq. normp); None without usable
            evidence.
        learning: None if the method has no gate and the weights are those of the frozen model, as by default.
        correct: whether `reply` is right; None if not graded.
        facts: a record for each value in a free text that can be right or wrong, in order; None for other answers. The
            question of such a record is the sentence of the value with a gap, its domain is the kind of the value.
        fact: number of a fact in its text, from 1; 0 for other records.
        span: start and end of a fact in its text, in characters; None for other records.
        in_passage: whether a fact stands in the question's passage word by word; None without a passage.
        label: whether a label says that `answer` is correct (`with_label`); None without a label. A label overrides a
            reference. Stored records have None, because secl stores labels in a separate log.
        correct_answer: the right answer that a person gave with the label; None if unknown.
        ledger: tokens through the network for this question.
        plain_tokens: tokens of one plain answering pass, the unit of cost.
    """

    position: int
    kind: RecordKind = "asked"
    question: Question
    reply: Reply
    evidence: Evidence
    posterior: Posterior | None = None
    best_returned: bool = False
    labelled: CalibratedConfidence | None = None
    threshold: float | None = None
    signal: float | None = None
    learning: Learning | None = None
    correct: bool | None
    label: bool | None = None
    correct_answer: str | None = None
    facts: tuple[Record, ...] | None = None
    fact: int = 0
    span: tuple[int, int] | None = None
    in_passage: bool | None = None
    ledger: Ledger
    plain_tokens: float

    @property
    def key(self) -> tuple[int, int]:
        """Position, and number of the fact: what a label names (`secl.labels.label.Label.key`)."""
        return self.position, self.fact

    def with_label(self, correct: bool, correct_answer: str | None = None) -> Record:
        """Return the record with a label of `answer`. The label also grades the replies that give this answer."""
        own, frozen = self.reply.answer == self.answer, self.frozen.answer == self.answer
        graded = self.with_grades(correct if own else self.correct, correct if frozen else self.frozen_correct)
        return replace(graded, label=correct, correct_answer=correct_answer)

    def with_grades(self, correct: bool | None, frozen_correct: bool | None) -> Record:
        """Return the record with other grades of `reply` and of `frozen`."""
        learning = self.learning and replace(self.learning, frozen_correct=frozen_correct)
        return replace(self, correct=correct, learning=learning)

    @property
    def frozen(self) -> Reply:
        """Reply of the frozen model: `reply`, unless learning has changed the weights."""
        return self.reply if self.learning is None else self.learning.frozen

    @property
    def frozen_correct(self) -> bool | None:
        """Whether `frozen` is right; None if not graded."""
        return self.correct if self.learning is None else self.learning.frozen_correct

    @property
    def decision(self) -> Decision:
        """The gate's decision about the question; `UNTESTED` without a gate."""
        return UNTESTED if self.learning is None else self.learning.decision

    @property
    def outcome(self) -> LearningOutcome | None:
        """What learning did with the question; None without a gate."""
        return None if self.learning is None else self.learning.outcome

    @property
    def update(self) -> Update | None:
        """The update after the question; None without an update."""
        return None if self.learning is None else self.learning.update

    @property
    def text(self) -> str | None:
        """The returned answer as text, such as an option's text; None if no answer could be read."""
        return None if self.answer is None else self.question.text_of(self.answer)

    @property
    def letter(self) -> str | None:
        """The letter of the returned option; None for an open question, or if no answer could be read."""
        return self.answer if self.question.options else None

    @property
    def confidence(self) -> float:
        """Probability in [0, 1] that `text` is correct, calibrated by labels if any exist; nan without a `text`."""
        return self.confidences.calibrated

    @property
    def confidences(self) -> Confidences:
        """The confidence with its origins: before labels, by the posterior, and as stated.

        A text that is not compared as a whole is right if all its facts are right. Their errors count as independent.
        Without facts, nothing can be right or wrong, and the confidence is nan.
        """
        posterior, stated = self.posterior, self.reply.stated
        if self.parts is not None:
            return _all_right([fact.confidences for fact in self.parts], stated)
        weighed = math.nan
        if posterior is not None and self.best_returned:
            weighed = posterior.probabilities[posterior.best]
        elif posterior is not None and posterior.own is not None:
            weighed = posterior.probabilities[posterior.own]
        uncalibrated = stated if math.isnan(weighed) else weighed
        calibrated = uncalibrated if self.labelled is None else self.labelled.calibrated
        return Confidences(
            calibrated=math.nan if self.answer is None else calibrated,
            uncalibrated=uncalibrated,
            posterior=weighed,
            stated=stated,
        )

    @property
    def parts(self) -> tuple[Record, ...] | None:
        """The facts of a text that is not compared as a whole; None for other answers."""
        return self.facts if self.posterior is None else None

    @property
    def support(self) -> float:
        """Nats by which the passage makes a fact more probable: ln P(fact with the passage) - ln P(without).

        nan for other records, without a passage, and if a server does not report likelihoods.
        """
        compared = self.evidence.candidates
        likelihood = None if compared is None or self.kind != "fact" else compared.likelihoods[0]
        return math.nan if likelihood is None else likelihood.pmi

    @property
    def low(self) -> float:
        """Lower bound of the 90 % interval of `confidence` (`CalibratedConfidence.low`); nan if not computed."""
        return math.nan if self.labelled is None or self.answer is None else self.labelled.low

    @property
    def high(self) -> float:
        """Upper bound of the 90 % interval of `confidence` (`CalibratedConfidence.high`); nan if not computed."""
        return math.nan if self.labelled is None or self.answer is None else self.labelled.high

    @property
    def candidates(self) -> tuple[tuple[str, float], ...]:
        """Possible answers with their probabilities before labels, the most probable first; empty without a posterior.

        The remaining probability belongs to unlisted answers. Equal options share one entry.
        """
        posterior = self.posterior
        if posterior is None:
            return ()
        count = len(posterior.candidates) - posterior.none_last
        pairs = dict(zip(posterior.candidates[:count], posterior.probabilities, strict=False))
        return tuple(sorted(pairs.items(), key=lambda pair: -pair[1]))

    @property
    def accept(self) -> float | None:
        """Lowest accepted confidence, on the scale of `confidence`; None without a threshold.

        If labels move the confidences of a domain, `accept` moves with these, and `accepted` stays. A text that is not
        compared as a whole has the highest threshold of its facts, and None without facts.
        """
        if self.parts is not None:
            return max((fact.accept for fact in self.parts if fact.accept is not None), default=None)
        moved = None if self.labelled is None else self.labelled.accept
        return self.threshold if moved is None else moved

    @property
    def accepted(self) -> bool | None:
        """Whether `confidence` reaches `accept`; None if `accept` is None, False without an answer.

        A text that is not compared as a whole is accepted if each of its facts is.
        """
        if self.threshold is None:
            return None
        if self.parts is not None:
            return all(fact.accepted for fact in self.parts) if self.parts else None
        return self.answer is not None and self.confidences.uncalibrated >= self.threshold

    @property
    def best_answer(self) -> str | None:
        """The most probable candidate, as a letter or a text; without a posterior, the model's own answer."""
        posterior = self.posterior
        if posterior is None or posterior.best == posterior.own:
            return self.reply.answer
        return self.question.letters[posterior.best] if self.question.options else posterior.candidates[posterior.best]

    @property
    def answer(self) -> str | None:
        """The returned answer: the model's own, or the most probable candidate if `best_returned`."""
        return self.best_answer if self.best_returned else self.reply.answer

    def _facts(self) -> dict[str, object]:
        shown: dict[str, object] = {"text": self.text, "letter": self.letter, "confidence": self.confidence}
        shown |= {"low": self.low, "high": self.high, "candidates": self.candidates[:3]}
        judged = self.correct if self.label is None and self.answer == self.reply.answer else self.label
        shown |= {"accepted": self.accepted, "correct": judged}
        known = {name: value for name, value in shown.items() if value not in (None, ()) and value == value}  # no nan
        return {**known, "question": self.question.text}


def _all_right(facts: Sequence[Confidences], stated: float) -> Confidences:
    """Return the probabilities that all facts are right; nan without facts."""
    if not facts:
        return Confidences(calibrated=math.nan, uncalibrated=math.nan, posterior=math.nan, stated=stated)
    whole = math.prod(each.uncalibrated for each in facts)
    calibrated = math.prod(each.calibrated for each in facts)
    return Confidences(calibrated=calibrated, uncalibrated=whole, posterior=whole, stated=stated)


def answers_in(records: Iterable[Record]) -> list[Record]:
    """Return what can be right or wrong: the records, with the facts in place of texts that are not compared whole."""
    return [each for record in records for each in ([record] if record.parts is None else record.parts)]


def noun_of(answers: Sequence[Record]) -> str:
    """Return "fact" if all answers are facts of texts, else "answer"."""
    return "fact" if answers and all(answer.kind == "fact" for answer in answers) else "answer"


def main_source(records: Sequence[Record]) -> ConfidenceSource:
    """Return the most frequent source of the confidences of records."""
    stated = sum(record.confidences.source == "stated" for record in records)
    return "stated" if 2 * stated >= len(records) else "posterior"
