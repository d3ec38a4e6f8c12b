"""Answers from elsewhere: what is rated, and which option a given answer means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from secl.errors import QuestionError
from secl.question import Question, has_half_character

_LETTER_AND_TEXT = re.compile(r"\(?(?P<letter>[A-Za-z])(?:\)[.:]|[).:])\s*(?P<text>.*)", re.DOTALL)
"""An option as models name it: "B.", "(B)", "B) Paris", "B: Paris"."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that is to be rated, whoever gave it: another model, a person, a data set.

    Attributes:
        question: that it answers.
        answer: as given. With options, an option's letter or text in upper or lower case, or both, as in "B. Paris";
            it becomes the letter.
        rivals: answers to an open question to compare it with, beside those that the model draws itself; with options
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
        name = self.question.mention
        for text in (self.answer, *self.rivals):
            if not text.strip():
                raise QuestionError(f"{name} has an empty answer or rival to rate; fill it in or leave it out.")
            if has_half_character(text):
                raise QuestionError(f"{name} has half a character in an answer; save it as UTF-8 again.")
        if self.question.options:
            if self.rivals:
                raise QuestionError(f"{name} has options, which are the rivals of an answer; give no others.")
            object.__setattr__(self, "answer", letter_of(self.question, self.answer))


def letter_of(question: Question, answer: str) -> str:
    """The letter of the option that a given answer means: by its letter, its text, or both; in any case if need be.

    Raises:
        QuestionError: it is none of the options, or the letter of one and just so the text of another.

    >>> letter_of(Question("Capital of France?", options=("Rome", "Paris")), "(b) Paris")
    'B'
    """
    wanted = answer.strip()
    for plain in (_as_it_is, _folded):  # "A" is rather the letter than the option "a"
        texts = [plain(option) for option in question.options]
        by_text = texts.index(plain(wanted)) if plain(wanted) in texts else None
        by_letter = _number_of_letter([plain(letter) for letter in question.letters], texts, plain(wanted))
        if by_text is not None and by_letter is not None and by_text != by_letter:
            raise QuestionError(
                f"the answer {wanted!r} to {question.mention} is the letter of one option and the text of another; "
                f"write '{_option(question, by_text)}' or '{_option(question, by_letter)}'."
            )
        number = by_letter if by_text is None else by_text
        if number is not None:
            return question.letters[number]
    options = ", ".join(_option(question, number) for number in range(len(question.options)))
    raise QuestionError(
        f"the answer {_short(wanted)!r} to {question.mention} is none of its options ({_short(options, 300)}); give "
        "the letter or the text of one."
    )


def _option(question: Question, number: int) -> str:
    return f"{question.letters[number]}. {question.options[number]}"


def _number_of_letter(letters: list[str], texts: list[str], answer: str) -> int | None:
    """The number of the option whose letter an answer is, alone or before nothing but the option's text."""
    match = _LETTER_AND_TEXT.fullmatch(answer)
    letter, text = (match["letter"], match["text"]) if match else (answer, "")
    if letter not in letters:
        return None
    number = letters.index(letter)
    return number if text in ("", texts[number]) else None


def _as_it_is(text: str) -> str:
    return " ".join(text.split()).removesuffix(".")


def _folded(text: str) -> str:
    return _as_it_is(text).casefold()


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
