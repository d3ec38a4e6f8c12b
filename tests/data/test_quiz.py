"""The built-in quiz: its facts are consistent, its answers right, and the seed decides everything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from secl.data.arithmetic import TEMPLATES
from secl.data.benchmarks import load
from secl.data.items import read_table
from secl.data.quiz import DOMAINS, MOST_ARITHMETIC, available, quiz
from secl.grading import grade, normalise_text
from secl.question import Question

CHOICE_DOMAINS = DOMAINS[1:]
CONTINENTS = {"Africa", "Asia", "Europe", "North America", "Oceania", "South America"}

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
def test_the_same_seed_gives_the_same_questions_and_another_seed_others(domain: str) -> None:
    assert quiz(domain, 40, 7) == quiz(domain, 40, 7)
    assert quiz(domain, 40, 7) != quiz(domain, 40, 8)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_first_questions_do_not_depend_on_how_many_are_asked_for(domain: str) -> None:
    assert quiz(domain, 60, 3)[:15] == quiz(domain, 15, 3)


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_two_questions_share_a_text_or_an_id_and_all_name_their_domain(domain: str) -> None:
    questions = quiz(domain, 500, 5)
    assert len({question.text for question in questions}) == len(questions)
    assert [question.id for question in questions[:2]] == [f"quiz-{domain}-000", f"quiz-{domain}-001"]
    assert len({question.id for question in questions}) == len(questions)
    assert {question.domain for question in questions} == {f"quiz/{domain}"}


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_reference_grades_as_right(domain: str) -> None:
    for question in quiz(domain, 500, 1):
        assert isinstance(question.reference, str)
        assert grade(question, question.reference) is True


@pytest.mark.parametrize("domain", CHOICE_DOMAINS)
def test_options_differ_and_do_not_depend_on_the_neighbours(domain: str) -> None:
    for question in quiz(domain, None, 2):
        assert len(set(question.options)) == len(question.options)
        assert len({option.strip() for option in question.options}) == len(question.options)


@pytest.mark.parametrize("domain", CHOICE_DOMAINS)
def test_the_right_letters_are_spread_evenly(domain: str) -> None:
    """Expected counts from the number of options of each question; five standard deviations are allowed."""
    expected: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for seed in range(20):
        for question in quiz(domain, None, seed):
            counts[str(question.reference)] += 1
            for letter in question.letters:
                expected[letter] += 1 / len(question.options)  # type: ignore[assignment]
    assert set(counts) == set(expected)
    for letter, mean in expected.items():
        assert abs(counts[letter] - mean) < 5 * mean**0.5


@pytest.mark.parametrize("domain", CHOICE_DOMAINS)
def test_a_domain_has_as_many_questions_as_it_says(domain: str) -> None:
    assert len(quiz(domain, None, 1)) == available(domain)


@pytest.mark.parametrize("seed", [1, 2])
def test_word_problems_have_the_answer_that_an_independent_solver_finds(seed: int) -> None:
    solved: Counter[str] = Counter()
    for question in quiz("arithmetic", 4000, seed):
        kinds = [word for word in SOLUTIONS if word in question.text]
        assert len(kinds) == 1, question.text
        numbers = [int(number) for number in re.findall(r"\d+", question.text)]
        assert str(SOLUTIONS[kinds[0]](*numbers)) == question.reference, question.text
        assert int(str(question.reference)) > 0
        assert question.form == "number"
        solved[kinds[0]] += 1
    assert set(solved) == set(SOLUTIONS)
    assert len(solved) == len(TEMPLATES) >= 12


def test_shared_amounts_divide_without_a_rest() -> None:
    for question in quiz("arithmetic", 2000, 9):
        if any(word in question.text for word in ("marbles equally", "rolls", "rope")):
            whole, parts = (int(number) for number in re.findall(r"\d+", question.text)[:2])
            assert whole % parts == 0


def test_a_hundred_thousand_word_problems_are_all_different() -> None:
    assert len({question.text for question in quiz("arithmetic", MOST_ARITHMETIC, 11)}) == MOST_ARITHMETIC


def test_the_default_number_of_word_problems_is_five_hundred() -> None:
    assert len(load("arithmetic", seed=1)) == 500


def test_the_capitals_table_is_consistent() -> None:
    table = read_table("capitals")
    assert len(table) >= 150
    assert {row["continent"] for row in table} == CONTINENTS
    assert len({row["country"] for row in table}) == len(table)
    capitals = [row["capital"] for row in table]
    cities = capitals + [row["other_city"] for row in table if row["other_city"]]
    assert len(set(cities)) == len(cities)


def test_the_options_of_a_capital_lie_on_its_continent_and_only_one_is_right() -> None:
    table = read_table("capitals")
    continents = {row[column]: row["continent"] for row in table for column in ("capital", "other_city")}
    capitals = {row["country"]: row["capital"] for row in table}
    for question in quiz("capitals", None, 4):
        country = question.text.removeprefix("What is the capital of ").removeprefix("the ").removesuffix("?")
        assert len({continents[city] for city in question.options}) == 1
        assert question.options.count(capitals[country]) == 1
        assert question.option(str(question.reference)) == capitals[country]


@pytest.mark.parametrize(
    ("country", "capital"),
    [("Australia", "Canberra"), ("Canada", "Ottawa"), ("Kenya", "Nairobi"), ("Peru", "Lima"), ("Japan", "Tokyo")],
)
def test_a_sample_of_capitals_is_right(country: str, capital: str) -> None:
    assert {row["country"]: row["capital"] for row in read_table("capitals")}[country] == capital


def test_the_elements_table_holds_all_118_with_unique_names_and_symbols() -> None:
    table = read_table("elements")
    assert [int(row["number"]) for row in table] == list(range(1, 119))
    assert len({row["symbol"] for row in table}) == len({row["name"] for row in table}) == 118
    assert all(re.fullmatch("[A-Z][a-z]?", row["symbol"]) for row in table)
    numbers = {"H": 1, "C": 6, "O": 8, "Na": 11, "Fe": 26, "Ag": 47, "I": 53, "W": 74, "Au": 79, "Pb": 82, "U": 92}
    assert {row["symbol"]: int(row["number"]) for row in table if row["symbol"] in numbers} == numbers


def test_the_si_tables_are_complete_and_unambiguous() -> None:
    prefixes = read_table("prefixes")
    powers = {row["prefix"]: int(row["power"]) for row in prefixes}
    assert sorted(powers.values()) == sorted({*range(-30, 31, 3), 1, 2, -1, -2} - {0})
    assert (powers["kilo"], powers["mega"], powers["milli"], powers["nano"]) == (3, 6, -3, -9)
    for name, columns in (("prefixes", ("prefix", "symbol")), ("units", ("unit", "symbol", "quantity"))):
        table = read_table(name)
        for column in columns:
            assert len({row[column] for row in table}) == len(table)


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


def conversion(one: str) -> float:
    return next(float(row["answer"].replace(",", "")) for row in read_table("conversions") if one in row["question"])


def test_conversions_agree_with_each_other() -> None:
    assert conversion("seconds are in one day") == conversion("minutes are in one day") * 60
    assert conversion("minutes are in one week") == conversion("hours are in one week") * 60
    assert conversion("feet are in one mile") == conversion("yards are in one mile") * conversion(
        "feet are in one yard"
    )
    assert conversion("centimetres are in one kilometre") == 100 * conversion("metres are in one kilometre")
    assert conversion("joules are in one kilowatt-hour") == 1000 * conversion("seconds are in one hour")
    assert conversion("100 degrees Celsius in degrees Fahrenheit") == 100 * 9 / 5 + 32
    assert conversion("20 degrees Celsius in degrees Fahrenheit") == 20 * 9 / 5 + 32
    assert conversion("Celsius and the Fahrenheit") == -40 == -40 * 9 / 5 + 32
    assert conversion("36 kilometres per hour") == 36 / 3.6
    assert conversion("15 metres per second") == 15 * 3.6


def test_a_few_science_questions_show_every_kind() -> None:
    starts = {" ".join(re.findall(r"[a-zA-Z]+", question.text)[:5]) for question in quiz("science", 11, 1)}
    assert len(starts) >= 9


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
