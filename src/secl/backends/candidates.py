"""Evidence about all possible answers to a question: letters under further orders, likelihoods, further answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from secl.backends.base import Bundle, Reading, TokenBackend
from secl.backends.distractors import SeedFor
from secl.backends.open_answers import AnswerSampler, Drawn
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout
from secl.cost import Meter
from secl.evidence import CandidateEvidence, LetterOrder, Likelihood, Sample
from secl.prompts.orders import as_choice, further_orders, orders_of_answers
from secl.prompts.parsing import is_brief
from secl.question import Question
from secl.validation import check_whole

Orders = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Comparison:
    """What is read to compare candidates.

    Attributes:
        bundle: a sequence for each order, and spans of the candidates.
        candidates: their texts.
        orders: the number of the candidate at each place.
        source: where the candidates come from.
        samples: further answers to an open question.
        sampling: tokens that these took.
    """

    bundle: Bundle
    candidates: Sequence[str]
    orders: Orders
    source: str
    samples: tuple[Sample, ...] = ()
    sampling: float = 0.0

    def read(self, reading: Reading, readout: Readout) -> CandidateEvidence:
        """What a reading of the bundle, or of one with its orders and spans, says about the candidates."""
        evidence = read_candidates(reading, readout, self.candidates, self.orders, self.source)
        return replace(evidence, samples=self.samples)


class CandidateProbe:
    """Asks the frozen model about candidates.

    Args:
        backend: reads.
        prompting: builds the token sequences.
        readout: reads the letters.
        orders: further orders of the options, 0 or more; no more are asked than there are.
        meter: counts the tokens.
        seed_for: gives a seed that depends on a question and a purpose alone.

    Raises:
        ParameterError: a number of orders below 0.
    """

    def __init__(
        self,
        backend: TokenBackend[Any],
        prompting: Prompting,
        readout: Readout,
        orders: int,
        meter: Meter,
        seed_for: SeedFor,
    ) -> None:
        check_whole("number of further orders", orders, least=0)
        self.backend = backend
        self.prompting = prompting
        self.readout = readout
        self.orders = orders
        self.meter = meter
        self.seed_for = seed_for
        self.sampler = AnswerSampler(backend, prompting, seed_for)

    def of_options(self, question: Question) -> CandidateEvidence:
        """Evidence about the options, in a pass of their own."""
        return self._read(self.among_options(question))

    def of_open(self, question: Question, answer: str) -> CandidateEvidence | None:
        """Evidence about an open answer, in passes of its own; None as for `among_answers`."""
        (comparison,) = self.among_answers([(question, answer, ())])
        return None if comparison is None else self._read(comparison)

    def among_options(self, question: Question) -> Comparison:
        """What to read about the options."""
        orders = further_orders(len(question.options), self.orders)
        return Comparison(self.prompting.candidates(question, orders), question.options, orders, "options")

    def among_answers(self, asked: Sequence[tuple[Question, str, Sequence[str]]]) -> list[Comparison | None]:
        """Draw further answers to open questions, which become choices between what they say and "None of these".

        Args:
            asked: questions without options, an answer to each, and rivals that were given to it.

        Returns:
            for each what to read; None where the answer is too long to be compared with others, the model has too few
            letters, or the candidates together are longer than it can read.
        """
        brief = [each for each in asked if is_brief(each[1], each[0].form)]
        drawn = iter(zip(brief, self.sampler.draw(brief), strict=True))
        return [self._among(*next(drawn)) if is_brief(each[1], each[0].form) else None for each in asked]

    def _among(self, asked: tuple[Question, str, Sequence[str]], drawn: Drawn) -> Comparison | None:
        question = asked[0]
        if len(drawn.candidates) >= len(self.readout.token_ids.letters):
            return None
        choice = as_choice(question, drawn.candidates)
        orders = orders_of_answers(len(drawn.candidates), self.orders, self.seed_for(question, "candidates"))
        bundle = Bundle(orders=self.prompting.orders(choice, orders))
        if max(map(len, bundle.sequences)) > self.backend.limit:
            return None
        return Comparison(bundle, choice.options, orders, drawn.source, drawn.samples, drawn.tokens)

    def _read(self, comparison: Comparison) -> CandidateEvidence:
        (reading,) = self.backend.read([comparison.bundle])
        evidence = comparison.read(reading, self.readout)
        spent = reading.evidence_tokens
        self.meter.spend("sampling", comparison.sampling)
        self.meter.spend("reordering", spent.orders)
        self.meter.spend("likelihood", spent.spans)
        return evidence


def read_candidates(
    reading: Reading, readout: Readout, candidates: Sequence[str], orders: Orders, source: str
) -> CandidateEvidence:
    """What a reading says about candidates.

    Args:
        reading: of a bundle with a sequence for each order, and spans of the candidates, behind the question first and
            then behind none; candidates without spans are the last ones.
        readout: reads the letters.
        candidates: their texts.
        orders: the number of the candidate at each place.
        source: where the candidates come from.
    """
    letters, likelihoods = readout.letters(reading, len(candidates)), reading.likelihoods()
    half = len(likelihoods) // 2
    texts = [
        Likelihood(given=given, alone=alone, tokens=len(span.tokens) - span.start)
        for given, alone, span in zip(likelihoods[:half], likelihoods[half:], reading.bundle.spans, strict=False)
    ]
    return CandidateEvidence(
        candidates=tuple(candidates),
        letters=tuple(
            LetterOrder(order=order, log_p=tuple(row[order.index(number)] for number in range(len(candidates))))
            for order, row in zip(orders, letters, strict=True)
        ),
        likelihoods=(*texts, *[None] * (len(candidates) - half)),
        source=source,
    )
