"""What is stored of texts: everything, hashes, or nothing; numbers and option letters are always stored."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Literal

from secl.records import PTrue, Question, Record, Reply

Keep = Literal["none", "hash", "full"]
"""What is stored of texts: nothing, a hash that tells equal texts from others, or the texts themselves."""

KEEPS: tuple[Keep, ...] = ("none", "hash", "full")

NOT_KEPT = "(not kept)"


def redacted(record: Record, keep: Keep) -> Record:
    """A record without the texts that may not be stored."""
    if keep == "full":
        return record
    question, p_true = record.question, record.evidence.p_true
    options = tuple(_hidden(f"{i}. {option}", keep) for i, option in enumerate(question.options))
    if p_true is not None:
        p_true = PTrue(
            candidates=tuple(_hidden(candidate, keep) for candidate in p_true.candidates),
            probabilities=p_true.probabilities,
            distractor_source=p_true.distractor_source,
        )
    return replace(
        record,
        question=Question(_hidden(question.text, keep), options, form=question.form, id=question.id),
        reply=record.reply if question.options else _redacted_reply(record.reply, keep),
        frozen=record.frozen if question.options else _redacted_reply(record.frozen, keep),
        evidence=replace(record.evidence, p_true=p_true, samples=None, dinco=None),
    )


def _redacted_reply(reply: Reply, keep: Keep) -> Reply:
    answer = None if reply.answer is None else _hidden(reply.answer, keep)
    return replace(reply, text=_hidden(reply.text, keep), answer=answer)


def _hidden(text: str, keep: Keep) -> str:
    return NOT_KEPT if keep == "none" else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
