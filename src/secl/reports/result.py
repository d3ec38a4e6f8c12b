"""The result of a run in sentences and small tables, and the next command."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from secl.display import amount, counted, excerpt, number, percent, percents
from secl.evaluation.acceptance import advise, units_of
from secl.evaluation.symptoms import MIN_QUESTIONS
from secl.evaluation.trust import MIN_GRADED, Level, separation
from secl.grading.rules import reported_correct
from secl.metrics.intervals import design_effect
from secl.metrics.measures import Z, wilson
from secl.records import ConfidenceSource, Record, main_source, noun_of
from secl.reports.acceptance_report import accepted_sentence
from secl.reports.answers import SIGNS, UNREADABLE, answered, brief, expected_grade, neediest, signs_of
from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Table, plain_table

BINS = 5
"""Number of bins of confidence in `bins_table`."""

LOW = 0.5
"""Confidence below which an answer is probably wrong."""

RISK = 0.1
"""Risk in the next commands that a report names."""

MAX_CHARACTERS = 100
"""Maximum number of characters of a question in `look_first`."""

VERDICT_TEXTS: dict[Level, str] = {
    "fine": "Yes: tests of the {source} confidence found no error.",
    "unproven": "Not proven for the {source} confidence.",
    "do not act on it": "No: do not act on the {source} confidence.",
}
"""Answers to "Can you act on these confidences?"."""

UNTESTED = "Level unknown: no label or reference tests the {source} confidence."
"""The answer for a run without a graded answer."""


def result_sentences(run: RunReport) -> list[str]:
    """Return sentences on the number of questions, accuracy, mean confidence, ranking and accepted answers."""
    accepted = accepted_sentence(run.records)
    return [_counts(run), *_right(run), *([accepted] if accepted else [])]


def _counts(run: RunReport) -> str:
    of_documents = run.manifest.mode == "extract"
    noun, done, source = ("field", "extracted", "document") if of_documents else ("question", "answered", "question")
    text = f"{counted(len(run.records), noun)} {done}"
    if not run.complete:
        text = f"{amount(len(run.records))} of {counted(run.manifest.total, noun)} {done}"
    skipped = len(run.manifest.skipped)
    text = f"{text}, {counted(skipped, source)} left out." if skipped else f"{text}."
    parts = [record.parts for record in run.records if record.parts is not None]
    wrong, empty = run.summary.expected_wrong, sum(not facts for facts in parts)
    if len(parts) > empty:
        expected = "" if math.isnan(wrong) else f", of which {wrong:.1f} are expected to be wrong"
        text += f" {counted(len(parts) - empty, 'text')} with {counted(run.summary.facts, 'fact')}{expected}."
    if empty:
        has = "text has" if empty == 1 else "texts have"
        text += f" {amount(empty)} {has} no facts, and so no confidence."
    return text


def _right(run: RunReport) -> list[str]:
    n, accuracy, mean = run.trust.graded, run.trust.accuracy, run.trust.mean_confidence
    if not run.rated:
        return []
    if not n or 2 * run.summary.unlabelled > len(run.rated):  # most answers are ungraded
        return [headline(run)]
    # Rank by label-free confidences, because the labels that moved the reported confidences also grade these answers.
    graded = [each for each in run.rated if reported_correct(each) is not None]
    ranks = tuple(each.confidences.uncalibrated for each in graded)
    grades = tuple(bool(reported_correct(each)) for each in graded)
    which = counted(n, run.noun) if n == len(run.rated) else f"{amount(n)} graded {run.noun}s"
    return [
        f"Accuracy {percent(accuracy)} ({amount(sum(grades))} of {which}), mean confidence {percent(mean)}: "
        f"{_level(run, mean - accuracy)}.",
        f"Ranking: {_ranking(ranks, grades, tuple(units_of(graded).tolist()), run.noun)}",
    ]


def _level(run: RunReport, gap: float) -> str:
    """Return in words the calibration error that the verdict's tests found."""
    codes = run.trust.codes
    if "overconfident" in codes or "underconfident" in codes:
        return f"{'over' if gap > 0 else 'under'}confident by {100 * abs(gap):.0f} points"
    if "miscalibrated" in codes:
        return "calibrated on average, wrong in places"
    if run.trust.graded >= MIN_GRADED:
        return "no calibration error found"
    reveal = "reveals" if run.trust.graded == 1 else "reveal"
    return f"no calibration error found, but {counted(run.trust.graded, run.noun)} {reveal} only large errors"


def _ranking(confidences: tuple[float, ...], grades: tuple[bool, ...], units: tuple[int, ...], noun: str) -> str:
    area, span = separation(confidences, grades, units)
    if math.isnan(area):
        return f"unknown; all graded {noun}s are {'right' if grades[0] else 'wrong'}."
    if len(grades) < MIN_QUESTIONS:
        return f"unknown below {MIN_QUESTIONS} graded {noun}s."
    if math.isnan(span.low):
        return f"unknown; nearly all graded {noun}s are {'right' if fmean(grades) > 0.5 else 'wrong'}."
    shown = "better than chance" if span.low > 0.5 else "worse than chance" if span.high < 0.5 else "undecided"
    return (
        f"{shown}; right {noun}s have higher confidences than wrong {noun}s in {percent(area)} of pairs (chance: 50%)."
    )


def bins_table(records: Sequence[Record]) -> Table:
    """Return a table of the number of answers in each bin of confidence, such as "0.8 to 1"."""
    counts = Counter(min(int(record.confidences.expected_grade * BINS), BINS - 1) for record in records)
    lines = [
        (f"{number / BINS:g} to {(number + 1) / BINS:g}", amount(counts[number])) for number in sorted(counts)[::-1]
    ]
    return plain_table(("confidence", f"{noun_of(records)}s"), lines, texts=1)


def look_first(records: Sequence[Record]) -> str | None:
    """Return a sentence on the most confident wrong answer; None if no graded answer is wrong.

    Without any graded answer, the sentence is on the answer that most needs a person.
    """
    wrong = [record for record in records if reported_correct(record) is False]
    unknown = len(ungraded(records)) == len(records)
    first = max(wrong, key=lambda record: record.confidences.expected_grade, default=None)
    first = next(iter(neediest(records, 1)), None) if unknown else first
    if first is None:
        return None
    answer = excerpt(answered(first), MAX_CHARACTERS // 2) or UNREADABLE
    what = f"{answer}, {number(first.confidence, 2)}{', wrong' if wrong else ''}"
    return f'Look first at: "{brief(first, MAX_CHARACTERS)}" ({what})'


def next_step(run: RunReport, folder: Path) -> str:
    shell_name = shlex.quote(str(folder))
    if not run.complete:
        return f"secl run --resume {shell_name}"
    if run.answers.doubt == "partly":
        return f"secl label {shell_name} --references, with --random if you drew the rows with right answers at random"
    if not run.rated:
        return "ask for texts that state facts, or for short answers"
    graded = run.trust.graded
    if graded < MIN_GRADED and graded < len(run.rated):
        return f"secl label {shell_name}"
    advice = advise(run.answers, RISK)
    if advice.threshold is not None and advice.basis == "labels":
        return f"secl export {shell_name} --risk {RISK} --format csv"
    if run.trust.level == "do not act on it":
        return "look at every answer, or try another model or another method (--method)"
    threshold = f"secl threshold {shell_name} --risk {RISK}"
    return threshold if graded >= MIN_GRADED else f"ask more questions, then {threshold}"


NEEDY = 10
"""Number of rows in the table of answers that most need a person."""

FEW_LABELS = (
    "Label 20 answers drawn at random (secl label) to set the level: 20 labels usually reveal an error of 30 points, "
    "and smaller errors need more."
)
"""Advice on the number of labels. docs/lab/log.md has the power of the tests."""

RANGES = (
    "'Estimated right' is the mean confidence. If the confidences are calibrated, the range contains the share of "
    "right answers in 95% of cases. If the confidences are too high, the estimate is too high by the same amount."
)
"""Note on the table of domains."""


def estimate_share(confidences: Sequence[float], units: Sequence[int] | None = None) -> tuple[float, float, float]:
    """Return the mean confidence as an estimate of the share of right answers, with its lower and upper 95% limit.

    The limits assume calibrated confidences and independent units (normal approximation). The answers of a unit may be
    wrong together. Without answers, all three numbers are nan.

    Args:
        units: number of the unit of each answer, such as its document; by default, each answer is a unit.

    >>> [round(number, 3) for number in estimate_share([0.5] * 100)]
    [0.5, 0.402, 0.598]
    """
    if not confidences:
        return math.nan, math.nan, math.nan
    share, deviations = fmean(confidences), Counter[int]()
    for unit, c in zip(range(len(confidences)) if units is None else units, confidences, strict=True):
        deviations[unit] += math.sqrt(c * (1 - c))  # type: ignore[assignment]
    half = Z * math.sqrt(sum(deviation**2 for deviation in deviations.values())) / len(confidences)
    return share, max(share - half, 0.0), min(share + half, 1.0)


def _grouped(records: Sequence[Record]) -> tuple[list[float], list[int]]:
    return [record.confidences.expected_grade for record in records], units_of(records).tolist()


def ungraded(records: Sequence[Record]) -> list[Record]:
    """Return the answers without a label or a reference."""
    return [record for record in records if reported_correct(record) is None]


def headline(run: RunReport) -> str:
    """Return sentences on the estimated accuracy of ungraded answers and, if any, on the accuracy of graded answers."""
    unknown, graded = ungraded(run.rated), run.trust.graded
    share, low, high = estimate_share(*_grouped(unknown))
    which = " without a label or a reference" if graded else ""
    about = (
        f"bout {percent(share)} of {counted(len(unknown), run.noun)}{which} are right ({percents(low, high)}), if the "
        f"confidences are calibrated. This is the mean of {_basis(run, unknown)}"
    )
    if not graded and not _labels_in(unknown):
        return (
            f"Level unknown: without labels, the confidences rank the {run.noun}s, but may all be too low or too high. "
            f"By the confidences alone, a{about} {FEW_LABELS}"
        )
    text = f"A{about}"
    if not graded:
        return f"{text} {FEW_LABELS}"
    known = [each for each in run.rated if reported_correct(each) is not None]
    effect = design_effect([bool(reported_correct(each)) for each in known], units_of(known).tolist())
    low, high = wilson(run.trust.accuracy, graded / effect)
    return (
        f"{text} Of {counted(graded, f'graded {run.noun}')} {percent(run.trust.accuracy)} are right "
        f"({percents(low, high)}); the mean confidence of these {run.noun}s is {percent(run.trust.mean_confidence)}."
    )


def _labels_in(records: Sequence[Record]) -> int:
    """Return the largest number of labels behind a confidence."""
    return max(record.labelled.labels if record.labelled else 0 for record in records)


def _basis(run: RunReport, records: Sequence[Record]) -> str:
    names: dict[ConfidenceSource, str] = {
        "posterior": "the posterior",
        "stated": "the confidences that the adapted model states" if run.summary.trained else "the stated confidences",
    }
    source, labels = main_source(records), _labels_in(records)
    if labels:
        return f"{names[source]}, calibrated with up to {counted(labels, 'label')}."
    often = " Stated confidences are often too high." if source == "stated" and not run.summary.trained else ""
    return f"{names[source]}, without labels.{often}"


def share_notes(records: Sequence[Record]) -> list[str]:
    """Return sentences with the number of answers that are probably wrong, and of those with each sign in `SIGNS`."""
    counts, total = Counter(sign for record in records for sign in signs_of(record)), amount(len(records))
    noun, doubted = noun_of(records), _count_doubted(records)
    signs = [f"{counted(counts[sign], noun)} of {total}: {SIGNS[sign]}." for sign in SIGNS if counts[sign]]
    return [f"{counted(doubted, noun)} of {total}: confidence below {LOW:g}.", *signs]


def _count_doubted(records: Sequence[Record]) -> int:
    return sum(expected_grade(record) < LOW for record in records)


def domains_table(records: Sequence[Record]) -> Table:
    """Return a table with the estimated share of right answers, and the number of answers with a sign, by domain."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.question.domain, []).append(record)
    of_texts = noun_of(records) == "fact"
    if len(groups) > 1:
        groups = {f"all {'facts' if of_texts else 'questions'}": [*records]} | groups
    headings = ("Facts" if of_texts else "Questions", "Estimated right", f"Below {LOW:g}")
    columns = [Column("Domain", text=True, wraps=True), *map(Column, headings)]
    rows = []
    for name, group in groups.items():
        share, *bounds = estimate_share(*_grouped(group))
        doubted = Cell(amount(_count_doubted(group)))
        rows.append([Cell(name), Cell(amount(len(group))), Cell(percent(share, 1), percents(*bounds)), doubted])
    return Table(columns, {"": rows}, (RANGES,))
