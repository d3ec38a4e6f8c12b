"""Which answers may be accepted: thresholds in words, as tables and as JSON, and what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from secl.evaluation.acceptance import Advice, Answers
from secl.grading.rules import reported_correct
from secl.metrics.risk_control import Threshold, estimated, guaranteed, risk_bound
from secl.records import Record
from secl.reports.formatting import UNDEFINED, amount, counted, percent
from secl.reports.table import Table, plain_table
from secl.reports.verdict import further

ASSUMPTION = (
    "This holds for answers like these: the labelled ones must be a random sample of them, and later ones come from "
    "the same kinds of questions."
)
"""What every promise rests on."""

MOSTLY_WRONG = 0.5
"""A promise of so many wrong ones is of no use, and is left out."""


def sentences(answers: Answers, advice: Advice) -> list[str]:
    """What to accept for a risk, the conclusion first."""
    threshold = advice.threshold
    lines = _without_threshold(advice) if threshold is None else _with_threshold(advice, threshold)
    if answers.left_out:
        lines.append(f"Left out: {counted(answers.left_out, 'label')} of answers that were not drawn at random.")
    return lines


def _with_threshold(advice: Advice, threshold: Threshold) -> list[str]:
    """What to accept, and what that rests on."""
    aim = f"at most {percent(advice.risk)} of them wrong"
    above = f"Of the {counted(threshold.labels, 'labelled answer')} above it {threshold.wrong} are wrong"
    if advice.basis == "labels":
        promise = f"with {percent(advice.certainty)} certainty (from {counted(advice.labels, 'label')})"
        bound = float(risk_bound(threshold.wrong, threshold.labels, advice.certainty))
        return [f"{accept(threshold)}, {aim} {promise}.", f"{above}, so {percent(bound)} at most.", ASSUMPTION]
    if advice.basis == "volunteers":
        which = f"({counted(advice.labels, 'label')} of answers that were not drawn at random)"
        return [f"{accept(threshold)}, {aim}: an estimate and no promise {which}.", f"{above}."]
    about = f"about {percent(threshold.expected)} of them wrong by the confidences alone"
    return [f"{accept(threshold)}, {about}: an estimate.", _to_promise(advice)]


def _to_promise(advice: Advice) -> str:
    """How many labels a promise takes where there is none."""
    if advice.needed is None:
        return f"To promise it takes labels of answers drawn at random, {advice.fewest} at least."
    few = f"; there are {amount(advice.answers)}, so ask more questions" if advice.needed > advice.answers else ""
    return f"To promise it: at least about {counted(advice.needed, 'label')} of answers drawn at random{few}."


def _without_threshold(advice: Advice) -> list[str]:
    """Why there is none, what it would take, and what to do next."""
    if advice.basis == "confidences":
        none = f"By the confidences alone no answer is sure enough for {percent(advice.risk)} wrong ones."
        return [none, _to_promise(advice)]
    graded = counted(advice.labels, "graded answer")
    wrong = f"{amount(advice.wrong)} of {graded} {'is' if advice.wrong == 1 else 'are'} wrong"
    aim = f"At most {percent(advice.risk)} wrong with {percent(advice.certainty)} certainty"
    left = advice.answers - advice.labels
    if advice.needed is not None and advice.needed > advice.labels:
        lines = [
            f"Too few labels: {wrong}.",
            f"{aim} takes about {counted(advice.needed, 'label')} if the rest are like these.",
        ]
        following = f"{further(advice.needed - advice.labels, left)}."
    else:
        surest = "the surest" if advice.surest_wrong else "some of the surest"
        in_a_row = f"{aim} would take at least {amount(advice.fewest)} right answers in a row above it."
        lines = [
            f"No useful threshold: {wrong}, {surest} included.",
            _to_promise(advice) if advice.basis == "volunteers" else in_a_row,
        ]
        if left and advice.labels < advice.fewest:
            following = f"{further(advice.fewest - advice.labels, left)}."
        else:
            following = "look at every answer, or try another confidence: secl check --questions FILE"
    if advice.nearest is not None and advice.nearest < MOSTLY_WRONG:
        lines.append(f"The lowest share of wrong ones that can be promised now is {percent(advice.nearest)}.")
    return [*lines, f"Next: {following}"]


def accepted_line(answer: str | None, confidence: float, accept: float) -> str:
    """Whether an answer is accepted, in words.

    >>> accepted_line("A", 0.62, 0.6), accepted_line("A", 0.5996, 0.6)
    ('accepted: 0.620 is not below 0.6', 'not accepted: 0.5996 is below 0.6; ask a person or a larger model')
    """
    instead = "ask a person or a larger model"
    if answer is None:
        return f"not accepted: the answer could not be read; {instead}"
    digits = next(digits for digits in range(3, 18) if round(confidence, digits) < accept or confidence >= accept)
    number = f"{confidence:.{digits}f}"
    if confidence >= accept:
        return f"accepted: {number} is not below {accept}"
    return f"not accepted: {number} is below {accept}; {instead}"


def accept(threshold: Threshold) -> str:
    """What a threshold accepts.

    >>> accept(Threshold(0.83, 0.41, 49, 0, 0.1)), accept(Threshold(0.0, 1.0, 60, 0, 0.1))
    ('Accept at 0.83 or above: 41% of answers', 'Accept every answer')
    """
    if threshold.value == 0:
        return "Accept every answer"
    return f"Accept at {threshold.value} or above: {percent(threshold.coverage)} of answers"


def _accepted(threshold: Threshold | None, *, counts: bool = False) -> tuple[str, ...]:
    """A threshold and what it accepts, for a table; with its labelled answers and how many of them are wrong."""
    if threshold is None:
        return ("none", *(UNDEFINED,) * (3 if counts else 1))
    more = (amount(threshold.labels), amount(threshold.wrong)) if counts else ()
    return (str(threshold.value) if threshold.value else "all", percent(threshold.coverage), *more)


def advice_json(answers: Answers, advice: Advice) -> dict[str, object]:
    """An advice as JSON values; undefined numbers are None."""
    plain = asdict(advice)
    threshold = advice.threshold
    if threshold is not None and advice.basis == "labels":  # only what was tested in order has a bound
        plain["threshold"]["bound"] = float(risk_bound(threshold.wrong, threshold.labels, advice.certainty))
    return plain | {
        "guarantee": advice.basis == "labels" and advice.threshold is not None,
        "left_out": answers.left_out,
    }


RISKS = (0.05, 0.1, 0.2)
"""Shares of wrong ones that a report has thresholds for."""

CERTAINTY = 0.9
"""With which a report's thresholds are promised."""


def accepted_sentence(records: Sequence[Record]) -> str | None:
    """How many answers were accepted, and how many of them are right; None where no threshold was set."""
    judged = [record for record in records if record.accepted is not None]
    if not judged:
        return None
    accepted = [record for record in judged if record.accepted]
    limits = sorted({record.accept for record in judged if record.accept is not None})
    above = str(limits[0]) if len(limits) == 1 else f"thresholds from {limits[0]} to {limits[-1]}"
    part = percent(len(accepted) / len(judged))
    text = f"Accepted at {above}: {amount(len(accepted))} of {counted(len(judged), 'answer')} ({part})"
    for group, which in ((accepted, "these"), ([each for each in judged if not each.accepted], "the rejected ones")):
        grades = [right for record in group if (right := reported_correct(record)) is not None]
        text += f"; {percent(sum(grades) / len(grades))} of {which} are right" if grades else ""
    return f"{text}."


def risk_table(answers: Answers) -> Table:
    """What may be accepted at some risks: promised where there are labels, else by the confidences alone."""
    curve = answers.curve
    by_confidence = {risk: _accepted(estimated(curve, risk)) for risk in RISKS}
    if answers.basis != "labels":
        estimates = [(percent(risk), *cells) for risk, cells in by_confidence.items()]
        note = (
            "Estimates by the confidences alone. A guarantee takes labels of answers drawn at random: secl threshold "
            "RUN --risk 0.1 tells how many."
        )
        return plain_table(("about wrong", "accept from", "answers accepted"), estimates, (note,))
    headings = ("at most wrong", "promised: accept from", "answers accepted", "labelled above", "wrong of these")
    promised = {risk: guaranteed(curve, risk, CERTAINTY) for risk in RISKS}
    return plain_table(
        (*headings, "by the confidences: accept from", "answers accepted"),
        [
            (percent(risk), *_accepted(threshold, counts=True), *by_confidence[risk])
            for risk, threshold in promised.items()
        ],
        (f"A promise holds with {percent(CERTAINTY)} certainty, from {counted(curve.total, 'label')}. {ASSUMPTION}",),
    )
