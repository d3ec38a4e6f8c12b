"""What `secl check` says: the verdict in a sentence, what else a reader must know, tables, JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from secl.metrics.paired_bootstrap import Difference
from secl.reports.adaptation_check import LEAST, LEAST_OF_A_KIND, WORTH, Gap
from secl.reports.compare import LABELS, NOTE, difference_json, difference_table
from secl.reports.tables import UNDEFINED

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = ("ece", "brier", "auroc", "mean_confidence")
BAR = 25
"""Width of the longest bar in characters."""


def sentence(gap: Gap) -> str:
    """The verdict in one sentence; it begins with the verdict and a colon."""
    if gap.n < LEAST:
        return f"cannot tell: {gap.n} usable questions are too few; give at least {LEAST}, and as a rule some hundreds."
    if not gap.fitted:
        return (
            f"cannot tell: {gap.right} of {gap.n} usable answers are right; a verdict needs at least {LEAST_OF_A_KIND} "
            f"right and {LEAST_OF_A_KIND} wrong ones, so give more questions, or harder or easier ones."
        )
    ece, brier = gap.fitted["ece"], gap.fitted["brier"]
    low, high = -ece.interval.high, -ece.interval.low
    against = f"an ECE of {ece.b:.3f} against {ece.a:.3f} stated"
    if gap.verdict == "adapt":
        what = f"it has {against}, a gain of {low:.3f} to {high:.3f}"
    elif gap.verdict == "do not adapt" and brier.rises:
        what = f"it is worse than the stated confidence, with a Brier score of {brier.b:.3f} against {brier.a:.3f}"
    elif gap.verdict == "do not adapt":
        what = f"it is not better, with {against}: a gain of {WORTH:g} or more is excluded ({low:.3f} to {high:.3f})"
    else:
        what = f"it has {against}, a gain of {low:.3f} to {high:.3f}"
        what += ", which the Brier score does not confirm" if ece.falls else ""
        more = "more would hardly tell" if gap.needed is None else f"about {gap.needed:,} would probably tell"
        what += f"; {gap.n} questions are too few, and {more}"
    return (
        f"{gap.verdict}: normalised P(True) is best at tau {gap.best:g} ({gap.tau:g} is in use), and at "
        f"{fold_taus(gap)}, cross-fitted, {what}."
    )


def notes(gap: Gap) -> list[str]:
    """What a reader must know beside the verdict, a sentence each."""
    found = []
    if gap.unlabelled:
        found.append(f"{gap.unlabelled} of {gap.questions} questions have no reference and do not count.")
    if gap.unrated:
        found.append(f"{gap.unrated} answers have no normalised P(True) (unreadable, or no rival) and do not count.")
    if gap.n and math.isnan(gap.used["auroc"].a):
        answers = "right" if gap.used["accuracy"].a == 1.0 else "wrong"
        found.append(f"All answers are {answers}: AUROC is undefined ({UNDEFINED}), there is nothing to tell apart.")
    if gap.n and gap.best in (gap.sweep[0].tau, gap.sweep[-1].tau):
        found.append(f"The best tau lies at the end of the sweep ({gap.best:g}); a better one may lie beyond it.")
    if gap.verdict == "adapt" and not gap.used["ece"].falls:
        found.append(f"At tau {gap.tau:g}, which is in use, no gain is shown: use --tau {gap.best:g}.")
    if gap.fitted and gap.fitted["auroc"].falls:
        worse = gap.fitted["auroc"]
        found.append(
            f"Warning: normalised P(True) tells right from wrong worse than the stated confidence (AUROC {worse.b:.3f} "
            f"against {worse.a:.3f}); learning from it may cost ranking."
        )
    if gap.verdict == "adapt" and gap.fitted["auroc"].b <= 0.5:
        found.append(
            f"Warning: normalised P(True) does not tell right from wrong (AUROC {gap.fitted['auroc'].b:.3f}); all that "
            "can be learned from it is how often answers are right on the whole."
        )
    return found


def fold_taus(gap: Gap) -> str:
    """The taus that the folds were scored with, in words."""
    low, high = min(gap.folds), max(gap.folds)
    return f"tau {low:g}" if low == high else f"tau {low:g} to {high:g}"


def gap_table(gap: Gap) -> Table:
    """Stated confidence against the signal, at the tau in use and cross-fitted; fits 80 columns."""
    sections = {f"tau {gap.tau:g}, in use": _rows(gap.used)}
    if gap.fitted:
        sections[f"{fold_taus(gap)}, cross-fitted"] = _rows(gap.fitted)
    accuracy = gap.used["accuracy"].a
    right = "" if math.isnan(accuracy) else f", {100 * accuracy:.1f}% right"
    return difference_table(("Stated", "Signal"), sections, f"{gap.n} usable questions{right}. {NOTE}")


def sweep_table(gap: Gap) -> Table:
    """The signal at every tau, with its ECE as a bar."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.caption = (
        "The best tau has the least Brier score. Against a badly overconfident stated confidence a near constant at "
        "the base rate can win it too: an AUROC of 0.5 or less gives that away."
    )
    table.caption_justify = "left"
    for heading in ("tau", "ECE", "Brier", "AUROC"):
        table.add_column(heading, justify="right")
    table.add_column("ECE")
    table.add_column("")
    longest = max((row.ece for row in gap.sweep), default=math.nan)
    for row in gap.sweep:
        numbers = [UNDEFINED if math.isnan(value) else f"{value:.3f}" for value in (row.ece, row.brier, row.auroc)]
        bar = "█" * round(BAR * row.ece / longest) if longest > 0 else ""
        marks = [word for word, tau in (("best", gap.best), ("in use", gap.tau)) if tau == row.tau]
        table.add_row(f"{row.tau:g}", *numbers, bar, ", ".join(marks))
    return table


def gap_json(gap: Gap) -> dict[str, Any]:
    """A check as JSON values; whatever is undefined is None."""
    differences = {
        name: {measure: difference_json(each) for measure, each in found.items()}
        for name, found in (("used", gap.used), ("fitted", gap.fitted))
    }
    plain = asdict(gap) | differences | {"best": _defined(gap.best)}
    plain["sweep"] = [{name: _defined(value) for name, value in asdict(row).items()} for row in gap.sweep]
    return plain | {"folds": list(gap.folds), "notes": notes(gap), "sentence": sentence(gap)}


def _rows(found: dict[str, Difference]) -> dict[str, Difference]:
    return {LABELS[measure]: found[measure] for measure in SHOWN}


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
