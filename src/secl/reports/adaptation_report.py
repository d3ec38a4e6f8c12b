"""What `secl check` says: the verdict in a sentence, what else a reader must know, tables, JSON."""

from __future__ import annotations

import math
from typing import Any

from secl.evaluation.adaptation_check import MIN_GAIN, MIN_PER_CLASS, MIN_QUESTIONS, Gap
from secl.evaluation.json_values import json_value
from secl.reports.comparison_report import NOTE, TITLES, chance, difference_table
from secl.reports.formatting import UNDEFINED, number
from secl.reports.table import Table, plain_table

SHOWN = ("brier", "ece", "auroc", "mean_confidence")
"""Measures of the table of differences."""

SWEEP_NOTE = (
    "The best tau has the least Brier score. Against a badly overconfident stated confidence a near constant at the "
    "base rate can win it too: an AUROC of 0.5 or less gives that away."
)


def sentence(gap: Gap) -> str:
    """The verdict in one sentence; it begins with the verdict and a colon."""
    if gap.n < MIN_QUESTIONS:
        enough = f"give at least {MIN_QUESTIONS}, and as a rule some hundreds"
        return f"cannot tell: {gap.n} usable questions are too few; {enough}."
    if not gap.fitted:
        return (
            f"cannot tell: {gap.right} of {gap.n} usable answers are right; a verdict needs at least {MIN_PER_CLASS} "
            f"right and {MIN_PER_CLASS} wrong ones, so give more questions, or harder or easier ones."
        )
    ece, brier = gap.fitted["ece"], gap.fitted["brier"]
    low, high = -ece.interval.high, -ece.interval.low
    against = f"a Brier score of {brier.b:.3f} against {brier.a:.3f} stated, an ECE of {ece.b:.3f} against {ece.a:.3f}"
    if gap.verdict == "adapt":
        what = f"it has {against}, a gain in ECE of {low:.3f} to {high:.3f}"
    elif gap.verdict == "do not adapt" and brier.rises:
        what = f"it is worse than the stated confidence, with a Brier score of {brier.b:.3f} against {brier.a:.3f}"
    elif gap.verdict == "do not adapt":
        excluded = f"a gain in ECE of {MIN_GAIN:g} or more is excluded ({low:.3f} to {high:.3f})"
        what = f"it is not better, with {against}: {excluded}"
    else:
        what = f"it has {against}, a gain in ECE of {low:.3f} to {high:.3f}"
        what += ", which the Brier score does not confirm" if ece.falls else ""
        more = "more would hardly tell" if gap.needed is None else f"about {gap.needed:,} would probably tell"
        what += f"; {gap.n} questions are too few, and {more}"
    return (
        f"{gap.verdict}: normalised P(True) is best at tau {gap.best:g} ({gap.tau:g} is in use), and at "
        f"{fold_taus(gap)}, cross-fitted, {what}."
    )


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
    if gap.n and math.isnan(gap.used["auroc"].a):
        answers = "right" if gap.used["accuracy"].a == 1.0 else "wrong"
        lines.append(f"All answers are {answers}: AUROC is undefined ({UNDEFINED}), there is nothing to tell apart.")
    if gap.n and gap.best in (gap.sweep[0].tau, gap.sweep[-1].tau):
        lines.append(f"The best tau lies at the end of the sweep ({gap.best:g}); a better one may lie beyond it.")
    if gap.verdict == "adapt" and not gap.used["ece"].falls:
        lines.append(f"At tau {gap.tau:g}, which is in use, no gain is shown: use --set evidence.tau={gap.best:g}.")
    if gap.fitted and gap.fitted["auroc"].falls:
        worse = gap.fitted["auroc"]
        lines.append(
            f"Warning: normalised P(True) tells right from wrong worse than the stated confidence (AUROC {worse.b:.3f} "
            f"against {worse.a:.3f}); learning from it may cost ranking."
        )
    if gap.verdict == "adapt" and gap.fitted["auroc"].b <= 0.5:
        lines.append(
            "Warning: normalised P(True) ranks these answers no better than chance (AUROC "
            f"{gap.fitted['auroc'].b:.3f}); what is learned from it may be no more than how often answers are right."
        )
    return lines


def fold_taus(gap: Gap) -> str:
    """The taus that the folds were scored with, in words."""
    low, high = min(gap.folds), max(gap.folds)
    return f"tau {low:g}" if low == high else f"tau {low:g} to {high:g}"


def gap_table(gap: Gap) -> Table:
    """Stated confidence against the signal, at the tau in use and cross-fitted; fits 80 columns."""
    sections = {f"tau {gap.tau:g}, in use": gap.used}
    if gap.fitted:
        sections[f"{fold_taus(gap)}, cross-fitted"] = gap.fitted
    rows = {title: {TITLES[name]: part[name] for name in SHOWN} for title, part in sections.items()}
    accuracy = gap.used["accuracy"].a
    right = "" if math.isnan(accuracy) else f", {100 * accuracy:.1f}% right"
    by_chance = f"{chance('Stated', 'the signal', gap.floors)} " if gap.n else ""
    return difference_table(("Stated", "Signal"), rows, f"{gap.n} usable questions{right}. {by_chance}{NOTE}")


def sweep_table(gap: Gap) -> Table:
    """The signal at every tau."""
    rows = []
    for result in gap.sweep:
        marks = [word for word, tau in (("best", gap.best), ("in use", gap.tau)) if tau == result.tau]
        numbers = (number(value, 3) for value in (result.brier, result.ece, result.auroc))
        rows.append((f"{result.tau:g}", *numbers, ", ".join(marks)))
    return plain_table(("tau", "Brier", "ECE", "AUROC", ""), rows, (SWEEP_NOTE,))


def gap_json(gap: Gap) -> dict[str, Any]:
    """A check as JSON values; whatever is undefined is None."""
    plain: dict[str, Any] = json_value(gap)
    return plain | {"notes": notes(gap), "sentence": sentence(gap)}
