"""Answers from elsewhere, rated by the frozen model: all that is asked about a window of them goes in shared passes.

The prompts are those of answering, with the given answer in the place of the model's own: what is said about the
model's own answer, given to it, is what it says without being given it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from secl.backends.base import Bundle, Reading
from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.candidates import Comparison, among_answers, among_options, beside
from secl.backends.open_answers import NOTHING, Distractors, distinct
from secl.evidence import Evidence, EvidenceKind
from secl.model import Rating
from secl.prompts.parsing import read_answer
from secl.question import GivenAnswer
from secl.records import Ledger, Meter, Reply

Kinds = Collection[EvidenceKind]


@dataclass
class _Case:
    """A given answer on its way through a pass.

    Attributes:
        answer: what is read from it; the option's text for multiple choice, None for what cannot be read.
        named: the given rivals that say something else than the answer and each other.
        listing: answers among which its rivals are; None where they are not needed.
        comparison: of the candidates; None where none is wanted or there is nothing to compare.
        rivals: those that P(True) is asked about as well.
        spent: tokens of finding them.
        reply: the answer as if the model had written it.
    """

    rated: GivenAnswer
    answer: str | None
    named: Sequence[str] = ()
    listing: Draft | None = None
    comparison: Comparison | None = None
    rivals: Distractors = NOTHING
    spent: Ledger = field(default_factory=Ledger)
    reading: Reading = field(init=False)
    reply: Reply = field(init=False)
    evidence: Evidence = field(init=False)


def rate(asker: Asker, answers: Sequence[GivenAnswer], evidence: Kinds) -> list[Rating]:
    """Rate answers; see `secl.model.Model.rate_given`. What it costs is in the ratings and not on the asker's meter."""
    asker = replace(asker, meter=Meter())
    cases = list(map(_case, answers))
    opened = [case for case in cases if not case.rated.question.options and case.answer is not None]
    for case in opened:
        if "p_true" in evidence and not case.named:
            case.listing = asker.list_of_answers(case.rated.question)
    asker.backend.write([[case.listing for case in opened if case.listing is not None]])
    if "candidates" in evidence:
        wanted = [(case.rated.question, case.answer or "", case.named) for case in opened]
        for case, comparison in zip(opened, among_answers(asker, wanted), strict=True):
            case.comparison = comparison
    bundles = [_bundle(asker, case, evidence) for case in cases]
    for case, reading in zip(cases, asker.backend.read(bundles), strict=True):
        case.reading = reading
    asker.backend.together([partial(_read, asker, case) for case in cases])
    return [_rating(asker.meter, case) for case in cases]  # after all of them: a reading costs what was read of it


def _case(rated: GivenAnswer) -> _Case:
    question = rated.question
    if question.options:
        return _Case(rated, question.option(rated.answer))
    answer = read_answer(rated.answer, question.form)
    named = [] if answer is None else distinct(answer, rated.rivals, question.form, count=len(rated.rivals))
    return _Case(rated, answer, named)


def _bundle(asker: Asker, case: _Case, evidence: Kinds) -> Bundle:
    """All that is asked about an answer; its rivals are found first."""
    question, answer = case.rated.question, case.rated.answer
    if question.options:  # the pass that answers reads every letter, so that the given one needs no other
        others = [question.option(letter) for letter in question.letters if letter != answer]
        case.rivals = Distractors(others, "options")
        case.comparison = among_options(asker, question) if "candidates" in evidence else None
        bundle = asker.prompting.choices(question)
    else:
        case.rivals = _rivals(asker, case)
        bundle = asker.prompting.written(question, asker.prompting.given(question, answer))
        asker.meter.spend("sampling", 0.0 if case.comparison is None else case.comparison.sampling)
    if "p_true" not in evidence:
        case.rivals = NOTHING
    case.spent = asker.meter.take()
    judged = asker.prompting.verdicts(question, _candidates(case))
    return replace(beside(bundle, case.comparison), verdicts=judged)


def _rivals(asker: Asker, case: _Case) -> Distractors:
    """The given rivals of an open answer, or else those that a list of answers has."""
    if case.answer is None or case.listing is None:
        return Distractors([*case.named], f"given:{len(case.named)}") if case.named else NOTHING
    rivals = asker.distractors(case.rated.question, case.answer, case.listing)
    asker.meter.spend("scoring", case.listing.tokens)
    return rivals


def _candidates(case: _Case) -> tuple[str, ...]:
    """What P(True) is asked about."""
    return () if case.answer is None else (case.answer, *case.rivals.answers)


def _read(asker: Asker, case: _Case) -> None:
    """Read off what is said about an answer."""
    question, answer, reading, readout = case.rated.question, case.rated.answer, case.reading, asker.readout
    if question.options:
        case.reply = readout.choice(question, reading, 0, answer)
    else:
        case.reply = readout.open(question, asker.prompting.given(question, answer), reading, 0)
    candidates = _candidates(case)
    p_true = readout.p_true(reading, candidates, case.rivals.source) if candidates else None
    compared = None if case.comparison is None else case.comparison.read(reading, readout)
    case.evidence = Evidence(p_true=p_true, candidates=compared)


def _rating(meter: Meter, case: _Case) -> Rating:
    spent = case.reading.evidence_tokens
    meter.spend("answering", case.reading.tokens - spent.verdicts - spent.orders - spent.spans)
    meter.spend("scoring", spent.verdicts)
    meter.spend("reordering", spent.orders)
    meter.spend("likelihood", spent.spans)
    tokens = float(len(case.reading.bundle.answers[0]))
    return Rating(reply=case.reply, evidence=case.evidence, ledger=case.spent + meter.take(), plain_tokens=tokens)
