"""Output of `secl compare` (differences and notes) and of `secl check` (the best method, and whether to learn)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from secl.display import UNDEFINED, counted, number, percent
from secl.evaluation.compare import MIN_GAIN, Check, Comparison
from secl.metrics.intervals import FEWEST_COMPARED, FEWEST_OF_A_KIND, Difference
from secl.metrics.measures import MEASURES
from secl.reports.table import Cell, Column, Table, TableRow

NOTE = (
    "The 95% interval of a difference comes from a paired bootstrap over questions; * marks an interval that excludes "
    "0. All intervals are symmetric, because bootstrap percentiles of the ECE are biased. No interval exceeds [-1, 1]. "
    f"An interval needs {FEWEST_COMPARED} questions. An interval of AUROC also needs {FEWEST_OF_A_KIND} right and "
    f"{FEWEST_OF_A_KIND} wrong answers in each run."
)


OF_SEVERAL = ("accuracy", "brier", "ece", "auroc")
"""Measures of a comparison with more than two sides."""


def comparison_table(names: Sequence[str], comparisons: Sequence[Comparison]) -> Table:
    """Return a table of the differences between the first side and each further one, at most 80 characters wide.

    With two sides, the table has all measures and, with several domains, each domain's Brier score. With more sides, a
    row has the differences of a side.
    """
    if len(comparisons) > 1:
        return _table_of_several(names, comparisons)
    (comparison,) = comparisons
    sections = {"": {MEASURES[measure]: difference for measure, difference in comparison.measures.items()}}
    if len(comparison.domains) > 1:
        sections["Brier by domain"] = comparison.domains
    # Let the column of intervals wrap, so that the column of names does not become too narrow.
    columns = (
        Column("Measure", text=True, wraps=True),
        *map(Column, names),
        Column("Difference"),
        Column("95% interval", wraps=True),
        Column("*", text=True),
    )
    rows = {title: [_row(name, each) for name, each in part.items()] for title, part in sections.items()}
    return Table(columns, rows, (f"Difference: {names[1]} minus {names[0]}.", NOTE))


def _row(name: str, difference: Difference) -> TableRow:
    low, high = difference.interval.low, difference.interval.high
    interval = UNDEFINED if math.isnan(low) else f"{low:+.3f} to {high:+.3f}"
    return [
        Cell(name),
        *(Cell(number(value, 3), numbers={"": value}) for value in (difference.a, difference.b)),
        Cell(number(difference.difference, 3, "+"), numbers={"": difference.difference}),
        Cell(interval, numbers={"low": low, "high": high}),
        Cell(_star(difference)),
    ]


def _star(difference: Difference) -> str:
    return "*" if difference.rises or difference.falls else ""


def _table_of_several(names: Sequence[str], comparisons: Sequence[Comparison]) -> Table:
    first = comparisons[0].measures
    rows = [[Cell(names[0]), *(_cell(number(first[each].a, 3), first[each].a) for each in OF_SEVERAL)]]
    for name, comparison in zip(names[1:], comparisons, strict=True):
        cells = [Cell(name)]
        for found in (comparison.measures[each] for each in OF_SEVERAL):
            cells.append(_cell(number(found.difference, 3, "+") + _star(found), found.b, found))
        rows.append(cells)
    columns = [Column("Confidence", text=True, wraps=True), *(Column(MEASURES[each]) for each in OF_SEVERAL)]
    notes = [f"{names[0]}: values. Other rows: differences from {names[0]}.", NOTE]
    if any(name.endswith("*") for name in names):
        notes.append("A * behind a name marks a confidence that was fitted to grades.")
    return Table(columns, {"": rows}, notes)


def _cell(text: str, value: float, difference: Difference | None = None) -> Cell:
    low = high = gain = math.nan
    if difference is not None:
        gain, low, high = difference.difference, difference.interval.low, difference.interval.high
    detail = "" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]"
    return Cell(text, detail, {"": value, "difference": gain, "low": low, "high": high})


def remarks(names: Sequence[str], comparisons: Sequence[Comparison]) -> list[str]:
    one = comparisons[0]
    differ = [
        f"{comparison.answers_differ} of {one.shared} answers differ between {names[0]} and {name}."
        for name, comparison in zip(names[1:], comparisons, strict=True)
        if comparison.answers_differ
    ]
    lines = differ or [f"0 of {one.shared} answers differ."]
    if len(comparisons) == 1:
        a, b = (f"{floor.mean:.3f} (in 95% of cases up to {floor.upper:.3f})" for floor in one.floors.values())
        chance = f"If both were perfectly calibrated, chance would give A an ECE of {a} and B an ECE of {b}."
        lines = [chance, f"{one.answers_differ} of {one.shared} answers differ."]
    if one.unfinished:
        lines.insert(0, f"Unfinished: only the {one.shared} questions that all runs have answered are compared.")
    if one.graded < one.shared:
        lines.append(f"{one.shared - one.graded} of {one.shared} questions lack a grade on at least one side.")
    if any(math.isnan(comparison.measures["auroc"].difference) for comparison in comparisons):
        lines.append(
            f"AUROC is undefined ({UNDEFINED}) if all answers are right or all are wrong. AUROC uses the confidences "
            "before calibration with labels."
        )
    return lines


BY_EXPERIENCE = (
    "in our measurements, the posterior had a lower Brier score than the stated confidence, except on 32 questions "
    "that a server answered; label twenty answers to test the posterior on your questions"
)

SMALL_GAIN = 0.05
"""Minimum gain in accuracy that justifies the tokens of thoughts."""


def check_sentences(result: Check) -> list[str]:
    """Return sentences on the recommended command, its reason, learning and thinking, and notes."""
    best = " --answer best" if result.answer == "best" else ""
    return [
        f"Use: secl run --method {result.method}{best}",
        f"Why: {_by_labels(result) if result.basis == 'labels' else BY_EXPERIENCE}.",
        f"Learning (--method secl): {_learning(result)}",
        *_thinking(result),
        *_notes(result),
    ]


def _thinking(result: Check) -> list[str]:
    """Return a sentence on the gain in accuracy from thoughts; empty if no question with options had a thought."""
    if not result.thought:
        needs = f"the comparison needs {FEWEST_COMPARED} questions with options and a reference"
        return [f"Thinking (--thinking): cannot tell: {needs}."] * bool(result.thinking)
    accuracy = result.thought["accuracy"]
    verdict = "it pays" if accuracy.rises else "cannot tell"
    if accuracy.interval.high < SMALL_GAIN:
        verdict = "it does not pay"
    shares = f"{percent(accuracy.b)} of answers after thoughts are correct, {percent(accuracy.a)} without thoughts"
    ends = f"{percent(accuracy.interval.low)} to {percent(accuracy.interval.high)}"
    return [f"Thinking (--thinking): {verdict}: {shares} (95% interval of the gain: {ends})."]


def _by_labels(result: Check) -> str:
    if not result.gain:
        return "no other confidence has a significantly lower Brier score than the stated confidence"
    brier, auroc = result.gain["brier"], result.gain["auroc"]
    reason = (
        f"this method has a Brier score of {brier.b:.3f} (stated confidence: {brier.a:.3f}; 95% "
        f"interval of the gain: {-brier.interval.high:.3f} to {-brier.interval.low:.3f}) and an AUROC of "
        f"{number(auroc.b, 3)} (stated: {number(auroc.a, 3)})"
    )
    if result.answer == "best":
        accuracy = result.best["accuracy"]
        reason += f"; {percent(accuracy.b)} of best answers are right, and {percent(accuracy.a)} of own answers"
    if not auroc.b > 0.5:
        reason += "; it ranks these answers no better than chance, so the gain may come from calibration alone"
    return reason


def _learning(result: Check) -> str:
    if not result.labelled:
        return f"cannot tell: none of the {result.questions} questions has a reference or a label."
    if not result.rated:
        return (
            "cannot tell: no graded answer has normalised P(True); record P(True) with "
            "--evidence.extra_evidence=p_true."
        )
    if not result.signal:
        return (
            f"cannot tell: {counted(result.rated, 'graded answer')} with normalised P(True), {result.right} right; a "
            f"verdict needs at least {FEWEST_COMPARED} ({FEWEST_OF_A_KIND} right, {FEWEST_OF_A_KIND} wrong), and "
            "usually hundreds."
        )
    ece, brier = result.signal["ece"], result.signal["brier"]
    text = (
        f"{result.verdict}: normalised P(True) has a Brier score of {brier.b:.3f} (stated confidence: {brier.a:.3f}) "
        f"and an ECE of {ece.b:.3f} (stated: {ece.a:.3f})"
    )
    gain = f"95% interval of the gain in ECE: {-ece.interval.high:.3f} to {-ece.interval.low:.3f}"
    if result.verdict == "adapt":
        return f"{text}; {gain}."
    if result.verdict == "cannot tell":
        return f"{text}; {gain}. {result.rated} questions are too few to decide."
    excluded = "its Brier score is worse" if brier.rises else f"a gain in ECE of {MIN_GAIN:g} or more is excluded"
    return f"{text}: {excluded}."


def _notes(result: Check) -> list[str]:
    lines = []
    if result.labelled and (unlabelled := result.questions - result.labelled):
        lines.append(f"secl ignored the questions without a reference or a label: {unlabelled} of {result.questions}.")
    if result.rated and (unrated := result.labelled - result.rated):
        lines.append(f"secl ignored {unrated} answers without normalised P(True) (unreadable, or no distractor).")
    if not result.signal:
        return lines
    auroc = result.signal["auroc"]
    if auroc.falls:
        lines.append(
            f"Warning: normalised P(True) ranks answers worse than the stated confidence (AUROC {auroc.b:.3f} against "
            f"{auroc.a:.3f}), so learning may worsen the ranking."
        )
    if result.verdict == "adapt" and auroc.b <= 0.5:
        lines.append(
            f"Warning: normalised P(True) ranks these answers no better than chance (AUROC {auroc.b:.3f}), so the "
            "model may learn how many of its answers are right, but not which."
        )
    return lines
