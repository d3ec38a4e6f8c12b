"""What shows without any right answer that a confidence is not to be relied on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Literal

from secl.evaluation.reason import FEWEST, RARE, Reason
from secl.evidence import Evidence
from secl.metrics.calibration import chance_of_count
from secl.question import Question
from secl.records import Record, Reply

Source = Literal["stated", "posterior"]
"""Where a reported confidence comes from, but for labels."""

NEARLY_ALL = 0.9
"""Share of the answers from which something holds for nearly all."""

LOW_DIGIT_MASS = 0.5
"""Probability of the ten digits together below which a model hardly states a digit."""

LOW_LETTER_MASS = 0.05
"""Probability of all letters together below which a model hardly writes a letter."""


def seen(records: Sequence[Record]) -> list[Reason]:
    """What the records show, in order, without any right answer."""
    reasons = [_of_changed_answers(records), _of_letters(records)]
    if len(records) >= FEWEST:
        reasons += [_of_digits(records), _of_unreadable(records), _of_spread(records)]
    return [reason for reason in reasons if reason is not None]


def _of_letters(records: Sequence[Record]) -> Reason | None:
    """Whether one letter is answered whatever the options say."""
    # Questions with the same options in the same order (yes or no) may well have the same answer.
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
    if share < 0.5 or max(sizes) * chance_of_count(chances, count) >= RARE:  # of any letter, not of this one alone
        return None
    text = f"The model answers {letter} on {count} of {len(answered)} questions, whatever the options"
    if sum(map(stated_alone, answered)) < len(answered) / 2:
        if not answered[-1].answers_best:
            text += "; --answer best gives the most probable candidates instead"
        return Reason("same_letter", "note", f"{text}.")
    return Reason("same_letter", "stop" if share > 0.8 else "doubt", f"{text}; use --method posterior --answer best.")


def _of_digits(records: Sequence[Record]) -> Reason | None:
    """Whether the stated confidence comes from digits that the model does not want to say."""
    masses = [record.reply.digit_mass for record in records if stated_alone(record)]
    if len(masses) < FEWEST or median(masses) >= LOW_DIGIT_MASS:
        return None
    text = (
        "Asked for its confidence, the model hardly says a digit (median probability of all ten: "
        f"{median(masses):.2g}), and the stated confidence is read from these; --method posterior does not need it."
    )
    return Reason("digit_mass", "doubt", text)


def _of_unreadable(records: Sequence[Record]) -> Reason | None:
    """Whether many replies hold no readable answer."""
    count = sum(record.answer is None for record in records)
    if count < 0.2 * len(records):
        return None
    text = f"No answer could be read in {count} of {len(records)} replies; their confidences are about nothing."
    return Reason("unreadable", "stop" if count > len(records) / 2 else "doubt", text)


def _of_spread(records: Sequence[Record]) -> Reason | None:
    """Whether nearly all confidences are the same."""
    confidences = [record.confidence for record in records]
    middle = median(confidences)
    same = sum(abs(each - middle) <= 0.01 for each in confidences)
    if same < NEARLY_ALL * len(confidences):
        return None
    text = f"{same} of {len(confidences)} confidences are {middle:.2f}: they tell no answer from another."
    return Reason("constant", "stop", text)


def _of_changed_answers(records: Sequence[Record]) -> Reason | None:
    """How many answers learning has changed, and whether that did harm."""
    changed = [record for record in records if record.reply.answer != record.frozen.answer and record.reply.version]
    if not changed:
        return None
    text = f"Learning changed answers too, and not only confidences: {len(changed)} of {len(records)}"
    lost = sum(bool(record.frozen_correct) and record.correct is False for record in changed)
    won = sum(bool(record.correct) and record.frozen_correct is False for record in changed)
    if lost + won:
        text += f"; {won} wrong ones became right, and {lost} right ones wrong"
    harm = lost > won and chance_of_count((0.5,) * (lost + won), lost) < 0.05
    return Reason("answers_changed", "doubt" if harm else "note", f"{text}.")


def stated_alone(record: Record) -> bool:
    """Whether the reported confidence is what the model states, and no posterior."""
    posterior = record.posterior
    return posterior is None or (posterior.confidence is None and not record.answers_best)


def main_source(records: Sequence[Record]) -> Source:
    """What most of the reported confidences are."""
    return "stated" if 2 * sum(map(stated_alone, records)) >= len(records) else "posterior"


def seen_in_one(question: Question, reply: Reply, evidence: Evidence) -> list[Reason]:
    """What one answer shows about itself, where there are no others to compare it with."""
    reasons = []
    if reply.digit_mass < LOW_DIGIT_MASS:
        text = (
            f"Asked for its confidence, the model hardly says a digit (probability of all ten: {reply.digit_mass:.2g})"
        )
        reasons.append(Reason("digit_mass", "doubt", f"{text}; the stated confidence is read from these."))
    letters = math.fsum(math.exp(each) for each in reply.option_log_p)
    if reply.option_log_p and letters < LOW_LETTER_MASS:
        text = f"The model hardly says a letter (probability of all {len(reply.option_log_p)}: {letters:.2g})"
        reasons.append(Reason("letter_mass", "doubt", f"{text}; its answer is the most probable of these."))
    other = _other_choice(question, reply, evidence)
    if other is not None:
        text = f"With its options in another order the model chooses {other}."
        reasons.append(Reason("same_letter", "doubt", text))
    return reasons


def _other_choice(question: Question, reply: Reply, evidence: Evidence) -> str | None:
    """What the model chooses in another order of the options, if that is not its answer; None without such evidence."""
    compared = evidence.candidates
    if compared is None or not question.options or reply.answer is None:
        return None
    for order in compared.letters:
        letter = question.letters[max(range(len(order.log_p)), key=lambda number: order.log_p[number])]
        if letter != reply.answer:
            return question.named(letter)
    return None
