"""The claims of a long answer: its sentences, each with a confidence of its own. One number on a page helps nobody."""

from __future__ import annotations

import re
from dataclasses import dataclass

from secl.errors import QuestionError
from secl.evidence import EvidenceKind
from secl.metrics.probability import averaged
from secl.model import Model
from secl.question import Question

MOST = 64
"""Most claims of an answer that are rated; each takes a pass of its own."""

EVIDENCE: tuple[EvidenceKind, ...] = ("candidates",)

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_MARK = re.compile(r"\s*(?:#{1,6}\s+|>\s?|[-*+•]\s+|\(?\d{1,3}[.)]\s+)+")
_END = re.compile(
    r"[.!?…。\uff01\uff1f]+[\"')\]*_\u201d\u2019]*(?=\s+[^\sa-z]|[。\uff01\uff1f]|$)|(?<=[。\uff01\uff1f])"
)
_ABBREVIATED = re.compile(r"(?:\b(?:[A-Z]|Dr|Mr|Mrs|Ms|Prof|St|No|vs|etc|cf|approx|e\.g|i\.e|z\.B|d\.h))\.$")


def claims_in(text: str) -> list[tuple[int, int]]:
    """Where the claims of a text begin and end: its sentences, without list marks, headings, code and questions.

    >>> text = "# Rome\\n1. Rome is a city, as Dr. Rossi says. It lies on the Tiber.\\n```\\nx = 1.\\n```\\nReally?"
    >>> [text[start:end] for start, end in claims_in(text)]
    ['Rome is a city, as Dr. Rossi says.', 'It lies on the Tiber.']
    """
    found: list[tuple[int, int]] = []
    begin, fenced = 0, False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith("#"):
            mark = _MARK.match(line)
            start = begin + (mark.end() if mark else 0)
            found += _sentences(text, start, begin + len(line.rstrip()))
        begin += len(line)
    return [claim for claim in found if _claims(text[slice(*claim)])]


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the sentences of a line begin and end."""
    found = []
    for match in _END.finditer(text, start, end):
        if not _ABBREVIATED.search(text, start, match.end()):
            found.append((start, match.end()))
            start = match.end()
    found.append((start, end))
    return [(first + len(text[first:last]) - len(text[first:last].lstrip()), last) for first, last in found]


def _claims(sentence: str) -> bool:
    """Whether a sentence can be right or wrong."""
    words = len(sentence.split()) > 1 or (not sentence.isascii() and len(sentence) > 4)  # not all scripts have spaces
    return words and not sentence.rstrip("\"')]*_\u201d\u2019").endswith(("?", ":"))


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer, and how sure the untouched model is of it.

    Attributes:
        start: where it begins in the text, in characters.
        end: where it ends.
        text: the sentence.
        confidence: probability that it is true, in [0, 1]; None where the model cannot read so much.
    """

    start: int
    end: int
    text: str
    confidence: float | None


def rate_claims(model: Model, question: Question, text: str) -> tuple[Claim, ...]:
    """How sure a model is of each sentence of an answer, its own or one from elsewhere.

    Each is put to the frozen model as a question of its own in place of the answer, to be answered by Yes or No, in
    both orders: the letters of a single order say more about the order than about the claim. The answer itself is not
    shown, because a model that sees it as its own says Yes to all of it.

    Args:
        model: rates.
        question: that the text answers.
        text: of which at most `MOST` claims are rated.
    """
    spans = claims_in(text)[:MOST]
    asked = [
        Question(
            f"{question.text}\nStatement: {text[start:end]}\nIs the statement true?",
            options=("Yes", "No"),
            context=question.context,
            system=question.system,
            history=question.history,
        )
        for start, end in spans
    ]
    try:
        model.prefetch(asked, [EVIDENCE] * len(asked), weights_fixed=True)
        rated = [_p_yes(model, each) for each in asked]
    except QuestionError:  # with options and a statement, the conversation is longer than the model can read
        rated = [None] * len(asked)
    return tuple(
        Claim(start, end, text[start:end], confidence) for (start, end), confidence in zip(spans, rated, strict=True)
    )


def _p_yes(model: Model, question: Question) -> float | None:
    reply = model.answer(question, evidence=EVIDENCE).frozen
    compared = model.compare_candidates(question, reply)
    if compared is None or not reply.option_log_p:
        return None
    yes, _no = averaged([reply.option_log_p, *(order.log_p for order in compared.letters)])
    return yes
