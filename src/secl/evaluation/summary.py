"""Summary of a run's records: calibration, discrimination and cost of each confidence."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from secl.display import Shown
from secl.evaluation.estimators import make_estimators
from secl.evaluation.json_values import HIDDEN
from secl.evaluation.measures import Measures, measure
from secl.evaluation.series import Estimator, Series
from secl.evaluation.symptoms import LOW_DIGIT_MASS
from secl.metrics.bootstrap import RESAMPLES
from secl.records import Record

DOMAINS = 40
"""Number of the largest domains, which get intervals; clients of a server may send a domain for every question."""

_MAIN = ("stated", "secl", "posterior", "posterior_best")
"""Estimators in the repr of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary(Shown):
    """Counts over all questions, and the measures of each estimator that rates any.

    Attributes:
        unlabelled: questions without a reference, which no measure includes.
        trained: questions with an update.
        burst, alarms: questions inside bursts, and questions that fired the gate.
        agreed: questions whose update the bin gate stopped.
        failed: questions whose update was taken back, because its numbers were not finite.
        unparsed: replies without a readable answer.
        low_digit_mass: replies in which the ten digits together had a probability below 0.5.
        answered_best: questions answered with the most probable candidate.
        cost_measured: tokens through the network per token of plain answering; nan without questions.
        estimators: by name, in the order of reports.
        domains: the summary of each domain, in order of appearance; empty in a domain's summary.
        series: by name of the estimator, in the order of reports; empty in a domain's summary.
    """

    questions: int
    unlabelled: int
    trained: int
    burst: int
    alarms: int
    agreed: int
    failed: int
    unparsed: int
    low_digit_mass: int
    answered_best: int
    cost_measured: float
    estimators: Mapping[str, Measures]
    domains: Mapping[str, Summary] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict, metadata={HIDDEN: True}, compare=False)

    def _facts(self) -> dict[str, object]:
        main = {name: row.brier for name in _MAIN if (row := self.estimators.get(name)) and not math.isnan(row.brier)}
        counts = {"questions": self.questions, "unlabelled": self.unlabelled, "trained": self.trained}
        return {**counts, **{f"{name}_brier": value for name, value in main.items()}}


def summarise(
    records: Sequence[Record],
    estimators: Mapping[str, Estimator] | None = None,
    *,
    intervals: bool = True,
    in_domains: Collection[str] = (),
) -> Summary:
    """Compute the measures of every estimator over the records of a run, and over each domain.

    Args:
        records: records of one run, in order.
        estimators: by name; by default those of `make_estimators`.
        intervals: whether to compute 95% intervals (a quarter of a second per estimator and 2,000 questions).
        in_domains: names of the estimators that also get intervals in the `DOMAINS` largest domains.
    """
    estimators = make_estimators() if estimators is None else estimators
    series = {name: estimator.estimate(records) for name, estimator in estimators.items()}
    domains: dict[str, list[Record]] = {}
    for record in records:
        domains.setdefault(record.question.domain, []).append(record)
    largest = sorted(domains, key=lambda domain: -len(domains[domain]))[:DOMAINS]
    domain_of = {record.position: record.question.domain for record in records}
    parts = {name: _by_domain(whole, domain_of) for name, whole in series.items()}
    summaries = {}
    for domain, part in domains.items():
        own = {name: of_domain[domain] for name, of_domain in parts.items() if domain in of_domain}
        with_intervals = in_domains if intervals and domain in largest else ()
        summaries[domain] = _summary(part, _rows(part, estimators, own, with_intervals), {})
    rows = _rows(records, estimators, series, estimators if intervals else ())
    return replace(_summary(records, rows, summaries), series=series)


def _by_domain(series: Series, domain_of: Mapping[int, str]) -> dict[str, Series]:
    rows: dict[str, list[int]] = {}
    for row, position in enumerate(series.positions.tolist()):
        rows.setdefault(domain_of[position], []).append(row)
    return {domain: series.where(np.array(each)) for domain, each in rows.items()}


def _rows(
    records: Sequence[Record],
    estimators: Mapping[str, Estimator],
    series: Mapping[str, Series],
    intervals: Container[str],
) -> dict[str, Measures]:
    """Return the measures of each estimator that rates any of these records; `intervals` names those with intervals."""
    by_position = {record.position: record for record in records}
    rows = {}
    for name, part in series.items():
        if not len(part):
            continue
        estimator = estimators[name]
        rated = [by_position[position] for position in part.positions.tolist()]
        domains = [each.question.domain for each, known in zip(rated, part.has_grade, strict=True) if known]
        several = domains if len(set(domains)) > 1 else None
        resamples = RESAMPLES if name in intervals else 0
        measures = measure(*part.graded(), domains=several, resamples=resamples, ranks=estimator.ranks)
        plain = sum(record.plain_tokens for record in rated)
        rows[name] = replace(
            measures,
            title=estimator.title,
            needs_labels=estimator.needs_labels,
            cost_paper=sum(map(estimator.paper_passes, rated)) / len(rated),
            cost_measured=sum(part.tokens.tolist()) / plain if plain else math.nan,
            fitted=part.fitted,
        )
    return rows


def _summary(records: Sequence[Record], rows: Mapping[str, Measures], domains: Mapping[str, Summary]) -> Summary:
    plain = sum(record.plain_tokens for record in records)
    return Summary(
        questions=len(records),
        unlabelled=sum(record.correct is None for record in records),
        trained=sum(record.outcome == "trained" for record in records),
        burst=sum(record.decision.in_burst for record in records),
        alarms=sum(record.decision.alarm for record in records),
        agreed=sum(record.outcome == "agreed" for record in records),
        failed=sum(record.outcome == "failed" for record in records),
        unparsed=sum(record.reply.answer is None for record in records),
        low_digit_mass=sum(record.reply.digit_mass < LOW_DIGIT_MASS for record in records),
        answered_best=sum(record.posterior is not None and record.answers_best for record in records),
        cost_measured=sum(record.ledger.total for record in records) / plain if plain else math.nan,
        estimators=rows,
        domains=domains,
    )
