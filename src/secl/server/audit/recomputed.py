"""A reply that was computed again, beside the stored one: whether it is the same, and how far its numbers are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from secl.evidence import CandidateEvidence, Sample
from secl.model import ModelAnswer
from secl.records import Record, Reply
from secl.server.audit.closeness import NATS, furthest

BYTES = 4
"""Bytes of a token of text, where nobody counted the tokens."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a model says now: its answer, and the evidence that the server gathered in the same pass."""

    answer: ModelAnswer
    candidates: CandidateEvidence | None

    def is_reply_of(self, record: Record) -> bool:
        """Whether both replies are the same to the last digit; how many tokens were counted makes no difference."""
        pairs = ((self.answer.reply, record.reply), (self.answer.frozen, record.frozen))
        return all(furthest(_uncounted(now), _uncounted(then)) == 0 for now, then in pairs)

    def is_same(self, record: Record) -> bool:
        """Whether replies and evidence are the same to the last digit."""
        return self.is_reply_of(record) and furthest(self.candidates, record.evidence.candidates) == 0

    def distance(self, record: Record) -> float:
        """Largest difference of a probability, logarithms and entropies by `NATS`; infinity where a word differs."""
        pairs = ((self.answer.reply, record.reply), (self.answer.frozen, record.frozen))
        replies = max(furthest(_measured(now, then), _measured(then, then)) for now, then in pairs)
        now, then = self.candidates, record.evidence.candidates
        if now is None or then is None:
            return replies if now is then else math.inf
        return max(replies, furthest(_compared(now), _compared(then)))

    def unsettled(self, record: Record, tolerance: float) -> str | None:
        """Why rounding leaves open whether it agrees, in one sentence; None where it does not.

        Args:
            record: with the stored reply.
            tolerance: of its probabilities.
        """
        now, then = self.candidates, record.evidence.candidates
        redrawn = now is not None and then is not None and now.samples != then.samples
        if redrawn and replace(self, candidates=then).distance(record) <= tolerance:
            return "the model draws other answers now, by a close choice between words; the reply itself agrees"
        letters = record.reply.option_log_p
        if letters and self.answer.reply.text != record.reply.text:
            best, second = sorted(map(math.exp, letters), reverse=True)[:2]
            if best - second <= 2 * tolerance:
                return "the model gives another letter now, and its best two are closer together than rounding"
        return None


def _uncounted(reply: Reply) -> Reply:
    """A reply without its numbers of tokens: a text that is read again was not written."""
    return replace(reply, prompt_tokens=None, answer_tokens=None)


def _measured(reply: Reply, stored: Reply) -> tuple[object, ...]:
    """What a reply says, with its numbers on the scale of probabilities; the stored one says how many tokens it has."""
    tokens = stored.answer_tokens or max(1, len(stored.text.encode()) // BYTES)
    return (
        reply.text,
        reply.answer,
        reply.version,
        reply.confidence,
        reply.bins,
        reply.digit_mass,
        reply.entropy / NATS,
        reply.log_probability / (NATS * tokens),
        tuple(map(math.exp, reply.option_log_p)),
    )


def _compared(evidence: CandidateEvidence) -> tuple[object, ...]:
    """The same of the evidence about candidates."""
    letters = [(order.order, tuple(map(math.exp, order.log_p))) for order in evidence.letters]
    likely = [
        None if each is None else (each.given / (NATS * each.tokens), each.alone / (NATS * each.tokens), each.tokens)
        for each in evidence.likelihoods
    ]
    drawn = [(each.text, each.candidate, _per_token(each)) for each in evidence.samples]
    return (evidence.candidates, evidence.source, letters, likely, drawn)


def _per_token(sample: Sample) -> float | None:
    tokens = max(1, len((sample.text or "").encode()) // BYTES)
    return None if sample.log_p is None else sample.log_p / (NATS * tokens)
