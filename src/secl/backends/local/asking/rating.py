"""Answers from elsewhere, rated by the frozen model: all that is asked about a window of them goes in shared passes.

The prompts are those of answering, with the given answer in the place of the model's own. So a rating of the
model's own answer equals the model's confidence in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.candidates import among_options, compare_answers
from secl.backends.local.asking.cases import Case, read_answers, read_evidence, read_reply
from secl.backends.open_answers import distinct
from secl.evidence import Evidence, EvidenceKind
from secl.ledger import Meter
from secl.model import Rating
from secl.prompts.parsing import read_answer
from secl.question import GivenAnswer


def rate(asker: Asker, answers: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
    """Rate answers; see `secl.model.Model.rate_given`. What it costs is in the ratings and not on the asker's meter."""
    cases = [_case(asker, each, frozenset(evidence)) for each in answers]
    asker.backend.write([[case.listing for case in cases if case.listing is not None]])
    if "candidates" in evidence:
        compare_answers(asker, [case for case in cases if not case.question.options])
    for case in cases:
        _find_rivals(asker, case)
    read_answers(asker, cases)
    asker.backend.together([lambda case=case: _read(asker, case) for case in cases])  # type: ignore[misc]
    return list(map(_rating, cases))


def _case(asker: Asker, rated: GivenAnswer, kinds: frozenset[EvidenceKind]) -> Case:
    question, text = rated.question, rated.answer
    if question.options:
        comparison = among_options(asker, question) if "candidates" in kinds else None
        return Case(question, text, kinds, question.option(text), comparison=comparison)
    answer = read_answer(text, question.form)
    given = asker.prompting.given(question, text)
    case = Case(question, given, kinds, answer, text=given)
    if answer is not None:
        case.rivals = distinct(answer, rated.rivals, question.form, count=len(rated.rivals))
        if "p_true" in kinds and not case.rivals:
            case.listing = asker.list_of_answers(question)
    return case


def _find_rivals(asker: Asker, case: Case) -> None:
    """Find what P(True) is asked about besides the answer: the given rivals, or else those of a list of answers."""
    rivals: Sequence[str] = ()
    case.source = "none"
    if case.question.options:
        rivals = [case.question.option(letter) for letter in case.question.letters if letter != case.given]
        case.source = "options"
    elif case.rivals:
        rivals, case.source = case.rivals, f"given:{len(case.rivals)}"
    elif case.listing is not None:
        found, case.finding = asker.distractors(case.question, case.answer or "", case.listing)
        rivals, case.source = found.answers, found.source
    if "p_true" not in case.kinds:
        rivals, case.source = (), "none"
    case.judged = () if case.answer is None else (case.answer, *rivals)


def _read(asker: Asker, case: Case) -> None:
    read_reply(asker, case, case.frozen, 0, case.given)
    read_evidence(asker, case)


def _rating(case: Case) -> Rating:
    meter = Meter()
    for purpose, tokens in case.spent.items():
        meter.spend(purpose, tokens)
    return Rating(
        reply=case.frozen.reply,
        evidence=Evidence(p_true=case.p_true, candidates=case.candidates),
        ledger=meter.take(),
        plain_tokens=float(len(case.frozen.reading.bundle.answers[0])),
    )
