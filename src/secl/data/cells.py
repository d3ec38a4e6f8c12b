"""Texts and lists in the cells of tables, so that a spreadsheet shows them and computes none."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_FORMULA = re.compile(r"'*(\s*[=+\-@]|[\t\r])")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)*|\.\d+)([eE][+-]?\d+)?%?")


def harmless(value: T) -> T | str:
    """A value of a cell that no spreadsheet takes for a formula: an apostrophe before what begins with = + - @, tab or
    CR. Numbers stay numbers, also those that are texts.

    >>> harmless("=1+1"), harmless("-5"), harmless(-5), harmless("- 5 apples"), harmless("a=b")
    ("'=1+1", '-5', -5, "'- 5 apples", 'a=b')
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value.strip()):
        return f"'{value}"
    return value


def joined(texts: Sequence[str]) -> str:
    """Several texts as one: "a | b", or a JSON list where that could not be read back.

    >>> joined(["Rome", "Paris"]), joined(["f | g", "h"])
    ('Rome | Paris', '["f | g", "h"]')
    """
    line = " | ".join(texts)
    plain = [text.strip() for text in line.split("|")] == list(texts) and not line.startswith(("[", "{"))
    return line if plain and all(texts) else json.dumps(list(texts), ensure_ascii=False)
