"""The evidence of DINCO: the most probable answers, each verified alone, all compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secl.backends.base import Bundle, TokenBackend
from secl.backends.entailment import Entailment, Pair
from secl.backends.generation import Draft
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout
from secl.cost import Meter
from secl.evidence import DincoEvidence
from secl.grading import answer_key
from secl.metrics.dinco import COUNTED
from secl.prompts.parsing import read_answer
from secl.question import Form, Question

BEAMS = 5


class DincoProbe:
    """Gathers the evidence of DINCO from the frozen model.

    Args:
        backend: verifies answers, and searches for beams.
        prompting: builds the token sequences.
        readout: reads P("Yes").
        entailment: compares answers.
        meter: counts the tokens.
    """

    def __init__(
        self, backend: TokenBackend[Any], prompting: Prompting, readout: Readout, entailment: Entailment, meter: Meter
    ) -> None:
        self.backend = backend
        self.prompting = prompting
        self.readout = readout
        self.entailment = entailment
        self.meter = meter

    def beams(self, question: Question) -> list[str]:
        """Up to `BEAMS` different answers to an open question, the most probable first."""
        start = Draft.answer(self.prompting.answer(question), question.form)
        texts = [self.backend.rules.answer(draft) for draft in self.backend.beams(start, BEAMS)]
        self.meter.spend("comparing", start.tokens)
        answers = [answer for text in texts if (answer := read_answer(text, question.form)) is not None]
        return list(first_by_key(answers, question.form).values())

    def of(
        self, question: Question, beams: Sequence[str], own: str | None, samples: Sequence[str | None]
    ) -> DincoEvidence:
        """The evidence about some beams, the most probable first, and the model's own answer.

        Args:
            question: what they answer.
            beams: one or more, all different, as `Reply.answer` has them.
            own: the model's own answer, which may be a beam; None if it could not be read.
            samples: more answers.
        """
        answers, rated = [*beams], [0]
        if own is not None:
            keys = [answer_key(answer, question.form) for answer in beams]
            key = answer_key(own, question.form)
            if key not in keys:
                answers, keys = [*answers, own], [*keys, key]
            rated = sorted({0, keys.index(key)})
        return self.compare(question, answers, len(beams), rated, samples)

    def compare(
        self,
        question: Question,
        answers: Sequence[str],
        beams: int,
        rated: Sequence[int],
        samples: Sequence[str | None],
    ) -> DincoEvidence:
        """Verify the answers and compare them with each other and with the samples.

        Args:
            question: what they answer.
            answers: as `Reply.answer` has them: beams first, then perhaps one more.
            beams: how many of them are beams.
            rated: numbers of those that may be reported; only they are compared with the samples.
            samples: more answers, of which the first `COUNTED` count.
        """
        texts = [_text(question, answer) for answer in answers]
        p_yes = self._verify(question, texts)
        counted = samples[:COUNTED]
        form = question.form
        # Samples that count as the same answer get the same text, that of a candidate if there is one.
        distinct = first_by_key([*answers, *(sample for sample in counted if sample is not None)], form)
        text_of = {key: _text(question, answer) for key, answer in distinct.items()}
        strangers = dict.fromkeys(text for text in text_of.values() if text not in texts)
        pairs: list[Pair] = [(a, b) for a in texts for b in texts if a != b]
        pairs += [pair for i in rated for b in strangers for pair in ((texts[i], b), (b, texts[i]))]
        scores = dict(zip(pairs, self.entailment.classify(question, pairs), strict=True)) if pairs else {}
        scores |= {(text, text): (1.0, 0.0) for text in texts}

        def agreement(i: int, sample: str | None) -> float:
            if sample is None:
                return 0.0
            same = text_of[answer_key(sample, form)]
            return (scores[texts[i], same][0] + scores[same, texts[i]][0]) / 2

        return DincoEvidence(
            candidates=tuple(texts),
            answers=tuple(answers),
            beams=beams,
            p_yes=p_yes,
            entails=tuple(tuple(scores[a, b][0] for b in texts) for a in texts),
            contradicts=tuple(tuple(scores[a, b][1] for b in texts) for a in texts),
            agreement=tuple(
                tuple(agreement(i, sample) for sample in counted) if i in rated else () for i in range(len(answers))
            ),
            nli_name=self.entailment.name,
        )

    def _verify(self, question: Question, texts: Sequence[str]) -> tuple[float, ...]:
        """P("Yes") of each candidate."""
        bundle = Bundle(verdicts=[self.prompting.verification(question, text) for text in texts])
        (reading,) = self.backend.read([bundle])
        self.meter.spend("comparing", reading.tokens)
        return self.readout.p_yes(reading, bundle.verdict_positions)


def first_by_key(answers: Sequence[str], form: Form) -> dict[object, str]:
    """The answers without repetitions, the first of each, in order.

    >>> list(first_by_key(["Paris", "London", "Paris.", "Rome"], "short").values())
    ['Paris', 'London', 'Rome']
    """
    first: dict[object, str] = {}
    for answer in answers:
        first.setdefault(answer_key(answer, form), answer)
    return first


def _text(question: Question, answer: str) -> str:
    return question.option(answer) if question.options else answer
