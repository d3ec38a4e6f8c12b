# ruff: noqa: RUF001
"""Which values a text of `benchmarks.facts` states, and whether they are right."""

from __future__ import annotations

import datetime
import difflib
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_CAPITALISED = r"(?:[A-ZÀ-Ý]\.|[A-ZÀ-Ý][\w'’-]*)"
NAME = rf"{_CAPITALISED}(?:(?: (?:of|de|the|and|von|van)){{0,2}} {_CAPITALISED})*"
NUMBER = r"[−-]?\d[\d,]*(?:, \d{3})*(?:\.\d+)?"
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH, _DAY = f"(?:{'|'.join(MONTHS)})", r"\d{1,2}(?:st|nd|rd|th)?"
DATE = rf"{_DAY} (?:of )?{_MONTH}(?:,? \d{{4}})?|{_MONTH} {_DAY}(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d"


class StatedValue(NamedTuple):
    """A value of a known attribute that a text states, with its place."""

    attribute: str
    start: int
    end: int
    right: bool


def plain(text: str) -> str:
    """Return a text in lower case without accents and punctuation."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return " ".join(re.findall(r"\w+", "".join(each for each in letters if not unicodedata.combining(each))))


def number_of(text: str) -> float:
    """Return the number that a text such as "1,200.50" writes."""
    factor = 1e6 if "million" in text else 1e3 if "thousand" in text else 1
    return factor * float(re.sub(r"[^\d.-]", "", text.replace("−", "-").rstrip(".")) or "nan")


def date_of(text: str, year: int = 2025) -> str:
    """Return a date in ISO form; the year may be missing."""
    month = next((k for k, name in enumerate(MONTHS, 1) if name in text), 0)
    numbers = [int(each) for each in re.findall(r"\d+", text)]
    if not month:
        return text
    try:
        return datetime.date(numbers[1] if len(numbers) > 1 else year, month, numbers[0]).isoformat()
    except ValueError:
        return ""


def states(
    text: str,
    attribute: str,
    pattern: str,
    is_right: Callable[[str], bool],
    is_other: Callable[[str], bool] | None = None,
) -> Iterator[StatedValue]:
    """Yield the values that a pattern finds (its last group), each value once; `is_other` tells which are none."""
    seen: set[str] = set()
    for match in re.finditer(pattern, text):
        group = match.lastindex or 0
        start, value = match.start(group), match[group].rstrip(".,;: ")
        if value and plain(value) not in seen and not (is_other and is_other(value)):
            seen.add(plain(value))
            yield StatedValue(attribute, start, start + len(value), is_right(value))


def close_to(value: float, share: float, least: float = 0.0) -> Callable[[str], bool]:
    """Return a check whether a written number is within a share of a value."""
    return lambda written: abs(number_of(written) - value) <= max(share * abs(value), least)


def one_of(values: Any) -> Callable[[str], bool]:
    """Return a check whether a text is one of some values."""
    known = {plain(str(each)) for each in values}
    return lambda written: plain(written) in known


_OF = rf"(?: (?:of|in|spoken in|used in) (?:the )?{NAME})?"
_CONTINENT = r"[Cc]ontinent (?:of|is|being)|[Cc]ontinent it lies on is|lies (?:on|in)|located (?:on|in)"


def country_values(text: str, facts: dict[str, Any]) -> Iterator[StatedValue]:
    """Yield the values that a paragraph about a country states."""
    own = one_of([facts["name"], f"the {facts['name']}", *facts["other_names"], facts["demonym"]])
    capital = facts["capital"]

    def is_language(value: str) -> bool:
        return plain(value).split()[0] in facts["languages"]

    def is_currency(value: str) -> bool:
        return any(_is_currency(plain(value), name, plain(facts["demonym"])) for name in facts["currencies"])

    def is_continent(value: str) -> bool:
        return bool(set(plain(value).split()) & facts["continents"]) and _fits(plain(value), facts["subregion"])

    def is_no_continent(value: str) -> bool:
        return not re.search("Afric|Asia|Europ|America|Ocean|Australia", value) or bool(re.search("Uni", value))

    def is_code(value: str) -> bool:
        return re.sub(r"\D", "", value) in {re.sub(r"\D", "", code) for code in facts["calling_codes"]}

    yield from states(
        text,
        "capital",
        rf"[Cc]apital(?: city)?{_OF},?(?: is| being| at| called| named| of| city)+(?: the city of)? ({NAME})",
        one_of([capital, re.sub(",? D.C.$", "", capital)]),
        lambda value: own(value) and not own(capital),
    )
    yield from states(text, "language", rf"[Ll]anguages?{_OF}(?: is| are|,| being)+(?: the)? ({NAME})", is_language)
    yield from states(
        text,
        "currency",
        rf"[Cc]urrency{_OF}(?: is| being|,| called| known as)+(?: the)? ((?:{NAME} )?[A-Za-zé-]+)",
        is_currency,
        lambda value: value in ("also", "used", "based", "not"),
    )
    yield from states(
        text,
        "continent",
        rf"(?:{_CONTINENT})(?: the)?(?: continent of)?(?: the)? ({NAME})(?= continent|[,.]| and)",
        is_continent,
        is_no_continent,
    )
    yield from states(text, "calling code", r"calling code[^.+\d]{0,60}(\+?\d[\d-]*(?:\. ?\d+)?)", is_code)
    yield from states(
        text, "domain", r"domain[^.\"]{0,60}[\s\"'`](\w*\.[a-z]{2,9})\b", lambda value: value in facts["domains"]
    )
    yield from states(
        text,
        "area",
        rf"\barea[^.\d]{{0,80}}({NUMBER}(?: million| thousand)?)(?: sq| km)",
        close_to(facts["area"], 0.05),
        lambda value: len(value) < 3,
    )
    seen: set[str] = set()
    for found in re.finditer(r"(?:[Nn]eighbou?r|[Bb]order)[^.]{0,150}", text):
        for match in re.finditer(NAME, found[0]):
            place, start = plain(match[0]).removeprefix("the "), found.start() + match.start()
            if place in facts["places"] and not own(place) and place not in seen:
                seen.add(place)
                is_border = facts["places"][place] in facts["borders"]
                yield StatedValue("border", start, start + len(match[0]), is_border)


def _is_currency(value: str, name: str, demonym: str) -> bool:
    words = set(value.removesuffix("s").split()) - {"west", "central", "african"}
    return words <= {*name.split(), *demonym.split()} and not words <= set(demonym.split())


def _fits(value: str, subregion: str) -> bool:
    """Return whether a part of America is the one that a country lies in."""
    south = value.startswith("south america")
    return not (south or value.startswith("north america")) or south == subregion.startswith("south")


_OLD_GROUPS = {"1A": {1}, "2A": {2}, "8B": {8, 9, 10}, "1B": {11}, "2B": {12}}
_OLD_GROUPS |= {f"{k}B": {k} for k in range(3, 8)} | {f"{k}A": {k + 10} for k in range(3, 9)}
_ROMAN = {"I": "1", "II": "2", "III": "3", "IV": "4", "V": "5", "VI": "6", "VII": "7", "VIII": "8"}


_FINDERS = r"[Dd]iscovered [^.]{0,40}?by|name of (?:its|the) discoverer is|discoverer is|discovery [^.]{0,60}by"
_PROFESSION = r"(?: an?| the)?(?: \w+(?: and \w+)? (?:chemist|physicist|scientist|mineralogist)s?,?)?"


def element_values(text: str, facts: dict[str, Any]) -> Iterator[StatedValue]:
    """Yield the values that a paragraph about a chemical element states."""

    def is_group(value: str) -> bool:
        number, letter = re.sub(r"[AB\s]", "", value), re.sub(r"[^AB]", "", value)
        number = _ROMAN.get(number, number)
        known = _OLD_GROUPS.get(number + letter, set()) if letter else {int(number) if number.isdigit() else 0}
        return facts["group"] in known

    def is_discoverer(value: str) -> bool:
        last = plain(value).split()[-1]
        return any(difflib.SequenceMatcher(None, last, name).ratio() >= 0.8 for name in facts["discoverers"])

    numbers = {
        "symbol": r"[Ss]ymbol(?: of [A-Z]\w+)?(?: is|:| being|,| of)? ?[\"'`(]?([A-Z][a-z]{0,9})\b",
        "number": r"atomic number(?: of [A-Z]\w+)?(?: is| of|:)?[^.\d]{0,12}(\d+)",
        "period": r"\b[Pp]eriod(?: of [A-Z]\w+)?(?: number)?(?: is| of)? ?(\d+)",
        "year": r"[Dd]iscover\w*[^.]{0,100}?\b(?:in|is|year|of) (\d{3,4})\b",
    }
    for attribute, pattern in numbers.items():
        if facts[attribute]:
            yield from states(text, attribute, pattern, lambda value, right=str(facts[attribute]): value == right)  # type: ignore[misc]
    yield from states(
        text, "weight", r"atomic (?:weight|mass)[^.\d]{0,40}(\d[\d,]*(?:\.\d+)?)", close_to(facts["weight"], 0.005)
    )
    block = r"\b([spdf])-block|\b[Bb]lock(?: is| of)?(?: the)? ?[\"'(]?([A-Za-z])\b"
    yield from states(text, "block", block, lambda value: value.lower() == facts["block"])
    if facts["group"]:
        group = r"\b[Gg]roup(?: number)?(?: is| of)? ?((?:\d+|[IVX]+\b)(?: ?[AB]\b)?)"
        yield from states(text, "group", group, is_group)
    if facts["discoverers"]:
        yield from states(
            text,
            "discoverer",
            rf"(?:{_FINDERS}){_PROFESSION} ({NAME})",
            is_discoverer,
            lambda value: bool(re.search("ish|ese|ian|German|French|American|Dutch", value)) and " " not in value,
        )
    if facts["melting"]:
        melting = r"melting point[^.\d−-]{0,70}([−-]?\d[\d,]*(?:\.\d+)?)(?= ?(?:°|degrees? C|C\b))"
        yield from states(text, "melting point", melting, close_to(facts["melting"] - 273.15, 0.01, 2.0))


PERSON = rf"{_CAPITALISED}(?: (?:& )?{_CAPITALISED}){{1,3}}"
TIME = r"\d\d?:\d\d"
MONEY = r"\$ ?\d[\d,]*(?:\.\d\d)?"
WITHIN = r"(?:[^.\n]|\.\d)"  # a character within a sentence
_SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def equals(value: Any) -> Callable[[str], bool]:
    """Return a check whether a text writes a number, a date, a time or a name."""
    if isinstance(value, int | float):
        spelled = {word: str(number) for number, word in enumerate(_SPELLED)}
        return lambda written: abs(number_of(spelled.get(written.lower(), written)) - value) < 0.005
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return lambda written: date_of(written, int(value[:4])) == value
    if re.fullmatch(DATE, value):
        return equals(date_of(value))
    return lambda written: plain(written).lstrip("0") in (plain(value).lstrip("0"), plain(value).split()[-1])


def summary_values(text: str, kind: str, facts: dict[str, Any]) -> Iterator[StatedValue]:
    """Yield the values that a summary of a document states."""
    for attribute, pattern in _SUMMARIES[kind].items():
        yield from states(text, attribute, pattern, equals(facts[attribute]))
    if kind == "invoice":
        for item, count in facts["items"].items():
            yield from states(text, "quantity", rf"(\d+) (?:x |units of |pieces of )?{item}", equals(count))
            yield from states(text, "quantity", rf"{item}s?(?: \(| x |: ?)(\d+)\b(?![.,]\d)", equals(count))
            yield from states(
                text, "price", rf"{item}s?(?: x \d+)?,? (?:at|for|priced at) ({MONEY})", equals(facts["prices"][item])
            )
    if kind == "minutes":
        yield from _minutes_values(text, facts)


def _minutes_values(text: str, facts: dict[str, Any]) -> Iterator[StatedValue]:
    for sentence in re.finditer(rf"{WITHIN}+", text):
        following = "next meeting" in sentence[0].lower()
        shared: dict[str, tuple[str, Any]] = {
            "chair": (
                rf"[Cc]hair(?:person)? (?:was|is) ({PERSON})|({PERSON}) (?:will )?chair|chaired by ({PERSON})",
                facts["next_chair" if following else "chair"],
            ),
            "date": (
                rf"({DATE})" if following else rf"(?:place|held|meeting)[^.]{{0,30}}?({DATE})",
                facts["next" if following else "date"],
            ),
        }
        for attribute, (pattern, value) in shared.items():
            for match in re.finditer(pattern, sentence[0]):
                group = match.lastindex or 0
                start = sentence.start() + match.start(group)
                yield StatedValue(
                    f"next {attribute}" if following else attribute,
                    start,
                    start + len(match[group]),
                    equals(value)(match[group]),
                )
                break
        topics = [
            (match.start(), number)
            for number in "12"
            for match in re.finditer(re.escape(facts[f"topic{number}"].removeprefix("the ")), sentence[0])
        ]
        for name, pattern, cue in (("budget", MONEY, ""), ("due", DATE, r"(?:finish|complet|by |before|until)")):
            for match in re.finditer(pattern, sentence[0]):
                before = sentence[0][max(0, match.start() - 40) : match.start()]
                if not topics or (cue and not re.search(cue, before)) or "total" in before or following:
                    continue
                after = [
                    topic
                    for topic in topics
                    if 0 <= topic[0] - match.end() < 20 and sentence[0].startswith(" for ", match.end())
                ]
                ahead = [topic for topic in topics if topic[0] < match.start()]
                number = (after or ahead[-1:] or topics)[0][1] if name == "budget" else (ahead[-1:] or topics)[0][1]
                start = sentence.start() + match.start()
                value = match[0].rstrip(",")
                yield StatedValue(name, start, start + len(value), equals(facts[f"{name}{number}"])(value))


_NOT = r"(?:(?!resolv|detect|start)[^.])"
_SUM_OF_ITEMS = r"total (?:cost|price|value|amount)? ?of (?:the|these|all) items"
_AMOUNT = r"(?: amount| due| invoice| of the invoice| payable| price)"
_SUMMARIES: dict[str, dict[str, str]] = {
    "invoice": {
        "supplier": rf"supplier,?(?: is| was|:)? ({PERSON})|(?:from|by) ({PERSON})|for the ({PERSON}) company",
        "customer": rf"customer,?(?: is| was|:)? ({PERSON})|({PERSON}),? (?:a|the) customer",
        "contact": rf"contact(?: person| information)?(?: is| was|,|:| of)* ({PERSON})",
        "number": r"(?:invoice number|INVOICE|Invoice)(?: is| was|:|,|#)* ?\(?([A-Z]{2,4}-\d+)",
        "date": rf"(?:[Ii]nvoice date|dated|issued|was paid|created)(?:(?!due)[^.\d]){{0,25}}?({DATE})",
        "due": rf"\bdue\b(?:(?!\bdate of)[^.\d]){{0,30}}?({DATE})",
        "days": r"(\d+)[- ]days?\b",
        "town": rf"(?:located in|delivered to|[Dd]elivery (?:to|is to|was to|address is)|shipped to) ({_CAPITALISED})",
        "count": r"total (?:number|quantity) of items(?: \w+){0,3} (\d+)(?! \w+ \w*s? and)",
        "vat": rf"(?<!including )VAT(?:(?!total|includ){WITHIN}){{0,40}}?({MONEY})",
        "subtotal": rf"(?:[Ss]ubtotal|{_SUM_OF_ITEMS}){WITHIN}{{0,25}}?({MONEY})",
        "total": rf"(?<![Ss]ub)\b[Tt]otal{_AMOUNT}{{1,3}}(?: is| was| of| due| including VAT|,|:)* ({MONEY})",
    },
    "incident": {
        "ticket": r"\b(OPS-\d+)",
        "system": r"\b((?:payment|login|search|mail|image|booking|message|report) \w+)\b[^.]{0,40}failed",
        "other": r"(?:moved?|moves|moving) the ((?:payment|login|search|mail|image|booking|message|report) \w+)",
        "town": rf"data cent(?:re|er)(?: in| of)? ({_CAPITALISED})",
        "date": rf"(?:failed|occurred|incident|report)[^.]{{0,60}}?({DATE})",
        "start": rf"(?:started|starting|began|begun) (?:on|at|from)? ?(?:the )?({TIME})|failed (?:on|at) ({TIME})",
        "detected": rf"detected{_NOT}{{0,40}}?({TIME})",
        "resolved": rf"resolved{_NOT}{{0,60}}?({TIME})",
        "detector": rf"({PERSON}) detected|detected{_NOT}{{0,30}}? by ({PERSON})",
        "resolver": rf"({PERSON}) resolved|resolved{_NOT}{{0,30}}? by ({PERSON})",
        "owner": rf"({PERSON}) (?:will |to )?mov|hardware by ({PERSON})|followed up by ({PERSON})",
        "cause": r"cause[^.]{0,30}? (?:is|was) (an? [\w ]+?)(?=[.,]| which| that| in )",
        "users": r"(\d[\d,]*) users",
        "failed": r"(\d[\d,]*)(?: failed)? requests",
        "duration": r"(?:lasted|duration)[^.\d]{0,40}(\d+) minutes",
        "delay": r"(\d+) minutes (?:passed |elapsed |had passed )?(?:before|until|after|to be)",
        "cost": rf"cost{WITHIN}{{0,40}}?({MONEY})",
        "due": rf"hardware[^.]{{0,30}}?({DATE})",
    },
    "minutes": {
        "start": rf"({TIME}) (?:to|-|–|until) {TIME}",
        "end": rf"{TIME} (?:to|-|–|until) ({TIME})",
        "town": rf"({_CAPITALISED}) office",
        "secretary": rf"({PERSON}) (?:as|was|is) (?:the )?secretary|secretary,?(?: was| is)? ({PERSON})",
        "people": r"(\w+) (?:people|attendees|members|persons|participants)(?: were)? (?:present|attend)",
        "minutes": r"(\d+) minutes",
        "by2": rf"({PERSON}) (?:asks|asked|requested|requests)\b",
        "by1": rf"({PERSON}) (?:reports|reported)\b",
        "contact": rf"({PERSON}) (?:will|would|to) contact",
        "votes_for": r"(?<![,.\d])(\d+) (?:votes? |people |members )?(?:for|in favou?r)\b",
        "votes_against": r"(?<![,.\d])(\d+) (?:votes? |people |members )?against\b",
        "sum": rf"total{WITHIN}{{0,40}}?({MONEY})",
    },
}  # fmt: skip


def instruction_values(text: str, kind: str, facts: dict[str, Any]) -> Iterator[StatedValue]:
    """Yield the amounts, times and dates that instructions state."""
    if kind == "recipe":
        unit = r"(?:\s*(?:g|ml|grams?|milliliters?|millilitres?)\b)?"
        for item, amount in facts["amounts"].items():
            name = item.removesuffix("es") if item.endswith("oes") else item.removesuffix("s")
            yield from states(text, "amount", rf"\b(\d+(?:\.\d+)?){unit}(?: of)?(?: \w+)? {name}", equals(amount))
            yield from states(text, "amount", rf"{name}(?:e?s)?(?: \(|: ?| - )(\d+(?:\.\d+)?)", equals(amount))
        yield from states(text, "time", r"(\d+) minutes", equals(facts["time"]))
        yield from states(text, "people", r"(\d+|\w+) (?:people|servings|persons)", equals(facts["people"]))
    if kind == "schedule":
        titles = sorted((text.lower().find(name.removeprefix("the ")), name) for name in facts["times"])
        titles = [(place, name) for place, name in titles if place >= 0]
        for number, (place, name) in enumerate(titles):
            stop = titles[number + 1][0] if number + 1 < len(titles) else len(text)
            part = text[place:stop].rsplit(". ", 1)[0] if number + 1 < len(titles) else text[place : place + 160]
            for match in re.finditer(TIME, part):
                before = part[: match.start()][-24:]
                ends = bool(
                    re.search(
                        r"(?:to|until|end\w*(?: \w+)?|-|–|finish\w*|conclud\w*)(?: at| by)? ?(?:[ap]m )?$", before
                    )
                )
                begins = bool(re.search(r"(?:begin\w*|start\w*|from|at|takes? place|held)(?: at| from)? $", before))
                if (ends or begins) and "event" not in part[: match.start()].rpartition(". ")[2]:
                    start = place + match.start()
                    yield StatedValue(
                        "end" if ends else "begin",
                        start,
                        start + len(match[0]),
                        equals(facts["times"][name][ends])(match[0]),
                    )
        yield from states(
            text,
            "total",
            r"(?:(?:total|in all|altogether|lasts?|takes?|duration)[^.\d]{0,40}|= )(\d+) minutes(?! [+(])",
            equals(facts["total"]),
        )
        yield from states(text, "photographs", rf"(?:photo\w*|pictures)[^.]{{0,60}}?({DATE})", equals(facts["photos"]))
        yield from states(
            text,
            "date",
            rf"(?:event (?:begins|starts|will)|begins?|starts?)[^.]{{0,30}}?({DATE})",
            equals(facts["date"]),
        )
        last = max(end for _, end in facts["times"].values())
        yield from states(text, "event end", rf"event[^.]{{0,20}} ends?[^.]{{0,30}}?({TIME})", equals(last))
    if kind == "doses":
        yield from _dose_values(text, facts)


def values_of(text: str, name: str, facts: dict[str, Any]) -> list[StatedValue]:
    """Return the values of known attributes that a text states; `name` is that of its prompt, as in "country/Laos"."""
    kind = name.split("/")[0]
    if kind == "country":
        return list(country_values(text, facts))
    if kind == "element":
        return list(element_values(text, facts))
    return list((summary_values if kind in _SUMMARIES else instruction_values)(text, kind, facts))


def _dose_values(text: str, facts: dict[str, Any]) -> Iterator[StatedValue]:
    """Yield the values of the medicine that was named last before them."""
    named = sorted((match.start(), name) for name in facts["drugs"] for match in re.finditer(name, text))
    number = r"(\d[\d,]*(?:\.\d+)?)"
    checks = {
        "times": (
            r"[Dd]oses per day(?: is)?:? (\d+)|(\d+|once|twice|three|four|two) (?:doses?|times?)(?: per| a| each) day",
            "times",
        ),
        "daily": (
            rf"[Tt]otal (?:mg |daily )?(?:dose )?(?:per day)?(?: is|:)* (?:[^\n.=]*= )?{number} ?mg"
            rf"|{number} ?mg per day",
            "daily",
        ),
        "days": (r"(?:for|of|over)(?: a total of)? (\d+|\w+) days|[Nn]umber of days(?: is)?:? (\d+)", "days"),
        "last": (rf"(?:last|until|end\w*|through|to)[^.]{{0,40}}?({DATE})", "last"),
        "dose": (rf"(?:[Ss]ingle dose|\bdose|take|takes)(?: is| of|:)* {number} ?mg(?! ?per|/)", "dose"),
    }
    seen: set[tuple[str, str, str]] = set()
    taken: set[int] = set()
    for attribute, (pattern, key) in checks.items():
        for match in re.finditer(pattern, text):
            group = match.lastindex or 0
            start, value = match.start(group), match[group]
            ahead = [name for place, name in named if place < start]
            if not ahead or start in taken or (attribute, ahead[-1], plain(value)) in seen:
                continue
            taken.add(start)
            seen.add((attribute, ahead[-1], plain(value)))
            count = {"once": "1", "twice": "2"}.get(value, value)
            if attribute == "last" or count[0].isdigit() or count in _SPELLED:
                yield StatedValue(attribute, start, start + len(value), equals(facts["drugs"][ahead[-1]][key])(count))
