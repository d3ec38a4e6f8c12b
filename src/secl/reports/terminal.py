"""All of a report in the terminal: its sections, without the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from secl.reports.formatting import terminal_text
from secl.reports.sections import Section
from secl.reports.table import to_rich

if TYPE_CHECKING:
    from rich.console import Console


def print_sections(sections: Sequence[Section], screen: Console, name: str | None = None) -> None:
    """Print titles, sentences and tables of sections, below the `name` of their run; pictures are left out."""
    if name is not None:
        screen.print(terminal_text(name), style="bold underline")
        screen.print()
    for section in sections:
        if not (section.sentences or section.tables):
            continue
        screen.print(terminal_text(section.title), style="bold")
        for sentence in section.sentences:
            screen.print(terminal_text(sentence), highlight=False)
        if section.command:
            screen.print(f"  {terminal_text(section.command)}", soft_wrap=True, highlight=False)
        for table in section.tables:
            screen.print(to_rich(table))
        screen.print()
