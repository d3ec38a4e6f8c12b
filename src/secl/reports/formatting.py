"""Numbers and texts for display."""

from __future__ import annotations

import math
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from secl.metrics.intervals import Interval

if TYPE_CHECKING:
    import jinja2

UNDEFINED = RANGE = "–"  # noqa: RUF001  an en dash
"""Text of an undefined number, and text between the ends of an interval."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_DIRECTIONS = frozenset({"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"})


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


def span(interval: Interval | None) -> str:
    """Return an interval as text; empty for None or an undefined interval."""
    if interval is None or math.isnan(interval.low):
        return ""
    # A dash next to a minus sign would be ambiguous.
    between = RANGE if interval.low >= 0.0 else " to "
    return f"{interval.low:.3f}{between}{interval.high:.3f}"


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


def xml_text(text: str) -> str:
    """Return a text with replacement characters for characters that XML and HTML exclude.

    >>> xml_text("a\\x00b <c>")
    'a�b <c>'
    """
    return _NOT_XML.sub("\ufffd", text)


def _is_control(character: str) -> bool:
    """Return whether a character is a control, an unpaired surrogate, a line end, or changes the writing direction."""
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return True
    return unicodedata.bidirectional(character) in _DIRECTIONS


def html_templates(folder: Path) -> jinja2.Environment:
    """Return a Jinja environment for the templates in a folder. The environment escapes values for HTML.

    A missing value raises a Jinja error.
    """
    import jinja2

    def printable(value: object) -> object:
        return xml_text(value) if type(value) is str else value  # `Markup`, a subclass of str, stays unchanged

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
    )
    environment.globals["counted"] = counted
    return environment
