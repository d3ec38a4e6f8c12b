"""What `secl check` says: one method with the reason, whether learning would help, and the numbers behind both."""

from __future__ import annotations

from typing import Any

from secl.evaluation.check import MIN_GAIN, MIN_PER_CLASS, MIN_QUESTIONS, Check
from secl.evaluation.json_values import json_value
from secl.metrics.standard import MEASURES
from secl.reports.comparison_report import NOTE, difference_table
from secl.reports.formatting import counted, number, percent
from secl.reports.posterior_section import letters_sentence
from secl.reports.summary_table import score_cells
from secl.reports.table import Cell, Column, Table

COMPARED = ("brier", "ece", "auroc", "mean_confidence")
"""Measures of the table of differences."""


def use_and_why(result: Check) -> tuple[str, str]:
    """The recommendation as a command, and the reason in a sentence."""
    use = " ".join(("Use: secl run --method", result.method, *result.flags))
    return use, f"Why: {_by_labels(result) if result.basis == 'labels' else BY_EXPERIENCE}."


BY_EXPERIENCE = (
    "it had a lower Brier score than the stated confidence on every set measured with a model in this process, and a "
    "higher one on 32 questions behind a server; to test it here, label twenty answers"
)


def _by_labels(result: Check) -> str:
    if not result.gain:
        return "no other confidence has a lower Brier score than the stated one for sure"
    brier, auroc = result.gain["brier"], result.gain["auroc"]
    reason = (
        f"its Brier score is {brier.b:.3f} against {brier.a:.3f} stated (a gain of {-brier.interval.high:.3f} to "
        f"{-brier.interval.low:.3f}) and its AUROC {number(auroc.b, 3)} against {number(auroc.a, 3)}"
    )
    if result.flags:
        accuracy = result.best["accuracy"]
        reason += f", and its best answers are right in {percent(accuracy.b)}, the own ones in {percent(accuracy.a)}"
    if not auroc.b > 0.5:
        reason += "; it ranks these answers no better than chance, so what is gained may be the level alone"
    return reason


def learning_sentence(result: Check) -> str:
    """Whether to learn, the verdict and a colon first."""
    if not result.labelled:
        return (
            f"cannot tell: none of the {result.questions} questions has a reference; add right answers to see whether "
            "to adapt."
        )
    if not result.rated:
        return (
            "cannot tell: no graded answer has normalised P(True); a run records it with --set "
            "evidence.extra_evidence=p_true."
        )
    if not result.signal:
        return (
            f"cannot tell: {counted(result.rated, 'graded and rated answer')}, {result.right} right; a verdict needs "
            f"{MIN_QUESTIONS}, {MIN_PER_CLASS} right and {MIN_PER_CLASS} wrong ones among them, and as a rule some "
            "hundreds."
        )
    ece, brier = result.signal["ece"], result.signal["brier"]
    text = (
        f"{result.verdict}: normalised P(True) at tau {result.tau:g} has a Brier score of {brier.b:.3f} against "
        f"{brier.a:.3f} stated and an ECE of {ece.b:.3f} against {ece.a:.3f}"
    )
    gain = f"a gain in ECE of {-ece.interval.high:.3f} to {-ece.interval.low:.3f}"
    if result.verdict == "adapt":
        return f"{text}, {gain}."
    if result.verdict == "cannot tell":
        return f"{text}, {gain}, which {result.rated} questions cannot settle; more may."
    return text + (
        ": it is worse for sure." if brier.rises else f": a gain in ECE of {MIN_GAIN:g} or more is excluded."
    )


def notes(result: Check) -> list[str]:
    """What a reader must know beside the verdict, a sentence each."""
    lines = [line] if (line := letters_sentence(result.reliability, result.compared)) else []
    if unlabelled := result.questions - result.labelled:
        lines.append(f"{unlabelled} of {result.questions} questions have no reference and do not count.")
    if result.rated and (unrated := result.labelled - result.rated):
        lines.append(f"{unrated} answers have no normalised P(True) (unreadable, or no distractor) and do not count.")
    if not result.signal:
        return lines
    auroc = result.signal["auroc"]
    if auroc.falls:
        lines.append(
            f"Warning: normalised P(True) tells right from wrong worse than the stated confidence (AUROC {auroc.b:.3f} "
            f"against {auroc.a:.3f}); learning from it may cost ranking."
        )
    if result.verdict == "adapt" and auroc.b <= 0.5:
        lines.append(
            f"Warning: normalised P(True) ranks these answers no better than chance (AUROC {auroc.b:.3f}); what is "
            "learned from it may be no more than how often answers are right."
        )
    return lines


def scores_table(result: Check, *, full: bool = True) -> Table:
    """A row for each confidence: how many answers are right, what it says, its scores and, in full, what it costs."""
    note = "Says: the mean confidence. Cost: tokens through the network per token of plain answering."
    if result.basis != "labels":
        note += (
            " Without right answers the mean of the posterior says how often the answers are right by the model's own "
            "account, its misconceptions included."
        )
    headings = ("Right", "Says", "Brier", "ECE", "AUROC", "Cost") if full else ("Right", "Says", "Brier", "AUROC")
    rows = []
    for name, row in result.rows.items():
        cells = score_cells(row)
        cells |= {"Right": cells["Accuracy"], "Says": Cell(percent(result.means[name])), "Cost": cells["Cost ours"]}
        rows.append(
            [Cell(row.estimator.title), *(cells[each] if full else Cell(cells[each].text) for each in headings)]
        )
    columns = [Column("Confidence", text=True, wraps=True), *map(Column, headings)]
    return Table(columns, {"": rows}, (note,) if full else ())


def signal_table(result: Check) -> Table:
    """Stated confidence against normalised P(True), with intervals; fits 80 columns."""
    rows = {MEASURES[name]: result.signal[name] for name in COMPARED}
    return difference_table(("Stated", "Signal"), {f"normalised P(True), tau {result.tau:g}": rows}, NOTE)


def check_json(result: Check) -> dict[str, Any]:
    """A check as JSON values; whatever is undefined is None."""
    plain: dict[str, Any] = json_value(result)
    return plain | {"use": " ".join(use_and_why(result)), "learning": learning_sentence(result), "notes": notes(result)}
