"""The built-in quiz: its answers are right, only one option is, and the seed decides the order."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from secl.data.quiz import quiz
from secl.data.streams import fingerprint

DOMAINS = ("arithmetic", "capitals", "science", "misconceptions")

SOLUTIONS: dict[str, Callable[..., int]] = {
    "picks": lambda x, y, z: x + y - z,
    "boxes with": lambda x, y, z: x * y - z,
    "marbles equally": lambda x, y, z: x // y + z,
    "A train": lambda x, y, z: x * y + z,
    "saves": lambda x, y, z: x * y - z,
    "stickers": lambda x, y, z: x + x * y + z,
    "A book": lambda x, y, z: x - y * z,
    "notebooks": lambda x, y, z: z - x * y,
    "A garden": lambda x, y, z: x * y + z * y,
    "rolls": lambda x, y, z: x // y - z,
    "yard": lambda x, y, z: x + x + y + y - z,
    "carpet": lambda x, y, z: x * y - z,
    "aunt": lambda x, y, z: x * y + z,
    "machine": lambda x, y, z: x * y - z,
    "tank": lambda x, y, z: x + y * z,
    "pupils": lambda x, y, z: x * z + y * z,
    "works": lambda x, y, z: x * y * z,
    "lamps": lambda x, y, z: x - y - y - z,
    "rope": lambda x, y, z: x // y - z,
    "temperature": lambda x, y, z: x - y + z,
}
"""Solved by hand from the numbers in the order of the text, found by a word that only that problem has."""


@pytest.mark.parametrize(
    ("domain", "questions", "digest"),
    [
        ("arithmetic", 500, "a04473d3813d7132"),
        ("capitals", 176, "644db47cb514e99d"),
        ("science", 683, "4b1d4ea090edeae3"),
        ("misconceptions", 98, "a0f3b8add548324b"),
    ],
)
def test_the_questions_of_the_default_seed_are_those_of_the_recorded_figures(
    domain: str, questions: int, digest: str
) -> None:
    asked = quiz(domain)
    assert (len(asked), fingerprint(asked)[:16]) == (questions, digest)
    assert len({question.text for question in asked}) == questions


@pytest.mark.parametrize("domain", DOMAINS)
def test_another_seed_asks_the_same_in_another_order(domain: str) -> None:
    one, other = quiz(domain, seed=7), quiz(domain, seed=8)
    assert quiz(domain, 15, 7) == one[:15] != other[:15]
    assert {(question.text, *sorted(question.options)) for question in one} == {
        (question.text, *sorted(question.options)) for question in other
    }


def test_word_problems_have_the_answer_that_an_independent_solver_finds() -> None:
    for question in quiz("arithmetic"):
        (solve,) = (solve for word, solve in SOLUTIONS.items() if word in question.text)
        numbers = [int(number) for number in re.findall(r"\d+", question.text)]
        assert str(solve(*numbers)) == question.reference, question.text
        assert question.form == "number"


@pytest.mark.parametrize("domain", DOMAINS[1:])
def test_the_options_of_a_question_are_three_to_five_different_texts(domain: str) -> None:
    for question in quiz(domain, seed=1):
        assert 3 <= len({*question.options}) == len(question.options) <= 5
