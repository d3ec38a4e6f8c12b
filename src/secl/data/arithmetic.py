"""Word problems of one to three steps, generated from templates. Every answer is a whole number above zero."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

NAMES = (
    "Ada", "Amir", "Bela", "Carla", "Chen", "Dara", "Elif", "Emre", "Farah", "Goran", "Hana", "Ines", "Ivan", "Jonas",
    "Kofi", "Lena", "Lucia", "Malik", "Mina", "Noor", "Olga", "Pavel", "Priya", "Rosa", "Samir", "Tomas", "Uma", "Vera",
    "Wanda", "Yara", "Yusuf", "Zoe",
)  # fmt: skip
"""Names of the people in the problems."""


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of word problem.

    Attributes:
        text: the problem with the fields {name}, {a}, {b}, {c}, and {ab} for the product of a and b, which a divides.
        a, b, c: lowest and highest value of each number.
        answer: (a, b, c) -> the right answer.
    """

    text: str
    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    answer: Callable[[int, int, int], int]


TEMPLATES = (
    Template(
        "{name} picks {a} apples in the morning and {b} in the afternoon, and then gives away {c} of them. "
        "How many apples are left?",
        (20, 90), (20, 90), (5, 35), lambda a, b, c: a + b - c,
    ),
    Template(
        "{name} buys {a} boxes with {b} eggs in each and breaks {c} eggs on the way home. How many eggs are whole?",
        (3, 15), (6, 15), (2, 16), lambda a, b, c: a * b - c,
    ),
    Template(
        "{name} shares {ab} marbles equally among {a} children, and then each child finds {c} more. "
        "How many marbles does each child have?",
        (3, 12), (4, 30), (2, 20), lambda _, b, c: b + c,
    ),
    Template(
        "A train drives {a} kilometres every hour. {name} gets on and rides for {b} hours, then walks {c} kilometres. "
        "How many kilometres is the whole way?",
        (60, 140), (2, 9), (2, 12), lambda a, b, c: a * b + c,
    ),
    Template(
        "{name} saves {a} dollars a week for {b} weeks and spends {c} dollars of it. How many dollars remain?",
        (10, 45), (4, 20), (5, 38), lambda a, b, c: a * b - c,
    ),
    Template(
        "{name} has {a} stickers. A friend has {b} times as many. Together they buy {c} more. "
        "How many stickers do they have in all?",
        (8, 60), (2, 8), (5, 40), lambda a, b, c: a + a * b + c,
    ),
    Template(
        "A book has {a} pages. {name} reads {b} pages on each of {c} days. How many pages are still to be read?",
        (250, 600), (10, 30), (2, 8), lambda a, b, c: a - b * c,
    ),
    Template(
        "{name} buys {a} notebooks for {b} dollars each and pays with {c} dollars. How many dollars are given back?",
        (2, 12), (2, 8), (100, 200), lambda a, b, c: c - a * b,
    ),
    Template(
        "A garden has {a} rows with {b} plants in each. {name} plants {c} more rows of the same length. "
        "How many plants are there now?",
        (5, 25), (6, 30), (2, 9), lambda a, b, c: (a + c) * b,
    ),
    Template(
        "{name} bakes {ab} rolls and packs {a} into every bag. {c} bags are sold. How many bags are left?",
        (3, 12), (20, 60), (2, 19), lambda _, b, c: b - c,
    ),
    Template(
        "A rectangular yard is {a} metres long and {b} metres wide. {name} builds a fence around it "
        "and leaves a gate of {c} metres open. How many metres of fence are needed?",
        (20, 90), (10, 60), (2, 6), lambda a, b, c: 2 * (a + b) - c,
    ),
    Template(
        "A rectangular floor is {a} metres by {b} metres. {name} covers {c} square metres with a carpet. "
        "How many square metres stay bare?",
        (8, 20), (7, 18), (5, 40), lambda a, b, c: a * b - c,
    ),
    Template(
        "{name} is {a} years old. An aunt is {b} times as old. How old will the aunt be in {c} years?",
        (6, 20), (2, 4), (2, 15), lambda a, b, c: a * b + c,
    ),
    Template(
        "A machine makes {a} parts a minute. {name} lets it run for {b} minutes, and {c} parts turn out faulty. "
        "How many parts are good?",
        (12, 60), (5, 45), (3, 50), lambda a, b, c: a * b - c,
    ),
    Template(
        "A tank holds {a} litres of water. {name} pours in {b} buckets of {c} litres each. "
        "How many litres are in the tank now?",
        (20, 150), (3, 20), (4, 15), lambda a, b, c: a + b * c,
    ),
    Template(
        "A class of {a} pupils and a class of {b} pupils go on a trip with {name}. Each pupil pays {c} dollars. "
        "How many dollars do the pupils pay in all?",
        (15, 32), (15, 32), (3, 20), lambda a, b, c: (a + b) * c,
    ),
    Template(
        "{name} works {a} hours a day for {b} days and earns {c} dollars an hour. How many dollars does that make?",
        (3, 9), (4, 25), (11, 40), lambda a, b, c: a * b * c,
    ),
    Template(
        "A shop has {a} lamps. On Monday {name} sells {b} of them and on Tuesday {c} more than on Monday. "
        "How many lamps remain?",
        (120, 300), (10, 45), (2, 15), lambda a, b, c: a - b - (b + c),
    ),
    Template(
        "{name} cuts a rope of {ab} metres into {a} equal pieces and uses {c} metres of one piece. "
        "How many metres of that piece are left?",
        (3, 12), (12, 40), (2, 11), lambda _, b, c: b - c,
    ),
    Template(
        "The temperature is {a} degrees at noon. It falls by {b} degrees until the evening, as {name} notes, "
        "and rises by {c} degrees the next day. How many degrees is it then?",
        (15, 38), (3, 14), (2, 12), lambda a, b, c: a - b + c,
    ),
)  # fmt: skip
"""Every kind of word problem."""


def problems(seed: int) -> Iterator[tuple[str, int]]:
    """Word problems with their answers, the templates in turn, no text twice; there is no end to them.

    >>> next(problems(seed=1))[0][:40]
    'Wanda picks 23 apples in the morning and'
    """
    generator = random.Random(f"arithmetic-{seed}")
    texts: set[str] = set()
    for index in count():
        template = TEMPLATES[index % len(TEMPLATES)]
        while (problem := _problem(template, generator))[0] in texts:
            pass  # the same numbers and name by chance: draw again
        texts.add(problem[0])
        yield problem


def _problem(template: Template, generator: random.Random) -> tuple[str, int]:
    a, b, c = (generator.randint(low, high) for low, high in (template.a, template.b, template.c))
    text = template.text.format(name=generator.choice(NAMES), a=a, b=b, c=c, ab=a * b)
    return text, template.answer(a, b, c)
