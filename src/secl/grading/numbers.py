r"""The one reader of numbers: in references, answers, fields, cells and samples.

A number has digits of any script, and may have a sign, a currency before it, marks of thousands (1,234,567; 1.234.567;
1 234 567; 1'234'567; 12,34,567), decimals, a power (2^10, 10⁻³), a power of ten (6e23, 6 × 10^23), a fraction (1/2,
1½, \frac{1}{2}), an error (± 0.1), a word of scale (1.5 million, $5k) and a unit. English number words are numbers.
Dates, times, versions and lists (10:30, 3.10.1, 1,2,3) are not numbers, and neither are their parts.

Decimal marks: of two different marks, the last is the decimal mark; a repeated mark separates thousands. A single mark
is the decimal mark, but a comma before three digits separates thousands (1,234). If the context writes decimal commas
(`writes_commas`), the roles in the last case are swapped: 1.234 is then 1234, and 1,234 is a little more than 1.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial

from secl.grading.units import CURRENCY, Unit, agree, read_unit, unit_behind

DASHES = re.compile("[\u2010-\u2015\u2212\ufe63\uff0d]")
"""Characters that stand for a hyphen or a minus."""

MOST_DIGITS = 1000
"""Maximum number of digits of a number, and of the result of a power."""


def word_list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_SMALL = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = dict(zip(word_list("twenty thirty forty fifty sixty seventy eighty ninety"), range(20, 100, 10), strict=True))
_LARGE = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SPELLED = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_SMALL[1:10])}))?|({'|'.join(_SMALL)})"
    rf"|an?(?= (?:{'|'.join(_LARGE)})\b))\b",
    re.IGNORECASE,
)
_POINT = re.compile(r"\b(\d+) point((?: \d\b)+)", re.IGNORECASE)
_ONE = re.compile(rf"\bone\b(?= (?:point|{'|'.join(_LARGE)})\b)", re.IGNORECASE)
_SUMS = [
    (
        size,
        re.compile(
            rf"(?<![\d.,])(\d+) {word}\b(?:,? (?:and )?(\d+)(?: ({'|'.join(_LARGE)})\b)?(?![.,]?\d))?", re.IGNORECASE
        ),
    )
    for word, size in _LARGE.items()
]
"""Sums such as "2 million 500 thousand" for each word of scale, the smallest first."""

_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_SCALES = _LARGE | {
    word: 10**power
    for power, words in (
        (3, "k tsd tausend mille mil тыс тысяч тысячи"),
        (4, "万 萬 만"),
        (5, "lakh"),
        (6, "m mm mn mln mio millionen millones milhões milioni млн миллион миллиона миллионов"),
        (7, "crore"),
        (8, "亿 億 억"),
        (9, "b bn mrd milliard milliarde milliarden млрд миллиард миллиарда миллиардов"),
        (12, "t tn billionen"),
    )
    for word in words.split()
}
_OF_MONEY = ("m", "mm", "t")  # units, except behind a currency

_VULGAR = re.compile(r"(\d?)\s*([¼-¾⅐-⅞])")
_SUPERSCRIPT = re.compile(r"(?<=[\w)\]])(?<![⁰¹²³⁴-⁹])(?:[⁺⁻]?[⁰¹²³⁴-⁹]+[⁺⁻]?|[⁺⁻])")
_LATEX = (
    (re.compile(r"\\(?:boxed|text|mathrm|mathbf)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"(?<=\d)\s*(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\s*(?:\{(-?\d+)\}\s*\{(\d+)\}|(\d)(\d))"), r"\1\3/\2\4"),
    (re.compile(r"\\(?:times|cdot)\b"), "×"),
    (re.compile(r"\\pm\b"), "±"),
    (re.compile(r"\\sqrt\b\{?"), "√"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\^\{([-+]?\d+)\}"), r"^\1"),
    (re.compile(r"\\[,;!]|\\(?=[%$])|\\[()\[\]]"), ""),
)
_MINUS = re.compile(r"(?<!\d\s)\b(?:minus|negative)\s+(?=\d)", re.IGNORECASE)
_LOOSE_MINUS = re.compile(r"(?<![\w)]\s)\u2212\s+(?=\d)")
_AND_A_HALF = re.compile(r"\b(\d+) and an? (half|third|quarter)\b", re.IGNORECASE)
_HALF_A = re.compile(r"\bhalf an? (?=(?:hundred|thousand|[mbt]r?illion)\b)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:(?:1?\d?\d|2[0-4]\d|25[0-5])(?:\.(?!$)|$)){4}")
_CHARACTERS = {
    ord(mark): other
    for mark, other in zip("\u2044\u2215．٬％٪＄﹩⁺⁻\u00a0\u2007\u2009\u202f", "//.'%%$$+-    ", strict=True)
}

_GROUPED = "|".join(rf"\d{{1,3}}(?:{mark}\d{{3}})+(?!\d)" for mark in (",", r"\.", "['’]", "_", " "))
_DIGITS = rf"(?:{_GROUPED}|\d{{1,2}}(?:,\d{{2}})+,\d{{3}}(?!\d)|\d+)(?:[.,٫]\d+)?|[.٫]\d+"
_RUN = r"(?:\d{1,3}(?:[ ]\d{3})+(?!\d)|\d+)(?:[.,'’_٫:/-]\d+)*|(?<![\w.])[.٫]\d+"
"""Digits with all marks inside; a run that is no number is skipped as a whole."""

_TOKEN = re.compile(
    rf"""(?P<sign>(?<![\w.)^])[-+])?
        (?:(?P<currency>(?<![^\W\d_]){CURRENCY})\s?(?P<inner>[-+])?|(?<![\w^√])(?<![^\W\d]/))
        (?:(?P<whole>\d+)\ +(?=\d+/\d+(?![\d/.,])))?
        (?P<run>{_RUN})
        (?P<behind>(?:[eE](?P<e>[-+]?\d{{1,3}})(?!\w)
          |(?:\s*(?:[×x*·⋅]|X)\s*10(?:\^|\*\*)\(?(?P<ten>[-+]?\d{{1,3}})\)?)
          |\s?(?:\^|\*\*)\s?\(?(?P<power>[-+]?\d{{1,3}})(?![\d.,]\d)\)?)?
          (?:\s*(?:±|\+/-|\+-)\s*\d[\d.,]*)?)""",
    re.VERBOSE,
)
_SCALE = re.compile(
    rf"[ -]? ?({'|'.join(sorted(map(re.escape, _SCALES), key=len, reverse=True))})s?\b\.?", re.IGNORECASE
)
_EXPRESSION = re.compile(r"\s?(?:\^|\*\*)|(?:\s?[+*-]\s?\d*)?[π√]|(?<=\d{3}0)s\b")
"""What makes digits part of something else: a formula, or a decade (1990s)."""

_GLUED = re.compile(r"(?!st\b|nd\b|rd\b|th\b|e\b)[A-Za-z]", re.IGNORECASE)
"""Letters directly behind digits that are no unit: a variable (5x) or a time (5pm), but not an ordinal."""

_APPROXIMATELY = re.compile(r"^(?:[=~≈]|about|approximately|approx\.|around|roughly|circa|ca\.)\s*", re.IGNORECASE)
_ANSWER_MARK = re.compile(r"answer(?:\s+is\b|\s*:)\s*:?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a text from `in_figures`.

    Attributes:
        places: number of decimal places as written, less the power of ten; None if written without a decimal mark.
        unit: currency or unit; () if none is known.
        start, end: place of the number in the text, with its scale but without a unit behind.
        behind: end of the unit.
    """

    value: Fraction
    places: int | None
    unit: Unit
    start: int
    end: int
    behind: int


def in_figures(text: str, *, words: bool = True, ones: bool = False) -> str:
    r"""Return a text with the digits 0 to 9 for other digits, LaTeX and English number `words`; "one" needs `ones`.

    >>> in_figures("Twenty-one is one of three numbers; 1½ × 10⁻³; \\frac{1}{2}")
    '21 is one of 3 numbers; 1 1/2 × 10^-3; 1/2'
    """
    if "\\" in text or "{" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    text = in_ascii(text)
    if not words:
        return text
    text = _SPELLED.sub(lambda word: _figure(word, ones=ones), _HALF_A.sub("0.5 ", _ONE.sub("1", text)))
    text = _POINT.sub(lambda parts: f"{parts[1]}.{parts[2].replace(' ', '')}", text)
    for size, pattern in _SUMS:
        text = pattern.sub(partial(_add_parts, size), text)
    text = _AND_A_HALF.sub(lambda part: f"{part[1]} 1/{_PARTS[part[2].lower()]}", text)
    return _MINUS.sub("-", text)


def in_ascii(text: str) -> str:
    """Return a text with ASCII digits, dashes and fractions, and with "^3" for a superscript."""
    if text.isascii():
        return text
    text = _LOOSE_MINUS.sub("-", text)
    text = _SUPERSCRIPT.sub(lambda sign: "^" * (sign[0][-1] not in "⁺⁻") + unicodedata.normalize("NFKC", sign[0]), text)
    text = _VULGAR.sub(lambda part: f"{part[1]} " * bool(part[1]) + unicodedata.normalize("NFKC", part[2]), text)
    text = DASHES.sub("-", text.translate(_CHARACTERS))
    return "".join(str(unicodedata.digit(mark)) if mark.isdigit() and not mark.isascii() else mark for mark in text)


def _figure(word: re.Match[str], *, ones: bool) -> str:
    tens, one, small = (part.lower() if part else "" for part in word.groups())
    if small == "one" and not ones:
        return word[0]
    return str(_TENS.get(tens, 0) + (_SMALL.index(one or small) if one or small else not tens))


def _add_parts(size: int, parts: re.Match[str]) -> str:
    """Return the sum of a number with a word of scale and the number behind it; "8 million" alone keeps its word."""
    rest = int(parts[2] or 0) * _LARGE.get((parts[3] or "").lower(), 1)
    alone = parts[2] is None and size > 100
    return parts[0] if alone or rest >= size else str(int(parts[1]) * size + rest)


def read_numbers(text: str, context: str = "") -> list[Amount]:
    """Return the numbers of a text from `in_figures`, in order; `context` is, for example, the question.

    >>> [str(number.value) for number in read_numbers("On 2024-05-01 at 10:30, 3,5 and 1.234,50 of $5k.")]
    ['7/2', '2469/2', '5000']
    """
    numbers: list[Amount] = []
    for match in _TOKEN.finditer(text):
        if not numbers or match.start("run") >= numbers[-1].behind:  # the 2 of "m s^-2" belongs to a unit
            numbers += _read(match, text, context)
    return numbers


def _read(match: re.Match[str], text: str, context: str) -> Iterator[Amount]:
    run, comma = match["run"], writes_commas(context)
    place = match.start("run")
    negative = "-" in (match["sign"], match["inner"])
    if " " in run and match["sign"] == "+":
        return  # a telephone number
    two = re.fullmatch(rf"({_DIGITS})-({_DIGITS})", run)
    if two:  # the ends of a range
        for digits, (start, end) in ((two[1], two.span(1)), (two[2], two.span(2))):
            if exact := _decimal(digits, comma=comma):
                unit, behind = unit_behind(text, place + end) if digits == two[2] else ((), place + end)
                yield Amount(*exact, unit, place + start, place + end, behind)
        return
    exact = _value(match, comma=comma)
    if exact is None or _ADDRESS.fullmatch(run) or _EXPRESSION.match(text, match.end()):
        return
    value, places = exact
    power = match["e"] or match["ten"]
    scale, end = _scale(text, match, context)
    value *= scale * Fraction(10) ** int(power or 0)
    if places is not None or power:
        places = (places or 0) - int(power or 0) - len(str(scale)) + 1
    unit, behind = unit_behind(text, end)
    if behind == end and _GLUED.match(text, end):
        return
    if match["currency"]:
        unit, behind = (read_unit(match["currency"].rstrip(".")), end)
    yield Amount(-value if negative else value, places, unit, match.start(), end, behind)


def _value(match: re.Match[str], *, comma: bool) -> tuple[Fraction, int | None] | None:
    """Return value and decimal places of digits, a fraction or a power, without power of ten, scale and sign."""
    parts = re.fullmatch(rf"({_DIGITS})(?:/({_DIGITS}))?", match["run"])
    if parts is None:
        return None
    if match["e"] or match["ten"]:
        comma = "," in parts[1]  # 6,022e23
    exact, below = (part and _decimal(part, comma=comma) for part in parts.groups())
    if exact and below and below[0] and not match["power"]:
        return exact[0] / below[0] + int((match["whole"] or "0")[:MOST_DIGITS]), None
    if exact and not parts[2] and match["power"]:
        power = int(match["power"])
        too_large = abs(power) * len(match["run"]) > MOST_DIGITS or (power < 0 and not exact[0])
        return None if too_large else (exact[0] ** power, None)
    return exact if exact and not parts[2] else None


def _decimal(written: str, *, comma: bool) -> tuple[Fraction, int | None] | None:
    """Return the value of digits with marks, and the number of decimal places; None if the marks do not fit."""
    marks = re.findall(r"\D", written)
    whole, mark, decimals = written.rpartition(marks[-1]) if marks else (written, "", "")
    if len(written) > MOST_DIGITS:
        return None
    if len(marks) == 1 and mark in ".,":
        thousands = len(decimals) == 3 and 0 < len(whole) <= 3 and whole[0] != "0"
        is_decimal = not thousands or (mark == ",") is comma
    else:
        is_decimal = mark == "٫" or (mark in ".," and marks.count(mark) == 1 and len(marks) > 1)
    if is_decimal and mark:
        groups = re.sub(r"\D", "", whole)
        return Fraction(f"{groups or 0}.{decimals}"), len(decimals)
    if mark and len(decimals) != 3:
        return None
    return Fraction(re.sub(r"\D", "", written)), None


def _scale(text: str, match: re.Match[str], context: str) -> tuple[int, int]:
    """Return the factor of a word of scale behind digits, and the end; the factor is 1 if the question counts in it."""
    found = _SCALE.match(text, match.end())
    if found is None:
        return 1, match.end()
    word, money = found[1].lower(), match["currency"] or re.match(CURRENCY, text[found.end() :].lstrip())
    if len(word) <= 2 and word.isascii() and not money:
        metres = word in _OF_MONEY and found[1] != "M"
        if metres or (len(word) == 1 and found.start(1) > match.end()):
            return 1, match.end()
    counted = re.search(rf"\b(?:many|in)\s+{re.escape(word)}s?\b", context, re.IGNORECASE)
    return 1 if counted else _SCALES[word], found.end()


@lru_cache(maxsize=64)  # comparisons of answers read the same answer many times
def whole_number(text: str, context: str = "", *, noun: bool = False) -> Amount | None:
    """Return the number that a whole text is; None for any other text, such as a range or a code with a leading zero.

    Args:
        context: for example, the question; a text that writes decimal commas or counts in millions.
        noun: whether up to three words may follow, as in "12 red apples"; a leading zero is then allowed, too.

    >>> whole_number("1.234,50 €").value, whole_number("12 apples"), whole_number("12 apples", noun=True).value
    (Fraction(2469, 2), None, Fraction(12, 1))
    """
    text = text.strip().strip("*").strip()
    math = re.fullmatch(r"\$([^$]*)\$", text)
    plain = in_figures(math[1] if math else text, ones=True).strip().rstrip(".").strip()
    part = re.fullmatch(rf"(?:(an?|\d) )?({'|'.join(_PARTS)})s?", plain.lower())
    if part and (part[1] or part[2] == "half"):
        plain = f"{part[1] if part[1] and part[1].isdecimal() else 1}/{_PARTS[part[2]]}"
    account = re.fullmatch(rf"({CURRENCY}\s?)?\(({CURRENCY}\s?)?([\d.,' ]*(?:[.,]\d\d|[., ']\d{{3}})|\d+)\)(.*)", plain)
    if account and (account[1] or account[2] or not account[3].isdecimal()):
        plain = f"-{account[1] or account[2] or ''}{account[3]}{account[4]}"
    plain = _APPROXIMATELY.sub("", plain)
    numbers = read_numbers(plain, context)
    if len(numbers) != 1 or numbers[0].start:
        return None
    if not noun and re.match(r"\W*0\d", plain):
        return None
    rest = plain[numbers[0].behind :]
    words = noun and re.fullmatch(r"(?:\s|(?=[^\x00-\x7f]))(?:[^\W\d_]+[.-]?\s*){1,3}", rest)
    return numbers[0] if words or not rest.strip() else None


def same_number(one: Amount, other: Amount) -> bool:
    """Return whether two numbers are equal and have no different units."""
    return one.value == other.value and agree(one.unit, other.unit)


@lru_cache(maxsize=64)
def final_number(text: str, context: str = "") -> Amount | None:
    """Return the final number of a text; None without a number.

    In order of preference: the first number after the last "####" (GSM8K); the first number between the last "Answer:"
    or "answer is" and the end of its line (if a "=" follows, after the last "="); the last number of the text. If this
    number is an end of a range ("3 to 5"), the text has no final number.
    """
    hashes, marks = text.rpartition("####"), list(_ANSWER_MARK.finditer(text))
    parts = [_first_line(hashes[2])] if hashes[1] else []
    if marks:
        parts.append(_first_line(_first_line(text[marks[-1].end() :]).rpartition("=")[2]))
    for words, part in itertools.product((False, True), (*parts, text)):  # words count if no part has figures
        if whole := whole_number(part, context):
            return whole
        plain = in_figures(part, words=words)
        if numbers := read_numbers(plain, context):
            which, others = (-1, numbers[-2:-1]) if part is text else (0, numbers[1:2])
            return None if any(_is_range(plain, numbers[which], other) for other in others) else numbers[which]
    return None


def parse_number(text: str, context: str = "") -> Fraction | None:
    """Return the value of the `final_number` of a text; None without one."""
    number = final_number(text, context)
    return None if number is None else number.value


def _is_range(text: str, one: Amount, other: Amount) -> bool:
    first, second = sorted((one, other), key=lambda number: number.start)
    between = text[first.end : second.start]
    if re.search(r"[=+*/×-]\s*$", text[: first.start]):
        return False  # a calculation
    return one.value != other.value and (between == "-" or re.fullmatch(r"\s*(?:to|or|bis|à)\s*", between) is not None)


def _first_line(text: str) -> str:
    lines = text.strip(" \t\r\n*").splitlines()
    return lines[0] if lines else ""


_CLEAR_COMMA = re.compile(r"(?<![\d.,])(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:[.' ]\d{3})+,\d+|0,\d+)(?![.,]?\d)")
_CLEAR_POINT = re.compile(r"(?<![\d.,])(?:\d+\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:[,' ]\d{3})+\.\d+|0\.\d+)(?![.,]?\d)")
_COMMA_LANGUAGES = re.compile(
    r"[\u0400-\u04ff]{3}|\b(?:der|die|das|und|ist|wie viele?|welche[rs]?|les|une?|est|combien|quel(?:le)?s?|gli|della|"
    r"quant[ioe]|quale|uma|quantos|quantas|qual|het|een|hoeveel|ile|jest|kaç)\b",
    re.IGNORECASE,
)
_POINT_LANGUAGES = re.compile(r"\b(?:the|is|are|of|what|how|which|and)\b", re.IGNORECASE)


@lru_cache(maxsize=64)  # every row asks for the mark of its column
def decimal_mark(text: str) -> str | None:
    """Return the decimal mark of the numbers in a text; None if no number shows it.

    >>> decimal_mark("1.234,50"), decimal_mark("0.5 and 12,000"), decimal_mark("1,234")
    (',', '.', None)
    """
    commas, points = len(_CLEAR_COMMA.findall(text)), len(_CLEAR_POINT.findall(text))
    return None if commas == points else "," if commas > points else "."


@lru_cache(maxsize=64)
def writes_commas(context: str) -> bool:
    """Return whether a text writes decimal commas: by its numbers, or else by its language.

    >>> writes_commas("0,5 or 12,50"), writes_commas("Wie viele Einwohner hat das Dorf?"), writes_commas("1,234 or 0.5")
    (True, True, False)
    """
    if mark := decimal_mark(context):
        return mark == ","
    return len(_COMMA_LANGUAGES.findall(context)) > len(_POINT_LANGUAGES.findall(context))


def with_points(text: str) -> str:
    """Return a text with decimal commas in which the ambiguous numbers have decimal points.

    >>> with_points("1.234 m, 0,123 m or 1,234 m")
    '1234 m, 0,123 m or 1.234 m'
    """
    return re.sub(
        r"(?<![\d.,])([1-9]\d{0,2})([.,])(\d{3})(?![\d.,]\d|\d)",
        lambda number: f"{number[1]}{'' if number[2] == '.' else '.'}{number[3]}",
        text,
    )


def write_number(value: Fraction) -> str:
    """Return a number as text: whole, decimal if exact, else a fraction.

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
