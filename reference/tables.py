"""Pieces of Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a line break in a cell becomes a space, and a bar is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;")


def code(text: str) -> str:
    """Return a text as code, also inside a table.

    >>> code("str | None")
    '<code>str &#124; None</code>'
    """
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def prose(text: str) -> str:
    """Return a docstring's paragraphs, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
