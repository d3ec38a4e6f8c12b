"""The built-in quiz: its facts are consistent, its answers right, and the seed decides everything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from secl.data.arithmetic import TEMPLATES
from secl.data.items import read_table
from secl.data.quiz import DOMAINS, quiz
from secl.grading import normalise_text
from secl.question import Question

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


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_seed_gives_the_questions_and_none_comes_twice(domain: str) -> None:
    assert quiz(domain, 40, 7)[:15] == quiz(domain, 15, 7)
    assert quiz(domain, 40, 7) != quiz(domain, 40, 8)
    questions = quiz(domain, 500, 5)
    assert len({question.text for question in questions}) == len(questions)


def test_word_problems_have_the_answer_that_an_independent_solver_finds() -> None:
    solved: Counter[str] = Counter()
    for question in quiz("arithmetic", 1500, 1):
        kinds = [word for word in SOLUTIONS if word in question.text]
        assert len(kinds) == 1, question.text
        numbers = [int(number) for number in re.findall(r"\d+", question.text)]
        assert str(SOLUTIONS[kinds[0]](*numbers)) == question.reference, question.text
        assert int(str(question.reference)) > 0
        assert question.form == "number"
        solved[kinds[0]] += 1
    assert set(solved) == set(SOLUTIONS)
    assert len(solved) == len(TEMPLATES) >= 12


def test_the_options_of_a_capital_lie_on_its_continent_and_only_one_is_right() -> None:
    table = read_table("capitals")
    continents = {row[column]: row["continent"] for row in table for column in ("capital", "other_city")}
    capitals = {row["country"]: row["capital"] for row in table}
    for question in quiz("capitals", None, 4):
        country = question.text.removeprefix("What is the capital of ").removeprefix("the ").removesuffix("?")
        assert len({continents[city] for city in question.options}) == 1
        assert question.options.count(capitals[country]) == 1
        assert question.option(str(question.reference)) == capitals[country]


def test_science_questions_have_the_answer_of_their_table() -> None:
    """Looked up by what the text mentions, the other way round from how the questions are made."""
    facts: dict[str, str] = {}
    for row in read_table("elements"):
        facts[f"symbol of {row['name']}?"] = row["symbol"]
        facts[f"has the symbol {row['symbol']}?"] = row["name"]
        facts[f"number of {row['name']}?"] = row["number"]
        facts[f"atomic number {row['number']}?"] = row["name"]
    for row in read_table("prefixes"):
        facts[f"prefix {row['prefix']} stand for?"] = f"10^{row['power']}"
        facts[f"the factor 10^{row['power']}?"] = row["prefix"]
        facts[f"SI prefix {row['prefix']}?"] = row["symbol"]
    for row in read_table("units"):
        facts[f"unit {row['unit']} measure?"] = row["quantity"]
        facts[f"SI unit of {row['quantity']}?"] = row["unit"]
        facts[f"of the SI unit {row['unit']}?"] = row["symbol"]
    for row in read_table("conversions"):
        facts[row["question"]] = row["answer"]
    questions = quiz("science", None, 6)
    assert len(questions) == len(facts) >= 300
    for question in questions:
        (answer,) = (right for end, right in facts.items() if question.text.endswith(end))
        assert len(question.options) == 4
        assert question.option(str(question.reference)) == answer


def test_misconceptions_have_three_to_five_options_and_the_popular_belief_among_them() -> None:
    import json
    from importlib.resources import files

    lines = files("secl.data").joinpath("facts", "misconceptions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["question"]: row for row in map(json.loads, lines)}
    assert len(rows) == len(lines) >= 64
    questions: list[Question] = quiz("misconceptions", None, 1)
    assert len(questions) == len(rows)
    for question in questions:
        row = rows[question.text]
        assert 3 <= len(question.options) <= 5
        assert question.option(str(question.reference)) == row["answer"]
        assert row["popular"] in question.options
        assert len({normalise_text(option) for option in question.options}) == len(question.options)
