"""The paper's numbers, as the paper prints them, and their comparison with the LaTeX source of its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from pathlib import Path

from secl.errors import DataError
from secl_paper.layout import Table


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper: its label in the source, questions of each domain, and numbers by model, row and column."""

    label: str
    per_domain: int | None
    numbers: Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper: titles of its models, each model's tau of normalised P(True), and its tables by key, in order."""

    models: Mapping[str, str]
    tau: Mapping[str, float]
    tables: Mapping[str, PaperTable]

    def table(self, table: Table) -> PaperTable | None:
        """Return the paper's numbers for a table; None if the paper lacks the table."""
        return self.tables.get(table.paper or table.key)


@cache
def read_paper() -> Paper:
    values = json.loads((files("secl_paper") / "paper.json").read_text(encoding="utf-8"))
    return Paper(values["models"], values["tau"], {key: PaperTable(**table) for key, table in values["tables"].items()})


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The paper's model to compare with, by its key in `paper.json`, and the reason as a clause."""

    name: str | None
    why: str


def counterpart(model: str, against: str | None = None) -> Counterpart:
    """Return the paper's model named by `against`, or else the model whose preset `model` gets."""
    if against is not None:
        return Counterpart(against, "--against names it")
    from secl.backends.local.loading.presets import PRESETS, preset_of  # torch takes seconds to import

    preset = preset_of(model)
    name = next((name for name in read_paper().models if PRESETS[name] is preset), None)
    if name is None:
        return Counterpart(None, "--model names no model of the paper")
    known = {name: "its preset", PRESETS[name].source.casefold(): "its hub id"}
    return Counterpart(name, f"--model names {known.get(model.casefold(), 'a copy of it')}")


Place = tuple[str, str, str]
"""A model, a row and a column."""

_NO_NUMBERS = re.compile(r"\\(?:multirow|multicolumn)\{[^}]*\}\{[^}]*\}|\\cmidrule(?:\([^)]*\))?\{[^}]*\}")
_NAMES = re.compile(r"(?:Llama|Gemma|Phi|Qwen)[ ~]?[\d.]+-(?:\d+B|Mini(?: \([\d.]+B\))?)")
_NUMBER = re.compile(r"(\d*\.?\d+)(\\%|B)?")
_UNITS = {"": 1.0, "\\%": 0.01, "B": 1e9}

_ORDERS: tuple[Callable[[Place], object], ...] = (
    lambda _: 0,
    lambda place: place[1],
    lambda place: place[2].partition("_")[0],
)
"""Order of the numbers in the source: by model, by row, or by measure first."""


def disagreements(source: Path, keys: Collection[str]) -> tuple[int, list[str]]:
    """Compare the stored numbers of tables with the numbers in the cells of the source, in order.

    Figures have no cells, so their numbers are left out. Next to a wrong number, the report may also name a correct
    number.

    Args:
        source: the paper's LaTeX file.
        keys: keys of the tables to compare.

    Returns:
        the count of compared numbers, and a sentence for each number that the source lacks in this place.

    Raises:
        DataError: the file cannot be read, or lacks a table.
    """
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise DataError(f"the paper's source {source} cannot be read: {reason}.") from problem
    total, wrong = 0, []
    for key, table in read_paper().tables.items():
        if key not in keys or table.label.startswith("fig:"):
            continue
        printed = [number for label in table.label.split(", ") for number in _printed(text, label, source)]
        arranged = [_stored(table, order) for order in _ORDERS]
        total += len(arranged[0])
        missing = min((_missing(stored, printed) for stored in arranged), key=len)
        wrong += [
            f"{key}, {', '.join(place)}: {value:.12g} is not at this place in {table.label}."
            for place, value in missing
            if key != "main" or not _as_in_dinco(place, value)
        ]
    return total, wrong


def _stored(table: PaperTable, order: Callable[[Place], object]) -> list[tuple[Place, float]]:
    rows = ((model, row, numbers) for model, rows in table.numbers.items() for row, numbers in rows.items())
    stored = [((model, row, column), value) for model, row, numbers in rows for column, value in numbers.items()]
    first = list(dict.fromkeys(order(place) for place, _ in stored))
    return sorted(stored, key=lambda each: first.index(order(each[0])))


def _printed(text: str, label: str, source: Path) -> list[float]:
    """Return the numbers in the cells of the table with a label, row by row."""
    for table in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", text, re.DOTALL):
        if rf"\label{{{label}}}" in table:
            cells = "".join(re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", table, re.DOTALL))
            cells = _NAMES.sub("", _NO_NUMBERS.sub("", cells)).replace("{,}", "")
            return [float(number) * _UNITS[unit] for number, unit in _NUMBER.findall(cells)]
    raise DataError(f"the paper's source {source} has no table {label}; give the file secl.tex of the paper.")


def _missing(stored: Sequence[tuple[Place, float]], printed: Sequence[float]) -> list[tuple[Place, float]]:
    """Return the stored numbers that are not printed in their place, in order."""
    ours, theirs = [f"{value:.12g}" for _, value in stored], [f"{value:.12g}" for value in printed]
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    found = {number for start, _, length in blocks for number in range(start, start + length)}
    return [each for number, each in enumerate(stored) if number not in found]


def _as_in_dinco(place: Place, value: float) -> bool:
    """Return whether a stored cost in `main` is the model's cost in `dinco`. The paper's `main` has one cost for all
    models, and a range for SECL. For P(True) Norm, which `dinco` lacks, the first model's cost counts."""
    model, row, column = place
    tables = read_paper().tables
    first = next(iter(tables["main"].numbers.values()))
    return column == "cost" and tables["dinco"].numbers[model].get(row, first[row])["cost"] == value
