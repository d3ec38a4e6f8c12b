"""The built-in quiz: four domains that differ in kind, need no download and are the same for the same seed.

arithmetic       word problems, generated from templates by the seed; answered by a number
capitals         the capital of a country among cities of its continent
science          chemical elements, SI prefixes and units, conversions
misconceptions   popular beliefs against the facts
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice, zip_longest

from secl.data.arithmetic import problems
from secl.data.items import kinds
from secl.question import Question

DOMAINS = ("arithmetic", "capitals", "science", "misconceptions")
"""The domains of the quiz."""

MOST_ARITHMETIC = 100_000
"""Number of word problems with different texts that every seed is known to give."""


def quiz(domain: str, n: int | None = None, seed: int = 42) -> list[Question]:
    """The first `n` questions of a domain, without the checks of `secl.data.benchmarks.load`.

    >>> question = quiz("capitals", 1, seed=3)[0]
    >>> question.id, question.domain, len(question.options)
    ('quiz-capitals-000', 'quiz/capitals', 4)
    """
    return list(islice(questions(domain, seed), n))


def questions(domain: str, seed: int) -> Iterator[Question]:
    """The questions of a domain, one after the other.

    Args:
        domain: one of `DOMAINS`.
        seed: determines the order, the wrong options, the order of the options, and the numbers of word problems.
    """
    if domain == "arithmetic":
        for index, (text, answer) in enumerate(islice(problems(seed), MOST_ARITHMETIC)):
            name = f"quiz-arithmetic-{index:03d}"
            yield Question(text, reference=str(answer), domain="quiz/arithmetic", id=name, form="number")
        return
    generator = random.Random(f"{domain}-{seed}")
    shuffled = [generator.sample(kind, len(kind)) for kind in kinds(domain)]
    # One of each kind in turn, so that a few questions show all kinds.
    items = (item for turn in zip_longest(*shuffled) for item in turn if item is not None)
    for index, item in enumerate(items):
        yield item.ask(f"quiz/{domain}", f"quiz-{domain}-{index:03d}", seed)


def available(domain: str) -> int:
    """The number of questions of a domain.

    >>> available("capitals") >= 150
    True
    """
    return MOST_ARITHMETIC if domain == "arithmetic" else sum(len(kind) for kind in kinds(domain))
