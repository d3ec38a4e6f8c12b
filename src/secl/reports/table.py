"""Tables of reports, and their form in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from secl.display import terminal_lines, terminal_text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. A `text` column is aligned to the left; `wraps` allows line breaks in a narrow terminal."""

    heading: str
    text: bool = False
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. The detail follows the text in smaller type. `numbers` has all digits by name, for CSV."""

    text: str
    detail: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


MOST_PADDED = 7
"""Maximum number of columns without details that get two blanks between them in a terminal of 80 characters."""

TableRow = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings, grouped into sections by title. The section "" has no title. Notes are sentences."""

    columns: Sequence[Column]
    sections: Mapping[str, Sequence[TableRow]]
    notes: Sequence[str] = ()


def plain_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = (), *, texts: int = 0
) -> Table:
    """Return a table of cells without details. The first `texts` columns are texts that may wrap."""
    columns = [Column(heading, text=number < texts, wraps=number < texts) for number, heading in enumerate(headings)]
    return Table(columns, {"": [[Cell(text) for text in row] for row in rows]}, notes)


def listing(headings: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> RichTable:
    """Return a table of texts for a terminal. The first `names` columns never wrap."""
    columns = [Column(heading, text=True, wraps=number >= names) for number, heading in enumerate(headings)]
    return to_rich(Table(columns, {"": [[Cell(text) for text in row] for row in rows]}))


def to_rich(table: Table) -> RichTable:
    """Return the table for a terminal, with escaped control characters.

    Details stand below the text of a cell, and notes below the table. The heading of a column that does not wrap has
    one word on each line.
    """
    detailed = any(cell.detail for rows in table.sections.values() for row in rows for cell in row)
    padding = 0 if detailed or len(table.columns) > MOST_PADDED else 1
    rich = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, padding, 0, 0))
    rich.caption, rich.caption_justify = Text(" ".join(table.notes)) if table.notes else None, "left"
    for column in table.columns:
        justify = "left" if column.text else "right"
        heading = column.heading if column.wraps else column.heading.replace(" ", "\n")
        rich.add_column(heading, justify=justify, no_wrap=not column.wraps, overflow="fold")  # type: ignore[arg-type]
    for section, rows in table.sections.items():
        if section:
            rich.add_row(Text(terminal_text(section), style="bold"))
        for row in rows:
            cells = [Text(terminal_lines(cell.text)) for cell in row]
            for text, cell in zip(cells, row, strict=True):
                detail = terminal_text(cell.detail)
                if detail.startswith("["):  # an interval without a blank leaves more room for names
                    detail = detail.replace(", ", ",")
                text.append(f"\n{detail}" if detail else "", style="dim")
            rich.add_row(*cells)
    return rich
