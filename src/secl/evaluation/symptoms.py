"""Reasons for a verdict on confidences (`secl.evaluation.trust`), and symptoms that secl sees without grades."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from secl.display import counted
from secl.metrics.measures import chance_of_count
from secl.records import Record, main_source

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

MIN_QUESTIONS = 20
"""Minimum number of questions, or of graded answers, for a conclusion."""

UNLIKELY, RARE = 0.05, 1e-3
"""Significance levels of a doubt and of a stop."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a verdict: a sentence, and the numbers in it by name, such as {"auroc": 0.47}."""

    code: Code
    severity: Severity
    sentence: str
    values: Mapping[str, float] = field(default_factory=dict)


NEARLY_ALL = 0.9
"""Share of the answers that counts as nearly all."""

LOW_DIGIT_MASS = 0.5
"""Probability of the ten digits together below which the model hardly states a digit."""

LOW_LETTER_MASS = 0.05
"""Probability of all letters together below which the model hardly writes a letter."""

LOW_TRUE_MASS = 0.5
"""Probability of True and False together below which the model hardly judges answers by these words."""


_LITTLE = (
    "Asked for its confidence, the model rarely says a digit (the ten digits together have a {}), so the stated "
    "confidence is unreliable"
)
_HARDLY = "The model rarely judges answers by the words True and False (together they have a {})."
"""Sentences with a placeholder for the probability."""


def seen(records: Sequence[Record]) -> list[Reason]:
    """Return the symptoms that need no references, in order."""
    reasons = [_check_changed_answers(records), _check_letters(records)]
    if len(records) >= MIN_QUESTIONS:
        reasons += [_check_digits(records), _check_p_true(records), _check_unreadable(records), _check_spread(records)]
    return [reason for reason in reasons if reason is not None]


def _check_letters(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if the model chooses the same letter for most questions."""
    # Questions with equal options (yes or no) count once, because they may have the same right answer.
    chosen = (each for each in records if each.question.options and each.answer is not None and each.kind != "given")
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
    severity: Severity = "note"
    remedy = "; --answer best returns the most probable candidates instead"
    if main_source(answered) == "stated":
        severity, remedy = "stop" if share > 0.8 else "doubt", "; use --method posterior --answer best"
    elif answered[-1].best_returned:
        remedy = ""
    shown = f"{count:,} of {counted(len(answered), 'question')}"
    sentence = f"The model answers {letter} to {shown}, whatever the options{remedy}."
    return Reason("same_letter", severity, sentence, {"count": count, "questions": len(answered)})


def _check_digits(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if the model gives all ten digits together a low probability."""
    masses = [record.reply.digit_mass for record in records if record.confidences.source == "stated"]
    if len(masses) < MIN_QUESTIONS or median(masses) >= LOW_DIGIT_MASS:
        return None
    mass = f"median probability of {median(masses):.2g} in {len(masses):,} replies"
    sentence = f"{_LITTLE.format(mass)}; --method posterior does not need the digits."
    return Reason("digit_mass", "doubt", sentence, {"probability": median(masses)})


def true_masses(records: Sequence[Record]) -> list[float]:
    """Return the probability of True and False together for each answer that has it."""
    judged = (record.evidence.p_true for record in records)
    return [each.mass for each in judged if each is not None and each.mass is not None]


def _check_p_true(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if True and False together have a low probability: a doubt if the model learned from them."""
    masses = true_masses(records)
    if len(masses) < MIN_QUESTIONS or median(masses) >= LOW_TRUE_MASS:
        return None
    severity: Severity = "doubt" if any(record.update is not None for record in records) else "note"
    mass = f"median probability of {median(masses):.2g} in {counted(len(masses), 'judged answer')}"
    return Reason("true_mass", severity, _HARDLY.format(mass), {"probability": median(masses)})


def _check_unreadable(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if many replies are unreadable."""
    count = sum(record.answer is None for record in records)
    if count < 0.2 * len(records):
        return None
    shown = f"{count:,} of {len(records):,} replies"
    sentence = f"{shown} hold no readable answer, so the confidences of these replies mean nothing."
    return Reason("unreadable", "stop" if count > len(records) / 2 else "doubt", sentence, {"count": count})


def _check_spread(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if nearly all label-free confidences are equal."""
    confidences = [record.confidences.uncalibrated for record in records]
    middle = median(confidences)
    same = sum(abs(each - middle) <= 0.01 for each in confidences)
    if same < NEARLY_ALL * len(confidences):
        return None
    sentence = f"{same:,} of {counted(len(confidences), 'confidence')} are {middle:.2f}: equal confidences do not rank "
    return Reason("constant", "stop", f"{sentence}answers.", {"count": same, "confidence": middle})


def _check_changed_answers(records: Sequence[Record]) -> Reason | None:
    """Return a symptom if learning changed answers: a doubt if accuracy fell, else a note."""
    changed = [record for record in records if record.reply.answer != record.frozen.answer and record.reply.version]
    if not changed:
        return None
    lost = sum(bool(record.frozen_correct) and record.correct is False for record in changed)
    won = sum(bool(record.correct) and record.frozen_correct is False for record in changed)
    harm = lost > won and chance_of_count((0.5,) * (lost + won), lost) < 0.05
    known = f": {won} from wrong to right, {lost} from right to wrong" if won + lost else ""
    sentence = f"Learning changed {len(changed):,} of {counted(len(records), 'answer')}{known}."
    values = {"count": len(changed), "won": won, "lost": lost}
    return Reason("answers_changed", "doubt" if harm else "note", sentence, values)


def seen_in_one(record: Record) -> list[Reason]:
    """Return the symptoms of a single answer."""
    reply, reasons = record.reply, []
    if (mass := reply.digit_mass) < LOW_DIGIT_MASS:
        sentence = f"{_LITTLE.format(f'probability of {mass:.2g}')}."
        reasons.append(Reason("digit_mass", "doubt", sentence, {"probability": mass}))
    letters = math.fsum(math.exp(each) for each in reply.option_log_p)
    if reply.option_log_p and letters < LOW_LETTER_MASS:
        little = f"the {len(reply.option_log_p)} letters together have a probability of {letters:.2g}"
        sentence = f"The model rarely says an option letter ({little}); the most probable letter is its answer."
        reasons.append(Reason("letter_mass", "doubt", sentence, {"probability": letters}))
    for mass in true_masses([record]):
        if mass < LOW_TRUE_MASS:
            sentence = _HARDLY.format(f"probability of {mass:.2g}")
            reasons.append(Reason("true_mass", "note", sentence, {"probability": mass}))
    if (other := _other_choice(record)) is not None:
        sentence = f"With the options in another order, the model chooses {other}."
        reasons.append(Reason("same_letter", "doubt", sentence))
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
