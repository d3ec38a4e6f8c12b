"""Which answers to an open question say the same: a hundred pairs, as people judge them.

The pairs were written before they were first compared. `KNOWN_MISTAKES` are those that the rule gets wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from secl.backends.open_answers import computed
from secl.grading import everyday, grade, parse_number, same
from secl.grading.same import group, is_echo, same_answer
from secl.grading.texts import LONGEST, normalise_text
from secl.grading.words import Word, read_words
from secl.prompts.parsing import is_brief
from secl.question import FORMS, Question

PAIRS: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "What is the capital of France?": (
        ("Paris", "The capital of France is Paris.", True),
        ("Paris", "paris", True),
        ("Paris.", "**Paris**", True),
        ("It is Paris", "The answer is Paris.", True),
        ("Paris", "Lyon", False),
        ("Paris", "I don't know.", False),
        ("The capital of France is Paris.", "The capital of France is Marseille.", False),
        ("Paris", "Not Paris, but Lyon.", False),
    ),
    "Who wrote Hamlet?": (
        ("Shakespeare", "William Shakespeare", True),
        ("William Shakespeare", "Hamlet was written by William Shakespeare.", True),
        ("W. Shakespeare", "Shakespeare", True),
        ("Shakespeare", "The playwright Shakespeare, around 1600", True),
        ("Shakespeare", "Christopher Marlowe", False),
        ("William Shakespeare", "William Wordsworth", False),
        ("Shakespeare", "Nobody knows", False),
    ),
    "When did the Second World War end?": (
        ("1945", "In 1945.", True),
        ("1945", "It ended in 1945", True),
        ("September 1945", "1945", True),
        ("2 September 1945", "September 2, 1945", True),
        ("1945", "1944", False),
        ("1945", "1918", False),
        ("in May 1945", "in September 1945", False),
    ),
    "How many legs has a spider?": (
        ("8", "eight", True),
        ("Eight legs", "8 legs", True),
        ("eight", "A spider has eight legs.", True),
        ("8", "Spiders have 8.", True),
        ("8", "6", False),
        ("eight", "six legs", False),
        ("8", "18", False),
    ),
    "What is the largest planet of the solar system?": (
        ("Jupiter", "The largest planet is Jupiter", True),
        ("the planet Jupiter", "Jupiter", True),
        ("Jupiter", "Jupiter, a gas giant", True),
        ("Jupiter", "Saturn", False),
        ("Jupiter", "Saturn, then Uranus", False),
        ("Jupiter", "The Sun", False),
    ),
    "Who discovered penicillin?": (
        ("Alexander Fleming", "Fleming", True),
        ("Sir Alexander Fleming", "Alexander Fleming", True),
        ("Fleming", "It was discovered by Alexander Fleming in 1928.", True),
        ("Alexander Fleming", "Alexander Graham Bell", False),
        ("Fleming", "Louis Pasteur", False),
        ("Alexander Fleming", "Ian Fleming", False),
    ),
    "What is the chemical symbol of gold?": (
        ("Au", "The symbol is Au.", True),
        ("Au", "AU", True),
        ("Au (from Latin aurum)", "Au", True),
        ("Au", "Ag", False),
        ("Au", "Go", False),
        ("Au", "G", False),
    ),
    "In which country is Mount Kilimanjaro?": (
        ("Tanzania", "In Tanzania", True),
        ("Tanzania", "It is in Tanzania, in East Africa.", True),
        ("the United Republic of Tanzania", "Tanzania", True),
        ("Tanzania", "Kenya", False),
        ("Tanzania", "It is on the border of Kenya.", False),
        ("Tanzania", "Africa", False),
    ),
    "What is the capital of the United States?": (
        ("Washington", "Washington, D.C.", True),
        ("Washington D.C.", "Washington, D.C.", True),
        ("Washington", "New York", False),
        ("Washington, D.C.", "Washington State", False),
    ),
    "Which element has the atomic number 6?": (
        ("Carbon", "carbon (C)", True),
        ("Carbon", "The element is carbon.", True),
        ("Carbon", "Nitrogen", False),
        ("Carbon", "Carbon dioxide", False),
    ),
    "How long is a marathon?": (
        ("42.195 km", "42.195 kilometres", True),
        ("42.195 km", "42 kilometres and 195 metres", True),
        ("about 42 km", "42 km", True),
        ("42 km", "26.2 miles", True),
        ("42 km", "24 km", False),
        ("42 km", "42 miles", False),
    ),
    "What is the capital of Italy?": (
        ("Rome", "Roma", True),
        ("Rome", "Milan", False),
        ("Rome", "Romania", False),
    ),
    "Which country borders Iraq in the east?": (
        ("Iran", "The Islamic Republic of Iran", True),
        ("Iran", "Iraq", False),
    ),
    "Is the Earth flat?": (
        ("No", "No, it is round.", True),
        ("No", "The Earth is not flat.", True),
        ("No", "Yes", False),
        ("It is flat.", "It is not flat.", False),
    ),
    "What do bees make?": (
        ("Honey", "They make honey.", True),
        ("honey and wax", "wax and honey", True),
        ("Honey", "Milk", False),
    ),
    "Who were the first people on the Moon?": (
        ("Armstrong and Aldrin", "Aldrin and Armstrong", True),
        ("Neil Armstrong and Buzz Aldrin", "Armstrong and Aldrin", True),
        ("Neil Armstrong", "Yuri Gagarin", False),
    ),
    "What happens if you swallow chewing gum?": (
        ("It passes through your body.", "It passes through the body.", True),
        ("It stays in your stomach for seven years.", "Nothing happens.", False),
        ("Nothing happens.", "Nothing much happens.", True),
    ),
    "At what temperature does water boil at sea level?": (
        ("100 °C", "100 degrees Celsius", True),
        ("100 degrees", "At 100 °C", True),
        ("212 °F", "100 °C", True),
        ("100 °C", "90 °C", False),
        ("100 °C", "100 °F", False),
    ),
    "What is the boy's name in The Jungle Book?": (
        ("Mowgli", "His name is Mowgli.", True),
        ("Mowgli", "Baloo", False),
        ("Mowgli", "The boy's name is Baloo the bear", False),
    ),
    "What is the square root of 144?": (
        ("12", "12.0", True),
        ("12", "twelve", True),
        ("12", "The square root of 144 is 12.", True),
        ("12", "14", False),
        ("12", "144", False),
        ("12", "-12", False),
    ),
    "Who painted the Mona Lisa?": (("Leonardo da Vinci", "Da Vinci", True),),
}

KNOWN_MISTAKES = {
    ("It is Paris", "The answer is Paris."),
    ("Carbon", "Carbon dioxide"),
    ("42.195 km", "42 kilometres and 195 metres"),
    ("42 km", "26.2 miles"),
    ("Rome", "Roma"),
    ("Nothing happens.", "Nothing much happens."),
    ("100 degrees", "At 100 °C"),
    ("212 °F", "100 °C"),
    ("Leonardo da Vinci", "Da Vinci"),
}
"""Eight pairs that say the same are two answers to the rule, and one pair that does not is one."""


def test_the_rule_judges_ninety_one_of_a_hundred_pairs_as_people_do_in_either_order() -> None:
    judged = [(Question(text), pair) for text, pairs in PAIRS.items() for pair in pairs]
    assert (len(judged), sum(same for _, (_, _, same) in judged)) == (100, 54)
    for turn in (1, -1):
        mistakes = {
            (one, other)
            for question, (one, other, same) in judged
            if same_answer(question, *(one, other)[::turn]) is not same
        }
        assert mistakes == KNOWN_MISTAKES


@pytest.mark.parametrize("echo", ["The capital of France.", "What is the capital of France?", "capital of France"])
def test_the_question_said_again_is_no_answer_and_joins_none(echo: str) -> None:
    question = Question("What is the capital of France?")
    assert is_echo(question, echo)
    assert not any(is_echo(question, each) for each in ("Paris", "The capital of France is Paris.", "France"))
    assert group(question, [echo, "Paris", None, " ", "It is Lyon."], ["Paris"]) == (
        ["Paris", "It is Lyon."],
        [None, 0, None, None, 1],
    )


def test_numbers_after_reasoning_are_compared_as_numbers() -> None:
    question = Question("How many apples are left?", reference="7", form="number")
    assert same_answer(question, "3 + 4 = 7\nAnswer: 7", "Answer: 7.0")
    assert not same_answer(question, "Answer: 7", "Answer: 17")
    assert not same_answer(question, "no number", "none either")


@pytest.mark.parametrize(
    ("program", "own", "text"),
    [
        ("9.1e-31", "9.1e-31", "0." + 30 * "0" + "91"),
        ("3e-7", "0.0000003", "0.0000003"),
        ("2 ** -30", "9.31e-10", "0.000000000931323"),
        ("-1e-25 / 3", "-3.3e-26 kg", "-0." + 25 * "0" + "333333"),
        ("1 / 3", "0.33", "0.333333"),
        ("200 / 3", "66.667", "66.666667"),
        ("2 ** 64", "18446744073709551616", "18446744073709551616"),
        ("0.5 - 1 / 2", "0", "0"),
    ],
)
def test_a_program_agrees_with_the_answer_that_its_result_rounds_to_however_small(
    program: str, own: str, text: str
) -> None:
    question = Question("How much is it?", form="number")
    assert computed(f"answer = {program}").text == text
    assert same_answer(question, own, text)
    assert not same_answer(question, "0.000001", text)


def test_a_power_of_ten_belongs_to_the_decimals_of_a_number() -> None:
    question = Question("How much is it?", form="number")
    assert same_answer(question, "1.5e3", "1523")
    assert not same_answer(question, "1.5e3", "1623")
    assert not same_answer(question, "3.33e-9", "3.34e-9")


LONG = ["1" * 5000, "7" * 2000 + " " * 3000 + "7" * 3000, "Ann" + " " * 60_000 + "Lee", "8 between and " * 2000]


@pytest.mark.parametrize("text", LONG, ids=["digits", "two numbers", "spaces", "words"])
def test_the_rule_reads_so_many_characters_of_question_reference_and_answers_and_no_more(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def judged(question: str, reference: str, answer: str) -> bool:
        lengths.extend(map(len, (question, reference, answer)))
        return rule(question, reference, answer)

    def normalised(words: str) -> str:
        lengths.append(len(words))
        return normalise_text(words)

    rule = everyday._says
    monkeypatch.setattr(everyday, "_says", judged)
    monkeypatch.setattr(same, "normalise_text", normalised)
    question = Question(f"Who is it? {text}", reference=text)
    assert grade(question, text)
    assert not grade(question, "nobody knows it")
    assert grade(Question("Who is it?", reference="4 July 1776"), text) is False
    assert same_answer(question, text, text)
    assert not same_answer(question, text, "Zed it is, and nobody else.")
    assert len(lengths) >= 15
    assert max(lengths) <= LONGEST


def test_white_space_is_no_part_of_a_text() -> None:
    question = Question("Who wrote it?", reference="Ann Lee")
    assert grade(question, "It was " + "\n" * 9000 + "Ann" + " " * 9000 + "\tLee.")
    assert same_answer(question, "Ann" + " " * 9000 + "Lee", "by Ann" + " \n" * 9000 + "Lee")


def test_a_list_is_looked_for_in_an_answer_that_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"item{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
    reading = read_words.cache_info
    before = reading().misses
    assert everyday.says("Which ones?", [", ".join(names)], ", ".join(reversed(names)))
    texts = len(names) + 10
    assert reading().misses - before <= texts + 10


@pytest.mark.parametrize("form", FORMS)
def test_no_answer_that_graders_do_not_read_whole_is_compared(form: str) -> None:
    assert is_brief("b" * 100, form)  # type: ignore[arg-type]
    assert not is_brief("b" * (LONGEST + 1), form)  # type: ignore[arg-type]


def test_a_mention_in_a_long_list_costs_no_second_look_at_the_list() -> None:
    """Every place that mentions the answer asks whether it stands in a list."""
    sequence: Sequence[Word] = read_words("Paris, " * 570)
    assert all(word.listed for word in sequence[1:])
    assert not everyday.says("What is the capital of France?", ["Paris"], "Paris, " * 570 + "Rome, and Bern")


def test_numbers_in_a_long_answer_are_read_once_however_many_answers_it_is_compared_with() -> None:
    before = parse_number.cache_info().misses
    question = Question("How many?", form="number")
    texts = ["1," * 20_000, *(f"{number} " * 5000 for number in range(10))]
    different, _ = group(question, ["50", "60", "70"], texts)
    assert len(different) == len(texts) + 3
    assert parse_number.cache_info().misses - before <= len(texts) + 3
