"""Dates in English texts under one spelling, so that "July 4, 1776" and "4th of July 1776" are equal."""

from __future__ import annotations

import re

from secl.grading.vocabulary import MONTHS

_MONTH = rf"({'|'.join(MONTHS)}|{'|'.join(month[:3] for month in MONTHS)}|sept)\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(\d{4}))?(?!\d)"
_DAY_FIRST = re.compile(rf"\b(?:the\s+)?{_DAY}(?:\s+day)?(?:\s+of)?\s+{_MONTH}\b{_YEAR}", re.IGNORECASE)
_MONTH_ALONE = re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?(\d{{4}})(?!\d)", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}\b{_YEAR}", re.IGNORECASE)


def spell_dates(text: str) -> str:
    """A text with its dates as YEAR/MONTH/DAY, as far as they go.

    >>> spell_dates("On the 4th of July, 1776"), spell_dates("July 4, 1776."), spell_dates("1776-07-04")
    ('On 1776/7/4', '1776/7/4.', '1776/7/4')
    >>> spell_dates("May 5"), spell_dates("in May 1776")
    ('5/5', 'in 1776/5')
    """
    text = re.sub(r"\b(\d{4})-(\d{2})-(\d{2})\b", lambda match: _date(match[1], match[2], match[3]), text)
    text = _DAY_FIRST.sub(lambda match: _date(match[3], str(_month(match[2])), match[1]), text)
    text = _MONTH_FIRST.sub(lambda match: _date(match[3], str(_month(match[1])), match[2]), text)
    return _MONTH_ALONE.sub(lambda match: _date(match[2], str(_month(match[1]))), text)


def _month(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name.lower()[:3]))


def _date(*parts: str | None) -> str:
    return "/".join(str(int(part)) for part in parts if part)
