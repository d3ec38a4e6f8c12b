"""What `secl check` says of learning: the verdict in a sentence, what else a reader must know, tables, JSON."""

from __future__ import annotations

import math
from typing import Any

from secl.evaluation.adaptation_check import MIN_GAIN, MIN_PER_CLASS, MIN_QUESTIONS, Gap, enough
from secl.evaluation.json_values import json_value
from secl.reports.comparison_report import NOTE, TITLES, chance, difference_table
from secl.reports.formatting import UNDEFINED, number
from secl.reports.table import Table, plain_table

SHOWN = ("brier", "ece", "auroc", "mean_confidence")
"""Measures of the table of differences."""


def sentence(gap: Gap) -> str:
    """The verdict in one sentence; it begins with the verdict and a colon."""
    if gap.n < MIN_QUESTIONS:
        more = f"give at least {MIN_QUESTIONS}, and as a rule some hundreds"
        return f"cannot tell: {gap.n} usable questions are too few; {more}."
    if not enough(gap.n, gap.right):
        return (
            f"cannot tell: {gap.right} of {gap.n} usable answers are right; a verdict needs at least {MIN_PER_CLASS} "
            f"right and {MIN_PER_CLASS} wrong ones, so give more questions, or harder or easier ones."
        )
    ece, brier = gap.measures["ece"], gap.measures["brier"]
    text = (
        f"{gap.verdict}: normalised P(True) at tau {gap.tau:g} has a Brier score of {brier.b:.3f} against "
        f"{brier.a:.3f} stated and an ECE of {ece.b:.3f} against {ece.a:.3f}"
    )
    gain = f"a gain in ECE of {-ece.interval.high:.3f} to {-ece.interval.low:.3f}"
    if gap.verdict == "adapt":
        return f"{text}, {gain}."
    if gap.verdict == "cannot tell":
        return f"{text}, {gain}, which {gap.n} questions cannot settle; more may."
    if brier.rises:
        return f"{text}: it is worse for sure."
    return f"{text}: a gain in ECE of {MIN_GAIN:g} or more is excluded."


def without_references(questions: int) -> str:
    """The verdict on questions without any right answer."""
    return f"cannot tell: none of the {questions} questions has a reference; add right answers to see whether to adapt."


def notes(gap: Gap) -> list[str]:
    """What a reader must know beside the verdict, a sentence each."""
    lines = []
    if gap.unlabelled:
        lines.append(f"{gap.unlabelled} of {gap.questions} questions have no reference and do not count.")
    if gap.unrated:
        lines.append(
            f"{gap.unrated} answers have no normalised P(True) (unreadable, or no distractor) and do not count."
        )
    if not gap.n:
        return lines
    auroc = gap.measures["auroc"]
    if math.isnan(auroc.a):
        answers = "right" if gap.right else "wrong"
        lines.append(f"All answers are {answers}: AUROC is undefined ({UNDEFINED}), there is nothing to tell apart.")
    if gap.best != gap.tau:
        lines.append(
            f"On these answers normalised P(True) has its lowest Brier score at tau {gap.best:g}; what is chosen on "
            f"the answers looks better on them than on others. --tau {gap.best:g} has the verdict about it."
        )
    if auroc.falls:
        lines.append(
            f"Warning: normalised P(True) tells right from wrong worse than the stated confidence (AUROC {auroc.b:.3f} "
            f"against {auroc.a:.3f}); learning from it may cost ranking."
        )
    if gap.verdict == "adapt" and auroc.b <= 0.5:
        lines.append(
            f"Warning: normalised P(True) ranks these answers no better than chance (AUROC {auroc.b:.3f}); what is "
            "learned from it may be no more than how often answers are right."
        )
    return lines


def gap_table(gap: Gap) -> Table:
    """Stated confidence against the signal at the tau in use; fits 80 columns."""
    rows = {TITLES[name]: gap.measures[name] for name in SHOWN}
    right = f", {100 * gap.right / gap.n:.1f}% right" if gap.n else ""
    by_chance = f"{chance('Stated', 'the signal', gap.floors)} " if gap.n else ""
    note = f"{gap.n} usable questions{right}. {by_chance}{NOTE}"
    return difference_table(("Stated", "Signal"), {f"tau {gap.tau:g}": rows}, note)


def sweep_table(gap: Gap) -> Table:
    """The signal at every tau."""
    rows = []
    for result in gap.sweep:
        marks = [word for word, tau in (("best", gap.best), ("in use", gap.tau)) if tau == result.tau]
        numbers = (number(value, 3) for value in (result.brier, result.ece, result.auroc))
        rows.append((f"{result.tau:g}", *numbers, ", ".join(marks)))
    return plain_table(("tau", "Brier", "ECE", "AUROC", ""), rows)


def gap_json(gap: Gap) -> dict[str, Any]:
    """A check as JSON values; whatever is undefined is None."""
    plain: dict[str, Any] = json_value(gap)
    return plain | {"notes": notes(gap), "sentence": sentence(gap)}
