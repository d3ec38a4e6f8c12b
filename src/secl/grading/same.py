"""Equal answers to an open question, and answers that only repeat the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from secl.grading.everyday import says
from secl.grading.mentions import FUNCTION_WORDS
from secl.grading.texts import normalise_text, parse_number, shortened
from secl.question import Question

# Matches a number with decimal places, and no other text with a point.
_DECIMALS = re.compile(r"^[^.]*\d\.(\d{1,700})(?:e([+-]?\d{1,3}))?\D*$", re.IGNORECASE)
_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:what|who|whom|whose|which|when|where|why|how)\b", re.IGNORECASE)


def same_answer(question: Question, one: str, other: str) -> bool:
    """Return whether two answers to an open question have the same meaning, by the everyday rule of grading.

    The rule searches the shorter answer in the longer answer, so a sentence equals a name that it contains. Numbers
    after reasoning are compared as numbers, up to rounding to the decimal places of either.
    """
    one, other = shortened(one), shortened(other)
    if question.form == "number":
        return _is_rounded(one, other) or _is_rounded(other, one)
    if normalise_text(one) == normalise_text(other):
        return True
    if is_echo(question, one) or is_echo(question, other):
        return False
    shorter, longer = sorted((one, other), key=lambda text: (len(text.split()), len(text), text))
    return says(question.text, [shorter], longer)


def _is_rounded(one: str, other: str) -> bool:
    """Return whether `one` is the number `other`, rounded to the decimal places of `one` if it has any."""
    number, exact = parse_number(one), parse_number(other)
    if number is None or exact is None:
        return False
    written = _DECIMALS.search(one)
    return number == (exact if written is None else round(exact, len(written[1]) - int(written[2] or 0)))


def is_echo(question: Question, answer: str) -> bool:
    """Return whether an answer only repeats the question: both have the same content words."""
    named = _named_in_question(question.text)
    return bool(named) and named == _naming(answer)


@lru_cache(maxsize=32)  # each answer to a question is compared with several others
def _named_in_question(text: str) -> frozenset[str]:
    if not _ASKS.search(text) or _CHOICE.search(text):
        return frozenset()  # a yes-or-no question or a choice: words of the question are an answer
    return _naming(text)


def group(
    question: Question, answers: Sequence[str | None], known: Sequence[str] = ()
) -> tuple[list[str], list[int | None]]:
    """Group answers by meaning.

    Args:
        known: answers that come first, even if equal.

    Returns:
        the different answers without echoes of the question, beginning with `known`; and for each of `answers` the
        number of the first equal answer. The number is None for no answer and for an echo.
    """
    different = list(known)
    numbers: list[int | None] = []
    for answer in answers:
        if answer is None or not answer.strip() or is_echo(question, answer):
            numbers.append(None)
            continue
        number = next((i for i, other in enumerate(different) if same_answer(question, answer, other)), len(different))
        different += [answer] * (number == len(different))
        numbers.append(number)
    return different, numbers


@lru_cache(maxsize=32)
def _naming(text: str) -> frozenset[str]:
    return frozenset(normalise_text(_ASKS.sub(" ", shortened(text))).split()) - FUNCTION_WORDS
