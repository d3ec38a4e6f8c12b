"""An extension of griffe: the examples in docstrings, which are doctests without a heading, become blocks of code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import griffe

if TYPE_CHECKING:
    from griffe import Object

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)", re.MULTILINE)


class Doctests(griffe.Extension):  # type: ignore[misc]  # mypy does not read griffe
    """Puts a fence around every example."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring, already without its indentation, with fences around its examples.

    >>> fenced("It adds.\\n\\n>>> 1 + 1\\n2\\n")
    'It adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n'
    """
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)
