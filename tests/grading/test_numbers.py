"""The one reader of numbers: what is a number as a whole, what a sentence states, and what stays no number."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.errors import QuestionError
from secl.grading.numbers import parse_number, whole_number, write_number
from secl.grading.rules import grade, group
from secl.grading.units import agree, read_unit
from secl.prompts.parsing import read_answer, read_list
from secl.question import Question

NUMBERS = {
    "3.5": (
        *("3,5", "3.50", "+3.5", "٣٫٥", "३.५", "３．５", "7/2", "3½", "3 1/2", "three and a half"),
        "three point five",
    ),
    "1234.5": ("1.234,5", "1,234.5", "1 234,5", "1\u202f234.5", "1\u00a0234,5", "1'234.5", "1’234.50", "$1{,}234.5$"),
    "1234567": ("1,234,567", "1.234.567", "1 234 567", "12,34,567", "1_234_567", "1'234'567", "1234567."),
    "1234": ("1,234", "1 234", "one thousand two hundred and thirty-four", "**1234**", r"\boxed{1234}"),
    "1024": ("2^10", "2**10", "2¹⁰", r"2^{10}", "2 ^ 10"),
    "1/1000": ("10⁻³", "10^-3", "10^{-3}", "1e-3", "0.001", "0,001", "1/1000"),
    "602200000000000000000000": (
        *("6.022e23", "6.022E+23", "6.022 × 10^23", "6.022·10²³", "6.022 x 10^23", "6.022*10**23", "6,022 × 10²³"),
        *(r"6.022 \times 10^{23}", r"$6.022 \cdot 10^{23}$", "602.2e21"),
    ),
    "1/2": ("½", "1/2", r"\frac{1}{2}", r"\dfrac12", "1⁄2", "half", "one half", "0.5", ".5"),
    "3/4": ("¾", "three quarters", "0,75"),
    "1500000": ("1.5 million", "1,5 Mio.", "1.5M", "1500k", "15 lakh", "one million five hundred thousand", "150万"),
    "3000000000": ("3 bn", "3 Milliarden", "3 milliards", "3 миллиарда", "$3bn", "3B"),
    "5": (
        *("5 ± 0.1", "5±0,1 kg", "~5", "≈ 5", "about 5", "5 km", "5%", "5 %", "5 €", "€5", "$ 5", "USD 5"),
        "5 US dollars",
    ),
    "5000": ("$5k", "5K", "5 k€", "5 thousand", "5 tausend", "five thousand"),
    "-5": ("−5", "–5", "−\u20095", "minus five", "-$5", "$-5", "($5)", "-5.0"),
    "-1234": ("(1,234)", "(1.234,00)", "−1 234", "$(1,234)"),
    "1945": ("nineteen hundred forty-five", "1945", "1.945e3"),
}
"""Values, and texts that are these numbers."""

NO_NUMBERS = (
    *("1939-1945", "1939–1945", "3 to 5", "3 or 4", "between 3 and 5", "3, 5", "1,2,3", "5 6", "2 3", "five or six"),
    *("3.10.1", "192.168.0.1", "192.168.100.200", "v3.10", "2020-01-05", "05.01.2020", "1/2/2020", "10:30", "3:1"),
    *("+1 555 123 4567", "(555) 123-4567", "555-1234", "H2O", "COVID-19", "1990s", "1st", "3rd", "007", "00123"),
    *("many", "", "NaN", "inf", "±5", "> 5", "≥ 5", "√2", "2π", "x^2", "2√3", "5x", "3pi", r"5+2\sqrt{13}"),
    *("5pm", "3/4^2", "1/0", "9^9^9", "1,234,5", "12.34.567"),
)
"""Texts that are no number as a whole, although most of them hold digits."""


@pytest.mark.parametrize(("value", "text"), [(value, text) for value, texts in NUMBERS.items() for text in texts])
def test_a_number_is_read_however_people_write_it(value: str, text: str) -> None:
    number = whole_number(text)
    assert number is not None
    assert number.value == Fraction(value)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_text_that_is_not_one_number_is_none(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("48/2 = <<48/2=24>>24 clips.\n48+24 = 72 clips.\n#### 72", "72"),
        ("#### -1,234,567", "-1234567"),
        ("#### $1,000.50", "1000.5"),
        ("He has 3 cats and 7 dogs", "7"),
        ("5 - 3", "3"),
        ("1 1/2 cups", "3/2"),
        ("1/0", None),
        (r"so \boxed{18}.", "18"),
        ("Answer: 18 dollars in 2 days", "18"),
        ("answer: 3 + 4 = 7 eggs", "7"),
        ("**Answer:** 6\nThis took 2 steps.", "6"),
        ("Answer: unclear, maybe\n9", "9"),
        ("Answer: 5\n#### 6", "6"),
        ("H2O", None),
        ("The answer is 3,5", "3.5"),
        ("Das sind 1.234,50 Euro.", "1234.5"),
        ("10 + 2,5 = 12.5", "12.5"),
        ("It is 6.022 × 10^23 per mole.", "602200000000000000000000"),
        ("Answer: 1 234 apples", "1234"),
        ("So it is 2^10 bytes", "1024"),
        ("Answer: $5k", "5000"),
        ("She has 3 cats in version 3.10.1", "3"),
        ("He was born on 2020-01-05 at 10:30", None),
        ("Answer: 3 to 5", None),
        ("It takes 3-5 days", None),
        ("It was in the 1990s", None),
        ("2x=180-20", "20"),  # a calculation is no range
        ("Answer: seven of them", "7"),
        ("The two of them share 12", "12"),
        ("$10 / $5 = 2 $5 bills", "5"),
        (r"So it is $-\frac{3}{4}$.", "-3/4"),
    ],
)
def test_a_sentence_states_a_whole_number_and_never_a_fragment_of_one(text: str, value: str | None) -> None:
    assert parse_number(text) == (None if value is None else Fraction(value))


@pytest.mark.parametrize(
    ("text", "context", "value"),
    [
        ("1.234", "", "1.234"),
        ("1.234", "3,5 km and 12,75 km", "1234"),
        ("1,234", "3,5 km", "1.234"),
        ("1,234", "3.5 km", "1234"),
        ("1.234", "Wie viele Einwohner hat das Dorf?", "1234"),
        ("1.234", "Combien de personnes vivent dans la ville ?", "1234"),
        ("1.234", "Сколько жителей в деревне?", "1234"),
        ("1.234", "What is the ratio of the two?", "1.234"),
        ("0,123", "3.5", "0.123"),  # no thousands begin with 0
        ("8 million", "How many people live there?", "8000000"),
        ("8 million", "How many million people live there?", "8"),
    ],
)
def test_the_context_decides_what_a_number_alone_leaves_open(text: str, context: str, value: str) -> None:
    number = whole_number(text, context)
    assert number is not None
    assert number.value == Fraction(value)
    assert read_answer(text, "number", context) == write_number(Fraction(value))


@given(st.fractions(min_value=-(10**12), max_value=10**12).map(lambda value: Fraction(round(value * 10**4), 10**4)))
def test_every_way_to_write_a_decimal_number_is_read_back(value: Fraction) -> None:
    written = write_number(value)
    whole, _, decimals = written.lstrip("-").partition(".")
    for thousands, point in ((",", "."), (".", ","), (" ", ","), ("'", "."), ("\u202f", ",")):
        grouped = f"{int(whole):,}".replace(",", thousands)
        text = f"{'-' * (value < 0)}{grouped}{point + decimals if decimals else ''}"
        context = f"2{point}5 and 0{point}75"
        number = whole_number(text, context)
        assert number is not None, text
        assert number.value == value, text
        assert parse_number(f"It is {text} m.", context) == value


@given(st.text(alphabet="0123456789.,-/ ^e×%$x:'kmor½²", max_size=24))
def test_no_text_of_digits_and_marks_breaks_the_reader(text: str) -> None:
    number = whole_number(text)
    if number is not None:
        assert parse_number(text) == number.value


@pytest.mark.parametrize("reference", [text for text in NO_NUMBERS if text not in ("", "007", "00123")])
def test_a_reference_that_is_not_one_number_is_refused(reference: str) -> None:
    with pytest.raises(QuestionError, match="is not one number; give a number such as"):
        grade(Question("How many?", form="number", reference=reference), "5")


@pytest.mark.parametrize(
    ("reference", "right", "wrong"),
    [
        ("3,5", "3.5", "The answer is 5"),
        ("1.234,50", "1234.50", "50"),
        ("1 234", "1234", "234"),
        ("2^10", "1024", "10"),
        ("12,5", "10 + 2,5 = 12.5", "5"),
        ("12 eggs", "12", "2"),
        ("$50", "50 dollars", "50 euros"),
        ("so 2+2\n#### 1,234", "1234", "2"),
    ],
)
def test_the_grader_of_numbers_compares_whole_numbers(reference: str, right: str, wrong: str) -> None:
    question = Question("How many?", form="number", reference=reference)
    assert grade(question, right) is True
    assert grade(question, wrong) is False


def test_samples_with_different_numbers_are_different_answers() -> None:
    answers = ["3,5", "4,5", "5", "12,5", "3.5"]
    for form in ("number", "short"):
        question = Question("How many?", form=form)
        assert group(question, answers) == (["3,5", "4,5", "5", "12,5"], [0, 1, 2, 3, 0])


def test_the_mark_of_a_list_is_no_part_of_a_number() -> None:
    assert read_list("1. 12.5\n12,5\n- 3\n-4\n2) 1.234,5", "number") == ["12.5", "12.5", "3", "-4", "1234.5"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("km", "kilometres", True),
        ("KM", "km", True),
        ("mW", "MW", False),
        ("$", "US dollars", True),
        ("$", "€", False),
        ("pounds", "£", True),
        ("pounds", "lb", True),
        ("£", "lb", False),
        ("km/h", "kilometres per hour", True),
        ("m/s²", "m s^-2", True),
        ("m/s", "m/s²", False),
        ("square km", "km²", True),
        ("°C", "degrees Celsius", True),
        ("°C", "°F", False),
    ],
)
def test_units_agree_by_their_meaning(one: str, other: str, same: bool) -> None:
    assert read_unit(one)
    assert read_unit(other)
    assert agree(read_unit(one), read_unit(other)) is same
