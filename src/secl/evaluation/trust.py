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

import numpy as np

from secl.display import counted, number, percent
from secl.evaluation.acceptance import units_of
from secl.evaluation.symptoms import MIN_QUESTIONS, RARE, UNLIKELY, Code, Reason, Severity, seen
from secl.grading.rules import reported_correct
from secl.metrics.intervals import Interval, intervals
from secl.metrics.measures import auroc, chance_of_count, ece, ece_floor
from secl.records import Record, answers_in, main_source, noun_of

Level = Literal["fine", "unproven", "do not act on it"]
"""fine: tests on graded answers found no error. unproven: too few graded answers, or doubts."""

WEAK = 0.6
"""AUROC below which a confidence hardly separates right from wrong answers."""

GAP = 0.1
"""Significant overconfidence (mean confidence minus accuracy) above this gap is a stop, above half of it a doubt."""

MIN_GRADED = 50
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
    def line(self) -> str:
        """The verdict in one line, with the source of the confidences and the most severe reasons.

        If all reasons are notes, the line has only the first.

        >>> assess([]).line
        'verdict: unproven (stated confidence). No question is answered yet.'
        """
        worst = [reason.sentence for reason in self.reasons if reason.severity == self.reasons[0].severity]
        shown = worst[:1] if self.reasons[0].severity == "note" else worst
        return f"verdict: {self.level} ({self.source} confidence). {' '.join(shown)}"


def assess(records: Sequence[Record]) -> Verdict:
    """Return the verdict on the records of a run, in order, with their labels (`Record.with_label`)."""
    answers = answers_in(records)
    if records and not answers:
        reason = Reason("unlabelled", "note", "The texts state no facts, so nothing in them can be right or wrong.")
        return Verdict("unproven", (reason,), 0, 0)
    known = [answer for answer in answers if reported_correct(answer) is not None]
    on_labels = from_grades(
        [(answer.confidences.expected_grade, bool(reported_correct(answer))) for answer in known],
        ranks=[answer.confidences.uncalibrated for answer in known],
        units=units_of(known).tolist(),
        answers=len(answers),
        noun=noun_of(answers),
    )
    return replace(conclude(seen(answers), on_labels, len(answers)), source=main_source(answers))


def conclude(from_records: Sequence[Reason], on_labels: Verdict, questions: int) -> Verdict:
    """Return the verdict on `questions` answers, from symptoms (`from_records`) and tests on graded answers."""
    if not questions:
        return Verdict("unproven", (Reason("unlabelled", "doubt", "No question is answered yet."),), 0, 0)
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
    units: Sequence[int] | None = None,
    chosen: bool = False,
    answers: int | None = None,
    review: str = "secl label",
    noun: str = "answer",
) -> Verdict:
    """Return the verdict by graded answers alone.

    Answers of one unit may be right or wrong together, so the tests use one answer of each unit, drawn at random.

    Args:
        graded: confidence and grade of each graded answer.
        ranks: label-free confidences of the same answers, for the test of ranking; by default the confidences in
            `graded`. Confidences that labels have moved cannot serve for this test, because they contain the grades.
        units: number of the unit of each answer, such as its document (`secl.evaluation.acceptance.unit_numbers`); by
            default, each answer is a unit.
        chosen: whether volunteers, who may prefer wrong answers, chose the answers to label.
        answers: number of all answers; None if the stream goes on.
        review: where people can label answers.
        noun: "answer" or "fact", for sentences.
    """
    n = len(graded)
    if not n:
        sentence = f"No {noun} has a label or a reference, so these confidences are untested; label some ({review})."
        return Verdict("unproven", (Reason("unlabelled", "doubt", sentence),), 0, 0)
    accuracy, mean = fmean(right for _, right in graded), fmean(each for each, _ in graded)
    left = None if answers is None else answers - n
    rows = range(n) if units is None else one_of_each(units)
    unit = "text" if noun == "fact" else "document or question"
    tested = counted(len(rows), f"graded {noun}") + (f" (one of each {unit})" if len(rows) < n else "")
    confidences, grades = tuple(graded[row][0] for row in rows), tuple(bool(graded[row][1]) for row in rows)
    ranks = confidences if ranks is None else tuple(ranks[row] for row in rows)
    of_level = _level_reasons(confidences, grades, chosen=chosen, tested=tested)
    reasons = [*of_level, *_ranking_reasons(ranks, grades, left, noun=noun, tested=tested)]
    if len(rows) < MIN_GRADED and all(reason.code != "few_labels" for reason in reasons):
        more, of = MIN_GRADED - len(rows), noun if len(rows) == n else "text" if noun == "fact" else "document"
        many = f"Only one {of} has" if len(rows) == 1 else f"Only {len(rows)} {of}s have"
        missing = describe_missing(more, left) if of == noun else f"label {counted(more, f'more {of}')}"
        sentence = f"{many} a label or a reference; {missing} to test the confidences."
        reasons.append(Reason("few_labels", "doubt", sentence, {"graded": len(rows), "more": more}))
    if reasons:
        return Verdict(_level(reasons, proven=False), _by_weight(reasons), n, n, accuracy, mean)
    area, interval = separation(ranks, grades)
    sentence = (
        f"Tested on {tested}: accuracy and mean confidence agree, and right {noun}s have higher "
        f"confidences than wrong ones ({_in_words(area, interval)})."
    )
    proof = Reason("tested", "note", sentence, {"graded": len(rows), "auroc": area})
    return Verdict("fine", (proof,), n, n, accuracy, mean)


def describe_missing(more: int, left: int | None) -> str:
    """Return how to get `more` graded answers: by labels of the `left` ungraded answers, then by more questions."""
    if left is None or left >= more:
        return f"label {more} more"
    ask = f"ask {counted(more - left, 'more question')}"
    others = "other one" if left == 1 else f"other {left}"
    return f"label the {others} and {ask}" if left else ask


def one_of_each(units: Sequence[int]) -> list[int]:
    """Return the row of one answer of each unit, drawn at random; the draw depends on the units alone.

    >>> one_of_each([3, 4, 5]), len(one_of_each([7, 7, 8, 7]))
    ([0, 1, 2], 2)
    """
    order = np.random.default_rng(0).permutation(len(units))
    return sorted(order[np.unique(np.array(units)[order], return_index=True)[1]].tolist())


def _level_reasons(
    confidences: tuple[float, ...], grades: tuple[bool, ...], *, chosen: bool, tested: str
) -> list[Reason]:
    """Return a reason if mean confidence and accuracy differ, or else if the ECE is too high."""
    mean, accuracy = fmean(confidences), fmean(grades)
    gap, on = mean - accuracy, f"on {tested}"
    chance = chance_of_count(confidences, sum(grades))
    if abs(gap) < GAP / 2 or chance >= UNLIKELY:
        error, limit = ece(confidences, grades), ece_floor(confidences).upper
        if len(grades) < MIN_QUESTIONS or max(GAP / 2, limit) >= error:
            return []
        sentence = (
            f"Calibrated on average, but wrong in places: ECE {number(error, 3)} {on}; chance explains an ECE of at "
            f"most {number(limit, 3)} (95% limit)."
        )
        return [Reason("miscalibrated", "doubt", sentence, {"ece": error, "limit": limit})]
    code: Code = "underconfident" if gap < 0 else "overconfident"
    severity: Severity = "stop" if gap >= GAP and chance < RARE else "doubt"
    sentence = (
        f"{code.capitalize()}: mean confidence {percent(mean)}, accuracy {percent(accuracy)} {on}; calibrated "
        f"confidences would differ this much by chance in {percent(chance)} of cases."
    )
    if chosen and code == "overconfident":
        sentence += (
            " People chose which answers to rate. If they rated wrong answers more often than right ones, the true "
            "difference is smaller."
        )
    return [Reason(code, severity, sentence, {"mean_confidence": mean, "accuracy": accuracy, "chance": chance})]


def _ranking_reasons(
    confidences: tuple[float, ...], grades: tuple[bool, ...], left: int | None, *, noun: str, tested: str
) -> list[Reason]:
    """Return a reason if the AUROC is low, or uncertain."""
    if len(grades) < MIN_QUESTIONS:
        return []
    area, interval = separation(confidences, grades)
    if math.isnan(area) or math.isnan(interval.low):
        kind = "right" if fmean(grades) > 0.5 else "wrong"
        sentence = (
            f"Nearly all graded {noun}s are {kind}, too many to test whether right {noun}s have higher confidences."
        )
        return [Reason("few_labels", "doubt", sentence, {"graded": len(grades)})]
    values, shown = {"auroc": area, "low": interval.low, "high": interval.high}, _in_words(area, interval)
    if interval.high < 0.5:
        sentence = f"The confidences are higher for wrong {noun}s than for right ones ({shown})."
        return [Reason("inverted", "stop", sentence, values)]
    if interval.low > 0.5:
        sentence = f"The confidences hardly separate right from wrong {noun}s ({shown})."
        return [] if area > WEAK else [Reason("weak", "doubt", sentence, values)]
    if interval.high <= WEAK:
        return [
            Reason("chance", "stop", f"The confidences do not separate right from wrong {noun}s ({shown}).", values)
        ]
    sentence = (
        f"{tested} do not show whether right {noun}s have higher confidences than wrong "
        f"ones ({shown}); {'ask' if left == 0 else 'label'} more."
    )
    return [Reason("few_labels", "doubt", sentence, {"graded": len(grades), **values})]


def _in_words(area: float, interval: Interval) -> str:
    return f"AUROC {number(area, 2)}, {interval.low:.2f} to {interval.high:.2f}; chance gives 0.5"


@lru_cache(maxsize=16)
def separation(
    confidences: tuple[float, ...], grades: tuple[bool, ...], units: tuple[int, ...] | None = None
) -> tuple[float, Interval]:
    """Return AUROC and its 95% bootstrap interval; `units` is as in `secl.metrics.intervals.intervals`."""
    return auroc(confidences, grades), intervals(confidences, grades, units=units)["auroc"]
