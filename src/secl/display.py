"""Numbers and texts for display, and the display of objects in a terminal or a notebook."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import TypeVar

T = TypeVar("T")

EXCERPT = 200
"""Maximum number of characters of a displayed text."""


UNDEFINED = RANGE = "–"  # noqa: RUF001  an en dash
"""Text of an undefined number, and text between the ends of an interval."""

_DIRECTIONS = frozenset({"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"})


class Shown:
    """Base of classes that display the few facts of `_facts` instead of all fields."""

    __slots__ = ()

    def _facts(self) -> Mapping[str, object]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = (f"{name}={_shown(value, 60, repr)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        facts = self._facts().items()
        rows = (f"<tr><td>{escape(name)}</td><td>{escape(_shown(value))}</td></tr>" for name, value in facts)
        return f"<table><tbody>{''.join(rows)}</tbody></table>"


def excerpt(text: str, longest: int = EXCERPT) -> str:
    """Return a text on one line, cut after `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest].rstrip()} …"


def as_sentence(text: str) -> str:
    """Return a text with a capital letter (except for the name secl) and a full stop.

    >>> as_sentence("the answer has no label"), as_sentence("secl saw it.")
    ('The answer has no label.', 'secl saw it.')
    """
    text = text if text.startswith("secl ") else text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def tracked(what: str, items: Iterator[T], total: int, progress: bool) -> Iterable[T]:
    """Return the items; with `progress`, each item moves a progress bar."""
    if not progress:
        return items
    from rich.progress import track

    return track(items, what, total=total)


def _shown(value: object, longest: int = EXCERPT, quoted: Callable[[str], str] = str) -> str:
    """Return a value as text: a number with three decimals, or the beginning of a text."""
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, tuple):
        return f"({', '.join(_shown(part, 30, quoted) for part in value)})"
    return quoted(excerpt(value, longest)) if isinstance(value, str) else str(value)


def number(value: float | None, digits: int, sign: str = "") -> str:
    """Return a number with some decimals; a dash for None and nan.

    >>> number(0.25, 3), number(0.25, 1, "+"), number(math.nan, 3)
    ('0.250', '+0.2', '–')
    """
    return UNDEFINED if value is None or math.isnan(value) else f"{value:{sign}.{digits}f}"


def percent(share: float | None, decimals: int = 0) -> str:
    """Return a share in percent; a dash for None and nan.

    Tables use one decimal. Sentences use no decimals from 10% to 99%, and one decimal outside this range. Only 0 and 1
    become "0%" and "100%".

    >>> [percent(share) for share in (0.4149, 0.05, 0.0251, 0.9993, 0.0, 0.0004)], percent(0.4149, 1)
    (['41%', '5%', '2.5%', 'over 99.9%', '0%', 'under 0.1%'], '41.5%')
    """
    if share is None or math.isnan(share):
        return UNDEFINED
    if 0 < share < 0.001:
        return "under 0.1%"
    if 0.999 < share < 1:
        return "over 99.9%"
    if decimals:
        return f"{100 * share:.{decimals}f}%"
    return f"{100 * share:.0f}%" if 0.1 <= share <= 0.99 else f"{round(100 * share, 1):g}%"


def percents(low: float, high: float) -> str:
    """Return a range of shares in percent, as in "46 to 93%"."""
    return f"{percent(low).removesuffix('%')} to {percent(high)}"


def amount(value: int) -> str:
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """Return a count and its noun.

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{amount(value)} {noun}" if value == 1 else f"{amount(value)} {noun}s"


def terminal_text(text: str) -> str:
    r"""Return a text of unknown origin for a terminal, with escaped control characters.

    >>> print(terminal_text("bio\x1b[2Jlogy\n"))
    bio\x1b[2Jlogy\n
    """
    return "".join(each.encode("unicode_escape").decode() if _is_control(each) else each for each in text)


def terminal_lines(text: str) -> str:
    r"""Return a text of unknown origin for a terminal, with escaped control characters except for line ends.

    >>> print(terminal_lines("red:\n\x1b[31m, done"))
    red:
    \x1b[31m, done
    """
    return "\n".join(map(terminal_text, text.expandtabs(4).split("\n")))


def _is_control(character: str) -> bool:
    """Return whether a character is a control, an unpaired surrogate, a line end, or changes the writing direction."""
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return True
    return unicodedata.bidirectional(character) in _DIRECTIONS
