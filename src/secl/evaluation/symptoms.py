"""Reasons for a verdict on confidences (`secl.evaluation.trust`), and symptoms that secl sees without grades."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from secl.evaluation.json_values import HIDDEN
from secl.metrics.intervals import Interval
from secl.metrics.measures import chance_of_count
from secl.records import Record

Severity = Literal["note", "doubt", "stop"]
"""A note does not change the verdict. A doubt excludes "fine". A stop means "do not act on it"."""

Code = Literal[
    "same_letter",
    "digit_mass",
    "letter_mass",
    "true_mass",
    "constant",
    "unreadable",
    "answers_changed",
    "unlabelled",
    "few_labels",
    "chance",
    "inverted",
    "weak",
    "overconfident",
    "underconfident",
    "miscalibrated",
    "tested",
]
"""Short names of reasons, for programs."""

FEWEST = 20
"""Minimum number of questions, or of graded answers, for a conclusion."""

UNLIKELY, RARE = 0.05, 1e-3
"""Significance levels of a doubt and of a stop."""

_WORDED = {HIDDEN: True}
"""Metadata of fields of `Reason` that its sentence shows and its JSON omits."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a verdict, with the numbers of its sentence (`secl.reports.verdict.sentence_of`).

    Attributes:
        count: number of answers with the symptom; for a test, of graded answers; for "letter_mass", of letters.
        total: number of examined answers; 0 for a reason about one answer.
        value: the measured number: AUROC, ECE, a mean confidence, or a probability.
        beside: number to compare with: the accuracy for a mean confidence, the 95% quantile of the floor for an ECE.
        chance: p-value of the difference between mean confidence and accuracy.
        interval: 95% interval of the AUROC.
        more: number of graded answers still needed.
        left: number of answers without a grade; None if the stream goes on.
        won, lost: wrong answers made right by learning, and right answers made wrong.
        answer: for "same_letter", the letter of most answers; for a single answer, the option chosen in another order.
        best: whether the returned answers are the most probable candidates.
        stated: whether the confidences are stated ones.
        chosen: whether volunteers chose the answers to label.
    """

    code: Code
    severity: Severity
    count: int = field(default=0, metadata=_WORDED)
    total: int = field(default=0, metadata=_WORDED)
    value: float | None = field(default=None, metadata=_WORDED)
    beside: float | None = field(default=None, metadata=_WORDED)
    chance: float | None = field(default=None, metadata=_WORDED)
    interval: Interval | None = field(default=None, metadata=_WORDED)
    more: int = field(default=0, metadata=_WORDED)
    left: int | None = field(default=None, metadata=_WORDED)
    won: int = field(default=0, metadata=_WORDED)
    lost: int = field(default=0, metadata=_WORDED)
    answer: str = field(default="", metadata=_WORDED)
    best: bool = field(default=False, metadata=_WORDED)
    stated: bool = field(default=False, metadata=_WORDED)
    chosen: bool = field(default=False, metadata=_WORDED)


Source = Literal["stated", "posterior"]
"""The source of a reported confidence, before labels."""

NEARLY_ALL = 0.9
"""Share of the answers that counts as nearly all."""

LOW_DIGIT_MASS = 0.5
"""Probability of the ten digits together below which the model hardly states a digit."""

LOW_LETTER_MASS = 0.05
"""Probability of all letters together below which the model hardly writes a letter."""


LOW_TRUE_MASS = 0.5
"""Probability of True and False together below which the model hardly judges answers by these words."""


def seen(records: Sequence[Record]) -> list[Reason]:
    """Return the symptoms that need no references, in order."""
    reasons = [_of_changed_answers(records), _of_letters(records)]
    if len(records) >= FEWEST:
        reasons += [_of_digits(records), _of_true(records), _of_unreadable(records), _of_spread(records)]
    return [reason for reason in reasons if reason is not None]


def _of_letters(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if the model chooses the same letter for most questions."""
    # Questions with equal options (yes or no) count once, because they may have the same right answer.
    chosen = (each for each in records if each.question.options and each.answer is not None and not each.given)
    different = {record.question.options: record for record in chosen}
    answered = list(different.values())
    if not answered:
        return None
    (letter, count), *_ = Counter(str(record.answer) for record in answered).most_common(1)
    sizes = [len(each.question.options) for each in answered]
    chances = tuple(
        1 / size if letter in each.question.letters else 0.0 for each, size in zip(answered, sizes, strict=True)
    )
    right = sum(each.question.reference == letter or (bool(each.label) and each.answer == letter) for each in answered)
    expected = max(sum(chances), right)
    share = (count - expected) / (len(answered) - expected) if expected < len(answered) else 0.0
    if share < 0.5 or max(sizes) * chance_of_count(chances, count) >= RARE:  # Bonferroni over the letters
        return None
    stated, best = main_source(answered) == "stated", answered[-1].answers_best
    severity: Severity = "note" if not stated else "stop" if share > 0.8 else "doubt"
    return Reason("same_letter", severity, count, len(answered), answer=letter, best=best, stated=stated)


def _of_digits(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if the model gives all ten digits together a low probability."""
    masses = [record.reply.digit_mass for record in records if source_of(record) == "stated"]
    if len(masses) < FEWEST or median(masses) >= LOW_DIGIT_MASS:
        return None
    return Reason("digit_mass", "doubt", len(masses), len(records), value=median(masses))


def true_masses(records: Sequence[Record]) -> list[float]:
    """Return the probability of True and False together for each answer that has it."""
    judged = (record.evidence.p_true for record in records)
    return [each.mass for each in judged if each is not None and each.mass is not None]


def _of_true(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if True and False together have a low probability: a doubt if the model learned from them."""
    masses = true_masses(records)
    if len(masses) < FEWEST or median(masses) >= LOW_TRUE_MASS:
        return None
    severity: Severity = "doubt" if any(record.update is not None for record in records) else "note"
    return Reason("true_mass", severity, len(masses), len(records), value=median(masses))


def _of_unreadable(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if many replies are unreadable."""
    count = sum(record.answer is None for record in records)
    if count < 0.2 * len(records):
        return None
    return Reason("unreadable", "stop" if count > len(records) / 2 else "doubt", count, len(records))


def _of_spread(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if nearly all label-free confidences are equal."""
    confidences = [record.label_free for record in records]
    middle = median(confidences)
    same = sum(abs(each - middle) <= 0.01 for each in confidences)
    if same < NEARLY_ALL * len(confidences):
        return None
    return Reason("constant", "stop", same, len(confidences), value=middle)


def _of_changed_answers(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if learning changed answers: a doubt if accuracy fell, else a note."""
    changed = [record for record in records if record.reply.answer != record.frozen.answer and record.reply.version]
    if not changed:
        return None
    lost = sum(bool(record.frozen_correct) and record.correct is False for record in changed)
    won = sum(bool(record.correct) and record.frozen_correct is False for record in changed)
    harm = lost > won and chance_of_count((0.5,) * (lost + won), lost) < 0.05
    return Reason("answers_changed", "doubt" if harm else "note", len(changed), len(records), won=won, lost=lost)


def source_of(record: Record) -> Source:
    """Return the source of the label-free confidence of a record."""
    posterior = record.posterior
    alone = posterior is None or (posterior.confidence is None and not record.answers_best)
    return "stated" if alone else "posterior"


def main_source(records: Sequence[Record]) -> Source:
    """Return the most frequent source of the reported confidences."""
    sources = [source_of(record) for record in records]
    return "stated" if 2 * sources.count("stated") >= len(sources) else "posterior"


def seen_in_one(record: Record) -> list[Reason]:
    """Return the symptoms of a single answer."""
    reply, reasons = record.reply, []
    if reply.digit_mass < LOW_DIGIT_MASS:
        reasons.append(Reason("digit_mass", "doubt", value=reply.digit_mass))
    letters = math.fsum(math.exp(each) for each in reply.option_log_p)
    if reply.option_log_p and letters < LOW_LETTER_MASS:
        reasons.append(Reason("letter_mass", "doubt", len(reply.option_log_p), value=letters))
    for mass in true_masses([record]):
        reasons += [Reason("true_mass", "note", value=mass)] if mass < LOW_TRUE_MASS else []
    other = _other_choice(record)
    if other is not None:
        reasons.append(Reason("same_letter", "doubt", answer=other))
    return reasons


def _other_choice(record: Record) -> str | None:
    """Return the model's choice under another order of the options, if it differs from its answer; else None."""
    question, compared = record.question, record.evidence.candidates
    if compared is None or not question.options or record.reply.answer is None:
        return None
    for order in compared.letters:
        letter = question.letters[max(range(len(order.log_p)), key=lambda number: order.log_p[number])]
        if letter != record.reply.answer:
            return question.named(letter)
    return None
