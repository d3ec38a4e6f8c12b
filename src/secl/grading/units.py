"""Units of measurement and currencies behind or before a number.

A spelling may have several meanings: a pound is a weight and a currency, "$" is one of several dollars. Two units agree
if they share a meaning. The case of a symbol counts where it changes the meaning (mW and MW), and only there (km, KM).
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

Unit = tuple[tuple[frozenset[str], int], ...]
"""Factors of a unit, each with its possible meanings and its power: m/s² is ((m, 1), (s, -2)); () is no unit."""

_PREFIXES = {"k": "kilo", "M": "mega", "G": "giga", "T": "tera", "h": "hecto", "d": "deci", "c": "centi", "m": "milli",
    "µ": "micro", "n": "nano", "p": "pico", "": ""}  # fmt: skip
_BASES = {"m": "metre meter", "g": "gram gramme", "s": "second sec", "L": "litre liter", "A": "ampere amp",
    "V": "volt", "W": "watt", "Wh": "watthour", "J": "joule", "N": "newton", "Pa": "pascal", "Hz": "hertz",
    "Ω": "ohm", "K": "kelvin", "mol": "mole", "eV": "electronvolt", "B": "byte", "b": "bit", "t": "tonne",
    "cal": "calorie", "bar": "", "Bq": "becquerel", "Sv": "sievert"}  # fmt: skip
_OTHERS = """min minute minuten|h hr hour stunde heure|d day tag jour|week wk|month|year yr jahr|mi mile|ft foot feet
inch inche|yd yard|oz ounce|lb pound|gal gallon|acre|ha hectare|mph|dB decibel|kg kilo|L l
stone|ly lightyear|pc parsec|AU au|kn knot|psi|atm
°C celsius °c C|°F fahrenheit °f F|° degree deg grad|% percent pct prozent|‰ permille"""
_CURRENCIES = """US$ usd us$ dollar $|CA$ cad ca$ c$ dollar $|AU$ aud au$ a$ dollar $|NZ$ nzd nz$ dollar $
HK$ hkd hk$ dollar $
€ eur euro|£ gbp pound sterling|CHF fr franc franken|JP¥ jpy yen ¥|CN¥ cny rmb yuan ¥|₹ inr rupee rs|₽ rub rouble ruble
₩ krw won|₺ try lira|SEK kr krona kronor|NOK kr krone kroner|DKK kr krone kroner|₿ btc bitcoin|PLN zł zloty
BRL r$ real reais|peso|baht|rand|riyal|dirham|shekel|¢ cents ct"""
"""Further units and currencies, separated by "|" or line breaks; the first spelling is the meaning."""

CURRENCY = r"(?:(?:US|CA|AU|NZ|HK|[CAR])?\$|[€£¥₹₽₩₺₿]|Rs\.?(?=\s?\d)|" + (
    r"(?:USD|CAD|AUD|NZD|HKD|EUR|GBP|CHF|JPY|CNY|RMB|INR|RUB|SEK|NOK|DKK|PLN|BRL)(?=\s?[-+]?\d))"
)
"""Pattern of a currency before a number."""

_FACTOR = r"(?:(?:degrees?\s+|[°º]\s*)[^\W\d_]+|[^\W\d_]+(?:\$|(?:\^[-+]?[1-9]|-[1-9]|[23])(?!\d))?|[%‰°º€£¥$₹₽₩₺₿¢])"
_JOINT = r"(?:\s*(?:/|\bper\b|[·⋅*])\s*| (?=[^\W\d_]+\^?-[1-9]|[^\W\d_]{1,2}(?![^\W\d_])))"
_UNIT = re.compile(
    rf"[ -]*((?:(?:square|cubic|sq\.?|US)\s+)?{_FACTOR}(?:{_JOINT}{_FACTOR})*)",
    re.IGNORECASE,
)


def unit_behind(text: str, place: int) -> tuple[Unit, int]:
    """Return the unit that begins at an index of a text, and the index behind it; () and `place` without a known unit.

    >>> unit_behind("5 km/h", 1)[0] == unit_behind("5 kilometres per hour", 1)[0], unit_behind("5 cats", 1)
    (True, ((), 1))
    """
    found = _UNIT.match(text, place)
    while found:
        if unit := read_unit(found[1]):
            return unit, found.end()
        shorter = re.match(r"(.+)(?:/|\bper\b|[·⋅* ])", found[1])  # "dollars per customer": the dollars are a unit
        found = shorter and _UNIT.match(text[: found.start(1) + shorter.end(1)], place)
    return (), place


@cache
def read_unit(text: str) -> Unit:
    """Return the unit that a text names; () if a part of the text is not a known unit.

    >>> read_unit("square km") == read_unit("km²"), read_unit("mW") == read_unit("MW"), read_unit("apples")
    (True, False, ())
    """
    for words, symbol in _SPELLED:
        text = words.sub(symbol, text)
    factors, sign = [], 1
    for part in re.split(rf"({_JOINT})", text.translate(_SUPERSCRIPTS)):
        if re.fullmatch(_JOINT, part) or part == " ":
            sign = -1 if part.strip() in ("/", "per") else 1
            continue
        found = re.fullmatch(r"(.+?)\^?([-+]?[1-9])?", part)
        meanings = _meanings(found[1]) if found else frozenset[str]()
        if found is None or not meanings:
            return ()
        factors.append((meanings, sign * int(found[2] or 1)))
    return tuple(sorted(factors, key=lambda factor: (-factor[1], min(factor[0]))))


def agree(one: Unit, other: Unit) -> bool:
    """Return whether two units can be the same; a number without a unit agrees with every unit."""
    if not one or not other:
        return True
    return len(one) == len(other) and all(
        power == other_power and not meanings.isdisjoint(other_meanings)
        for (meanings, power), (other_meanings, other_power) in zip(one, other, strict=True)
    )


def may_be_left_out(unit: Unit) -> bool:
    """Return whether "50" can stand for 50 of this unit: a currency or percent."""
    _, _, common = _spellings()
    return all(power == 1 and meanings <= common for meanings, power in unit)


_SPELLED = (
    (re.compile(r"^US\s+dollars?\b", re.IGNORECASE), "US$"),
    (re.compile(r"^(?:square|sq\.?)\s+(\w+)", re.IGNORECASE), r"\1^2"),
    (re.compile(r"^cubic\s+(\w+)", re.IGNORECASE), r"\1^3"),
)
_SUPERSCRIPTS = str.maketrans({**dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True)), "º": "°", "μ": "µ"})


@cache
def _spellings() -> tuple[dict[str, set[str]], dict[str, set[str]], set[str]]:
    """Return the meanings of symbols, whose case may count; those of spellings in lower case; and the currencies."""
    symbols, words = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for prefix, prefix_name in _PREFIXES.items():
        for base, names in _BASES.items():
            if prefix + base != "pm":  # 3 pm is a time
                symbols[prefix + base].add(prefix + base)
            for name in names.split():
                words[prefix_name + name].add(prefix + base)
    for meaning, *spellings in (line.split() for line in re.split(r"[|\n]", f"{_OTHERS}\n{_CURRENCIES}")):
        for name in (meaning, *spellings):
            (symbols if len(name) == 1 or name == meaning else words)[name].add(meaning)
    for symbol, meanings in symbols.items():
        if len(symbol) > 1:
            words[symbol.casefold()] |= meanings
    return symbols, words, {"%", *(line.split()[0] for line in re.split(r"[|\n]", _CURRENCIES))}


def _meanings(spelling: str) -> frozenset[str]:
    symbols, words, _ = _spellings()
    spelling = re.sub(r"^(?:degrees?\s+|°\s*)(?=\S)", "°", spelling, flags=re.IGNORECASE)
    lower = spelling.casefold().removeprefix("°") if len(spelling) > 2 else spelling.casefold()
    singular = lower[:-1] if len(lower) > 2 and lower.endswith("s") and not lower.endswith("ss") else lower
    return frozenset(symbols.get(spelling) or words.get(lower) or words.get(singular) or ())
