"""The object `secl` of a reply: how sure the model is of its answer, and why; and the replies that hold little else."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import BaseModel

from secl.evaluation.json_values import defined
from secl.evaluation.reason import Code
from secl.evaluation.symptoms import Source
from secl.evaluation.trust import Level
from secl.posterior.views import pmi_of
from secl.reports.answers import source_of
from secl.server.entries import record_id
from secl.server.online.queue import Answer


class Candidate(BaseModel):
    """A possible answer, and the probability that it is right."""

    text: str
    probability: float


class Secl(BaseModel):
    """How sure the model is of its answer; the best number that there is, and those that it was made of.

    confidence: probability that the answer is right, in [0, 1]. source: where it comes from; "stated" by the model (the
    expected centre of the ten bins, in [0.05, 0.95]) or "posterior": what the frozen model shows about all candidates.
    low, high: the band that the right confidence lies in with a probability of 0.9. labels: how many answers people had
    rated by then; label_free: the confidence without them. stated: what the model states; frozen: what the model that
    never learned states.
    remark: what one must know to read it, in a sentence. own_answer, own_confidence: the model's own answer, and the
    probability that it is right. best_answer, best_confidence: the most probable candidate. candidates: all of them.
    These are null without a posterior, except own_answer, which is null where it is a text, too.
    bins: probability of the stated digits 0 to 9, which sum to 1; digit_mass: that of all ten before they were made to.
    entropy: of the reply, in nats. adapter_version: that computed all of the reply. adapting: whether a burst of
    learning is on. cost: tokens that went through the network for the answer and its confidence, by purpose; a text is
    written at no cost in this sense, because usage counts it. record_id: to ask for the record and to send feedback;
    null where the disk refused (then stored is false). accepted: whether the confidence reaches the server's threshold,
    `accept`, and the answer could be read; both are null on a server without one. verdict: whether the confidences of
    the latest answers may be acted on; warnings: codes of what speaks against it (GET /v1/state has the sentences).
    """

    confidence: float
    source: Source
    low: float | None = None
    high: float | None = None
    labels: int = 0
    label_free: float | None = None
    stated: float
    frozen: float
    remark: str | None = None
    own_answer: str | None
    own_confidence: float | None = None
    best_answer: str | None = None
    best_confidence: float | None = None
    candidates: list[Candidate] | None = None
    bins: list[float]
    digit_mass: float | None
    entropy: float | None
    adapter_version: int
    adapting: bool
    cost: dict[str, float]
    record_id: str | None
    stored: bool
    accepted: bool | None = None
    accept: float | None = None
    verdict: Level | None = None
    warnings: list[Code] = []


class NoConfidence(BaseModel):
    """In place of a confidence that takes longer than its stream, or that the request does not want.

    confidence: null. record_id: to ask for the record, which has the confidence as soon as it is known; null where none
    is wanted, because there is no record then. remark: that in a sentence.
    """

    confidence: None = None
    record_id: str | None
    remark: str


UNWANTED = NoConfidence(record_id=None, remark="the request wants no confidence, so nothing is recorded.")


def later(name: str) -> NoConfidence:
    """In place of the confidence of an answer whose record can be asked for by this name."""
    return NoConfidence(
        record_id=name, remark=f"the confidence takes longer than the text; GET /v1/records/{name} will have it."
    )


def secl_of(answer: Answer) -> Secl:
    """The object with the confidence of an answer."""
    record, reply = answer.record, answer.record.reply
    posterior, labelled = record.posterior, record.labelled
    weighed = None
    if posterior is not None:
        weighed = [
            Candidate(text=text, probability=probability)
            for text, probability in zip(posterior.candidates, posterior.probabilities, strict=True)
        ]
    return Secl(
        confidence=record.confidence,
        source=source_of(record),
        low=None if labelled is None else labelled.low,
        high=None if labelled is None else labelled.high,
        labels=0 if labelled is None else labelled.labels,
        label_free=record.label_free,
        stated=reply.stated,
        frozen=record.frozen.stated,
        remark=answer.remark,
        own_answer=None if record.question.free else reply.answer,
        own_confidence=None if posterior is None else posterior.confidence,
        best_answer=None if posterior is None else record.best_answer,
        best_confidence=None if posterior is None else posterior.probabilities[posterior.best],
        candidates=weighed,
        bins=list(reply.bins),
        digit_mass=reply.digit_mass,
        entropy=reply.entropy,
        adapter_version=reply.version,
        adapting=record.decision.in_burst,
        cost={purpose: tokens for purpose, tokens in asdict(record.ledger).items() if tokens},
        record_id=record_id(record.position) if answer.stored else None,
        stored=answer.stored,
        accepted=record.accepted,
        accept=record.accept,
        verdict=None if answer.verdict is None else answer.verdict.level,
        warnings=[] if answer.verdict is None else list(answer.verdict.warnings),
    )


class AskReply(BaseModel):
    """An answer (an option letter, or a text; null where the model's words could not be read) and its confidence.

    `text` is the model's own answer as it wrote it. The answer is that, unless the server answers with the most
    probable candidate.
    """

    answer: str | None
    option_text: str | None
    text: str
    secl: Secl


class ScoreReply(BaseModel):
    """What the model thinks of the answer.

    answer: an option's letter, or the text. p_true: probability that the model calls it true when asked, in [0, 1].
    log_probability: natural logarithm of that of its words as this model's own. pmi: nats by which the question makes
    the answer more probable; null where it is compared with nothing. secl: as for the model's own answers; in it "own"
    stands for the given answer.
    """

    answer: str
    option_text: str | None
    p_true: float | None
    log_probability: float | None
    pmi: float | None
    secl: Secl


def ask_reply(answer: Answer) -> AskReply:
    """The reply to a plain question."""
    record = answer.record
    question, chosen = record.question, record.answer
    option = question.option(chosen) if question.options and chosen is not None else None
    return AskReply(answer=chosen, option_text=option, text=record.reply.text.strip(), secl=secl_of(answer))


def score_reply(result: Answer) -> ScoreReply:
    """The reply to a request for a rating."""
    record = result.record
    question, reply, p_true = record.question, record.reply, record.evidence.p_true
    return ScoreReply(
        answer=reply.text,
        option_text=question.option(reply.text) if question.options else None,
        p_true=None if p_true is None else p_true.probabilities[0],
        log_probability=defined(reply.log_probability),
        pmi=defined(pmi_of(question, reply, record.evidence)),
        secl=secl_of(result),
    )
