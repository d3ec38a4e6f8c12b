"""Records of the facts of a text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from secl.evidence import CandidateEvidence, Evidence, FactEvidence, Likelihood, Source
from secl.ledger import Ledger
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question
from secl.records import Record, Reply

GAP_MARK = "____"
"""Text in place of a value in the question about the value."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def facts_of(record: Record) -> Iterator[Record]:
    """Yield a record for each fact in `Evidence.facts` of a text's record; `Record.posterior` is still missing."""
    text = record.reply.answer or ""
    for number, fact in enumerate(record.evidence.facts or (), 1):
        value = text[fact.start : fact.end]
        yield Record(
            position=record.position,
            kind="fact",
            question=_question(record.question, text, fact, number),
            reply=Reply(
                text=value,
                answer=value,
                bins=(),
                digit_mass=math.nan,
                entropy=math.nan,
                log_probability=fact.log_p,
                version=record.reply.version,
            ),
            evidence=Evidence(candidates=_candidates(value, fact)),
            threshold=record.threshold,
            correct=None,
            fact=number,
            span=(fact.start, fact.end),
            in_passage=fact.in_passage,
            ledger=Ledger(),
            plain_tokens=0.0,
        )


def _question(asked: Question, text: str, fact: FactEvidence, number: int) -> Question:
    """Return the sentence of a fact, with a gap in place of the fact, as a question."""
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    start = max(end for end in ends if end <= fact.start)
    end = min(end for end in ends if end >= fact.end)
    sentence = f"{text[start : fact.start]}{GAP_MARK}{text[fact.end : end]}".strip()
    return Question(sentence, id=f"{asked.id}/{number}", domain=fact.kind, form="short")


def _candidates(value: str, fact: FactEvidence) -> CandidateEvidence | None:
    if math.isnan(fact.log_p):
        return None
    # The difference of both is that of the passage, for the same tokens.
    alone = fact.value + fact.alone - fact.log_p
    likelihood = Likelihood(given=fact.value, alone=alone, tokens=fact.tokens)
    others = tuple(Likelihood(given=log_p, alone=math.nan, tokens=0) for _, log_p in fact.others)
    return CandidateEvidence(
        candidates=(value, *(text for text, _ in fact.others), NONE_OF_THESE),
        letters=(),
        likelihoods=(likelihood, *others, None),
        source=Source("facts"),
    )


def expected_wrong(facts: Sequence[Record]) -> float:
    """Return the expected number of wrong facts; nan if a confidence is unknown.

    A labelled fact counts as its label says.
    """
    return math.fsum(1 - fact.confidence if fact.label is None else not fact.label for fact in facts)
