"""Orders in which the same options are asked again, to tell what a model knows from where an option stands."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question


def other_order(options: int) -> tuple[int, ...]:
    """The reversed order, so that over both every option stands equally far down, and has two letters.

    Of an odd number of options, the middle one trades places with a neighbour. An order has the number of the option at
    each place.

    >>> other_order(4), other_order(3)
    ((3, 2, 1, 0), (1, 2, 0))
    """
    backwards = [*range(options)][::-1]
    middle = options // 2
    if options % 2:
        backwards[middle - 1], backwards[middle] = backwards[middle], backwards[middle - 1]
    return tuple(backwards)


def as_choice(question: Question, answers: Sequence[str]) -> Question:
    """An open question as a choice between answers to it and "None of these"; which is right is not known.

    >>> as_choice(Question("Capital of France?", reference="Paris", grader="contains"), ("Paris", "Rome")).options
    ('Paris', 'Rome', 'None of these')
    """
    return replace(question, options=(*answers, NONE_OF_THESE), form="choice", reference=None, grader="")


def orders_of_answers(answers: int, seed: int) -> list[tuple[int, ...]]:
    """Two orders of answers to an open question and, behind them, "None of these".

    Shuffled by the seed, so that the model's own answer has no place of its own; "None of these" comes last or first.

    >>> orders_of_answers(2, seed=0)
    [(1, 0, 2), (0, 2, 1)]
    """
    first = (*random.Random(seed).sample(range(answers), answers), answers)
    return [first, tuple(first[i] for i in other_order(len(first)))]
