"""Questions, their references, and given answers to rate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from string import ascii_uppercase
from typing import Literal, get_args

from secl.conversation import Message
from secl.display import excerpt
from secl.errors import QuestionError

LETTERS = ascii_uppercase
"""Names of the options of a multiple-choice question, in order."""

NOT_KEPT = "(not kept)"
"""Text in place of a question's text that a server did not store."""

_LETTER_AND_TEXT = re.compile(r"\(?(?P<letter>[A-Za-z])(?:\)[.:]|[).:])\s*(?P<text>.*)", re.DOTALL)
"""An option as models name it: "B.", "(B)", "B) Paris", "B: Paris"."""

Form = Literal["choice", "number", "short", "sentence", "text"]
"""Form of an answer: an option letter, a number after reasoning, a few words, one sentence, or a free text."""

FORMS: tuple[Form, ...] = get_args(Form)

Grader = Literal["auto", "exact", "contains", "number", "regex", "overlap"]
"""Rules that grade answers to open questions; `secl.grading` explains each."""

GRADERS: tuple[Grader, ...] = get_args(Grader)


CellValue = str | int | float | bool | None
"""A cell of a table; None is an empty cell."""


@dataclass(frozen=True, slots=True)
class References:
    """Right and wrong answers of an open question.

    Attributes:
        correct: all right answers, the best answer first.
        incorrect: wrong answers; may be empty.
    """

    correct: tuple[str, ...]
    incorrect: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with or without options, with or without a known right answer.

    Attributes:
        text: the question, without options and instructions.
        options: 2 to 26 answers to choose from; empty for an open question.
        reference: the right answer: an option letter, a number, a short text, or `References`; None if unknown.
            secl measures with references and never learns from them.
        domain: group of the question in per-domain results.
        id: a name that is unique in its stream.
        form: form of the answer; "choice" exactly when there are options, "short" by default.
        context: a passage to answer from, which the model reads before the question; "" for none.
        system: system text of the conversation; "" for the model's own.
        history: turns between the system text and the question.
        row: names and values of all columns of the question's row in its table, for exports; no model reads them.
        grader: rule that grades an open answer, one of `GRADERS`; "" for the default of the form.

    Raises:
        QuestionError: empty text, one option, more than 26 options, or a reference that is not an option's letter.

    >>> Question("Capital of France?", options=("Rome", "Paris"), reference="B").form
    'choice'
    """

    text: str
    options: tuple[str, ...] = ()
    reference: str | References | None = None
    domain: str = "default"
    id: str = ""
    form: Form = "short"
    context: str = ""
    system: str = ""
    row: tuple[tuple[str, CellValue], ...] = ()
    grader: str = ""
    history: tuple[Message, ...] = ()

    @classmethod
    def of(
        cls,
        question: object,
        *,
        options: Sequence[str] = (),
        form: Form | None = None,
        context: str = "",
        system: str = "",
        history: Sequence[object] = (),
    ) -> Question:
        """Return a question from a text and its parts; a `Question` is returned unchanged.

        Raises:
            QuestionError: `question` is no text, a `Question` comes with further arguments, or the arguments do not
                form a valid question.

        >>> Question.of("Capital of France?", options=["Rome", "Paris"]).options
        ('Rome', 'Paris')
        """
        if isinstance(question, cls):
            if options or form or context or system or history:
                raise QuestionError(
                    f"{question.mention} is a Question already; put options, form, context, system and history into it."
                )
            return question
        if isinstance(question, str):
            if isinstance(history, str):
                raise QuestionError("history is a text; give a list of turns, each (role, text).")
            turns = tuple(Message.of(turn) for turn in history)
            form = form or "short"
            return cls(question, options, form=form, context=context, system=system, history=turns)  # type: ignore[arg-type]
        conversation = isinstance(question, list | tuple) and any(isinstance(part, dict) for part in question)
        remedy = (
            "give the last message as a text, and the earlier ones as history"
            if conversation
            else "give a text or a secl.Question"
        )
        raise QuestionError(f"{str(question)[:60]!r} ({type(question).__name__}) is not a question; {remedy}.")

    def __post_init__(self) -> None:
        name = self.mention
        options: object = self.options
        if isinstance(options, list):
            object.__setattr__(self, "options", tuple(options))
        if isinstance(options, str):
            raise QuestionError(f"{name} has the text {options[:40]!r} as its options; give a tuple of texts.")
        if not self.text.strip():
            raise QuestionError(f"{name} has no text; give it at least one word.")
        spoken = (text for turn in self.history for text in (turn.text, *(call.arguments for call in turn.calls)))
        cells = (cell for cell in chain.from_iterable(self.row) if isinstance(cell, str))
        texts = (self.text, self.context, self.system, *self.options, *spoken, *cells)
        if any(map(has_half_character, texts)):
            raise QuestionError(
                f"{name} has an unpaired surrogate, which no tokenizer reads; save the question as UTF-8 again."
            )
        if self.form not in FORMS:
            raise QuestionError(f"{name} asks for the unknown form {self.form!r}; the forms are {', '.join(FORMS)}.")
        if self.grader and self.grader not in GRADERS:
            raise QuestionError(f"{name} has the unknown grader {self.grader!r}; the graders are {', '.join(GRADERS)}.")
        if not self.options:
            if self.form == "choice":
                raise QuestionError(f"{name} is multiple choice but has no options; give at least two.")
        else:
            self._check_options(name)

    def _check_options(self, name: str) -> None:
        if self.form == "short":
            object.__setattr__(self, "form", "choice")
        if self.form != "choice":
            raise QuestionError(f"{name} has options but asks for the form {self.form!r}; use 'choice'.")
        if len(self.options) < 2:
            raise QuestionError(f"{name} has a single option; give at least two, or none for an open question.")
        if len(self.options) > len(LETTERS):
            raise QuestionError(f"{name} has {len(self.options)} options for only {len(LETTERS)} letters; split it.")
        if self.grader:
            raise QuestionError(f"{name} has options, so it is graded by their letters; leave its grader out.")
        if any(not option.strip() for option in self.options):
            raise QuestionError(f"{name} has an empty option; remove it or fill it in.")
        if len({option.strip() for option in self.options}) == 1:
            raise QuestionError(f"{name} has no two different options; give at least two.")
        if self.reference is not None and self.reference not in self.letters:
            raise QuestionError(f"{name} has the reference {self.reference!r}; use one of {', '.join(self.letters)}.")

    @property
    def mention(self) -> str:
        """Name of the question in a message: its id, or the beginning of its text.

        >>> Question("Capital of Peru?").mention, Question("Capital of Peru?", id="peru").mention
        ("question 'Capital of Peru?'", "question 'peru'")
        """
        return f"question {self.id or self.text[:40]!r}"

    @property
    def asked(self) -> tuple[object, ...]:
        """All that an answer depends on: not the id, the row, the domain or the reference."""
        return self.text, self.options, self.form, self.context, self.system, self.history

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the options, in order; empty for an open question."""
        return tuple(LETTERS[: len(self.options)])

    @property
    def free(self) -> bool:
        """Whether the model answers without an instruction about the form of its answer."""
        return self.form == "text"

    def option(self, letter: str) -> str:
        """Return the text of the option called `letter`."""
        return self.options[LETTERS.index(letter)]

    def text_of(self, answer: str) -> str:
        """Return the text of an answer: an option's text for its letter; without options the answer itself."""
        return self.option(answer) if self.options else answer

    def named(self, answer: str | None) -> str:
        """Return an answer for display: an option with its letter, or a text; "" for None.

        >>> Question("Capital of France?", options=("Rome", "Paris")).named("B"), Question("1 + 1?").named("2")
        ('B. Paris', '2')
        """
        if answer is not None and answer in self.letters:
            return f"{answer}. {self.option(answer)}"
        return answer or ""


def has_half_character(text: str) -> bool:
    """Return whether a text has an unpaired surrogate, which stands for bytes that were not UTF-8."""
    return not text.isascii() and _HALF.search(text) is not None


_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer to rate, from any source: another model, a person, a data set.

    Attributes:
        answer: a text. With options, give a letter, the text of an option, or both, as in "B. Paris", in any case; the
            attribute then has the letter.
        rivals: other answers to an open question. secl compares the answer with them and with the model's samples.
        correct: whether the answer is right. If None, the question's reference grades the answer, if there is one.

    Raises:
        QuestionError: an empty answer, an answer that is none of the options, or rivals together with options.

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
                raise QuestionError(f"{name} has an unpaired surrogate in an answer; save the answer as UTF-8 again.")
        if self.question.options:
            if self.rivals:
                raise QuestionError(f"{name} has options, which already are the rivals of an answer; leave rivals out.")
            object.__setattr__(self, "answer", letter_of(self.question, self.answer))


def letter_of(question: Question, answer: str) -> str:
    """Return the letter of the option that an answer names by letter, text, or both.

    The comparison first respects case. If no option matches, the comparison ignores case.

    Raises:
        QuestionError: the answer is none of the options, or is the letter of one option and the text of another.

    >>> letter_of(Question("Capital of France?", options=("Rome", "Paris")), "(b) Paris")
    'B'
    """
    wanted = answer.strip()
    named = [question.named(letter) for letter in question.letters]
    # Exact case comes first: if the text of option B is "a", the answer "a" means B, and the answer "A" means A.
    for plain in (_trim, lambda text: _trim(text).casefold()):
        texts = [plain(option) for option in question.options]
        by_text = texts.index(plain(wanted)) if plain(wanted) in texts else None
        by_letter = _number_of_letter([plain(letter) for letter in question.letters], texts, plain(wanted))
        if by_text is not None and by_letter is not None and by_text != by_letter:
            raise QuestionError(
                f"the answer {wanted!r} to {question.mention} is the letter of one option and the text of another; "
                f"write '{named[by_text]}' or '{named[by_letter]}'."
            )
        number = by_letter if by_text is None else by_text
        if number is not None:
            return question.letters[number]
    raise QuestionError(
        f"the answer {excerpt(wanted, 60)!r} to {question.mention} is none of its options "
        f"({excerpt(', '.join(named), 300)}); "
        "give the letter or text of one option."
    )


def _number_of_letter(letters: list[str], texts: list[str], answer: str) -> int | None:
    """Return the index of the option that an answer names by letter or by letter and text; None without a letter."""
    match = _LETTER_AND_TEXT.fullmatch(answer)
    letter, text = (match["letter"], match["text"]) if match else (answer, "")
    if letter not in letters:
        return None
    number = letters.index(letter)
    return number if text in ("", texts[number]) else None


def _trim(text: str) -> str:
    """Return a text with single spaces and composed accents, without a final period."""
    return unicodedata.normalize("NFC", " ".join(text.split()).removesuffix("."))
