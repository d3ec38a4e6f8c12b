"""Numbers in texts: the one that an answer ends in (GSM8K), and how people write one."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

DASHES = re.compile("[\u2010-\u2015\u2212\ufe63\uff0d]")
"""What stands for a hyphen or a minus."""

NUMBER = re.compile(
    r"""(?P<minus>(?<![\w.])-)?                  # a minus that is not a hyphen or a range
        (?:(?:US)?[$€£¥]\s?)?                    # a currency
        (?<!\w)                                  # no letter before it: the 2 of H2O is no number
        (?:(?P<whole>\d+)[ ]+(?=\d+/\d))?         # the 1 of "1 1/2"
        (?P<digits>\d{1,3}(?:,\d{3})+(?!\d)|\d+|(?=\.\d))
        (?P<decimals>\.\d+)?
        (?P<exponent>[eE][+-]?\d{1,3}(?!\w))?
        (?:/(?P<below>\d+))?""",
    re.VERBOSE,
)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
ANSWER_MARK = re.compile(r"answer(?:\s+is\b|\s*:)\s*:?", re.IGNORECASE)


@lru_cache(maxsize=32)  # each answer to a question is compared with several others
def parse_number(text: str) -> Fraction | None:
    """The number that a text ends in, exactly; None if it has none.

    In order of preference: the number after the last "####" (GSM8K), the one after the last "Answer:" or "answer is"
    (on that line, behind the last "=" if there is one), the last number of the text. Commas in thousands, currency
    signs, units and trailing periods are ignored; "50%" is 50, because the sign is read as a unit; fractions,
    mixed numbers and exponents are understood. A division by zero is no number.

    >>> [str(parse_number(text)) for text in ("#### 1,234", "$5.00", "7 apples", "-3", "1/2", "50%.", "no idea")]
    ['1234', '5', '7', '-3', '1/2', '50', 'None']
    >>> str(parse_number("2 + 2 = 4 in 1 step.\\nAnswer: 4 apples\\nThat took 9 seconds."))
    '4'
    """
    text = _LATEX_FRACTION.sub(r"\1/\2", DASHES.sub("-", text))
    behind_hashes = text.rpartition("####")
    if behind_hashes[1] and (numbers := _numbers(_first_line(behind_hashes[2]))):
        return numbers[0]
    marks = list(ANSWER_MARK.finditer(text))
    if marks and (numbers := _numbers(_first_line(text[marks[-1].end() :]).rpartition("=")[2])):
        return numbers[0]
    numbers = _numbers(text)
    return numbers[-1] if numbers else None


def write_number(value: Fraction) -> str:
    """A number as people write it: whole, decimal if that is exact, else a fraction.

    >>> write_number(Fraction(12)), write_number(Fraction(5, 2)), write_number(Fraction(1, 3))
    ('12', '2.5', '1/3')
    >>> write_number(Fraction(10**30 + 1, 2))
    '500000000000000000000000000000.5'
    """
    twos_and_fives = value.denominator
    for factor in (2, 5):
        while twos_and_fives % factor == 0:
            twos_and_fives //= factor
    if twos_and_fives > 1:
        return str(value)
    with localcontext() as context:
        # A number has no more digits than bits, nor more decimals than its denominator has bits.
        context.prec = value.numerator.bit_length() + value.denominator.bit_length()
        return format(Decimal(value.numerator) / Decimal(value.denominator), "f")


def _first_line(text: str) -> str:
    lines = text.strip(" \t\r\n*").splitlines()
    return lines[0] if lines else ""


def _numbers(text: str) -> list[Fraction]:
    values = (number_value(match) for match in NUMBER.finditer(text))
    return [value for value in values if value is not None]


def only_number(text: str) -> Fraction | None:
    """The value of a text that is a number with at most a currency or percent sign and a period; else None."""
    match = NUMBER.fullmatch(DASHES.sub("-", text).strip().rstrip(".% "))
    return number_value(match) if match else None


def number_value(match: re.Match[str]) -> Fraction | None:
    digits, decimals, exponent = (match[name] or "" for name in ("digits", "decimals", "exponent"))
    if len(digits) + len(decimals) > 1000:
        return None  # longer than any answer, and Python refuses to read it
    value = Fraction(f"{digits.replace(',', '') or '0'}{decimals}{exponent}")
    if match["below"]:
        if not int(match["below"][:1000]):
            return None
        value = value / int(match["below"][:1000]) + int((match["whole"] or "0")[:1000])
    return -value if match["minus"] else value
