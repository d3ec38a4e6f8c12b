"""Requests about the candidates of a question: letters under further orders, and a verdict on each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from secl.backends.endpoint.chat import Pending
from secl.backends.endpoint.reading import VERDICTS, read_names
from secl.backends.open_answers import Distractors, Drawn
from secl.evidence import CandidateEvidence, EvidenceKind, LetterOrder, PTrue
from secl.prompts.templates import NONE_OF_THESE
from secl.question import LETTERS, Question
from secl.records import Purpose, Reply
from secl.writing import Written

EvidenceKinds = AbstractSet[EvidenceKind]


@dataclass
class Findings:
    """Findings about one question.

    Attributes:
        spent: tokens by purpose.
        plain_tokens: tokens of the answer and its confidence.
        requested: kinds of evidence that were asked for, with or without a result.
        reply: the model's answer, or the given answer.
        rivals: other answers that came with a given one.
        distractors: answers for normalised P(True) of an open answer; None before the search for them.
        drawn: further answers that an open answer is compared with; None if not asked for.
        p_true: P(True) of the candidates; None if not asked for, or unreadable.
        candidates: letters of the candidates; None if not asked for, or without anything to compare.
    """

    question: Question
    spent: dict[Purpose, float] = field(default_factory=dict)
    plain_tokens: float = 0.0
    requested: set[EvidenceKind] = field(default_factory=set)
    reply: Reply = field(init=False)
    rivals: Sequence[str] = ()
    distractors: Distractors | None = None
    drawn: Drawn | None = None
    p_true: PTrue | None = None
    candidates: CandidateEvidence | None = None

    def take(self, purpose: Purpose, pending: Pending) -> Written:
        """Wait for the answer to a request, and count its tokens."""
        written = pending.result()
        self.pay(purpose, written.length)
        return written

    def pay(self, purpose: Purpose, tokens: float) -> None:
        self.spent[purpose] = self.spent.get(purpose, 0.0) + tokens
        if purpose == "answering":
            self.plain_tokens += tokens

    @property
    def own(self) -> str:
        return self.question.text_of(str(self.reply.answer))


@dataclass(frozen=True)
class Probe:
    """Requests under way about the candidates of a question.

    Attributes:
        texts: the candidates.
        source: of the candidates, as in `secl.evidence.CandidateEvidence`.
        letters: by order of the candidates; None if not asked for.
        verdicts: for each candidate; empty if not asked for.
    """

    texts: Sequence[str]
    source: str
    letters: Mapping[tuple[int, ...], Pending] | None
    verdicts: Sequence[Pending]

    def read(self, findings: Findings) -> None:
        """Wait for the requests, and add their results."""
        if self.letters is not None:
            findings.candidates = self._read_letters(findings, self.letters)
        if self.verdicts:
            findings.p_true = self._read_verdicts(findings)

    def _read_letters(self, findings: Findings, pending: Mapping[tuple[int, ...], Pending]) -> CandidateEvidence:
        options = self.texts if findings.question.options else (*self.texts, NONE_OF_THESE)
        orders = []
        for order, each in pending.items():
            letters = read_names(findings.take("reordering", each).tokens, LETTERS[: len(options)])
            if letters.best is not None:
                log_p = tuple(letters.of(LETTERS[order.index(number)]) for number in range(len(options)))
                orders.append(LetterOrder(order=order, log_p=log_p))
        return CandidateEvidence(
            candidates=tuple(options),
            letters=tuple(orders),
            likelihoods=(None,) * len(options),  # chat APIs give no likelihood of a text
            samples=() if findings.drawn is None else findings.drawn.samples,
            source=self.source,
        )

    def _read_verdicts(self, findings: Findings) -> PTrue | None:
        """Return P(True) of the candidates with a readable verdict, the answer first; None without a verdict on it."""
        read: dict[str, tuple[float, float]] = {}
        for text, pending in zip(self.texts, self.verdicts, strict=True):
            verdict = read_names(findings.take("scoring", pending).tokens, VERDICTS)
            if verdict.best is not None:
                true, false = (math.exp(verdict.of(word)) for word in VERDICTS)
                read[text] = true, false
        if findings.own not in read:
            return None
        texts = [findings.own, *(text for text in read if text != findings.own)]
        return PTrue(
            candidates=tuple(texts),
            probabilities=tuple(read[text][0] for text in texts),
            false_probabilities=tuple(read[text][1] for text in texts),
            distractor_source=self.source,
        )
