"""A verdict on confidences, with reasons: may users act on `Record.answer` as `Record.confidence` suggests?

Tests on graded answers (`from_grades`) overrule the symptoms that need no grades (`seen`). Symptoms can show that
confidences are wrong, never that they are right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Literal

from secl.evaluation.symptoms import FEWEST, RARE, UNLIKELY, Code, Reason, Severity, main_source, seen
from secl.grading.rules import reported_correct
from secl.metrics.intervals import Interval, intervals
from secl.metrics.measures import auroc, chance_of_count, ece, ece_floor
from secl.records import Record

Level = Literal["fine", "unproven", "do not act on it"]
"""fine: tests on graded answers found no error. unproven: too few graded answers, or doubts."""

WEAK = 0.6
"""AUROC below which a confidence hardly separates right from wrong answers."""

GAP = 0.1
"""Significant overconfidence (mean confidence minus accuracy) above this gap is a stop, above half of it a doubt."""

ENOUGH = 50
"""Graded answers that the verdict "fine" needs. In simulations, 92% of runs with calibrated confidences then get this
verdict. Of runs whose confidences are 0.2 too high, 5% get it; with 20 answers instead of 50, 19% would."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a user can act on reported confidences.

    Attributes:
        reasons: the most severe first.
        graded: number of answers with a reference or a label.
        accuracy: of the graded answers; nan without any.
        source: most frequent source of the confidences, "stated" or "posterior"; "reported" if unknown.
    """

    level: Level
    reasons: tuple[Reason, ...]
    questions: int
    graded: int
    accuracy: float = math.nan
    mean_confidence: float = math.nan
    source: str = "reported"

    @property
    def codes(self) -> tuple[Code, ...]:
        """Codes of doubts and stops."""
        return tuple(reason.code for reason in self.reasons if reason.severity != "note")

    @property
    def warnings(self) -> tuple[Code, ...]:
        """Codes of doubts and stops, except for missing labels."""
        return tuple(code for code in self.codes if code not in ("unlabelled", "few_labels"))

    @property
    def stops(self) -> tuple[Reason, ...]:
        """The stops; empty unless the verdict is "do not act on it"."""
        return tuple(reason for reason in self.reasons if reason.severity == "stop")


def assess(records: Sequence[Record]) -> Verdict:
    """Return the verdict on the records of a run, in order, with their labels (`Record.with_label`)."""
    grades = [(record, reported_correct(record)) for record in records]
    known = [(record.expected_grade, right) for record, right in grades if right is not None]
    ranks = [record.label_free for record, right in grades if right is not None]
    verdict = conclude(seen(records), from_grades(known, ranks=ranks, answers=len(records)), len(records))
    return replace(verdict, source=main_source(records))


def conclude(from_records: Sequence[Reason], on_labels: Verdict, questions: int) -> Verdict:
    """Return the verdict on `questions` answers, from symptoms (`from_records`) and tests on graded answers."""
    if not questions:
        return Verdict("unproven", (Reason("unlabelled", "doubt", left=0),), 0, 0)
    proven = on_labels.level == "fine"
    # If tests on grades prove the confidences, symptoms are only notes.
    others = [replace(each, severity="note") if proven else each for each in from_records]
    reasons = _by_weight((*on_labels.reasons, *others))
    return replace(on_labels, level=_level(reasons, proven=proven), reasons=reasons, questions=questions)


def _by_weight(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple(sorted(reasons, key=lambda reason: ("stop", "doubt", "note").index(reason.severity)))


def _level(reasons: Sequence[Reason], *, proven: bool) -> Level:
    if any(reason.severity == "stop" for reason in reasons):
        return "do not act on it"
    return "fine" if proven else "unproven"


def from_grades(
    graded: Sequence[tuple[float, bool]],
    *,
    ranks: Sequence[float] | None = None,
    chosen: bool = False,
    answers: int | None = None,
) -> Verdict:
    """Return the verdict by graded answers alone.

    Args:
        graded: confidence and grade of each graded answer.
        ranks: label-free confidences of the same answers, for the test of ranking; by default the confidences in
            `graded`. Confidences that labels have moved cannot serve for this test, because they contain the grades.
        chosen: whether volunteers, who may prefer wrong answers, chose the answers to label.
        answers: number of all answers; None if the stream goes on.
    """
    n = len(graded)
    if not n:
        return Verdict("unproven", (Reason("unlabelled", "doubt", left=answers),), 0, 0)
    confidences, grades = tuple(each for each, _ in graded), tuple(bool(right) for _, right in graded)
    ranks = confidences if ranks is None else tuple(ranks)
    accuracy, mean = fmean(grades), fmean(confidences)
    left = None if answers is None else answers - n
    reasons = [*_level_reasons(confidences, grades, chosen=chosen), *_ranking_reasons(ranks, grades, left)]
    if n < ENOUGH and all(reason.code != "few_labels" for reason in reasons):
        reasons.append(Reason("few_labels", "doubt", n, more=ENOUGH - n, left=left))
    if reasons:
        return Verdict(_level(reasons, proven=False), _by_weight(reasons), n, n, accuracy, mean)
    area, interval = separation(ranks, grades)
    return Verdict("fine", (Reason("tested", "note", n, value=area, interval=interval),), n, n, accuracy, mean)


def _level_reasons(confidences: tuple[float, ...], grades: tuple[bool, ...], *, chosen: bool) -> list[Reason]:
    """Return a reason if mean confidence and accuracy differ, or else if the ECE is too high."""
    mean, accuracy = fmean(confidences), fmean(grades)
    gap = mean - accuracy
    chance = chance_of_count(confidences, sum(grades))
    if abs(gap) < GAP / 2 or chance >= UNLIKELY:
        error, floor = ece(confidences, grades), ece_floor(confidences)
        if len(grades) < FEWEST or max(GAP / 2, floor.upper) >= error:
            return []
        return [Reason("miscalibrated", "doubt", len(grades), value=error, beside=floor.upper)]
    code: Code = "underconfident" if gap < 0 else "overconfident"
    severity: Severity = "stop" if gap >= GAP and chance < RARE else "doubt"
    return [Reason(code, severity, len(grades), value=mean, beside=accuracy, chance=chance, chosen=chosen)]


def _ranking_reasons(confidences: tuple[float, ...], grades: tuple[bool, ...], left: int | None) -> list[Reason]:
    """Return a reason if the AUROC is low, or uncertain."""
    if len(grades) < FEWEST:
        return []
    area, interval = separation(confidences, grades)
    if math.isnan(area) or math.isnan(interval.low):
        return [Reason("few_labels", "doubt", len(grades), beside=fmean(grades))]

    def reason(code: Code, severity: Severity) -> list[Reason]:
        return [Reason(code, severity, len(grades), value=area, interval=interval, left=left)]

    if interval.high < 0.5:
        return reason("inverted", "stop")
    if interval.low > 0.5:
        return [] if area > WEAK else reason("weak", "doubt")
    return reason("chance", "stop") if interval.high <= WEAK else reason("few_labels", "doubt")


@lru_cache(maxsize=16)
def separation(confidences: tuple[float, ...], grades: tuple[bool, ...]) -> tuple[float, Interval]:
    """Return AUROC and its 95% bootstrap interval."""
    return auroc(confidences, grades), intervals(confidences, grades)["auroc"]
