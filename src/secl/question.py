"""What is asked: a question with or without options, with or without a known right answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from string import ascii_uppercase
from typing import Literal, get_args

from secl.errors import QuestionError

LETTERS = ascii_uppercase
"""Names of the options of a multiple-choice question, in order."""

Form = Literal["choice", "number", "short", "sentence", "text"]
"""What an answer looks like: an option letter, a number after reasoning, a few words, one sentence, whatever the model
says to a conversation without being told how."""

FORMS: tuple[Form, ...] = get_args(Form)

Grader = Literal["auto", "exact", "contains", "number", "regex", "overlap"]
"""How answers to open questions may be graded; `secl.grading` says what each does."""

GRADERS: tuple[Grader, ...] = get_args(Grader)


Role = Literal["system", "user", "assistant"]
"""Who speaks in a conversation."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        role: who speaks.
        text: what is said; may be empty.
    """

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class References:
    """Right and wrong answers of an open question.

    Attributes:
        correct: answers any of which is right, the best one first.
        incorrect: answers that are wrong; may be empty.
    """

    correct: tuple[str, ...]
    incorrect: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask, with or without options, with or without a known right answer.

    Attributes:
        text: the question itself, without options and without instructions.
        options: the answers to choose from (2 to 26 of them); empty for an open question.
        reference: the right answer: an option letter, a number, a short text, or `References`; None if unknown.
            It is used to measure and never to learn.
        domain: where it comes from, for per-domain figures.
        id: a name that is unique in its stream.
        form: the shape of the answer; "choice" exactly when there are options, "short" unless said otherwise.
        context: a passage to answer from, which the model is shown beside the question; "" for none.
        system: the system text of the conversation; "" for the model's own.
        history: what was said before, between the system text and the question.
        extra: names and texts of further columns, which no model sees; they come back in exports.
        grader: how an answer to an open question is graded, one of `GRADERS`; empty for what its form implies.

    Raises:
        QuestionError: empty text, one option, more than 26 options, or a reference that is no option.

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
    extra: tuple[tuple[str, str], ...] = ()
    grader: str = ""
    history: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        name = self.mention
        options: object = self.options
        if isinstance(options, list):
            object.__setattr__(self, "options", tuple(options))
        if isinstance(options, str):
            raise QuestionError(f"{name} has the text {options[:40]!r} as its options; give a tuple of texts.")
        if not self.text.strip():
            raise QuestionError(f"{name} has no text; give it at least one word.")
        said = (turn.text for turn in self.history)
        texts = (self.text, self.context, self.system, *self.options, *said, *chain.from_iterable(self.extra))
        if any(map(has_half_character, texts)):
            raise QuestionError(f"{name} holds half a character, which no tokenizer reads; save it as UTF-8 again.")
        if self.form not in FORMS:
            raise QuestionError(f"{name} asks for the unknown form {self.form!r}; the forms are {', '.join(FORMS)}.")
        if self.grader and self.grader not in GRADERS:
            raise QuestionError(f"{name} has the unknown grader {self.grader!r}; they are {', '.join(GRADERS)}.")
        if not self.options:
            if self.form == "choice":
                raise QuestionError(f"{name} is multiple choice but has no options; give at least two.")
        else:
            self._check_options(name)

    def _check_options(self, name: str) -> None:
        """Check a multiple-choice question, and set its form."""
        if self.form == "short":
            object.__setattr__(self, "form", "choice")
        if self.form != "choice":
            raise QuestionError(f"{name} has options but asks for the form {self.form!r}; use 'choice'.")
        if len(self.options) < 2:
            raise QuestionError(f"{name} has a single option; give at least two, or none for an open question.")
        if len(self.options) > len(LETTERS):
            raise QuestionError(
                f"{name} has {len(self.options)} options but only {len(LETTERS)} letters exist; split it."
            )
        if self.grader:
            raise QuestionError(f"{name} has options, so it is graded by their letters; leave its grader out.")
        if any(not option.strip() for option in self.options):
            raise QuestionError(f"{name} has an empty option; remove it or fill it in.")
        if self.reference is not None and self.reference not in self.letters:
            raise QuestionError(
                f"{name} has the reference {self.reference!r}, which is none of {', '.join(self.letters)}."
            )

    @property
    def mention(self) -> str:
        """How a sentence names it: by its id, or else by how it begins.

        >>> Question("Capital of Peru?").mention, Question("Capital of Peru?", id="peru").mention
        ("question 'Capital of Peru?'", "question 'peru'")
        """
        return f"question {self.id or self.text[:40]!r}"

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of its options, in order; empty for an open question."""
        return tuple(LETTERS[: len(self.options)])

    @property
    def free(self) -> bool:
        """Whether the model answers as it likes, without an instruction about the form of its answer."""
        return self.form == "text"

    def option(self, letter: str) -> str:
        """The text of the option called `letter`."""
        return self.options[LETTERS.index(letter)]


def has_half_character(text: str) -> bool:
    """Whether a text has a lone surrogate, which is what is left of bytes that were no UTF-8."""
    return not text.isascii() and _HALF.search(text) is not None


_HALF = re.compile("[\ud800-\udfff]")
