"""Which answers may be accepted: thresholds in words, as tables and as JSON, and what was accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from secl.evaluation.acceptance import Advice, Answers
from secl.evaluation.trust import further
from secl.grading import reported_correct
from secl.metrics.risk_control import Threshold, estimated, guaranteed, risk_bound
from secl.records import Record
from secl.reports.formatting import UNDEFINED, amount, counted
from secl.reports.table import Table, plain_table

ASSUMPTION = (
    "This holds for answers like these: the labelled ones must be a random sample of them, and later ones come from "
    "the same kinds of questions."
)
"""What every promise rests on."""


def sentences(answers: Answers, advice: Advice) -> list[str]:
    """What to accept for a risk, the conclusion first."""
    lines = [_conclusion(advice)]
    threshold = advice.threshold
    if threshold is not None and advice.basis != "confidences":
        bound = float(risk_bound(threshold.wrong, threshold.labels, advice.certainty))
        words = f", so {share(bound)} at most" if advice.basis == "labels" else ""
        lines.append(
            f"Of the {counted(threshold.labels, 'labelled answer')} above it {threshold.wrong} are wrong{words}."
        )
    if advice.basis == "labels":
        if threshold is not None or advice.nearest is not None:
            lines.append(ASSUMPTION)
    elif advice.needed is not None:
        few = f"; there are {amount(advice.answers)}, so ask more questions" if advice.needed > advice.answers else ""
        lines.append(
            f"To promise it: at least about {counted(advice.needed, 'label')} of answers drawn at random{few}."
        )
    elif advice.basis == "confidences" and threshold is not None:
        lines.append(f"To promise it takes labels of answers drawn at random, {advice.fewest} at least.")
    if answers.left_out:
        lines.append(f"Left out: {counted(answers.left_out, 'label')} of answers that were not drawn at random.")
    return lines


def _conclusion(advice: Advice) -> str:
    aim = f"at most {share(advice.risk)} of them wrong"
    if advice.basis == "confidences":
        if advice.threshold is None:
            return f"By the confidences alone no answer is sure enough for {share(advice.risk)} wrong ones."
        about = f"about {share(advice.threshold.expected)} of them wrong by the confidences alone"
        return f"{accept(advice.threshold)}, {about}: an estimate."
    if advice.basis == "volunteers":
        which = f"({counted(advice.labels, 'label')} of answers that were not drawn at random)"
        if advice.threshold is None:
            return f"No threshold keeps the share of wrong ones at {share(advice.risk)} {which}."
        return f"{accept(advice.threshold)}, {aim}: an estimate and no promise {which}."
    if advice.threshold is not None:
        certainty = f"with {share(advice.certainty)} certainty (from {counted(advice.labels, 'label')})"
        return f"{accept(advice.threshold)}, {aim} {certainty}."
    return _unreachable(advice)


def _unreachable(advice: Advice) -> str:
    """Why no threshold is promised, and what could be done."""
    aim = f"at most {share(advice.risk)} wrong with {share(advice.certainty)} certainty"
    if advice.labels < advice.fewest:
        more = further(advice.fewest - advice.labels, advice.answers - advice.labels)
        return (
            f"Too few labels to promise {aim}: that takes {advice.fewest} accepted labelled answers without an error, "
            f"and there are {counted(advice.labels, 'label')}; {more} at least{_nearest(advice)}."
        )
    if advice.needed is None:
        reason = "even the most confident answers are wrong more often"
    elif advice.needed <= advice.labels:
        reason = "the most confident answers are wrong more often than less confident ones, and they are tested first"
    else:
        reason = f"it would take at least about {counted(advice.needed, 'label')} if the rest are like these"
    return f"No threshold promises {aim} from {counted(advice.labels, 'label')}: {reason}{_nearest(advice)}."


def _nearest(advice: Advice) -> str:
    if advice.nearest is None:
        return "; no other risk can be promised either"
    return f". The lowest share of wrong ones that can be promised is {share(advice.nearest)}"


def accepted_line(answer: str | None, confidence: float, accept: float) -> str:
    """Whether an answer is accepted, in words.

    >>> accepted_line("A", 0.62, 0.6), accepted_line("A", 0.5996, 0.6)
    ('accepted: 0.620 is not below 0.6', 'abstained: 0.5996 is below 0.6; ask a person or a larger model')
    """
    instead = "ask a person or a larger model"
    if answer is None:
        return f"abstained: the answer could not be read; {instead}"
    digits = next(digits for digits in range(3, 18) if round(confidence, digits) < accept or confidence >= accept)
    number = f"{confidence:.{digits}f}"
    if confidence >= accept:
        return f"accepted: {number} is not below {accept}"
    return f"abstained: {number} is below {accept}; {instead}"


def accept(threshold: Threshold) -> str:
    """What a threshold accepts.

    >>> accept(Threshold(0.83, 0.41, 49, 0, 0.1)), accept(Threshold(0.0, 1.0, 60, 0, 0.1))
    ('Accept above 0.83: 41% of answers', 'Accept every answer')
    """
    if threshold.value == 0:
        return "Accept every answer"
    return f"Accept above {threshold.value}: {share(threshold.coverage)} of answers"


def share(value: float) -> str:
    """A share in percent, with as many digits as it takes to tell it from 0 and 1.

    >>> share(0.05), share(0.4149), share(0.0251), share(0.9993), share(float("nan"))
    ('5%', '41%', '2.5%', '99.93%', '–')
    """
    if math.isnan(value):
        return UNDEFINED
    digits = 0 if 0.1 <= value <= 0.99 or value in (0, 1) else 1 if value <= 0.99 else 2
    return f"{float(f'{100 * value:.{digits}f}'):g}%"


def value_and_coverage(threshold: Threshold | None) -> tuple[str, str]:
    """A threshold and what it accepts, for a table."""
    if threshold is None:
        return "none", UNDEFINED
    return (str(threshold.value) if threshold.value else "all", share(threshold.coverage))


def _accepted(threshold: Threshold | None) -> tuple[str, ...]:
    """The same, with its labelled answers and how many of them are wrong."""
    counts = (amount(threshold.labels), amount(threshold.wrong)) if threshold else (UNDEFINED, UNDEFINED)
    return (*value_and_coverage(threshold), *counts)


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
    judged = [record for record in records if record.abstained is not None]
    if not judged:
        return None
    accepted = [record for record in judged if not record.abstained]
    limits = sorted({record.accept for record in judged if record.accept is not None})
    above = str(limits[0]) if len(limits) == 1 else f"thresholds from {limits[0]} to {limits[-1]}"
    part = share(len(accepted) / len(judged))
    text = f"Accepted at {above}: {amount(len(accepted))} of {counted(len(judged), 'answer')} ({part})"
    for group, which in ((accepted, "these"), ([each for each in judged if each.abstained], "the rejected ones")):
        grades = [right for record in group if (right := reported_correct(record)) is not None]
        text += f"; {share(sum(grades) / len(grades))} of {which} are right" if grades else ""
    return f"{text}."


def risk_table(answers: Answers) -> Table:
    """What may be accepted at some risks: promised where there are labels, else by the confidences alone."""
    curve = answers.curve
    by_confidence = {risk: value_and_coverage(estimated(curve, risk)) for risk in RISKS}
    if answers.basis != "labels":
        estimates = [(share(risk), value, part) for risk, (value, part) in by_confidence.items()]
        note = (
            "By the confidences alone, and as good as they are: nothing is promised without labels of answers drawn at "
            "random. How many it takes is said by secl threshold RUN --risk 0.1."
        )
        return plain_table(("about wrong", "accept above", "answers accepted"), estimates, (note,))
    headings = ("at most wrong", "promised: accept above", "answers accepted", "labelled above", "wrong of these")
    promised = {risk: guaranteed(curve, risk, CERTAINTY) for risk in RISKS}
    return plain_table(
        (*headings, "by the confidences: accept above", "answers accepted"),
        [(share(risk), *_accepted(threshold), *by_confidence[risk]) for risk, threshold in promised.items()],
        (f"A promise holds with {share(CERTAINTY)} certainty, from {counted(curve.total, 'label')}. {ASSUMPTION}",),
    )
