"""Redaction of records for servers that keep no texts; numbers, option letters and domains remain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from secl.evidence import Evidence, Thought
from secl.question import Question
from secl.records import Record, Reply

Keep = Literal["none", "full"]
"""Whether texts are stored."""

NOT_KEPT, ANOTHER = "(not kept)", "(another one, not kept)"
"""Replacements of a text, and of an answer of the frozen model that differs from the reply's."""


def redacted(record: Record, keep: Keep) -> Record:
    """Return a record without the texts that may not be stored; equal candidates become equal numbers."""
    if keep == "full":
        return record
    question, posterior, number = record.question, record.posterior, _numbered(record)
    if posterior is not None:
        posterior = replace(posterior, candidates=tuple(map(number, posterior.candidates)))
    reply, frozen = (replace(each, thought=_redacted_thought(each.thought)) for each in (record.reply, record.frozen))
    if not question.options:
        frozen = _redacted_reply(frozen, NOT_KEPT if frozen.answer == reply.answer else ANOTHER)
        reply = _redacted_reply(reply, NOT_KEPT)
    return replace(
        record,
        question=Question(
            NOT_KEPT,
            (NOT_KEPT,) * len(question.options),
            domain=question.domain,
            form=question.form,
            id=question.id.partition("/")[2] if record.outcome == "field" else question.id,  # else a digest of the text
            context=question.context and NOT_KEPT,
            system=question.system and NOT_KEPT,
            history=tuple(replace(turn, text=NOT_KEPT, calls=()) for turn in question.history),
        ),
        reply=reply,
        frozen=frozen,
        evidence=_redacted_evidence(record.evidence, number),
        posterior=posterior,
    )


def _numbered(record: Record) -> Callable[[str], str]:
    """Return a function that replaces a record's candidates by numbers, and equal candidates by equal numbers."""
    compared = (record.evidence.candidates, record.evidence.p_true, record.posterior)
    texts = [text for each in compared if each is not None for text in each.candidates]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}
    return lambda text: f"(candidate {numbers[text]}, not kept)"


def _redacted_evidence(evidence: Evidence, number: Callable[[str], str]) -> Evidence:
    p_true, candidates = evidence.p_true, evidence.candidates
    if p_true is not None:
        p_true = replace(p_true, candidates=tuple(map(number, p_true.candidates)))
    if candidates is not None:
        candidates = replace(
            candidates,
            candidates=tuple(map(number, candidates.candidates)),
            letters=tuple(replace(each, thought=_redacted_thought(each.thought)) for each in candidates.letters),
            samples=tuple(
                replace(each, text=each.text and NOT_KEPT, thought=_redacted_thought(each.thought))
                for each in candidates.samples
            ),
            words=candidates.words or tuple(len(each.split()) for each in candidates.candidates),
        )
    return Evidence(p_true=p_true, candidates=candidates)


def _redacted_thought(thought: Thought | None) -> Thought | None:
    return None if thought is None else replace(thought, text=None)


def _redacted_reply(reply: Reply, answer: str) -> Reply:
    return replace(reply, text=NOT_KEPT, answer=None if reply.answer is None else answer)
