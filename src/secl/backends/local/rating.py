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
from secl.backends.local.asker import Asker
from secl.backends.local.candidates import Comparison, among_answers, among_options, beside
from secl.backends.local.readout import p_true_of
from secl.backends.open_answers import NOTHING, Distractors
from secl.evidence import Evidence, EvidenceKind
from secl.model import Rating
from secl.prompts.distractors import distinct
from secl.prompts.parsing import as_written, read_answer
from secl.question import GivenAnswer
from secl.records import Ledger, Meter, Reply

Kinds = Collection[EvidenceKind]


@dataclass
class _Case:
    """A given answer on its way through a pass.

    Attributes:
        rated: the answer.
        candidates: what P(True) is asked about: the answer first, and its rivals where they are wanted.
        source: where its rivals come from.
        comparison: of the candidates; None where none is wanted or there is nothing to compare.
        spent: tokens of finding the rivals.
        bundle: all that is read.
    """

    rated: GivenAnswer
    candidates: Sequence[str]
    source: str
    comparison: Comparison | None
    spent: Ledger
    bundle: Bundle
    reading: Reading = field(init=False)
    reply: Reply = field(init=False)
    evidence: Evidence = field(init=False)


def rate(asker: Asker, answers: Sequence[GivenAnswer], evidence: Kinds) -> list[Rating]:
    """Rate answers; see `secl.model.Model.rate_given`. What it costs is in the ratings and not on the asker's meter."""
    asker = replace(asker, meter=Meter())
    cases = _prepare(asker, answers, evidence)
    for case, reading in zip(cases, asker.backend.read([case.bundle for case in cases]), strict=True):
        case.reading = reading
    asker.backend.together([partial(_read, asker, case) for case in cases])
    return [_rating(asker.meter, case) for case in cases]  # after all of them: a reading costs what was read of it


def _prepare(asker: Asker, answers: Sequence[GivenAnswer], evidence: Kinds) -> list[_Case]:
    opened = {
        i: (each.question, answer, _rivals(each, answer))
        for i, each in enumerate(answers)
        if not each.question.options and (answer := read_answer(each.answer, each.question.form)) is not None
    }
    lists = {
        i: asker.list_of_answers(question)
        for i, (question, _, rivals) in opened.items()
        if "p_true" in evidence and not rivals
    }
    asker.backend.write([list(lists.values())])
    comparable = opened if "candidates" in evidence else {}
    compared = dict(zip(comparable, among_answers(asker, [*comparable.values()]), strict=True))
    return [
        _choice(asker, each, evidence)
        if each.question.options
        else _open(asker, each, evidence, opened[i][1] if i in opened else None, lists.get(i), compared.get(i))
        for i, each in enumerate(answers)
    ]


def _rivals(rated: GivenAnswer, answer: str) -> list[str]:
    """The given rivals that say something else than the answer and each other."""
    return distinct(answer, rated.rivals, rated.question.form, count=len(rated.rivals))


def _choice(asker: Asker, rated: GivenAnswer, evidence: Kinds) -> _Case:
    """An option: the pass that answers reads every letter, so that the given one needs no other."""
    question = rated.question
    others = [question.option(letter) for letter in question.letters if letter != rated.answer]
    comparison = among_options(asker, question) if "candidates" in evidence else None
    answered, rivals = asker.prompting.choices(question), Distractors(others, "options")
    return _case(asker, rated, question.option(rated.answer), rivals, comparison, answered, evidence)


def _open(
    asker: Asker,
    rated: GivenAnswer,
    evidence: Kinds,
    answer: str | None,
    listing: Draft | None,
    comparison: Comparison | None,
) -> _Case:
    rivals = NOTHING
    if answer is not None and listing is not None:
        rivals = asker.distractors(rated.question, answer, listing)
        asker.meter.spend("scoring", listing.tokens)
    elif answer is not None and (named := _rivals(rated, answer)):
        rivals = Distractors(named, f"given:{len(named)}")
    if comparison is not None:
        asker.meter.spend("sampling", comparison.sampling)
    written = asker.prompting.written(rated.question, as_written(rated.answer, rated.question.form))
    return _case(asker, rated, answer, rivals, comparison, written, evidence)


def _case(
    asker: Asker,
    rated: GivenAnswer,
    answer: str | None,
    rivals: Distractors,
    comparison: Comparison | None,
    answered: Bundle,
    evidence: Kinds,
) -> _Case:
    candidates = () if answer is None else (answer, *(rivals.answers if "p_true" in evidence else ()))
    bundle = replace(beside(answered, comparison), verdicts=asker.prompting.verdicts(rated.question, candidates))
    source = rivals.source if len(candidates) > 1 else NOTHING.source
    return _Case(rated, candidates, source, comparison, asker.meter.take(), bundle)


def _read(asker: Asker, case: _Case) -> None:
    """Read off what a case's bundle says."""
    question, answer, reading, readout = case.rated.question, case.rated.answer, case.reading, asker.readout
    if question.options:
        case.reply = readout.choice(question, reading, 0, answer)
    else:
        case.reply = readout.open(question, as_written(answer, question.form), reading, 0)
    p_true = p_true_of(case.candidates, readout.verdicts(reading), case.source) if case.candidates else None
    compared = None if case.comparison is None else case.comparison.read(reading, readout)
    case.evidence = Evidence(p_true=p_true, candidates=compared)


def _rating(meter: Meter, case: _Case) -> Rating:
    spent = case.reading.evidence_tokens
    meter.spend("answering", case.reading.tokens - spent.verdicts - spent.orders - spent.spans)
    meter.spend("scoring", spent.verdicts)
    meter.spend("reordering", spent.orders)
    meter.spend("likelihood", spent.spans)
    tokens = float(len(case.bundle.answers[0]))
    return Rating(reply=case.reply, evidence=case.evidence, ledger=case.spent + meter.take(), plain_tokens=tokens)
