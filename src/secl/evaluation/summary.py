"""Measures of a confidence on graded answers, and the summary of a run: the measures and costs of every confidence.

A confidence may be the user's: a function from a record to a number, in Python or named as FILE.py:NAME.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from secl.display import Shown
from secl.errors import ParameterError
from secl.evaluation.acceptance import units_of
from secl.evaluation.json_values import HIDDEN
from secl.evaluation.symptoms import LOW_DIGIT_MASS, true_masses
from secl.facts.records import expected_wrong
from secl.metrics.intervals import RESAMPLES, Interval, ada_ece_interval, design_effect, ece_interval, intervals
from secl.metrics.measures import MEASURES, OF_BOTH_KINDS, ece_floor, prr, standard_measures
from secl.metrics.probability import graded
from secl.own import is_own, load_own
from secl.records import Record, answers_in
from secl.scores import SCORES, Of, Score, Series


def as_scores(items: Iterable[Score | Of]) -> list[Score]:
    """Return scores; a function of the user becomes a score of the returned answer, named like the function.

    Raises:
        ParameterError: two scores have the same name.
    """
    scores = [each if isinstance(each, Score) else own_score(each, getattr(each, "__name__", "own")) for each in items]
    names = [score.name for score in scores]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"two estimators are called {name!r}; rename your function.")
    return scores


def own_score(function: Of, name: str) -> Score:
    """Return the score of the user's function from a record to a probability that the returned answer is correct."""
    return Score(name, name, checked(function, name), answer=lambda record: record.answer, passes=math.nan)


def checked(function: Of, name: str) -> Of:
    """Return a function of the user that raises a ParameterError in place of an error or of any other value."""

    def of(record: Record) -> float | None:
        mention = f"the estimator {name!r} "
        try:
            value: object = function(record)  # a user's function may return anything
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
            raise ParameterError(f"{mention}failed for {record.question.mention}: {reason}.") from problem
        if value is None:
            return None
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
        if 0 <= number <= 1:
            return number
        raise ParameterError(
            f"{mention}returned {value!r} for {record.question.mention}; it must return a number from 0 to 1, or None."
        )

    return of


def load_score(name: str) -> Score:
    """Return the score of a function, or a `Score`, in a Python file ("FILE.py:NAME"), which secl executes.

    Raises:
        ParameterError: a name of another form, a file that cannot be executed, or an object that is neither.
    """
    if not is_own(name):
        raise ParameterError(f"the estimator {name!r} names no function in a file; write FILE.py:NAME.")
    own = load_own(name, "estimator")
    if isinstance(own, Score):
        return replace(own, of=checked(own.of, own.name))
    if not callable(own) or isinstance(own, type):
        raise ParameterError(
            f"the estimator {name!r} has the type {type(own).__name__}; it must be a function of a record."
        )
    return own_score(own, name.rpartition(":")[2])


OF_ORDER = (*OF_BOTH_KINDS, "prr")
"""Measures of ranking, which are undefined for a constant confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The measures of a confidence on n graded answers, and its cost; an undefined number is nan.

    Attributes:
        n: number of graded answers.
        brier: Brier score.
        ece: expected calibration error, ten equal-width bins.
        ece_floor: expected ECE of a calibrated forecaster with these confidences.
        ece_floor_95: 95% quantile of the ECE of a calibrated forecaster.
        ece_within_floor: whether the ECE is at most `ece_floor_95`, so that chance alone explains it; None for n = 0.
        ada_ece: ECE with ten equal-mass bins.
        auroc: area under the ROC curve; nan if all answers are right or all are wrong.
        auroc_within: mean AUROC inside the domains, weighted by pairs of a right and a wrong answer.
        prr: prediction rejection ratio; nan if AUROC is nan.
        accuracy: share of right answers.
        mean_confidence: mean of the confidences.
        intervals: {measure: 95% interval}, from `secl.metrics.intervals.ece_interval` for calibration errors and from
            `secl.metrics.intervals.intervals` for other measures; None if not requested.
        cost_paper: forward passes per question, as the paper counts.
        cost_measured: tokens through the network per token of plain answering.
        fitted: fitted parameters in words; None without a fit.
        title, needs_labels, ranks: copied from the `secl.scores.Score`.
    """

    n: int
    brier: float
    ece: float
    ece_floor: float
    ece_floor_95: float
    ece_within_floor: bool | None
    ada_ece: float
    auroc: float
    auroc_within: float
    prr: float
    accuracy: float
    mean_confidence: float
    intervals: Mapping[str, Interval] | None
    cost_paper: float = math.nan
    cost_measured: float = math.nan
    fitted: str | None = None
    title: str = field(default="", metadata={HIDDEN: True})
    needs_labels: bool = field(default=False, metadata={HIDDEN: True})
    ranks: bool = field(default=True, metadata={HIDDEN: True})


def measure(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    units: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    ranks: bool = True,
) -> Measures:
    """Return all measures of n confidences against n grades; arguments as in `secl.metrics.intervals.intervals`.

    If `resamples` is 0, secl computes no intervals. If `ranks` is False, measures of ranking are nan.

    >>> measures = measure([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0], resamples=0)
    >>> measures.n, round(measures.ece, 3), measures.accuracy, measures.intervals
    (4, 0.3, 0.25, None)
    """
    confidences, grades = graded(confidence, correct)
    spans, undefined = None, () if ranks else OF_ORDER
    if resamples != 0:
        errors = {
            "ece": ece_interval(confidences, grades, units),
            "ada_ece": ada_ece_interval(confidences, grades, units),
        }
        spans = errors | intervals(confidences, grades, domains=domains, units=units, resamples=resamples)
        spans |= dict.fromkeys(undefined, Interval(math.nan, math.nan))
        spans = {name: spans[name] for name in MEASURES}
    standard = standard_measures(confidences, grades, domains)
    floor = ece_floor(confidences, design_effect(grades - confidences, units))
    values: dict[str, Any] = {**standard, "prr": prr(confidences, grades), **dict.fromkeys(undefined, math.nan)}
    return Measures(
        **values,
        n=int(confidences.size),
        ece_floor=floor.mean,
        ece_floor_95=floor.upper,
        # 1e-9 allows for rounding errors in the sums.
        ece_within_floor=standard["ece"] <= floor.upper + 1e-9 if grades.size else None,
        intervals=spans,
        ranks=ranks,
    )


DOMAINS = 40
"""Maximum number of domains with intervals (the largest ones), because clients of a server may invent many domains."""

_MAIN = ("stated", "secl", "posterior", "posterior_best")
"""Estimators in the repr of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary(Shown):
    """Counts over all questions, and the measures of each estimator that rates at least one question.

    Attributes:
        answers: number of answers that can be right or wrong: of questions, and of the facts of texts.
        facts: number of the facts among these.
        expected_wrong: expected number of wrong facts; nan without facts, or if a confidence is unknown.
        unlabelled: answers without a grade of the model's own reply.
        trained: questions with an update.
        burst, alarms: questions inside bursts, and questions at which the gate raised an alarm.
        agreed: questions whose update the bin gate stopped.
        failed: questions whose update was taken back, because its numbers were not finite.
        unparsed: replies without a readable answer.
        low_digit_mass: replies in which the ten digits together had a probability below 0.5.
        true_mass: median probability of True and False together in judgements of answers; nan without judgements.
        answered_best: questions answered with the most probable candidate.
        cost_measured: tokens through the network per token of plain answering; nan without questions.
        decoding_steps: mean over the questions (`secl.ledger.Ledger.steps`); nan without questions.
        estimators: by name, in the order of reports.
        domains: the summary of each domain, in order of appearance; empty in a domain's summary.
        series: by name of the estimator, in the order of reports; empty in a domain's summary.
    """

    questions: int
    answers: int
    facts: int
    expected_wrong: float
    unlabelled: int
    trained: int
    burst: int
    alarms: int
    agreed: int
    failed: int
    unparsed: int
    low_digit_mass: int
    true_mass: float
    answered_best: int
    cost_measured: float
    decoding_steps: float
    estimators: Mapping[str, Measures]
    domains: Mapping[str, Summary] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict, metadata={HIDDEN: True}, compare=False)

    def _facts(self) -> dict[str, object]:
        main = {name: row.brier for name in _MAIN if (row := self.estimators.get(name)) and not math.isnan(row.brier)}
        counts = {"questions": self.questions, "unlabelled": self.unlabelled, "trained": self.trained}
        return {**counts, **{f"{name}_brier": value for name, value in main.items()}}


def summarise(
    records: Sequence[Record],
    estimators: Iterable[Score | Of] | None = None,
    *,
    intervals: bool = True,
    in_domains: Collection[str] = (),
) -> Summary:
    """Compute the measures of every estimator over the records of a run, and over each domain.

    Args:
        records: records of one run, in order.
        estimators: scores, or functions of your own from a record to a probability that its answer is correct (or
            None); by default `secl.scores.SCORES`.
        intervals: whether to compute 95% intervals (a quarter of a second per estimator and 2,000 questions).
        in_domains: names of the estimators that also get intervals in the `DOMAINS` largest domains.

    Raises:
        ParameterError: a function of your own fails, or returns anything else than a number from 0 to 1 or None.

    >>> from secl.learning import Calibrator
    >>> from secl.testing import ScriptedModel
    >>> from secl.testing import toy_stream
    >>> def cautious(record):
    ...     return record.confidence / 2
    >>> records = list(Calibrator(ScriptedModel()).run(toy_stream(20)))
    >>> list(summarise(records, [cautious], intervals=False).estimators)
    ['cautious']
    """
    scores = {score.name: score for score in as_scores(SCORES.values() if estimators is None else estimators)}
    answers = answers_in(records)
    asked = {record.position: record for record in records}
    series = {name: score.estimate(answers) for name, score in scores.items()}
    domains: dict[str, list[Record]] = {}
    for answer in answers:
        domains.setdefault(answer.question.domain, []).append(answer)
    largest = sorted(domains, key=lambda domain: -len(domains[domain]))[:DOMAINS]
    parts = {name: _by_domain(whole, answers) for name, whole in series.items()}
    summaries = {}
    for domain, part in domains.items():
        own = {name: of_domain[domain] for name, of_domain in parts.items() if domain in of_domain}
        with_intervals = in_domains if intervals and domain in largest else ()
        summaries[domain] = _summary(part, _rows(answers, asked, scores, own, with_intervals), {})
    rows = _rows(answers, asked, scores, series, scores if intervals else ())
    return replace(_summary(records, rows, summaries), series=series)


def _by_domain(series: Series, answers: Sequence[Record]) -> dict[str, Series]:
    entries: dict[str, list[int]] = {}
    for entry, row in enumerate(series.rows.tolist()):
        entries.setdefault(answers[row].question.domain, []).append(entry)
    return {domain: series.where(np.array(each)) for domain, each in entries.items()}


def _rows(
    answers: Sequence[Record],
    asked: Mapping[int, Record],
    scores: Mapping[str, Score],
    series: Mapping[str, Series],
    intervals: Container[str],
) -> dict[str, Measures]:
    """Return measures of each estimator that rates any answer, with intervals for the estimators in `intervals`.

    `asked`: the records of the questions by position. The cost of a fact is that of its text.
    """
    rows = {}
    for name, part in series.items():
        if not len(part):
            continue
        score = scores[name]
        rated = [answers[row] for row in part.rows.tolist()]
        known = [each for each, has_grade in zip(rated, part.has_grade, strict=True) if has_grade]
        domains = [each.question.domain for each in known]
        measures = measure(
            *part.graded(),
            domains=domains if len(set(domains)) > 1 else None,
            units=units_of(known).tolist(),
            resamples=RESAMPLES if name in intervals else 0,
            ranks=score.ranks,
        )
        questions = [asked[position] for position in {each.position for each in rated}]
        plain = sum(record.plain_tokens for record in questions)
        rows[name] = replace(
            measures,
            title=score.title,
            needs_labels=score.needs_labels,
            cost_paper=sum(map(score.paper_passes, questions)) / len(questions),
            cost_measured=sum(map(score.tokens, questions)) / plain if plain else math.nan,
            fitted=part.fitted,
        )
    return rows


def _summary(records: Sequence[Record], rows: Mapping[str, Measures], domains: Mapping[str, Summary]) -> Summary:
    plain = sum(record.plain_tokens for record in records)
    outcomes = Counter(record.outcome for record in records)
    answers = answers_in(records)
    facts = [answer for answer in answers if answer.kind == "fact"]
    return Summary(
        questions=len(records),
        answers=len(answers),
        facts=len(facts),
        expected_wrong=expected_wrong(facts) if facts else math.nan,
        unlabelled=sum(answer.correct is None for answer in answers),
        trained=outcomes["trained"],
        burst=sum(record.decision.in_burst for record in records),
        alarms=sum(record.decision.alarm for record in records),
        agreed=outcomes["agreed"],
        failed=outcomes["failed"],
        unparsed=sum(record.reply.answer is None for record in records),
        low_digit_mass=sum(record.reply.digit_mass < LOW_DIGIT_MASS for record in records),
        true_mass=median(true_masses(records) or [math.nan]),
        answered_best=sum(record.posterior is not None and record.best_returned for record in records),
        cost_measured=sum(record.ledger.total for record in records) / plain if plain else math.nan,
        decoding_steps=sum(record.ledger.steps for record in records) / len(records) if records else math.nan,
        estimators=rows,
        domains=domains,
    )
