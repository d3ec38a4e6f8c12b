"""The paper's numbers, as it prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from secl_paper.layout import Table


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table in the paper.

    Attributes:
        label: in the paper's source.
        per_domain: questions of each domain; None where there are none.
        numbers: by model, row and column.
    """

    label: str
    per_domain: int | None
    numbers: Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Paper:
    """What the paper has.

    Attributes:
        models: for each of its models, what people call it.
        tau: the temperature of normalised P(True) that it gives for a model.
        tables: by key, in the paper's order.
    """

    models: Mapping[str, str]
    tau: Mapping[str, float]
    tables: Mapping[str, PaperTable]

    def table(self, table: Table) -> PaperTable | None:
        """The paper's numbers for a table; None if it has none."""
        return self.tables.get(table.paper or table.key)


@cache
def read_paper() -> Paper:
    """The numbers in `paper.json`."""
    values = json.loads((files("secl_paper") / "paper.json").read_text(encoding="utf-8"))
    return Paper(values["models"], values["tau"], {key: PaperTable(**table) for key, table in values["tables"].items()})
