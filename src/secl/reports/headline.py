"""What a run found, in one or two plain sentences."""

from __future__ import annotations

import math

from secl.evaluation.summary import EstimatorSummary, Summary
from secl.reports.run_report import adapted, best_alternative, comes_closer, posterior_of, reported


def verdict(summary: Summary) -> str:
    """What the run found, in one or two plain sentences.

    >>> from secl.evaluation.summary import summarise
    >>> print(verdict(summarise([])))
    No answer could be graded, so nothing can be said about calibration.
    """
    stated, after = summary.estimators.get("stated"), best_alternative(summary)
    if stated is None or math.isnan(stated.ece):
        return "No answer could be graded, so nothing can be said about calibration."
    claim = f"it said {100 * stated.mean_confidence:.0f}% and was right {100 * stated.accuracy:.0f}% of the time"
    text = f"Stated confidence was {_off(stated, ' on average')} ({claim})"
    if after is None:
        return f"{text}."
    if reported(summary) is not None:
        return f"{text}; {_off_reported(summary, stated)}.{_of_answers(summary)}"
    if not comes_closer(summary):
        return f"{text}; none of the confidences that need no right answers has a lower Brier score."
    best = f'"{after.estimator.title}" was best on these answers, {_off(after)}'
    return f"{text}; of the confidences that need no right answers, {best}."


def _off_reported(summary: Summary, stated: EstimatorSummary) -> str:
    """What adapting and the posterior made of the stated confidence."""
    parts = []
    for row, name in ((adapted(summary), "after adapting it"), (posterior_of(summary), "the posterior")):
        if row is not None:
            doubt = "" if _distinguishable(stated, row) else " (no difference is shown)"
            parts.append(f"{name} was {_off(row)}{doubt}")
    return "; ".join(parts)


def _of_answers(summary: Summary) -> str:
    """Whether the posterior's best answers are better; empty without any."""
    own, best = summary.estimators.get("posterior"), summary.estimators.get("posterior_best")
    if own is None or best is None or math.isnan(best.accuracy) or math.isnan(own.accuracy):
        return ""
    if own.n != best.n:  # of some it is known whether the answer is right, and not whether another one is
        return ""
    return (
        f" The answers themselves were right {100 * own.accuracy:.0f}% of the time, the posterior's best ones "
        f"{100 * best.accuracy:.0f}%."
    )


def _off(row: EstimatorSummary, how: str = "") -> str:
    """The calibration error in words, whether chance alone may have made it, and the Brier score."""
    chance = " (chance alone may explain that)" if row.ece_within_floor else ""
    return f"off by {row.ece:.3f}{how}{chance}, Brier score {row.brier:.3f}"


def _distinguishable(one: EstimatorSummary, other: EstimatorSummary) -> bool:
    """Whether two scores may be read as different: unless the intervals of their Brier scores overlap."""
    if one.intervals is None or other.intervals is None:
        return True  # nobody asked
    spans = (one.intervals.brier, other.intervals.brier)
    return max(each.low for each in spans) > min(each.high for each in spans)
