"""The names of settings, `group.key`, and conversion between names and tables.

Python, sweeps and flags use names: {"stream.benchmarks": ["arc"], "evidence.tau": 0.7, "seed": 3}. Recipe files and
manifests have a table for each group. `dotted` turns tables into names, and `tables` turns names into tables.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from cyclopts import Group, Parameter
from pydantic import Field
from pydantic.fields import FieldInfo

from secl.errors import ParameterError
from secl.settings.groups import (
    FLAT,
    HIDDEN,
    OFF,
    AdapterSettings,
    EvidenceSettings,
    ExtractSettings,
    GateSettings,
    LoopSettings,
    ModelSettings,
    PosteriorSettings,
    PromptSettings,
    Seed,
    Settings,
    StreamSettings,
)

MODEL, QUESTIONS, METHOD, OUTPUT = (
    Group(name, sort_key=order) for order, name in enumerate(("Model", "Questions", "Method", "Output"))
)
"""Groups of flags in help texts."""

OF_MODEL, OF_QUESTIONS, OF_METHOD, OF_OUTPUT = (Parameter(group=group) for group in (MODEL, QUESTIONS, METHOD, OUTPUT))


class RecipeTables(Settings):
    """The tables of a recipe, which the command line fills. They check single values, not combinations."""

    model: Annotated[ModelSettings, FLAT, OF_MODEL] = ModelSettings()
    prompts: Annotated[PromptSettings, FLAT, OF_MODEL] = PromptSettings()
    method: Annotated[str, OF_METHOD] = Field(
        "posterior", description="posterior, secl (which learns), or another method (see secl methods)."
    )
    gate: Annotated[GateSettings, FLAT, OF_METHOD] = GateSettings()
    evidence: Annotated[EvidenceSettings, HIDDEN] = EvidenceSettings()
    posterior: Annotated[PosteriorSettings, HIDDEN] = PosteriorSettings()
    loop: Annotated[LoopSettings, FLAT, OF_METHOD] = LoopSettings()
    adapter: Annotated[AdapterSettings, HIDDEN] = AdapterSettings()
    paper: Annotated[bool, HIDDEN] = Field(
        False,
        description="Ask, sample and learn as the paper says; docs/paper.md lists what the paper leaves open.",
    )
    seed: Annotated[Seed, OF_METHOD] = Field(42, description="Seed of all random choices.")


class RunTables(RecipeTables):
    """The tables of a run: the tables of a recipe, and the questions or documents of the run."""

    stream: Annotated[StreamSettings, FLAT, OF_QUESTIONS] = StreamSettings()
    extract: Annotated[ExtractSettings, HIDDEN] = ExtractSettings()


def _fields(settings: type[Settings], table: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for key, field in settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _fields(field.annotation, f"{key}.")
        else:
            yield f"{table}{key}", field


SETTINGS = dict(_fields(RunTables))
"""Every setting by its name."""

MIN_SIMILARITY = 0.6
"""Minimum similarity, from 0 to 1, of a suggested name to the given name."""


def dotted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their names "group.key", from tables, names or both.

    >>> dotted({"gate": {"name": "always"}, "evidence.tau": 0.7, "seed": 3})
    {'gate.name': 'always', 'evidence.tau': 0.7, 'seed': 3}
    """
    names: dict[str, Any] = {}
    for key, value in values.items():
        is_table = isinstance(value, Mapping) and key not in SETTINGS
        names |= {f"{key}.{name}": part for name, part in value.items()} if is_table else {key: value}
    for name in names:
        if name in RunTables.model_fields and name not in SETTINGS:
            inner = [known for known in SETTINGS if known.startswith(f"{name}.")]
            raise ParameterError(f"{name} is {names[name]!r}; it must be a table of the settings {', '.join(inner)}.")
        if name not in SETTINGS:
            known = nearest(name)
            remedy = f"the nearest is {known}" if known else "docs/reference/settings.md lists all settings"
            raise ParameterError(f"there is no setting {name!r}; {remedy}.")
    return names


def tables(names: Mapping[str, object]) -> dict[str, Any]:
    """Return settings as tables, one for each group."""
    groups: dict[str, Any] = {}
    for name, value in names.items():
        *table, key = name.split(".")
        (groups.setdefault(table[0], {}) if table else groups)[key] = value
    return groups


def nearest(name: str) -> str | None:
    """Return the setting with the most similar name; None if none is similar.

    >>> nearest("benchmarks"), nearest("gate"), nearest("loop.tau"), nearest("prompts.top_p")
    ('stream.benchmarks', 'gate.name', 'evidence.tau', None)
    """
    if f"{name}.name" in SETTINGS:
        return f"{name}.name"
    table, _, key = name.rpartition(".")

    def similarity(known: str) -> tuple[float, bool]:
        return difflib.SequenceMatcher(None, key, known.rpartition(".")[2]).ratio(), known.startswith(f"{table}.")

    best = max(SETTINGS, key=similarity)
    return best if similarity(best)[0] >= MIN_SIMILARITY else None


def flag_of(name: str) -> str:
    """Return the flag of a setting in `secl run`.

    >>> flag_of("gate.name"), flag_of("loop.accept"), flag_of("loop.alpha"), flag_of("evidence.tau")
    ('--gate', '--accept', '--loop.alpha', '--evidence.tau')
    """
    for part in SETTINGS[name].metadata:
        if isinstance(part, Parameter) and part.name:
            return next(iter(part.name))
    table, _, key = name.rpartition(".")
    flat = not table or FLAT in RunTables.model_fields[table].metadata
    return f"--{key.replace('_', '-')}" if flat else f"--{name}"


def given_by(flags: Settings | None) -> dict[str, object]:
    """Return the settings that flags set, by name."""
    return dotted(flags.model_dump(exclude_unset=True)) if flags else {}


def shown(name: str, value: object) -> str:
    """Return the value of a setting as written in a flag or a file.

    >>> shown("loop.bin_gate", None), shown("adapter.modules", ("q_proj", "v_proj"))
    ('off', 'q_proj,v_proj')
    """
    if name == "loop.bin_gate" and value is None:
        return OFF
    return (" | " if name == "stream.options" else ",").join(value) if isinstance(value, tuple) else str(value)


def as_compared(name: str, value: object) -> str:
    """Return the value of a setting as shown in a comparison of runs.

    >>> as_compared("gate.burst", None), as_compared("loop.bin_gate", None), as_compared("adapter.modules", ())
    ('default', 'off', 'none')
    """
    return "default" if value is None and name != "loop.bin_gate" else shown(name, value) or "none"
