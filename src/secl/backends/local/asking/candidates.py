"""Evidence about all possible answers to a question: letters under further orders, likelihoods, further answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from secl.backends.base import Bundle, Reading
from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.readout import Readout
from secl.backends.open_answers import (
    FREE_TOKENS,
    PROGRAM_TOKENS,
    Drawn,
    Way,
    compare,
    computed,
    rounds,
    settled,
)
from secl.evidence import CandidateEvidence, LetterOrder, Likelihood, Sample
from secl.prompts.parsing import is_brief, read_answer
from secl.prompts.programs import FENCE, OPENING
from secl.prompts.templates import MAX_ANSWER_TOKENS, as_choice, orders_of_answers, other_order
from secl.question import Question

OpenAnswer = tuple[Question, str, Sequence[str]]
"""A question without options, an answer to it, and rivals that were given to the answer."""


@dataclass(frozen=True)
class Comparison:
    """What is read to compare candidates.

    Attributes:
        bundle: a sequence for each order, and spans of the candidates, behind the question first and then behind none.
        candidates: their texts; those without spans are the last ones.
        orders: the number of the candidate at each place.
        source: where the candidates come from.
        samples: further answers to an open question.
        sampling: tokens that these took.
    """

    bundle: Bundle
    candidates: Sequence[str]
    orders: Sequence[tuple[int, ...]]
    source: str
    samples: tuple[Sample, ...] = ()
    sampling: float = 0.0

    def read(self, reading: Reading, readout: Readout) -> CandidateEvidence:
        """What a reading of the bundle, or of one with its orders and spans, says about the candidates."""
        count = len(self.candidates)
        letters, likelihoods = readout.letters(reading, count), reading.likelihoods()
        half = len(likelihoods) // 2
        texts = [
            Likelihood(given=given, alone=alone, tokens=len(span.tokens) - span.start)
            for given, alone, span in zip(likelihoods[:half], likelihoods[half:], reading.bundle.spans, strict=False)
        ]
        return CandidateEvidence(
            candidates=tuple(self.candidates),
            letters=tuple(
                LetterOrder(order=order, log_p=tuple(row[order.index(number)] for number in range(count)))
                for order, row in zip(self.orders, letters, strict=True)
            ),
            likelihoods=(*texts, *[None] * (count - half)),
            samples=self.samples,
            source=self.source,
        )


def beside(bundle: Bundle, comparison: Comparison | None) -> Bundle:
    """A bundle, and with it what is read to compare candidates."""
    if comparison is None:
        return bundle
    return replace(bundle, orders=comparison.bundle.orders, spans=comparison.bundle.spans)


def compared(asker: Asker, question: Question, answer: str) -> CandidateEvidence | None:
    """What is said of the candidates, read in a pass of its own; None where the answer cannot be compared."""
    comparison = (
        among_options(asker, question) if question.options else among_answers(asker, [(question, answer, ())])[0]
    )
    if comparison is None:
        return None
    (reading,) = asker.backend.read([comparison.bundle])
    evidence = comparison.read(reading, asker.readout)
    spent = reading.evidence_tokens
    asker.meter.spend("sampling", comparison.sampling)
    asker.meter.spend("reordering", spent.orders)
    asker.meter.spend("likelihood", spent.spans)
    return evidence


def among_options(asker: Asker, question: Question) -> Comparison:
    """What to read about the options."""
    orders = [other_order(len(question.options))]
    prompting = asker.prompting
    bundle = Bundle(orders=prompting.orders(question, orders), spans=prompting.spans(question, question.options))
    return Comparison(bundle, question.options, orders, "options")


def among_answers(asker: Asker, answers: Sequence[OpenAnswer]) -> list[Comparison | None]:
    """Draw further answers to open questions, which become choices between what they say and "None of these".

    Returns:
        for each what to read; None where the answer is too long to be compared with others, the model has too few
        letters, or the candidates together are longer than it can read.
    """
    brief = [each for each in answers if is_brief(each[1], each[0].form)]
    drawn = iter(_draw(asker, brief))
    return [_among(asker, each[0], next(drawn)) if is_brief(each[1], each[0].form) else None for each in answers]


def _among(asker: Asker, question: Question, drawn: Drawn) -> Comparison | None:
    if len(drawn.candidates) >= len(asker.readout.token_ids.letters):
        return None
    choice = as_choice(question, drawn.candidates)
    orders = orders_of_answers(len(drawn.candidates), asker.seed_for(question, "candidates"))
    bundle = Bundle(orders=asker.prompting.orders(choice, orders))
    if max(map(len, bundle.sequences)) > asker.backend.limit:
        return None
    return Comparison(bundle, choice.options, orders, drawn.source, drawn.samples, drawn.tokens)


def sampled(asker: Asker, question: Question, count: int) -> tuple[str | None, ...]:
    """Further answers to an open question, whatever they are compared with."""
    drafts = [_sample(asker, question, number, MAX_ANSWER_TOKENS[question.form]) for number in range(count)]
    asker.backend.write([drafts])
    asker.meter.spend("sampling", sum(draft.tokens for draft in drafts))
    return tuple(read_answer(asker.answer_in(draft), question.form) for draft in drafts)


def _draw(asker: Asker, answers: Sequence[OpenAnswer]) -> list[Drawn]:
    """Draw further answers of the frozen model to several questions together, in two rounds."""
    if not answers:
        return []
    samples: list[list[Sample]] = [[] for _ in answers]
    tokens = [0.0] * len(answers)
    for number in range(2):
        drafts = [
            []
            if number and settled(question, answer, own, rivals)
            else [_draft(asker, question, way) for way in rounds(question)[number]]
            for (question, answer, rivals), own in zip(answers, samples, strict=True)
        ]
        asker.backend.write([[draft for own in drafts for draft in own]])
        for i, own in enumerate(drafts):
            samples[i] += [_read(asker, draft) for draft in own]
            tokens[i] += sum(draft.tokens for draft in own)
    return [
        compare(question, answer, own, spent, rivals)
        for (question, answer, rivals), own, spent in zip(answers, samples, tokens, strict=True)
    ]


def _draft(asker: Asker, question: Question, way: Way) -> Draft:
    if way is None:
        return Draft(asker.prompting.program(question), "text", PROGRAM_TOKENS, stop=FENCE)
    return _sample(asker, question, way, FREE_TOKENS if question.free else MAX_ANSWER_TOKENS[question.form])


def _sample(asker: Asker, question: Question, number: int, limit: int) -> Draft:
    prompting, seed = asker.prompting, asker.seed_for(question, f"sample {number}")
    return Draft(prompting.answer(question), question.form, limit, seed=seed, top_p=prompting.prompts.top_p)


def _read(asker: Asker, draft: Draft) -> Sample:
    if draft.stop:
        return computed(OPENING + asker.learner.rules.text(draft))
    answer = read_answer(asker.answer_in(draft), draft.form)
    cut_off = len(draft.written) >= draft.limit
    text = answer if answer is not None and not cut_off and is_brief(answer, draft.form) else None
    # Of the text without what ends it, like the log-probability of the answer.
    return Sample(text=text, candidate=None, log_p=sum(draft.log_p[:-1]) if draft.log_p else None)
