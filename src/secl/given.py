"""Answers from elsewhere: what is rated, and which option a given answer means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from secl.errors import QuestionError
from secl.records import Question

_LETTER_AND_TEXT = re.compile(r"\(?(?P<letter>[A-Za-z])(?:\)[.:]|[).:])\s*(?P<text>.*)", re.DOTALL)
"""An option as models name it: "B.", "(B)", "B) Paris", "B: Paris"."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that is to be rated, whoever gave it: another model, a person, a data set.

    Attributes:
        question: that it answers.
        answer: as given. With options, an option's letter or text in upper or lower case, or both, as in "B. Paris";
            it becomes the letter.
        rivals: answers to an open question to compare it with. Without any the model lists some itself; with options
            the other options are the rivals.
        correct: whether it is right; None takes the question's reference, if there is one.

    Raises:
        QuestionError: an empty answer, one that is none of the options, or rivals beside options.

    >>> GivenAnswer(Question("Capital of France?", options=("Rome", "Paris")), "paris").answer
    'B'
    """

    question: Question
    answer: str
    rivals: tuple[str, ...] = ()
    correct: bool | None = None

    def __post_init__(self) -> None:
        name = named(self.question)
        for text in (self.answer, *self.rivals):
            if not text.strip():
                raise QuestionError(f"{name} has an empty answer or rival to rate; fill it in or leave it out.")
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise QuestionError(f"{name} has half a character in an answer; save it as UTF-8 again.")
        if self.question.options:
            if self.rivals:
                raise QuestionError(f"{name} has options, which are the rivals of an answer; give no others.")
            object.__setattr__(self, "answer", letter_of(self.question, self.answer))


def named(question: Question) -> str:
    """A question in the words of an error."""
    return f"question {question.id!r}" if question.id else f"question {question.text[:40]!r}"


def letter_of(question: Question, answer: str) -> str:
    """The letter of the option that a given answer means.

    Raises:
        QuestionError: it is none of the options, or the letter of one and the text of another.

    >>> letter_of(Question("Capital of France?", options=("Rome", "Paris")), "(b) Paris")
    'B'
    """
    texts = [_plain(option) for option in question.options]
    wanted = answer.strip()
    by_text = texts.index(_plain(wanted)) if _plain(wanted) in texts else None
    by_letter = _number_of_letter(question, texts, wanted)
    if by_text is not None and by_letter is not None and by_text != by_letter:
        raise QuestionError(
            f"the answer {wanted!r} to {named(question)} is the letter of one option and the text of another; write "
            f"'{question.letters[by_text]}. {question.options[by_text]}' or "
            f"'{question.letters[by_letter]}. {question.options[by_letter]}'."
        )
    number = by_text if by_text is not None else by_letter
    if number is None:
        options = ", ".join(f"{letter}. {question.option(letter)}" for letter in question.letters)
        raise QuestionError(
            f"the answer {_short(wanted)!r} to {named(question)} is none of its options ({_short(options, 300)}); give "
            "the letter or the text of one."
        )
    return question.letters[number]


def _number_of_letter(question: Question, texts: list[str], answer: str) -> int | None:
    """The number of the option whose letter an answer is, alone or before nothing but the option's text."""
    match = _LETTER_AND_TEXT.fullmatch(answer)
    letter, text = (match["letter"], _plain(match["text"])) if match else (answer, "")
    if len(letter) != 1 or letter.upper() not in question.letters:
        return None
    number = question.letters.index(letter.upper())
    return number if text in ("", texts[number]) else None


def _plain(text: str) -> str:
    """A text without the differences in case, space and a last full stop."""
    return " ".join(text.split()).casefold().removesuffix(".")


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
