# ruff: noqa: RUF001, SIM905
"""The values in a text that can be right or wrong: numbers, dates, names, quotations, code and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

FactKind = Literal["number", "date", "name", "quote", "code", "link"]


@dataclass(frozen=True, slots=True)
class FactSpan:
    """A value in a text: `text[start:end]`."""

    start: int
    end: int
    kind: FactKind


LONGEST = 60
"""Maximum length of a quotation or formula that is one value. The values within a longer one count."""

MOST_WORDS = 6
"""Maximum number of capitalised words in a name. Longer runs are titles."""

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_WEEKDAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_NOON = r"(?:[ap]m\b|[ap]\.m\.)"
_ORDINAL = r"(?:st|nd|rd|th)\b"
_CURRENCY = r"(?:(?:US|AU|CA|HK|NZ|R)?\$|[€£¥₹₽₩₺₫₪₴฿])"
_CURRENCY_CODE = r"USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|RUB|BRL|KRW"
_DIGITS = r"(?:\d{1,3}(?:[ \u00a0\u202f'’]\d{3}){1,6}(?!\d)(?:[.,]\d+)?|\d+(?:[.,٫٬]\d+){0,6})"
_LARGE = (
    r"(?:hundred|thousand|million|billion|trillion|Millionen|Milliarden|millones|трлн|миллион\w{0,3}|млн|млрд)\b"
    r"|[万萬亿億兆千百]{1,2}"
)
_SYMBOL = (
    r"[%％‰٪℃℉]|°(?:\s?[CFK]\b)?|(?:[kcdmµμnMGT]?(?:m|g|l|L|s|Hz|W|Wh|J|V|A|Pa|B|cal|mol|eV|N)[²³23]?"
    r"(?:/(?:[kcmµ]?[mgLl]|mol|s|h|d)[²³23]?)?|K|h|u|amu|min|ppm|lbs?|oz|ft|mph|dB|hPa|bar|ha)\b"
)
_WORDS = (
    r"(?i:per ?cent|percentage points|degrees?(?: (?:Celsius|Fahrenheit|Kelvin))?|seconds?|minutes?|hours?|days?|weeks?"
    r"|months?|years?|(?:square |cubic )?(?:(?:kilo|centi|milli)?met(?:er|re)s?|miles?|feet|foot|inch(?:es)?)"
    r"|(?:kilo|milli)?grams?|tonnes?|tons?|(?:milli)?lit(?:er|re)s?|cups?|tablespoons?|tbsp|teaspoons?|tsp|dollars?|euros?"
    r"|pounds?|cents?|yen|people|atomic mass units|Uhr|Euro|Prozent|años?|руб|лет|года?)\b"
)
_COUNTED = r"[年月日歳岁人個个円元块度点時时分秒届位]"
_GAP = r"[ \u00a0\u202f-]?"
_UNIT = rf"(?:{_GAP}(?:{_LARGE}))?(?:{_GAP}(?:{_SYMBOL}|(?:{_CURRENCY_CODE})\b|{_WORDS}|[€£¥₽]|{_COUNTED}))?"
_QUANTITY = rf"(?:{_LARGE}|{_SYMBOL}|{_WORDS})"
_SIGN = r"(?<![\w)])[+−-]"
_POWER = (  # also ranges and fractions
    rf"[–/:^×±-]{_DIGITS}| ?[×·] ?10(?:\^?[−-]?{_DIGITS}|[⁻⁰¹²³⁴-⁹]{{1,4}})|[⁻⁰¹²³⁴-⁹]{{1,4}}|[eE][+-]?\d+"
)
_ONES = r"one|two|three|four|five|six|seven|eight|nine"
_SPELLED = (
    rf"(?:(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-(?:{_ONES}))?|two|three|four|five|six|seven|eight|nine"
    r"|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen)"
)
_FREE = r"(?<![^\W\u2e80-\uffff])(?<!\d[.,])"  # no letter or digit before, but a Chinese character may stand there

# Each row: kind, and pattern of a value with its quotation marks. The first row that matches at a place wins. Each
# repetition is bounded or matches in one way, so that the time grows linearly with the length of the text.
_PATTERNS: tuple[tuple[FactKind | Literal["markup"], str], ...] = (
    ("markup", r"(?m:^#{1,6} [^\n]*$)|(?m:^[ \t]*\*\*[^*\n]{1,80}\*\*:?[ \t]*$)"),  # headings
    ("markup", r"(?m:^(?=[^\n|]*\|)[^\n]*\n(?=[ \t]*\|?[ \t]*:?-{2})[ \t:|-]+$)"),  # header of a table
    (
        "markup",
        r"(?m:^[ \t]*(?:\d{1,3}[.)]|[a-z]\))(?=[ \t]))|\[\^?\d{1,3}\]|</?[a-zA-Z][^<>\n]{0,80}>",
    ),  # list, reference
    ("link", r"(?:https?://|www\.)[^\s<>\"'`)\]}】」』》，。、]{2,300}(?<![.,;:!?*_])"),
    ("link", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}"),
    ("code", rf"(?<!`)`[^`\n]{{1,{LONGEST}}}`(?!`)"),
    # LaTeX: no space within the dollars, no digit after them, and an operator or a single letter between them.
    (
        "code",
        rf"\$\$?(?=[^$\n]{{0,{LONGEST}}}[\\^_={{}}<>+*|]|[A-Za-z]\$)[^\s$](?:[^$\n]{{0,{LONGEST}}}[^\s$])?\$\$?(?!\d)",
    ),
    ("code", rf"\\\([^\n]{{1,{LONGEST}}}?\\\)|\\\[[^\n]{{1,{LONGEST}}}?\\\]"),
    (
        "quote",
        rf"\"[^\"\n]{{1,{LONGEST}}}\"|“[^“”\n]{{1,{LONGEST}}}”|„[^„“”\n]{{1,{LONGEST}}}[“”]|«[^«»\n]{{1,{LONGEST}}}»",
    ),
    ("quote", rf"「[^「」\n]{{1,{LONGEST}}}」|『[^『』\n]{{1,{LONGEST}}}』|《[^《》\n]{{1,{LONGEST}}}》"),
    ("quote", rf"(?<!\w)'[^\s'\n][^'\n]{{0,{LONGEST}}}'(?!\w)|(?<!\w)‘[^‘’\n]{{1,{LONGEST}}}’(?!\w)"),
    ("date", rf"(?:\b{_WEEKDAY},? )?{_FREE}\d{{1,2}}(?:{_ORDINAL})?(?: of)? {_MONTH}(?:,? \d{{4}}(?!\d))?"),
    ("date", rf"(?:\b{_WEEKDAY},? )?\b{_MONTH} \d{{1,2}}(?:{_ORDINAL}|(?!\w))(?:,? \d{{4}}(?!\d))?"),
    ("date", rf"\b{_MONTH},? \d{{4}}(?!\w)"),
    ("date", rf"{_FREE}\d{{1,2}}\.? (?:de )?[^\W\d_]{{3,12}}\.? (?:de )?\d{{4}}(?!\w)"),  # a month of any language
    ("date", rf"{_FREE}\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?(?!\w)"),
    ("date", rf"{_FREE}(?:\d\d?(?P<sep>[./-])\d\d?(?P=sep)(?:\d{{4}}|\d\d)|\d{{4}}/\d\d/\d\d)(?![\w/-]|\.\d)"),
    ("date", r"\d{2,4}年(?:\d\d?月(?:\d\d?日)?)?|\d\d?月\d\d?日"),
    ("date", rf"{_FREE}(?:\d\d?:\d\d(?::\d\d)?(?: ?(?:{_NOON}|Uhr\b))?(?![\w:])|\d\d? ?{_NOON})"),
    ("date", rf"{_FREE}(?:\d{{1,4}} ?(?:BCE?|CE|AD)\b|\d\d?{_ORDINAL} century(?: (?:BCE?|AD|CE)\b)?)"),
    ("date", rf"{_FREE}(?:1\d|20)\d\d(?:s\b|[–/-](?:\d{{4}}|\d\d))?(?![\w%°]|[.,:/-]\d|{_GAP}{_QUANTITY})"),
    ("code", r"(?<![\w./:])(?:[\w.~-]{0,40}/){1,20}[\w-]{1,40}\.\w{1,5}\b"),  # paths
    ("code", r"(?<![\w./])~?/\w[\w.-]*(?:/[\w.-]+)*"),
    ("code", r"(?<!\w)[^\W\d_]\w*(?:\.[^\W\d_A-Z]\w+)+(?:\(\))?|(?<![\w.])[^\W\d]\w*\(\)"),  # dotted names, calls
    ("code", r"(?<![\w.])\.[a-z]\w{1,9}\b|(?<![\w-])--[a-z][\w-]*"),  # suffixes such as .org, flags
    ("code", r"(?<!\w)(?:[^\W_]+(?:_+[^\W_]+)+|[a-z]+[A-Z]\w*)(?:\(\))?"),  # snake_case, camelCase
    ("code", r"(?<!\w)[A-Z]{1,6}[-/#]\d\w*(?:[-/]\w+)*"),  # numbers of documents
    (
        "number",
        rf"(?:(?:\b(?:{_CURRENCY_CODE}) ?)?(?:{_SIGN})?{_CURRENCY} ?|\b(?:{_CURRENCY_CODE}) ?|{_SIGN}|{_FREE})"
        rf"{_DIGITS}(?:{_POWER}){{0,6}}[½¼¾⅓⅔]?(?:{_ORDINAL}|[sx]\b)?{_UNIT}",
    ),
    ("number", rf"[½¼¾⅓⅔]{_UNIT}|(?<![\w-]){_SPELLED}(?:[ -](?:{_LARGE}))?(?![\w-])(?: {_WORDS})?"),
    (
        "name",
        r"(?<![\dァ-ヺー])[ァ-ヺー]{3,}(?:・[ァ-ヺー]{2,})*|[\u4e00-\u9fff]{1,4}(?:·[\u4e00-\u9fff]{1,6})+",
    ),  # foreign names
    ("name", r"(?<=[是为為叫])(?![\u4e00-\u9fff]{0,6}[的个一不])[\u4e00-\u9fff]{2,6}(?=[，。；、）])"),  # 首都是巴黎。
)
_VALUE = re.compile("|".join(f"(?P<{kind}_{row}>{pattern})" for row, (kind, pattern) in enumerate(_PATTERNS)))
_KINDS: dict[str, FactKind | None] = {kind: None if kind == "markup" else kind for kind, _ in _PATTERNS}
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*(?:```|~~~)|\Z)", re.M | re.S)
_DATA = frozenset(("", "text", "txt", "plaintext", "json", "yaml", "yml", "toml", "csv", "markdown", "md"))
_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s.,;:!?]")
_OPENING = "`$\"“„«「『《'‘"

_WORD = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W\d_](?:\w|['’&-](?=[^\W_]))*")
_WITHIN_NAMES = frozenset("of de la le du des del della di da do dos van von der den the al el bin ibn für of’".split())
_ABBREVIATIONS = frozenset("Dr Mr Mrs Ms St Prof Mt Ft Jr Sr Gen Col Capt Rev Hon Lt Sgt".split())
# Currencies are the names in lower case that texts hold most often. Some are also other words.
_MONEY = frozenset(
    "euro euros dollar dollars franc francs peso pesos dinar dinars dirham dirhams ruble rubles rouble rupee "
    "rupees rupiah lira yen yuan renminbi krona kronor krone kroner koruna zloty forint leu lev hryvnia tenge "
    "baht riyal rial shilling naira cedi kwacha birr dong kip riel taka peseta manat lari dram som quetzal "
    "lempira bolivar guarani".split()
)
_MONEY_AFTER_NAMES = frozenset("pound pounds real reais rand mark marks crown crowns".split())
# Words that open a sentence in front of a name, and pronouns.
_OPENERS = frozenset(
    "a about according after all also although an and another any are as at because before both but by can "
    "contact could dear did do does during each every first finally following for from had has have he her here his "
    "how however i if in is it its last let many may more most my new next no not note now of on once one only "
    "or other our over please second she should since so some still such than that the their then there these "
    "they third this those though through thus to today under until was we were what when where which while "
    "who why will with within would yes you your der die das ein eine im am und er sie es le la les un une el "
    "los las il lo en dans den в на он она это".split()
)
_GERMAN = frozenset("der die das und ist nicht ein eine einen dem den des mit von zu wird auf für".split())
_BEFORE_GERMAN_NAMES = frozenset("in aus nach von bei ist war heißt durch zwischen gegen".split())


def find_spans(text: str, known: str = "") -> tuple[FactSpan, ...]:
    """Return the values in a text that can be right or wrong, in order and disjoint.

    Args:
        known: the question. A value that stands in it word by word is left out: its repetition is no fact.

    >>> find_spans("In 1898 Marie Curie found it.")
    (FactSpan(start=3, end=7, kind='date'), FactSpan(start=8, end=19, kind='name'))
    """
    taken = bytearray(len(text))  # 1 where no name can stand
    found: list[FactSpan] = []
    for start, end, is_program in _regions(text):
        for match in _VALUE.finditer(text, start, end):
            taken[match.start() : match.end()] = b"\1" * (match.end() - match.start())
            span = _value_of(match)
            if span and not (is_program and _is_trifle(text[span.start : span.end], span.kind)):
                found.append(span)
        if is_program:
            taken[start:end] = b"\1" * (end - start)
    joined: list[FactSpan] = []
    for span in sorted([*found, *_names(text, taken)], key=lambda span: span.start):
        if joined and _is_part_of_name(text, joined[-1], span):
            joined[-1] = FactSpan(joined[-1].start, span.end, "name")
        else:
            joined.append(span)
    asked = _words(known)
    return tuple(span for span in joined if not known or _words(text[span.start : span.end]) not in asked)


def _is_part_of_name(text: str, name: FactSpan, span: FactSpan) -> bool:
    """Return whether a value is the number of a name, as in "Apollo 11"."""
    together = name.kind == "name" and text[name.end : span.start] == " "
    return together and span.kind == "number" and text[span.start : span.end].isdecimal()


def _words(text: str) -> str:
    """Return the words and signs of a text between single spaces, in lower case."""
    return " ".join(["", *_WORD_OR_SIGN.findall(text.casefold()), ""])


def _regions(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each part of a text outside fences, and of each fenced block; True for programs."""
    place = 0
    for fence in _FENCE.finditer(text):
        yield place, fence.start(), False
        yield *fence.span(2), fence[1].lower() not in _DATA
        place = fence.end()
    yield place, len(text), False


def _value_of(match: re.Match[str]) -> FactSpan | None:
    """Return the span of a value without its quotation marks; None for markup."""
    (start, end), row = match.span(), (match.lastgroup or "").partition("_")
    kind = _KINDS[row[0]]
    if kind is None:
        return None
    marks = (
        2 if match[0].startswith(("$$", "\\(", "\\[")) else int(match[0][0] in _OPENING and kind in ("quote", "code"))
    )
    inner = match[0][marks : len(match[0]) - marks]
    kept = inner.rstrip().rstrip(" .,;" if kind == "quote" else " ,").rstrip()
    start += marks + len(inner) - len(inner.lstrip())
    end -= marks + len(inner) - len(kept)
    return FactSpan(start, end, kind) if start < end else None


def _is_trifle(value: str, kind: FactKind) -> bool:
    """Return whether a value in a program is a matter of style: a name, a single digit."""
    return kind in ("date", "name") or (kind == "number" and len(value) < 2) or (kind == "code" and "." not in value)


class _Run(NamedTuple):
    """Capitalised words next to each other; `opens` tells whether a sentence starts with them."""

    words: list[re.Match[str]]
    opens: bool


def _names(text: str, taken: bytearray) -> Iterator[FactSpan]:
    """Yield runs of capitalised words, but no single word that is capitalised because a sentence starts with it."""
    words = [match for match in _WORD.finditer(text) if 1 not in taken[match.start() : match.end()]]
    lower = {match[0] for match in words if match[0].islower()}
    if sum(match[0].isupper() for match in words) > len(words) / 2 > 2:
        return  # a text in capital letters
    german = sum(match[0] in _GERMAN for match in words) > len(words) / 8
    runs = list(_runs(text, words))
    within = {word[0] for run in runs for word in run.words[run.opens :]}
    for run in runs:
        names = run.words
        first = names[0][0]
        is_opener = first.casefold() in _OPENERS
        opens = run.opens or (is_opener and text.startswith(". ", names[0].start() - 2))
        if opens and (is_opener or first.casefold() in lower):
            names = names[1:]
        if not 0 < len(names) <= MOST_WORDS or _is_label(text, names):
            continue
        start, end = names[0].start(), names[-1].end() - (2 if names[-1][0].endswith(("'s", "’s")) else 0)
        name = text[start:end]
        if len(names) == 1:
            if name in ("I", "A") or name.startswith(("I'", "I’")):
                continue
            is_acronym = len(name) > 1 and any(letter.isupper() or letter.isdigit() for letter in name[1:])
            if (
                run.opens
                and names is run.words
                and not is_acronym
                and name not in within
                and not _is_item(text, start, end)
            ):
                continue
            before = text[max(0, start - LONGEST) : start].split()[-1:]
            if german and not is_acronym and not _BEFORE_GERMAN_NAMES.issuperset(before or "?"):
                continue
        yield FactSpan(start, end, "date" if re.fullmatch(f"{_MONTH}|{_WEEKDAY}", name) else "name")


def _runs(text: str, words: list[re.Match[str]]) -> Iterator[_Run]:
    run: list[re.Match[str]] = []
    between: list[re.Match[str]] = []  # words such as "of", which belong to a name if another capitalised word follows
    opens = False
    for word in words:
        gap = text[(between or run)[-1].end() : word.start()] if run else ""
        joined = bool(run) and (
            gap in (" ", " & ") or (gap == ". " and _is_abbreviation(run[-1][0]) and word[0].casefold() not in _OPENERS)
        )
        if joined and word[0] in _WITHIN_NAMES and len(between) < 2:
            between.append(word)
        elif not (word[0][0].isupper() or word[0] in _MONEY or (joined and word[0] in _MONEY_AFTER_NAMES)):
            if run:
                yield _Run(run, opens)
            run, between = [], []
        elif joined:
            run.append(word)
            between = []
        else:
            if run:
                yield _Run(run, opens)
            run, between, opens = [word], [], _opens_sentence(text, word.start())
    if run:
        yield _Run(run, opens)


def _is_abbreviation(word: str) -> bool:
    return (len(word) == 1 and word.isalpha()) or word in _ABBREVIATIONS


_BEFORE = 120
"""Number of characters before a word that are searched for the end of a sentence."""


def _opens_sentence(text: str, start: int) -> bool:
    """Return whether a word is the first of a sentence, a line or a cell."""
    before = text[max(0, start - _BEFORE) : start].rstrip(" \t\"“‘'(*_#>-•–|[")
    if not before or before[-1] in ".!?…。！？|":
        return not _is_abbreviation(before[:-1].rpartition(" ")[2])
    if before[-1] != "\n":
        return "|" in text[start - 3 : start]
    line = before.rstrip("\n").rpartition("\n")[2]
    return before.endswith("\n\n") or len(line) < LONGEST or not line[-1].isalpha() or text[start - 1] != "\n"


def _is_label(text: str, names: list[re.Match[str]]) -> bool:
    """Return whether words at the start of a line are followed by a colon, as in "**Atomic number:** 31"."""
    line = text[max(0, names[0].start() - 20) : names[0].start()].rpartition("\n")[2]
    after = text[names[-1].end() : names[-1].end() + 4].lstrip("*_ ")
    return after.startswith((":", "：")) and not line.strip(" \t*_-•>#0123456789.)")


def _is_item(text: str, start: int, end: int) -> bool:
    """Return whether a value is the whole of a list item, a cell or a line."""
    before = text[max(0, start - 20) : start].rstrip(" \t*_")
    after = text[end : end + 20].lstrip(" \t*_.,;")
    return (not before or before[-1] in "\n|-•>).") and (not after or after[0] in "\n|")
