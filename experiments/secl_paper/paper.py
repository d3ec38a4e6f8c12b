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
    """Return the numbers in `paper.json`."""
    values = json.loads((files("secl_paper") / "paper.json").read_text(encoding="utf-8"))
    return Paper(values["models"], values["tau"], {key: PaperTable(**table) for key, table in values["tables"].items()})


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The paper's model to compare with, by its key in `paper.json`, and the reason as a clause."""

    name: str | None
    why: str


def counterpart(model: str, against: str | None = None) -> Counterpart:
    """Return the paper's model named by `against`, or else the one with the preset or hub id of a model."""
    if against is not None:
        return Counterpart(against, "--against names it")
    models = read_paper().models
    if model in models:
        return Counterpart(model, "the model is this preset")
    from secl.backends.local.loading.presets import PRESETS  # imports torch

    for name in models:
        if model.casefold() == PRESETS[name].source.casefold():
            return Counterpart(name, "the model is its hub id")
    return Counterpart(None, "its name is that of no model of the paper")
