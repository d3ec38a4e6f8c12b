"""May one act on these confidences? A verdict with its reasons.

What is judged is what was reported: `Record.answer` and `Record.confidence`. Tests against right answers come first
(`from_grades`): they overrule what can be seen without any (`seen`), which shows that something is wrong and never that
all is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Literal

from secl.evaluation.reason import FEWEST, RARE, UNLIKELY, Code, Reason, Severity
from secl.evaluation.symptoms import main_source, seen
from secl.grading import reported_correct
from secl.metrics.bootstrap import Interval, intervals
from secl.metrics.calibration import chance_of_count, ece, ece_floor
from secl.metrics.discrimination import auroc
from secl.records import Record

Level = Literal["fine", "unproven", "do not act on it"]
"""fine: tested on right answers and not found wrong. unproven: not enough is known, or there are doubts."""

WEAK = 0.6
"""AUROC up to which a confidence hardly separates right from wrong answers."""

GAP = 0.1
"""Mean confidence less accuracy from which it is too wrong to act on; half of it is a doubt."""

ENOUGH = 50
"""Graded answers from which a confidence may be called fine: 5% of simulated confidences that are 0.2 too high are then
called so (19% from 20 answers on), and 92% of calibrated ones."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether reported confidences may be acted on.

    Attributes:
        reasons: the most severe first.
        graded: answers among them, or labels, that are known to be right or wrong.
        accuracy: share of these that is right; nan without any.
        source: what most of the confidences are, "stated" or "posterior"; "reported" where that is not looked at.
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
        """The reasons that stand against acting, for programs: those that are no mere notes."""
        return tuple(reason.code for reason in self.reasons if reason.severity != "note")

    @property
    def warnings(self) -> tuple[Code, ...]:
        """Those among them that say more than that right answers are missing."""
        return tuple(code for code in self.codes if code not in ("unlabelled", "few_labels"))

    @property
    def stops(self) -> tuple[Reason, ...]:
        """The reasons for which they must not be acted on; empty unless that is the verdict."""
        return tuple(reason for reason in self.reasons if reason.severity == "stop")

    @property
    def line(self) -> str:
        """The verdict and what stands behind it, in one line.

        >>> assess([]).line
        'unproven. Nothing has been answered yet.'
        """
        worst = self.reasons[0].severity
        weighty = [each.sentence for each in self.reasons if each.severity == worst]
        return f"{self.level}. {' '.join(weighty[:1] if worst == 'note' else weighty)}"


def assess(records: Sequence[Record]) -> Verdict:
    """The verdict on a run: its records in order, with what people said of them (`Record.with_label`), if anything."""
    grades = [(record, reported_correct(record)) for record in records]
    known = [(record.confidence, right) for record, right in grades if right is not None]
    ranks = [record.label_free for record, right in grades if right is not None]
    verdict = conclude(seen(records), from_grades(known, ranks=ranks, answers=len(records)), len(records))
    return replace(verdict, source=main_source(records))


def conclude(from_records: Sequence[Reason], on_labels: Verdict, questions: int) -> Verdict:
    """The verdict on so many answers from what is `seen` in their records and from the tests on right answers."""
    if not questions:
        return Verdict("unproven", (Reason("unlabelled", "doubt", "Nothing has been answered yet."),), 0, 0)
    proven = on_labels.level == "fine"
    # Whoever separates right from wrong and means what it says does so whatever else looks odd.
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
    """What right answers say about confidences, and nothing else.

    Args:
        graded: confidence and whether the answer is right.
        ranks: label-free confidences, where labels have moved the others: labels must not rank their own answers.
        chosen: whether people chose what to rate, and may have chosen what was wrong.
        answers: how many there are, graded or not; None where further ones are to come.
    """
    n = len(graded)
    if not n:
        text = (
            "No answer is known to be right or wrong, so nothing has tested these confidences; label some (secl label)."
        )
        return Verdict("unproven", (Reason("unlabelled", "doubt", text),), 0, 0)
    confidences, grades = tuple(each for each, _ in graded), tuple(bool(right) for _, right in graded)
    ranks = confidences if ranks is None else tuple(ranks)
    accuracy, mean = fmean(grades), fmean(confidences)
    left = None if answers is None else answers - n
    reasons = [*_level_reasons(confidences, grades, chosen=chosen), *_ranking_reasons(ranks, grades, left)]
    if n < ENOUGH and all(reason.code != "few_labels" for reason in reasons):
        many = "Only one answer is" if n == 1 else f"Only {n} answers are"
        text = f"{many} known to be right or wrong; {further(ENOUGH - n, left)} to test the confidences."
        reasons.append(Reason("few_labels", "doubt", text))
    if reasons:
        return Verdict(_level(reasons, proven=False), _by_weight(reasons), n, n, accuracy, mean)
    area, interval = separation(ranks, grades)
    text = (
        f"Tested on {_amount(n, 'graded answer')}: they separate right from wrong ({_area(area, interval)}), and say "
        f"{_percent(mean)} where {_percent(accuracy)} are right."
    )
    return Verdict("fine", (Reason("tested", "note", text),), n, n, accuracy, mean)


def _level_reasons(confidences: tuple[float, ...], grades: tuple[bool, ...], *, chosen: bool) -> list[Reason]:
    """Whether confidences and right answers contradict each other, in the mean or else in places."""
    mean, accuracy = fmean(confidences), fmean(grades)
    gap = mean - accuracy
    chance = chance_of_count(confidences, sum(grades))
    if abs(gap) < GAP / 2 or chance >= UNLIKELY:
        error, floor = ece(confidences, grades), ece_floor(confidences)
        if len(grades) < FEWEST or max(GAP / 2, floor.upper) >= error:
            return []
        text = (
            f"Confidences and shares of right answers lie apart by {error:.3f} (ECE) on "
            f"{_amount(len(grades), 'graded answer')}; of calibrated ones 95% have {floor.upper:.3f} at most."
        )
        return [Reason("miscalibrated", "doubt", text)]
    observed = (
        f"on {_amount(len(grades), 'graded answer')} they say {_percent(mean)} and {_percent(accuracy)} are right, "
        f"which happens to {_rarely(chance)} of calibrated ones"
    )
    if gap < 0:
        return [Reason("underconfident", "doubt", f"The confidences are too low: {observed}.")]
    severity: Severity = "stop" if gap >= GAP and chance < RARE else "doubt"
    caveat = " People chose what to rate: if they rate wrong answers more often, it is less bad than that."
    text = f"The confidences are too high: {observed}.{caveat if chosen else ''}"
    return [Reason("overconfident", severity, text)]


def _ranking_reasons(confidences: tuple[float, ...], grades: tuple[bool, ...], left: int | None) -> list[Reason]:
    """Whether right answers have higher confidences than wrong ones."""
    if len(grades) < FEWEST:
        return []
    area, interval = separation(confidences, grades)
    if math.isnan(area) or math.isnan(interval.low):
        kind = "right" if fmean(grades) > 0.5 else "wrong"
        text = f"Nearly all graded answers are {kind}, so whether the confidences tell right from wrong is unknown."
        return [Reason("few_labels", "doubt", text)]
    shown = _area(area, interval)
    if interval.high < 0.5:
        text = f"The confidences are higher for wrong answers than for right ones ({shown})."
        return [Reason("inverted", "stop", text)]
    if interval.low > 0.5 and area > WEAK:
        return []
    if interval.low > 0.5:
        return [Reason("weak", "doubt", f"The confidences hardly separate right from wrong answers ({shown}).")]
    if interval.high <= WEAK:
        return [Reason("chance", "stop", f"The confidences do not separate right from wrong answers ({shown}).")]
    text = f"{_amount(len(grades), 'graded answer')} do not tell whether the confidences separate right from wrong"
    return [Reason("few_labels", "doubt", f"{text} ({shown}); {'ask' if left == 0 else 'label'} more.")]


def further(more: int, left: int | None) -> str:
    """What to do for so many more graded answers, where so many are there to be labelled."""
    if left is None or left >= more:
        return f"label {more} more"
    ask = f"ask {_amount(more - left, 'more question')}"
    others = "other one" if left == 1 else f"other {left}"
    return f"label the {others} and {ask}" if left else ask


@lru_cache(maxsize=16)
def separation(confidences: tuple[float, ...], grades: tuple[bool, ...]) -> tuple[float, Interval]:
    """AUROC and its 95% bootstrap interval."""
    return auroc(confidences, grades), intervals(confidences, grades)["auroc"]


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _rarely(chance: float) -> str:
    return "fewer than 0.1%" if chance < RARE else f"{100 * chance:.1f}%"


def _amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _area(area: float, interval: Interval) -> str:
    return f"AUROC {area:.2f}, {interval.low:.2f} to {interval.high:.2f}, where chance gives 0.5"
