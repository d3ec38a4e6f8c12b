"""P(True) of an answer, and of what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secl.backends.base import Bundle, TokenBackend
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout, Verdicts
from secl.cost import Meter
from secl.evidence import PTrue
from secl.question import Question


class PTrueProbe:
    """Asks the frozen model whether candidates are right, each alone.

    Args:
        backend: reads.
        prompting: builds the token sequences.
        readout: reads P(True) and P(False).
        meter: counts the tokens.
    """

    def __init__(self, backend: TokenBackend[Any], prompting: Prompting, readout: Readout, meter: Meter) -> None:
        self.backend = backend
        self.prompting = prompting
        self.readout = readout
        self.meter = meter

    def of_options(self, question: Question, letter: str, verdicts: Verdicts | None) -> PTrue:
        """P(True) of all options, the one called `letter` first.

        Args:
            question: with options.
            letter: of the answer.
            verdicts: on the options in their order, where they have been read already; None to read them.
        """
        verdicts = verdicts or self._verdicts(question, question.options)
        own = question.letters.index(letter)
        order = [own, *(i for i in range(len(question.options)) if i != own)]
        ordered = Verdicts(tuple(verdicts.true[i] for i in order), tuple(verdicts.false[i] for i in order))
        return p_true_of([question.options[i] for i in order], ordered, "options")

    def of_open(self, question: Question, candidates: Sequence[str], source: str) -> PTrue:
        """P(True) of answers to an open question.

        Args:
            question: without options.
            candidates: the answer, then its distractors.
            source: where the distractors come from.
        """
        return p_true_of(candidates, self._verdicts(question, candidates), source)

    def _verdicts(self, question: Question, candidates: Sequence[str]) -> Verdicts:
        (reading,) = self.backend.read([Bundle(verdicts=self.prompting.verdicts(question, candidates))])
        verdicts = self.readout.verdicts(reading)
        self.meter.spend("scoring", reading.tokens)
        return verdicts


def p_true_of(candidates: Sequence[str], verdicts: Verdicts, source: str) -> PTrue:
    """What verdicts on candidates say, both in the same order."""
    return PTrue(
        candidates=tuple(candidates),
        probabilities=verdicts.true,
        false_probabilities=verdicts.false,
        distractor_source=source,
    )
