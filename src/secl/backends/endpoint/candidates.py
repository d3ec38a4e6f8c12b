"""Answer to one question, with letters and verdicts about the candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from secl.backends.endpoint.chat import Pending
from secl.backends.endpoint.names import VERDICTS, read_names
from secl.evidence import CandidateEvidence, EvidenceKind, LetterOrder, PTrue, Source
from secl.ledger import Purpose
from secl.question import LETTERS, Question
from secl.records import Reply
from secl.writing import Piece

EvidenceKinds = AbstractSet[EvidenceKind]


@dataclass
class Findings:
    """Answer to one question, and evidence about its candidates.

    Attributes:
        spent: number of tokens by purpose.
        plain_tokens: number of tokens of answer and confidence.
        requested: kinds of evidence that secl has requested, even if the result is missing.
        reply: the model's answer, or the given answer.
        rivals: other answers to compare a given answer with.
        drawn: further answers of the model to an open question, without letters.
        p_true: P(True) of the candidates; None if not requested or not readable.
        candidates: letters of the candidates; None if not requested, or if the question has no candidates.
    """

    question: Question
    spent: dict[Purpose, float] = field(default_factory=dict)
    plain_tokens: float = 0.0
    requested: set[EvidenceKind] = field(default_factory=set)
    reply: Reply = field(init=False)
    rivals: Sequence[str] = ()
    drawn: CandidateEvidence | None = None
    p_true: PTrue | None = None
    candidates: CandidateEvidence | None = None

    def take(self, purpose: Purpose, pending: Pending) -> Piece:
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

    def read_letters(
        self, options: Sequence[str], pending: Sequence[tuple[tuple[int, ...], Pending]], source: Source
    ) -> CandidateEvidence:
        """Wait for the letters under each order of the options; leave out orders without a readable letter."""
        orders = []
        for order, each in pending:
            written = self.take("reordering", each)
            letters = read_names(written.tokens, LETTERS[: len(options)])
            if letters is not None and letters.best is not None:
                log_p = tuple(letters.of(LETTERS[order.index(number)]) for number in range(len(options)))
                orders.append(LetterOrder(order=order, log_p=log_p, thought=written.whole_thought))
        return CandidateEvidence(
            candidates=tuple(options),
            letters=tuple(orders),
            likelihoods=(None,) * len(options),  # chat APIs give no likelihood of a text
            samples=() if self.drawn is None else self.drawn.samples,
            source=source,
        )

    def read_verdicts(self, texts: Sequence[str], pending: Sequence[Pending], source: Source) -> PTrue | None:
        """Wait for verdicts, and return P(True) of the texts with a readable verdict.

        Return None if the answer has no readable verdict.
        """
        read: dict[str, tuple[float, float]] = {}
        for text, each in zip(texts, pending, strict=True):
            verdict = read_names(self.take("scoring", each).tokens, VERDICTS)
            if verdict is not None and verdict.best is not None:
                true, false = (math.exp(verdict.of(word)) for word in VERDICTS)
                read[text] = true, false
        if self.own not in read:
            return None
        read = {self.own: read[self.own], **read}
        probabilities, refuted = zip(*read.values(), strict=True)
        return PTrue(candidates=tuple(read), probabilities=probabilities, false_probabilities=refuted, source=source)
