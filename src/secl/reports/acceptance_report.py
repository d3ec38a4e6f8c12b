"""Sentences, tables and JSON about thresholds and accepted answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from secl.display import UNDEFINED, amount, counted, percent
from secl.evaluation.acceptance import Advice, Answers, Doubt
from secl.evaluation.json_values import json_value
from secl.evaluation.trust import describe_missing
from secl.grading.rules import reported_correct
from secl.labels.label import utc
from secl.metrics.risk_control import Threshold, estimated, guaranteed, most_wrong
from secl.records import Record, answers_in, noun_of
from secl.reports.table import Table, plain_table

ASSUMPTION = "This holds if the labelled answers are a random sample and later questions are of the same kinds."
"""Note on the conditions of a guarantee."""

BY_DOMAIN = (
    "Labels move the confidences of some domains by maps of their own. --accept takes the value of the other domains, "
    "and secl translates it for each answer."
)
"""Note on a threshold with several values."""

ONE_LOOK = (
    "A guarantee holds for one look: with a look after every 5 labels, up to a third of guarantees is false. --anytime "
    "allows any number of looks."
)
ANYTIME = "A guarantee with --anytime holds however often you look. It takes two to three times as many labels."
"""Notes on repeated looks."""

_DRAW = "label a random sample (secl label RUN, or secl export RUN --sample 50)"

DOUBTS: Mapping[Doubt, str] = {
    "chosen": "people chose the labelled answers, or the choice is unknown; if you drew them at random, say so (secl "
    f"label RUN ... --random, or chance=1), else {_DRAW}",
    "unequal": f"the labelled answers were drawn with unequal chances; {_DRAW}",
    "partly": "some answers have no reference; if you drew the rows with a reference at random: "
    "secl label RUN --references --random",
    "unlike": "the labelled answers differ from the others in confidence or domain more than 99% of random samples, "
    f"so they were not drawn at random from these answers; {_DRAW}",
}
"""Why labels allow no guarantee, and what to do."""

MOSTLY_WRONG = 0.5
"""A guaranteed risk at or above this share is useless, so the table omits the guarantee."""


def advice_table(answers: Answers, advice: Advice) -> Table:
    """Return a table of the threshold for a risk. Without a threshold, the table gives the number of labels needed."""
    threshold = advice.threshold
    facts = {"accept from": "no confidence suffices"}
    if threshold is not None:
        facts |= {
            "accept from": _accept_from(threshold.value) + (" in other domains" if threshold.domains else ""),
            **{f"in {domain}": _accept_from(value) for domain, value in threshold.domains.items()},
            f"{advice.noun}s accepted": f"{percent(threshold.coverage)} of {amount(advice.answers)}",
            "wrong among these": _expected(advice, threshold),
        }
        if threshold.labels:
            wrong = "wrong or skipped" if advice.skipped else "wrong"
            facts["labelled among these"] = f"{amount(threshold.labels)}, {amount(threshold.wrong)} {wrong}"
    elif advice.labels:
        facts["wrong"] = f"{amount(advice.wrong)} of {counted(advice.labels, f'graded {advice.noun}')}"
    facts["rests on"] = _basis(answers, advice)
    if threshold is None or advice.basis != "labels":
        facts["for a guarantee"] = _describe_goal(advice)
    if threshold is None and advice.nearest is not None and advice.nearest < MOSTLY_WRONG:
        facts["lowest risk guaranteed now"] = percent(advice.nearest)
    heading = f"at most {percent(advice.risk)} wrong, {percent(advice.certainty)} certainty"
    notes = [ASSUMPTION] if threshold is not None and advice.basis == "labels" else []
    notes.append(ANYTIME if advice.anytime else ONE_LOOK)
    notes += [BY_DOMAIN] if threshold is not None and threshold.domains else []
    return plain_table((heading, ""), {**facts, **sample_facts(answers, advice)}.items(), notes, texts=2)


def sample_facts(answers: Answers, advice: Advice) -> dict[str, str]:
    """Return what is special about the labelled answers: skips, documents, ages, and labels left out."""
    facts = {}
    if advice.skipped:
        others = "no confidence suffices" if advice.unskipped is None else _accept_from(advice.unskipped.value)
        skipped = f"{counted(advice.skipped, advice.noun)}, counted as wrong"
        facts["skipped"] = f"{skipped}; if these are like the others, accept from: {others}"
    whole = "document" if advice.noun == "answer" else "text"
    if advice.basis == "labels" and round(advice.worth) < advice.labels + advice.skipped:
        facts["independent labels"] = (
            f"about {round(advice.worth)}: labels of one {whole}, or of a repeated question, count together"
        )
    if (change := answers.change) is not None:
        facts["old and new labels"] = (
            f"the newest {amount(change.new)}: {percent(change.new_risk)} wrong; the older {amount(change.old)}: "
            f"{percent(change.old_risk)} (p = {change.p:.2g} at equal confidences); if later answers are like the "
            f"newest, add --since {utc(change.time)}"
        )
    if answers.older:
        facts["too old"] = f"{counted(answers.older, 'label')}"
        if answers.misdated:
            facts["too old"] += f"; a clock was wrong: {amount(answers.misdated)} of these came before older labels"
    if answers.left_out:
        facts["left out"] = f"{counted(answers.left_out, 'label')} of {answers.noun}s that were not drawn at random"
    if answers.doubt is not None:
        facts["why no guarantee"] = DOUBTS[answers.doubt]
    return facts


def _accept_from(value: float) -> str:
    return str(value) if value else "every answer"


def promise_sentence(advice: Advice) -> str | None:
    """Return a sentence on the answers that a threshold accepts; None without a threshold."""
    threshold = advice.threshold
    if threshold is None:
        return None
    values = ", ".join(f"{domain} from {value}" for domain, value in threshold.domains.items())
    where = f"from {threshold.value}{f' ({values})' if values else ''}" if threshold.value else "at any confidence"
    accepted = f"{percent(threshold.coverage)} of {counted(advice.answers, advice.noun)}"
    return f"Accepted {where}: {accepted}. Wrong among these: {_expected(advice, threshold)}."


def _expected(advice: Advice, threshold: Threshold) -> str:
    """Return the estimated or guaranteed share of wrong answers among accepted answers, in words."""
    if advice.basis == "labels":
        bound = threshold.bound(advice.certainty, anytime=advice.anytime)
        return f"at most {percent(bound)}: guaranteed with {percent(advice.certainty)} certainty"
    known = threshold.wrong / threshold.labels if advice.basis == "volunteers" else threshold.expected
    return f"about {percent(known)}: an estimate"


def _basis(answers: Answers, advice: Advice) -> str:
    if advice.basis == "confidences":
        return "the confidences alone"
    if answers.references:
        return f"{counted(advice.labels, advice.noun)} with a reference"
    drawn = "drawn at random" if advice.basis == "labels" else "not drawn at random"
    units = "answers" if advice.noun == "answer" else f"facts in {counted(advice.units, 'text')}"
    return f"{counted(advice.labels, 'label')} of {units} {drawn}"


def _describe_goal(advice: Advice) -> str:
    """Return the number of labels that would give a guarantee, or why the present labels give no guarantee."""
    if advice.needed is not None:
        like = "the confidences are calibrated" if advice.basis == "confidences" else "further labels are like these"
        fewer = f"; {amount(advice.fewest)}, if all of them are right" if advice.needed > advice.fewest else ""
        return f"about {counted(advice.needed, 'label')} of {advice.noun}s drawn at random, if {like}{fewer}"
    if advice.first is None:
        return f"at least {counted(advice.fewest, 'label')} of {advice.noun}s drawn at random"
    count = round(advice.first.worth)
    wrong = round(advice.first.wrong * count / max(1, advice.first.labels))
    allowed = most_wrong(count, advice.risk, advice.certainty, anytime=advice.anytime)
    return (
        f"at most {amount(max(0, allowed))} of the {amount(count)} most confident graded {advice.noun}s may "
        f"be wrong{' or skipped' if advice.skipped else ''}, but {amount(wrong)} {'is' if wrong == 1 else 'are'}"
    )


def advice_step(advice: Advice, folder: str, *, calibrates: bool, server: bool) -> str | None:
    """Return the recommended next step; None if every answer may be accepted.

    Args:
        folder: name of the run or server in commands.
        calibrates: whether later runs can start with the labels of this run.
    """
    threshold, left = advice.threshold, advice.answers - advice.labels
    if threshold is not None and not threshold.value:
        return None
    if threshold is not None:
        accept = f"--accept {threshold.value}"
        later = f"secl run ... --calibration {folder} {accept}" if calibrates else f"secl run ... {accept}"
        later = f"secl serve {folder} ... {accept}" if server else later
        return f"secl export {folder} {accept} --format csv; for later questions: {later}"
    wanted = advice.fewest if advice.needed is None else advice.needed
    if wanted > advice.labels and left:
        return describe_missing(wanted - advice.labels, left)
    return "look at every answer, or compare other methods (secl check)"


def _accepted(threshold: Threshold | None, *, counts: bool = False) -> tuple[str, ...]:
    """Return cells with threshold and coverage; with `counts`, also the numbers of labelled and of wrong answers."""
    if threshold is None:
        return ("none", *(UNDEFINED,) * (3 if counts else 1))
    more = (amount(threshold.labels), amount(threshold.wrong)) if counts else ()
    return (str(threshold.value) if threshold.value else "all", percent(threshold.coverage), *more)


def advice_json(answers: Answers, advice: Advice) -> dict[str, object]:
    """Return the fields of an `Advice` as JSON values, with None for undefined numbers."""
    plain, threshold = json_value(advice), advice.threshold
    guarantee = threshold is not None and advice.basis == "labels"
    if threshold is not None and guarantee:
        plain["threshold"]["bound"] = threshold.bound(advice.certainty, anytime=advice.anytime)
    of_sample = {name: getattr(answers, name) for name in ("left_out", "doubt", "older", "misdated")}
    return {**plain, "guarantee": guarantee, **of_sample, "change": json_value(answers.change)}


RISKS = (0.05, 0.1, 0.2)
"""Risks for which a report gives thresholds."""

CERTAINTY = 0.9
"""Certainty of the guarantees in a report."""


def accepted_sentence(records: Sequence[Record]) -> str | None:
    """Return a sentence on the number of accepted answers and their accuracy; None without a threshold."""
    texts = [record for record in records if record.parts and record.accepted is not None]
    judged = [answer for answer in answers_in(records) if answer.accepted is not None]
    if not judged:
        return None
    accepted = [record for record in judged if record.accepted]
    limits = sorted({_shortest(accept, judged) for record in judged if (accept := record.accept) is not None})
    above = str(limits[0]) if len(limits) == 1 else f"thresholds from {limits[0]} to {limits[-1]}"
    noun, part = noun_of(judged), percent(len(accepted) / len(judged))
    text = f"Accepted at {above}: {amount(len(accepted))} of {counted(len(judged), noun)} ({part})"
    for group, which in ((accepted, "these"), ([each for each in judged if not each.accepted], f"rejected {noun}s")):
        grades = [right for record in group if (right := reported_correct(record)) is not None]
        text += f"; {percent(sum(grades) / len(grades))} of {which} are right" if grades else ""
    if texts:
        text += f"; all facts of {sum(bool(each.accepted) for each in texts)} of {counted(len(texts), 'text')}"
    return f"{text}."


def _shortest(accept: float, records: Sequence[Record]) -> float:
    """Return the shortest decimal near a threshold that accepts the same answers among the records of the threshold."""
    own = [(record.confidence, record.accepted) for record in records if record.accept == accept and record.answer]
    decimals = (round(accept, digits) for digits in range(2, 17))
    return next((each for each in decimals if all((c >= each) == accepted for c, accepted in own)), accept)


def risk_tables(answers: Answers) -> list[Table]:
    """Return a table of thresholds for `RISKS`, and a table of their values in each domain with a map of its own."""
    curve, domains = answers.curve, [name for name in answers.scales if name is not None]
    if not domains:
        return [risk_table(answers)]
    drawn = answers.basis == "labels"
    found = [guaranteed(curve, risk, CERTAINTY) if drawn else estimated(curve, risk) for risk in RISKS]
    rows = [
        (name, *("none" if each is None else str(each.domains[name] or "all") for each in found)) for name in domains
    ]
    headings = (f"accept from, for {'at most' if drawn else 'about'}", *(f"{percent(risk)} wrong" for risk in RISKS))
    return [
        risk_table(answers),
        plain_table(headings, rows, (f"The first table has the others. {BY_DOMAIN}",), texts=1),
    ]


def risk_table(answers: Answers) -> Table:
    """Return a table of thresholds for `RISKS`: guaranteed by labels, and estimated from the confidences.

    The table has guarantees only if answers drawn at random have labels.
    """
    curve, noun = answers.curve, answers.noun
    by_confidence = {risk: _accepted(estimated(curve, risk)) for risk in RISKS}
    if answers.basis != "labels":
        estimates = [(percent(risk), *cells) for risk, cells in by_confidence.items()]
        note = (
            f"These estimates rest on the confidences alone. A guarantee needs labels of {noun}s drawn at random; secl "
            "threshold RUN --risk 0.1 prints their number."
        )
        if answers.doubt is not None:
            note = f"These estimates rest on the confidences alone. No guarantee: {DOUBTS[answers.doubt]}."
        return plain_table(("estimated wrong", "accept from", f"{noun}s accepted"), estimates, (note,))
    headings = ("at most wrong", "guaranteed: accept from", f"{noun}s accepted", "labelled of these", "of these wrong")
    promised = {risk: guaranteed(curve, risk, CERTAINTY) for risk in RISKS}
    graded = counted(curve.total, f"graded {noun}")
    skipped = " Skipped answers count as wrong." if answers.skipped.any() else ""
    return plain_table(
        (*headings, "estimated: accept from", f"{noun}s accepted"),
        [
            (percent(risk), *_accepted(threshold, counts=True), *by_confidence[risk])
            for risk, threshold in promised.items()
        ],
        (f"Guarantees have {percent(CERTAINTY)} certainty and rest on {graded}.{skipped} {ASSUMPTION}",),
    )
