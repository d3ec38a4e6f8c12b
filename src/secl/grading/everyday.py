"""The everyday rule ("auto"): whether a sentence gives the right answer, as a reader would judge.

Equal texts (`same_text`) are right. Otherwise the first row that fits the reference decides:

    yes or no       the answer affirms or denies as the reference does, in a word or in a statement
    an amount       the answer states this amount and no other (`secl.grading.numbers`)
    a date          the answer has the day, month and year that the reference gives, in any order
    several items   the answer mentions all of them, in any order
    name or words   the answer mentions the name or words (`secl.grading.mentions`); a person's last name suffices
    a long text     the answer has at least 4/5 of the text's words, all its numbers, and no other negation; words that
                    both repeat from the question are not enough

The rule does not understand meaning: a wrong sentence that mentions the right answer can pass, and a paraphrase can
fail.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from secl.grading.mentions import CONJUNCTIONS, DENIALS, FUNCTION_WORDS, Word, mentioned, read_words
from secl.grading.numbers import Amount, in_figures, read_numbers, whole_number, word_list
from secl.grading.texts import is_version, normalise_text, same_text, shortened, with_marks
from secl.grading.units import agree

_YES_OR_NO = tuple(
    (frozenset(yes.split()), frozenset(no.split()))
    for yes, no in (
        ("yes yeah yep yup true correct", "no nope nah false incorrect"),
        ("ja wahr richtig", "nein falsch unwahr"),
        ("ja waar juist", "nee onwaar onjuist"),
        ("ja sant", "nej nei falskt"),
        ("oui vrai", "non faux"),
        ("si verdadero cierto", "no falso"),
        ("sim verdadeiro", "nao falso"),
        ("si vero", "no falso"),
        ("да верно правда", "нет неверно неправда"),
        ("так", "ні"),
        ("tak prawda", "nie falsz"),
        ("evet dogru", "hayır yanlıs"),
        ("نعم صحيح", "لا خطا"),
        ("כן נכון", "לא"),
        ("हाँ हां", "नहीं"),
        (
            "是 是的 对 對 对的 正确 正確 有 可以 能 会 會 真",
            "不是 不 否 不对 不對 错 錯 错误 没有 沒有 不可以 不能 不会 不會 假",
        ),
        ("はい ええ そうです 正しい ある 真", "いいえ いえ 違います 違う ない 偽"),
        ("네 예 그렇다 맞다", "아니요 아니오 아니다"),
        ("ใช่ จริง", "ไม่ใช่ ไม่ ไม่จริง"),
    )
)
"""Short answers to yes-or-no questions, as `normalise_text` leaves them, by language."""

_ASKS_WHICH = re.compile(
    r"^\W*(?:[\w'’]+\W+){0,3}?(?:what|who|whom|whose|which|when|where|why|how|was|wer|wo|wann|wie|welche[rs]?|quel(?:le)?s?|qui|quand|comment|"
    r"combien|cuál(?:es)?|qué|quién|dónde|cuándo|cómo|quale|chi|dove|quando|qual|quem|onde|что|кто|"
    r"какой|какая|где|когда)\b|什么|谁|哪|何|誰|どこ|いつ",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:not|n't|cannot|can't|don't)\s+(?:know|sure|certain|say|answer|tell)\b|\b(?:depends|maybe|perhaps|possibly|unclear|unknown)\b",
    re.IGNORECASE,
)

_MONTH_NAMES = word_list("january february march april may june july august september october november december")
_MONTHS = {name: f"#{n}" for n, month in enumerate(_MONTH_NAMES, 1) for name in (month, month[:3])} | {"sept": "#9"}
_DATES = re.compile(
    r"\b(?P<y>\d{4})-(?P<m>0[1-9]|1[0-2])-(?P<d>\d{2})\b|(?P<y2>\d{4})年(?P<m2>1[0-2]|[1-9])月(?P<d2>\d{1,2})日"
    r"|\b(?P<d3>\d{1,2})\.\s?(?P<m3>1[0-2]|0?[1-9])\.\s?(?P<y3>\d{4})\b"
)
_IN_DATES = frozenset(("st", "nd", "rd", "th", "of", "the", "on", "in", "day"))

_ALTERNATIVES = re.compile(r"^\W*(?:\w+\W+){0,2}?(?:or|to)\W+(?:\w+\W+)?$|^\s*-\s*$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\W*$", re.IGNORECASE)
_DENIAL = re.compile(
    r"(?:\b(?:not|n't|never|isnt|nicht|rather than|instead of)\s+(?:\w+\s+)?|[<>≠≤≥]\s*)$", re.IGNORECASE
)
_UNSPACED_CLAUSES = re.compile(r"[，。,、；;！!？?：:\n]|而是|但是?|(?<=はなく)て?|(?<=じゃなく)て|아니라")
_UNSPACED_DENIAL = re.compile(r"[不没沒非無无未别]|ない|なく|ません|ไม่|아니|않|없")
_UNSPACED_OR = re.compile(r"或者?|还是|還是|または|もしくは|หรือ|또는|혹은")

_OTHER_NOUN = re.compile(r"\s+(?!across|[\w-]*ss\b)(?!\d)[\w-]{3,}s\b")
"""A noun in the plural, such as an unknown unit."""

_CODE = re.compile(r"\W*0\d")
"""A code such as 007, which is not the number 7."""

_AFTER_UNITS = frozenset(word_list("long high tall wide deep thick old ago away apart each total altogether in"))
"""Words that may follow the unit of a reference; all others have to occur in the question."""

_TEXT_WORDS = 3
"""Minimum number of content words of a reference that counts as a text, not a name."""


def says(question: str, references: Sequence[str], answer: str, passage: str = "") -> bool:
    """Return whether an answer gives any of the references; the passage helps to read numbers."""
    question, answer = shortened(question), _with_dates(with_marks(shortened(answer)))
    return any(_says(question, _with_dates(with_marks(shortened(each))), answer, passage) for each in references)


def _says(question: str, reference: str, answer: str, passage: str) -> bool:
    context = f"{question}\n{reference}\n{passage}"
    if same_text(reference, answer, question, f"{reference}\n{passage}"):
        return True
    word = normalise_text(reference)
    known = _YES_OR_NO[:1] if _ASKS_WHICH.search(question) else _YES_OR_NO  # "Si" is also the symbol of silicon
    words_of = [pair for pair in known if word in pair[0] | pair[1]]
    if words_of:
        yes, no = (frozenset[str]().union(*(pair[side] for pair in words_of)) for side in (0, 1))
        return _polarity(answer, yes, no) is (word in yes)
    amount = None if is_version(question, reference) else whole_amount(question, reference, context)
    if amount is not None:
        return states(question, amount, answer, context)
    if _unspaced(reference):
        return _mentions_unspaced(reference, answer)
    date = _date_words(reference)
    kinds = {word[0] if word[0] == "#" else word.isdecimal() for word in date if word not in _IN_DATES}
    if kinds == {"#", True}:  # a month with a day, a year or both
        return {*date} - _IN_DATES <= {*_date_words(answer)}
    if mentioned(question, reference, answer):
        return True
    items = _items(reference)
    if items:
        return all(mentioned(question, item, answer, listed=True) for item in dict.fromkeys(items))
    return _covers(question, reference, answer)


def _polarity(answer: str, yes: frozenset[str], no: frozenset[str]) -> bool | None:
    """Return True if an answer to a yes-or-no question means yes, False if no, None for one like "I do not know"."""
    if _unspaced(answer):
        plain = "".join(normalise_text(answer).split())
        first = max((word for word in yes | no if plain.startswith(word)), key=len, default=None)
        if first is not None and first not in _BARE_VERBS:
            return first in yes
        return _UNSPACED_DENIAL.search(plain) is None
    yes, no = yes | _YES_OR_NO[0][0], no | _YES_OR_NO[0][1]
    words = read_words(answer)
    for place, word in enumerate(words):
        begins = not place or words[place - 1].after or words[place - 1].text in CONJUNCTIONS
        if word.text in yes | no and (begins or word.text not in _BEGINNING):
            return (word.text in yes) != any(
                earlier.text in ("not", "isnt", "nicht", "pas", "не") for earlier in words[:place]
            )
    if not words or _DOUBT.search(answer):
        return None
    return not _denies(words)


_BARE_VERBS = frozenset(["有", "可以", "能", "会", "會", "ある", "ない"])
"""Short answers that also begin statements, such as "有人说没有"."""

_BEGINNING = frozenset(["no", "ja", "si", "так", "tak", "لا", "nie"])
"""Short answers that are other words inside a sentence."""


def _unspaced(text: str) -> bool:
    """Return whether a text is in a script without spaces between words, or with particles at its words (Korean)."""
    scripts = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "HANGUL")
    return any(unicodedata.name(letter, "").startswith(scripts) for letter in text)


def _mentions_unspaced(reference: str, answer: str) -> bool:
    """Return whether a clause of an answer has the reference, and neither a negation of it nor an alternative."""
    wanted = "".join(normalise_text(reference).split())
    for clause in _UNSPACED_CLAUSES.split(answer):
        plain = "".join(normalise_text(clause or "").split())
        rest = plain.replace(wanted, "\n")
        if "\n" in rest and not _UNSPACED_DENIAL.search(rest) and not _UNSPACED_OR.search(rest):
            return True
    return False


def _items(reference: str) -> list[str]:
    """Return the items of a reference that is a list of items of at most three words; empty for any other reference."""
    members = [item.strip() for item in re.split(r"[,;]\s*(?:and\s+)?|\s(?:and|&)\s", reference) if item.strip()]
    joined = re.search(r"\s(?:and|&)\s|;", reference) is not None
    if len(members) < (2 if joined else 3) or any(len(member.split()) > 3 for member in members):
        return []
    return members


def _covers(question: str, reference: str, answer: str) -> bool:
    """Return whether an answer has 4/5 of the content words and all figures of a long text, and no other negation.

    Two sentences may repeat a long question and give different answers. So of the content words that do not stand in
    the question, the side with fewer of them shares 4/5 with the other side.
    """
    words, others = read_words(reference), read_words(answer)
    content, said = ({word.text for word in part} - FUNCTION_WORDS for part in (words, others))
    if len(content) < _TEXT_WORDS or all(word.capital for word in words if word.text not in FUNCTION_WORDS):
        return False
    if not _figures(reference) <= _figures(answer):
        return False
    asked = {word.text for word in read_words(question)}
    told, answered = content - asked, said - asked
    if told and 5 * len(told & answered) < 4 * max(1, min(len(told), len(answered))):
        return False
    return 5 * len(content & said) >= 4 * len(content) and _denies(words) is _denies(others)


def _figures(text: str) -> set[object]:
    """Return the numbers and the relations of a text, which no synonym replaces."""
    return {*re.findall("[=≠<>≤≥≈∈∉]", text), *(number.value for number in read_numbers(in_figures(text)))}


def _denies(words: Sequence[Word]) -> bool:
    return any(word.text in DENIALS - {"than", "without", "except", "unlike"} or word.text == "no" for word in words)


def _with_dates(text: str) -> str:
    """Return a text with spelled months in dates such as 1776-07-04, 4.7.1776 and 1776年7月4日."""

    def spelled(date: re.Match[str]) -> str:
        day, month, year = (next(filter(None, date.group(key, f"{key}2", f"{key}3"))) for key in "dmy")
        return f"{int(day)} {_MONTH_NAMES[int(month) - 1].capitalize()} {year}"

    return _DATES.sub(spelled, text)


def _date_words(text: str) -> list[str]:
    """Return words and numbers of a text, with "#7" for July: "4th of July" gives 4, th, of, #7."""
    words = re.findall(r"[^\W\d_]+|\d+", text.lower())
    return [str(int(word)) if word.isdecimal() else _MONTHS.get(word, word) for word in words]


def _singular(noun: str) -> str:
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith("ss") else noun


def whole_amount(question: str, reference: str, context: str = "") -> Amount | None:
    """Return the amount of a reference that begins with a number and has no other number; else None.

    If words follow the number, the first must be a unit, or all must occur in the question.

    >>> whole_amount("How tall is it?", "8 km").end, whole_amount("Who?", "50 Cent"), whole_amount("", "ten").value
    (1, None, Fraction(10, 1))
    """
    if re.fullmatch(r"[\d.,]+[a-z]", reference):
        return None  # "4t" may be 4 times t
    if number := whole_number(reference, context):
        return number
    text = in_figures(reference.strip(), ones=True)
    numbers = read_numbers(text, context)
    if len(numbers) != 1 or text[: numbers[0].start].strip(" ~-") or _CODE.match(text):
        return None
    rest = text[numbers[0].behind :].strip(" .-°").lower()
    words = {_singular(word) for word in re.findall(r"[^\W\d_]+", question.lower())}
    if numbers[0].unit:
        words |= _AFTER_UNITS
    known = "or" not in words and all(_singular(word) in words for word in rest.split())
    return numbers[0] if known else None


def states(question: str, reference: Amount, answer: str, context: str = "") -> bool:
    """Return whether an answer states an amount, without alternatives.

    Numbers of the question, denied numbers, and numbers with another unit do not count. Of the remaining numbers, the
    first after the last "=" must be the amount. If no number follows a "=", the amount must be the first or the last.
    """
    text = in_figures(answer, ones=reference.value == 1)
    in_question = {number.value for number in read_numbers(in_figures(question), context)} - {reference.value}
    amounts = [
        number
        for number in read_numbers(text, context)
        if number.value not in in_question
        and not _DENIAL.search(_text_before(text, number.start))
        and agree(reference.unit, number.unit)
        and not (reference.unit and not number.unit and _OTHER_NOUN.match(text, number.behind))
        and not _CODE.match(text, number.start)
    ]
    results = [amount for amount in amounts if amount.start > text.rfind("=") > -1]
    if not amounts or _has_alternatives(results or amounts, text):
        return False
    left = results[:1] or amounts
    ends = (left[0].value, left[-1].value)
    rounded = (round(value, reference.places) for value in ends if reference.places)
    return reference.value in (*ends, *rounded)


def _has_alternatives(amounts: Sequence[Amount], text: str) -> bool:
    """Return whether two successive amounts are alternatives or the ends of a range."""
    for one, other in pairwise(amounts):
        between = text[one.end : other.start]
        span = _BETWEEN.search(_text_before(text, one.start)) and re.search(r"\band\W*$", between)
        if one.value != other.value and (span or _ALTERNATIVES.match(between)):
            return True
    return False


def _text_before(text: str, place: int) -> str:
    """Return up to 40 characters before an index."""
    return text[max(place - 40, 0) : place]
