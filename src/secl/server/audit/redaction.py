"""What is stored of texts: everything, hashes, or nothing; numbers, option letters and domains are always stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from secl.evidence import Evidence
from secl.question import Question
from secl.records import Record, Reply

Keep = Literal["none", "hash", "full"]
"""What is stored of texts: nothing, a hash that tells equal texts from others, or the texts themselves."""

KEEPS: tuple[Keep, ...] = ("none", "hash", "full")

NOT_KEPT = "(not kept)"


def redacted(record: Record, keep: Keep) -> Record:
    """A record without the texts that may not be stored.

    Candidates that are equal stay equal, and others stay different, so that the posterior can be replayed.
    """
    if keep == "full":
        return record
    question, posterior = record.question, record.posterior
    options = tuple(_hidden(f"{i}. {option}", keep) for i, option in enumerate(question.options))
    hide = _numbered(record) if keep == "none" else lambda text: _hidden(text, keep)
    if posterior is not None:
        posterior = replace(posterior, candidates=tuple(map(hide, posterior.candidates)))
    return replace(
        record,
        question=Question(
            _hidden(question.text, keep),
            options,
            domain=question.domain,
            form=question.form,
            id=question.id,
            context=question.context and _hidden(question.context, keep),
            system=question.system and _hidden(question.system, keep),
            history=tuple(replace(turn, text=_hidden(turn.text, keep)) for turn in question.history),
        ),
        reply=record.reply if question.options else _redacted_reply(record.reply, keep),
        frozen=record.frozen if question.options else _redacted_reply(record.frozen, keep),
        evidence=_redacted_evidence(record.evidence, hide),
        posterior=posterior,
    )


def _redacted_evidence(evidence: Evidence, hide: Callable[[str], str]) -> Evidence:
    p_true, candidates = evidence.p_true, evidence.candidates
    if p_true is not None:
        p_true = replace(p_true, candidates=tuple(map(hide, p_true.candidates)))
    if candidates is not None:
        candidates = replace(candidates, candidates=tuple(map(hide, candidates.candidates)))
    return Evidence(p_true=p_true, candidates=candidates)


def _numbered(record: Record) -> Callable[[str], str]:
    """Names the candidates of a record by numbers, which tell no more than which of them are equal."""
    compared = (record.evidence.candidates, record.evidence.p_true, record.posterior)
    texts = [text for each in compared if each is not None for text in each.candidates]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}
    return lambda text: f"(candidate {numbers[text]}, not kept)"


def _redacted_reply(reply: Reply, keep: Keep) -> Reply:
    answer = None if reply.answer is None else _hidden(reply.answer, keep)
    return replace(reply, text=_hidden(reply.text, keep), answer=answer)


def _hidden(text: str, keep: Keep) -> str:
    return NOT_KEPT if keep == "none" else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
