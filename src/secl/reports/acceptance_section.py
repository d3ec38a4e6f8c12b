"""What a report says about accepting answers: the curve, thresholds for some risks, and what was accepted."""

from __future__ import annotations

from collections.abc import Sequence

from secl.evaluation.acceptance import Answers
from secl.grading import reported_correct
from secl.metrics.risk_control import RiskCoverage, estimated, guaranteed
from secl.records import Record
from secl.reports.acceptance_report import ASSUMPTION, share, value_and_coverage
from secl.reports.formatting import UNDEFINED, amount, counted
from secl.reports.table import Cell, Column, Table

RISKS = (0.05, 0.1, 0.2)
"""Shares of wrong ones that a report has thresholds for."""

CERTAINTY = 0.9
"""With which a report's thresholds are promised."""

WORTH_DRAWING, MOST_PANELS = 20, 7
"""Labels from which a domain has a panel of its own, and the most of them."""


def accepted_sentence(records: Sequence[Record]) -> str | None:
    """How many answers were accepted, and how many of them are right; None where no threshold was set."""
    asked = [record for record in records if record.abstained is not None]
    if not asked:
        return None
    accepted = [record for record in asked if not record.abstained]
    limits = sorted({record.accept for record in asked if record.accept is not None})
    above = str(limits[0]) if len(limits) == 1 else f"thresholds from {limits[0]} to {limits[-1]}"
    part = share(len(accepted) / len(asked))
    text = f"Accepted at {above}: {amount(len(accepted))} of {counted(len(asked), 'answer')} ({part})"
    graded = [right for record in accepted if (right := reported_correct(record)) is not None]
    others = [right for record in asked if record.abstained and (right := reported_correct(record)) is not None]
    known = [
        f"{share(sum(rights) / len(rights))} of {which} are right"
        for rights, which in ((graded, "these"), (others, "the rejected ones"))
        if rights
    ]
    return "; ".join([text, *known]) + "."


def risk_panels(answers: Answers) -> dict[str, RiskCoverage]:
    """The curves that are worth a picture: of all answers, and of domains with labels, if any has some."""
    domains = list(dict.fromkeys(answers.domains))
    curves = {domain: answers.of(domain).curve for domain in domains} if len(domains) > 1 else {}
    labelled = {domain: curve for domain, curve in curves.items() if curve.total >= WORTH_DRAWING}
    return {"all domains" if curves else "all answers": answers.curve, **dict(list(labelled.items())[:MOST_PANELS])}


def risk_table(answers: Answers) -> Table:
    """What may be accepted at some risks."""
    if answers.basis != "labels":
        return _estimates(answers)
    columns = [Column("at most wrong"), Column("promised: accept above"), Column("answers accepted")]
    columns += [Column("labelled above"), Column("wrong of these"), Column("by the confidences: accept above")]
    columns.append(Column("answers accepted"))
    curve, rows = answers.curve, []
    for risk in RISKS:
        promised, expected = guaranteed(curve, risk, CERTAINTY), estimated(curve, risk)
        texts = [share(risk), *value_and_coverage(promised)]
        texts += [amount(promised.labels), amount(promised.wrong)] if promised else [UNDEFINED, UNDEFINED]
        rows.append([Cell(text) for text in (*texts, *value_and_coverage(expected))])
    labels = counted(curve.total, "label")
    return Table(
        columns, {"": rows}, [f"A promise holds with {share(CERTAINTY)} certainty, from {labels}. {ASSUMPTION}"]
    )


def _estimates(answers: Answers) -> Table:
    """The same by the confidences alone."""
    found = [estimated(answers.curve, risk) for risk in RISKS]
    rows = [
        [Cell(share(risk)), Cell(value_and_coverage(each)[0]), Cell(share(each.coverage if each else 0.0))]
        for risk, each in zip(RISKS, found, strict=True)
    ]
    note = (
        "By the confidences alone, and as good as they are: nothing is promised without labels of answers drawn at "
        "random. How many it takes is said by secl threshold RUN --risk 0.1."
    )
    return Table([Column("about wrong"), Column("accept above"), Column("answers accepted")], {"": rows}, [note])
