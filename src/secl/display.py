"""Display of objects: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import TypeVar

T = TypeVar("T")

EXCERPT = 200
"""Maximum number of characters of a displayed text."""


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
