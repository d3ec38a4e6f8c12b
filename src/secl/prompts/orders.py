"""Orders in which the same options are asked again, to tell what a model knows from where an option stands."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question


def further_orders(options: int, count: int) -> list[tuple[int, ...]]:
    """The first `count` orders, fewer if there are no more; in each every option has another letter than at first.

    The first is the reversed order, so that over both every option stands equally far down (of an odd number of
    options, the middle one trades places with a neighbour); the others are rotations, by half first.

    An order has the number of the option at each place.

    >>> further_orders(4, 3)
    [(3, 2, 1, 0), (2, 3, 0, 1), (1, 2, 3, 0)]
    >>> further_orders(3, 1), further_orders(2, 3)
    ([(1, 2, 0)], [(1, 0)])
    """
    places = list(range(options))
    backwards = places[::-1]
    middle = options // 2
    if options % 2:
        backwards[middle - 1], backwards[middle] = backwards[middle], backwards[middle - 1]
    rotations = [[*places[by:], *places[:by]] for by in (middle, *places[1:])]
    orders = dict.fromkeys(map(tuple, (backwards, *rotations)))
    return list(orders)[:count]


def as_choice(question: Question, answers: Sequence[str]) -> Question:
    """An open question as a choice between answers to it and "None of these"; which is right is not known.

    >>> as_choice(Question("Capital of France?", reference="Paris", grader="contains"), ("Paris", "Rome")).options
    ('Paris', 'Rome', 'None of these')
    """
    return replace(question, options=(*answers, NONE_OF_THESE), form="choice", reference=None, grader="")


def orders_of_answers(answers: int, count: int, seed: int) -> list[tuple[int, ...]]:
    """Orders of answers to an open question and, behind them, "None of these": a first one and `count` further ones.

    Shuffled by the seed, so that the model's own answer has no place of its own; "None of these" comes last or first.

    >>> orders_of_answers(2, 1, seed=0)
    [(1, 0, 2), (0, 2, 1)]
    """
    first = (*random.Random(seed).sample(range(answers), answers), answers)
    return [first, *(tuple(first[i] for i in order) for order in further_orders(len(first), count))]
