"""The recipes of the paper's tables and figures, and the paper's numbers: the folder `experiments`.

A recipe names rows, each read off a run, and runs, each by what it changes. The runs `BUILT_IN` need no naming.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, get_args

from secl.errors import DataError, ParameterError, SeclError
from secl.reports.paper import COLUMNS, KNOWN_READINGS, Row, known_column
from secl.runs.settings import RunSettings, read_toml
from secl.settings import Formula
from secl.validation import check_finite

BUILT_IN: dict[str, dict[str, Any]] = {"secl": {}, "baselines": {"method": "baselines"}}
"""SECL as the paper runs it, and every confidence that needs no learning over one set of answers."""

SCALE, GENERATED = "scale", "generated"
"""Keys of a run beside those of `RunSettings`: a stream so many times as long; benchmarks in their open-ended form."""

FIGURES = ("reliability", "scores", "cost")
_KEYS = ("title", "figure", "paper", "columns", "note", "rows", "runs")
_ROW_KEYS = ("name", "run", "runs", "reading", "tau", "formula")


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper, or one of ours.

    Attributes:
        key: its name, which is that of its file.
        title: for people.
        columns: names as in `secl.reports.paper.COLUMNS`.
        rows: in order.
        runs: what each run changes, by name.
        paper: the table that has the paper's numbers; the same as `key` unless the recipe says so.
        figure: one of `FIGURES`, drawn of all rows, or None.
        note: what a reader must know, or None.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    runs: Mapping[str, Mapping[str, Any]]
    paper: str
    figure: str | None
    note: str | None

    @property
    def needed(self) -> list[str]:
        """Names of the runs that must be done."""
        return list(dict.fromkeys(run for row in self.rows if row.reading for run in row.runs))


@dataclass(frozen=True, slots=True)
class Printed:
    """A table in the paper.

    Attributes:
        label: of it in the paper's source.
        per_domain: questions of each domain; None where there are none.
        numbers: by model, row and column.
    """

    label: str
    per_domain: int | None
    numbers: Mapping[str, Mapping[str, Mapping[str, float]]]


def folder() -> Path:
    """Where the recipes are: inside the installed package, or at the root of a checkout."""
    inside = Path(__file__).parents[1] / "experiments"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "experiments"


@cache
def printed() -> tuple[dict[str, str], dict[str, Printed]]:
    """The paper's models (what people call each), and its tables by key, in its order."""
    path = folder() / "paper.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise DataError(f"the paper's numbers, {path}, cannot be read: {problem.strerror}.") from problem
    return values["models"], {key: Printed(**table) for key, table in values["tables"].items()}


def known() -> list[str]:
    """Keys of all experiments: in the paper's order, then our own."""
    order = [*printed()[1]]
    keys = sorted(path.stem for path in folder().glob("*.toml"))
    return sorted(keys, key=lambda key: (order.index(key) if key in order else len(order), key))


def find(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all of them for none; a name that ends in .toml is a recipe file of one's own.

    Raises:
        ParameterError: an unknown name, or a recipe that makes no sense.
        DataError: a recipe cannot be read.
    """
    found = []
    for name in dict.fromkeys(names or known()):
        if not name.endswith(".toml") and name not in known():
            raise ParameterError(f"there is no table {name!r}; the tables are {', '.join(known())}.")
        found.append(read(Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"))
        key = found[-1].key
        if name.endswith(".toml") and key in known():
            raise ParameterError(f"the recipe {name} is called like the table {key!r}; give its file another name.")
        if [experiment.key for experiment in found].count(key) > 1:
            raise ParameterError(f"two recipes are called {key!r}; give one of their files another name.")
    return found


def read(path: Path) -> Experiment:
    """One recipe.

    Raises:
        DataError: the file cannot be read or is not TOML.
        ParameterError: a key, row, run, reading, column or value in it that makes no sense; the message names it.
    """
    values = read_toml(path)
    try:
        return _experiment(path.stem, values)
    except SeclError as problem:
        raise ParameterError(f"the recipe {path}: {problem}") from problem


def _experiment(key: str, values: dict[str, Any]) -> Experiment:
    _check_keys("the recipe", values, _KEYS)
    title, columns, paper = values.get("title"), values.get("columns"), values.get("paper", key)
    figure, note = values.get("figure"), values.get("note")
    if not isinstance(title, str):
        _refuse("it needs a title, a text.")
    if not isinstance(columns, list) or not columns:
        _refuse("it needs columns, a list of names.")
    for column in columns:
        if not isinstance(column, str) or not known_column(column):
            _refuse(f"there is no column {column!r}; the columns are {', '.join(COLUMNS)}.")
    if "paper" in values and paper not in printed()[1]:
        _refuse(f"the paper has no table {paper!r}; its tables are {', '.join(printed()[1])}.")
    if figure is not None and figure not in FIGURES:
        _refuse(f"there is no figure {figure!r}; the figures are {', '.join(FIGURES)}.")
    if note is not None and not isinstance(note, str):
        _refuse("its note must be a text.")
    runs = {**BUILT_IN, **_runs(values.get("runs", {}))}
    rows = values.get("rows")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        _refuse("it needs rows, a list of tables.")
    return Experiment(key, title, tuple(columns), tuple(_row(row, runs) for row in rows), runs, paper, figure, note)


def _runs(values: Any) -> dict[str, dict[str, Any]]:
    fields = [field.name for field in dataclasses.fields(RunSettings)]
    if not isinstance(values, dict) or not all(isinstance(run, dict) for run in values.values()):
        _refuse("its runs must be tables, each under [runs.NAME].")
    for name, run in values.items():
        _check_keys(f"the run {name!r}", run, (*fields, SCALE, GENERATED))
        scale, generated = run.get(SCALE, 1), run.get(GENERATED, False)
        if type(scale) is not int or scale < 1:
            _refuse(f"the run {name!r} has the scale {scale!r}; it must be a whole number from 1.")
        if not isinstance(generated, bool):
            _refuse(f"the run {name!r} has generated {generated!r}; it must be true or false.")
        RunSettings.from_json({"stream": ("capitals",), **{key: run[key] for key in run if key in fields}})
    return values


def _row(values: dict[str, Any], runs: Mapping[str, Any]) -> Row:
    name = values.get("name")
    if not isinstance(name, str):
        _refuse("every row needs a name, a text.")
    _check_keys(f"the row {name!r}", values, _ROW_KEYS)
    of = values.get("runs", [values.get("run")])
    if not isinstance(of, list) or not of or ("run" in values) == ("runs" in values):
        _refuse(f"the row {name!r} needs either a run or a list of runs.")
    for run in of:
        if run not in runs:
            _refuse(f"the row {name!r} names the run {run!r}; the runs are {', '.join(runs)}.")
    reading, tau, formula = values.get("reading"), values.get("tau"), values.get("formula")
    if reading is not None and reading not in KNOWN_READINGS:
        _refuse(f"the row {name!r} has the reading {reading!r}; the readings are {', '.join(KNOWN_READINGS)}.")
    if tau is not None:
        if not isinstance(tau, int | float) or isinstance(tau, bool):
            _refuse(f"the row {name!r} has the tau {tau!r}; it must be a number.")
        check_finite("temperature tau", tau, tau > 0, "be above 0")
    if formula is not None and formula not in get_args(Formula):
        _refuse(f"the row {name!r} has the formula {formula!r}; it is one of {', '.join(get_args(Formula))}.")
    return Row(name, tuple(of), reading, tau, formula)


def _check_keys(what: str, values: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in values:
        if key not in keys:
            _refuse(f"{what} has the unknown key {key!r}; the keys are {', '.join(keys)}.")


def _refuse(sentence: str) -> NoReturn:
    raise ParameterError(sentence)
