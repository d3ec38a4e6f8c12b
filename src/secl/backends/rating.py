"""Answers from elsewhere, rated by the frozen model: all that is asked about a window of them goes in shared passes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from secl.backends.base import Bundle, Reading, TokenBackend
from secl.backends.candidates import CandidateProbe, Comparison
from secl.backends.distractors import DistractorProbe, Distractors, SeedFor
from secl.backends.generation import Draft
from secl.backends.p_true import p_true_of
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout
from secl.cost import Meter
from secl.evidence import Evidence, EvidenceKind
from secl.given import GivenAnswer
from secl.model import Rating
from secl.prompts.distractors import distinct
from secl.prompts.parsing import as_written, read_answer
from secl.records import Ledger, Reply

NOTHING = Distractors([], "none")


@dataclass
class _Case:
    """A given answer on its way through a pass.

    Attributes:
        given: the answer.
        candidates: what P(True) is asked about: the answer first, and its rivals where they are wanted.
        source: where its rivals come from.
        comparison: of the candidates; None where none is wanted or there is nothing to compare.
        spent: tokens of finding the rivals.
        bundle: all that is read.
    """

    given: GivenAnswer
    candidates: Sequence[str]
    source: str
    comparison: Comparison | None
    spent: Ledger
    bundle: Bundle
    reading: Reading = field(init=False)
    reply: Reply = field(init=False)
    evidence: Evidence = field(init=False)


class Rater:
    """Rates given answers.

    The prompts are those of answering, with the given answer in the place of the model's own: what is said about the
    model's own answer, given to it, is what it says without being given it.

    Args:
        backend: reads and writes.
        prompting: builds the token sequences.
        readout: reads the replies.
        orders: further orders of the options that letters are read under.
        seed_for: gives a seed that depends on a question and a purpose alone.
    """

    def __init__(
        self, backend: TokenBackend[Any], prompting: Prompting, readout: Readout, orders: int, seed_for: SeedFor
    ) -> None:
        self.backend = backend
        self.prompting = prompting
        self.readout = readout
        self.meter = Meter()
        self.distractors = DistractorProbe(backend, prompting, self.meter, seed_for)
        self.candidates = CandidateProbe(backend, prompting, readout, orders, self.meter, seed_for)

    def rate(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        """Rate answers; see `secl.model.Model.rate_given`."""
        cases = self._prepare(given, evidence)
        for case, reading in zip(cases, self.backend.read([case.bundle for case in cases]), strict=True):
            case.reading = reading
        self.backend.together([partial(self._read, case) for case in cases])
        return [self._rating(case) for case in cases]  # after all of them: what a reading cost is known once it is read

    def _prepare(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[_Case]:
        self.distractors.forget()
        lists = {
            i: Draft.list(self.prompting.answer_list(each.question), each.question.form)
            for i, each in enumerate(given)
            if "p_true" in evidence and not each.question.options and _answer(each) is not None and not _rivals(each)
        }
        self.backend.write([list(lists.values())])
        comparable = {
            i: (each.question, answer, _rivals(each))
            for i, each in enumerate(given)
            if "candidates" in evidence and not each.question.options and (answer := _answer(each)) is not None
        }
        compared = dict(zip(comparable, self.candidates.among_answers([*comparable.values()]), strict=True))
        return [
            self._choice(each, evidence)
            if each.question.options
            else self._open(each, evidence, lists.get(i), compared.get(i))
            for i, each in enumerate(given)
        ]

    def _choice(self, given: GivenAnswer, evidence: Collection[EvidenceKind]) -> _Case:
        """An option: the pass that answers reads every letter, so that the given one needs no other."""
        question = given.question
        own = question.option(given.answer)
        rivals = [option for letter, option in zip(question.letters, question.options, strict=True)
                  if letter != given.answer]  # fmt: skip
        comparison = self.candidates.among_options(question) if "candidates" in evidence else None
        return self._case(
            given, own, Distractors(rivals, "options"), comparison, self.prompting.choices(question), evidence
        )

    def _open(
        self,
        given: GivenAnswer,
        evidence: Collection[EvidenceKind],
        listing: Draft | None,
        comparison: Comparison | None,
    ) -> _Case:
        question, answer = given.question, _answer(given)
        rivals = NOTHING
        if answer is not None and listing is not None:
            rivals = self.distractors.of(question, answer, listing)
            self.meter.spend("scoring", listing.tokens)
        elif answer is not None and (named := _rivals(given)):
            rivals = Distractors(named, f"given:{len(named)}")
        if comparison is not None:
            self.meter.spend("sampling", comparison.sampling)
        written = self.prompting.written(question, as_written(given.answer, question.form))
        return self._case(given, answer, rivals, comparison, written, evidence)

    def _case(
        self,
        given: GivenAnswer,
        answer: str | None,
        rivals: Distractors,
        comparison: Comparison | None,
        asked: Bundle,
        evidence: Collection[EvidenceKind],
    ) -> _Case:
        candidates = () if answer is None else (answer, *(rivals.answers if "p_true" in evidence else ()))
        extra = Bundle() if comparison is None else comparison.bundle
        verdicts = self.prompting.verdicts(given.question, candidates)
        bundle = replace(extra, answers=asked.answers, positions=asked.positions, verdicts=verdicts)
        source = rivals.source if len(candidates) > 1 else NOTHING.source
        return _Case(given, candidates, source, comparison, self.meter.take(), bundle)

    def _read(self, case: _Case) -> None:
        """Read off what a case's bundle says."""
        question, given, reading = case.given.question, case.given.answer, case.reading
        if question.options:
            case.reply = self.readout.choice(question, reading, 0, given)
        else:
            case.reply = self.readout.open(question, as_written(given, question.form), reading, 0)
        asked = bool(case.candidates)
        p_true = p_true_of(case.candidates, self.readout.verdicts(reading), case.source) if asked else None
        compared = None if case.comparison is None else case.comparison.read(reading, self.readout)
        case.evidence = Evidence(p_true=p_true, candidates=compared)

    def _rating(self, case: _Case) -> Rating:
        spent = case.reading.evidence_tokens
        self.meter.spend("answering", case.reading.tokens - spent.verdicts - spent.orders - spent.spans)
        self.meter.spend("scoring", spent.verdicts)
        self.meter.spend("reordering", spent.orders)
        self.meter.spend("likelihood", spent.spans)
        return Rating(
            reply=case.reply,
            evidence=case.evidence,
            ledger=case.spent + self.meter.take(),
            plain_tokens=float(len(case.bundle.answers[0])),
        )


def _answer(given: GivenAnswer) -> str | None:
    """The answer to an open question that can be compared with others; None where a number is asked for and missing."""
    return read_answer(given.answer, given.question.form)


def _rivals(given: GivenAnswer) -> list[str]:
    """The given rivals that say something else than the answer and each other."""
    answer = _answer(given)
    return [] if answer is None else distinct(answer, given.rivals, given.question.form, count=len(given.rivals))
