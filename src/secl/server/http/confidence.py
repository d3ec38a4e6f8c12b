"""The object `secl` of a reply: how sure the model is of its answer, and why."""

from __future__ import annotations

from pydantic import BaseModel

from secl.evaluation.reason import Code
from secl.evaluation.trust import Level
from secl.reports.answers import Source, source_of
from secl.server.audit.entries import record_id
from secl.server.online.requests import Answer


class Candidate(BaseModel):
    """A possible answer, and the probability that it is right."""

    text: str
    probability: float


class Secl(BaseModel):
    """How sure the model is of its answer.

    confidence: probability that the answer is right, in [0, 1]. source: where it comes from; "stated" is the expected
    centre of the ten bins, in [0.05, 0.95], "posterior" combines what the frozen model shows about all candidates.
    low, high: the band that the right confidence lies in with a probability of 0.9. labels: how many answers people had
    rated by then; label_free: the confidence without them.
    remark: what one must know to read it, in a sentence. informed: false where the model shows no sign of knowing the
    answers to such questions. own_answer, own_confidence: the model's own answer, and the probability that it is right.
    best_answer, best_confidence: the most probable candidate. candidates: all of them. These are null without a
    posterior, except own_answer. stated_confidence: what the model states. bins: probability of the stated digits 0 to
    9, which sum to 1; digit_mass: that of all ten before they were made to. frozen_confidence: stated by the model that
    never learned. entropy: of the reply, in nats. adapter_version: that computed all of the reply. adapting: whether a
    burst of learning is on. record_id: to ask for the record and to send feedback; null where the disk refused (then
    stored is false). accepted: whether the confidence reaches the server's threshold, `accept`, and the answer could be
    read; both are null on a server without one. verdict: whether the confidences of the latest answers may be acted on;
    warnings: codes of what speaks against it (GET /v1/state has the sentences).
    """

    confidence: float
    accepted: bool | None = None
    accept: float | None = None
    source: Source = "stated"
    low: float | None = None
    high: float | None = None
    labels: int = 0
    label_free: float | None = None
    remark: str | None = None
    informed: bool | None = None
    own_answer: str | None
    own_confidence: float | None = None
    best_answer: str | None = None
    best_confidence: float | None = None
    candidates: list[Candidate] | None = None
    stated_confidence: float
    bins: list[float]
    digit_mass: float | None
    frozen_confidence: float
    entropy: float | None
    adapter_version: int
    adapting: bool
    record_id: str | None
    stored: bool
    verdict: Level | None = None
    warnings: list[Code] = []


def secl_of(answer: Answer) -> Secl:
    """The object with the confidence."""
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
        accepted=None if record.abstained is None else not record.abstained,
        accept=record.accept,
        source=source_of(record),
        low=None if labelled is None else labelled.low,
        high=None if labelled is None else labelled.high,
        labels=0 if labelled is None else labelled.labels,
        label_free=record.label_free,
        remark=answer.remark,
        informed=None if posterior is None else posterior.informed,
        own_answer=reply.answer,
        own_confidence=None if posterior is None else posterior.confidence,
        best_answer=None if posterior is None else record.best_answer,
        best_confidence=None if posterior is None else posterior.probabilities[posterior.best],
        candidates=weighed,
        stated_confidence=reply.confidence,
        bins=list(reply.bins),
        digit_mass=reply.digit_mass,
        frozen_confidence=record.frozen.confidence,
        entropy=reply.entropy,
        adapter_version=reply.version,
        adapting=record.decision.in_burst,
        record_id=record_id(record.position) if answer.stored else None,
        stored=answer.stored,
        verdict=None if answer.verdict is None else answer.verdict.level,
        warnings=[] if answer.verdict is None else list(answer.verdict.warnings),
    )
