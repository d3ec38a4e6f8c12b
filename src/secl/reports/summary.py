"""Records to numbers: how well each confidence of a run is calibrated, how it discriminates, and what it cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from secl.metrics.bootstrap import MEASURES, Interval, percentile_interval, resampled_measures
from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc
from secl.metrics.graded import graded
from secl.records import Record
from secl.reports.estimators import Reading, Series, readings


@dataclass(frozen=True, slots=True)
class Intervals:
    """A bootstrap interval over questions for each measure of `Measures`."""

    ece: Interval
    ada_ece: Interval
    brier: Interval
    auroc: Interval
    accuracy: Interval
    mean_confidence: Interval


@dataclass(frozen=True, slots=True)
class Measures:
    """What n graded answers say about a confidence; every measure is nan where it is undefined.

    Attributes:
        n: answers that counted.
        ece: expected calibration error, ten equal-width bins.
        ada_ece: the same with ten equal-mass bins.
        brier: Brier score.
        auroc: area under the ROC curve; nan if all answers are right or all are wrong.
        accuracy: share of right answers.
        mean_confidence: mean of the confidences.
        intervals: 95% bootstrap intervals; None where they were not asked for.
    """

    n: int
    ece: float
    ada_ece: float
    brier: float
    auroc: float
    accuracy: float
    mean_confidence: float
    intervals: Intervals | None


def measure(confidence: npt.ArrayLike, correct: npt.ArrayLike, *, resamples: int = 1000, seed: int = 0) -> Measures:
    """All measures of n confidences (in [0, 1]) against n grades (right or wrong).

    Args:
        confidence: n probabilities.
        correct: n grades.
        resamples: bootstrap draws for the intervals; 0 for no intervals.
        seed: of the bootstrap.

    Raises:
        ParameterError: lists of different lengths, values outside their range, or resamples below 0.

    >>> found = measure([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0], resamples=0)
    >>> found.n, round(found.ece, 3), found.accuracy, found.intervals
    (4, 0.3, 0.25, None)
    """
    confidences, grades = graded(confidence, correct)
    intervals = None
    if resamples != 0:
        values = resampled_measures(confidences, grades, resamples=resamples, seed=seed)
        intervals = Intervals(**{name: percentile_interval(values[name]) for name in MEASURES})
    return Measures(
        n=int(confidences.size),
        ece=ece(confidences, grades),
        ada_ece=ada_ece(confidences, grades),
        brier=brier(confidences, grades),
        auroc=auroc(confidences, grades),
        accuracy=float(np.mean(grades)) if grades.size else math.nan,
        mean_confidence=float(np.mean(confidences)) if confidences.size else math.nan,
        intervals=intervals,
    )


def summarise(
    records: Sequence[Record], found: Mapping[str, Reading] | None = None, *, intervals: bool = True
) -> dict[str, Any]:
    """The summary of a run, ready for JSON; whatever is undefined is None.

    Keys: for each reading that gives anything a dict with n, the measures, `cost_paper` and `cost_measured` (forward
    passes per question, as the paper counts and as tokens per token of plain answering), `fitted` (what was fitted, if
    anything) and, if asked for, "intervals": {measure: [low, high] or None}. Then counts over all questions:

        questions, unlabelled     asked; without a reference, so in no measure
        trained, trained_share    received an update
        burst, alarms, agreed     inside bursts; that fired the gate; stopped by the bin gate
        unparsed                  replies without a readable answer
        low_digit_mass            replies that gave the ten digits together less than 0.5
        cost_paper                the paper's forward-pass equivalents per question: 15 if trained, 1 if not
        cost_measured             tokens through the network per token of plain answering
        domains                   {domain: the same dict without "domains"}, in order of appearance

    Args:
        records: of one run, in order.
        found: the readings to measure; all of `secl.reports.estimators.readings` unless given.
        intervals: whether to compute 95% bootstrap intervals (about a second per reading and 2000 questions).

    >>> summarise([])["trained_share"] is None
    True
    """
    series = {name: (reading, reading.read(records)) for name, reading in (found or readings()).items()}
    summary = _summary(records, series, intervals)
    domains = dict.fromkeys(record.question.domain for record in records)
    summary["domains"] = {
        domain: _summary([record for record in records if record.question.domain == domain], series, intervals)
        for domain in domains
    }
    return summary


def summary_json(summary: dict[str, Any]) -> str:
    """The summary as strict JSON text (no NaN), two spaces deep, ending in a newline.

    Raises:
        ValueError: a value that JSON does not have; `summarise` makes none.

    >>> print(summary_json({"ece": None}), end="")
    {
      "ece": null
    }
    """
    return json.dumps(summary, allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def _summary(
    records: Sequence[Record], series: Mapping[str, tuple[Reading, Series]], intervals: bool
) -> dict[str, Any]:
    """The summary of some of the records that the series were read off."""
    summary: dict[str, Any] = {}
    by_place = {record.position: record for record in records}
    for name, (reading, whole) in series.items():
        inside = [i for i, place in enumerate(whole.places) if place in by_place]
        if not inside:
            continue
        graded = [(whole.confidence[i], right) for i in inside if (right := whole.correct[i]) is not None]
        measures = measure([c for c, _ in graded], [y for _, y in graded], resamples=1000 if intervals else 0)
        asked = [by_place[whole.places[i]] for i in inside]
        plain = sum(record.plain_tokens for record in asked)
        summary[name] = _plain(measures) | {
            "cost_paper": sum(map(reading.passes, asked)) / len(asked),
            "cost_measured": sum(whole.tokens[i] for i in inside) / plain if plain else None,
            "fitted": whole.fitted or None,
        }
    return summary | _counts(records)


def _counts(records: Sequence[Record]) -> dict[str, Any]:
    questions = len(records)
    trained = sum(record.outcome == "trained" for record in records)
    plain = sum(record.plain_tokens for record in records)
    return {
        "questions": questions,
        "unlabelled": sum(record.correct is None for record in records),
        "trained": trained,
        "trained_share": trained / questions if questions else None,
        "burst": sum(record.decision.in_burst for record in records),
        "alarms": sum(record.decision.alarm for record in records),
        "agreed": sum(record.outcome == "agreed" for record in records),
        "unparsed": sum(record.reply.answer is None for record in records),
        "low_digit_mass": sum(record.reply.digit_mass < 0.5 for record in records),
        "cost_paper": (15 * trained + (questions - trained)) / questions if questions else None,
        "cost_measured": sum(record.ledger.total for record in records) / plain if plain else None,
    }


def _plain(found: Measures) -> dict[str, Any]:
    """Measures as JSON values."""
    plain: dict[str, Any] = {"n": found.n}
    plain |= {name: _defined(getattr(found, name)) for name in MEASURES}
    if found.intervals is not None:
        spans = {name: getattr(found.intervals, name) for name in MEASURES}
        plain["intervals"] = {
            name: None if math.isnan(span.low) else [span.low, span.high] for name, span in spans.items()
        }
    return plain


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
