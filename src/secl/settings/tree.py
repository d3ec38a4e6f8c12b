"""All groups of settings together: a setting's place by group, its name without one, and which have flags."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_origin

from cyclopts import Group, Parameter
from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from secl.errors import ParameterError
from secl.settings.base import Settings
from secl.settings.groups import (
    ENDPOINT_VIEWS,
    FLAT,
    UNFLAGGED,
    AdapterSettings,
    EvidenceSettings,
    GateSettings,
    LoopSettings,
    ModelSettings,
    PosteriorSettings,
    PromptSettings,
    Seed,
    StreamSettings,
    asks_endpoint,
)

MODEL, QUESTIONS, METHOD, OUTPUT = (
    Group(name, sort_key=order) for order, name in enumerate(("Model", "Questions", "Method", "Output"))
)
"""Under which a help lists its flags."""

OF_MODEL, OF_QUESTIONS, OF_METHOD, OF_OUTPUT = (Parameter(group=group) for group in (MODEL, QUESTIONS, METHOD, OUTPUT))


class SettingGroups(Settings):
    """All groups, with what belongs to none of them. A flag of `secl run` sets one field of one group."""

    model: Annotated[ModelSettings, FLAT, OF_MODEL] = ModelSettings()
    stream: Annotated[StreamSettings, FLAT, OF_QUESTIONS] = StreamSettings()
    method: Annotated[str, OF_METHOD] = Field(
        "secl", description="Default secl; posterior with --engine openai. See secl methods."
    )
    gate: Annotated[GateSettings, FLAT, OF_METHOD] = GateSettings()
    evidence: Annotated[EvidenceSettings, FLAT, OF_METHOD] = EvidenceSettings()
    prompts: Annotated[PromptSettings, UNFLAGGED] = PromptSettings()
    posterior: Annotated[PosteriorSettings, UNFLAGGED] = PosteriorSettings()
    loop: Annotated[LoopSettings, FLAT, OF_METHOD] = LoopSettings()
    adapter: Annotated[AdapterSettings, UNFLAGGED] = AdapterSettings()
    seed: Annotated[Seed, OF_METHOD] = Field(42, description="Seed of everything random.")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_endpoint(cls, values: object) -> object:
        """Where no weights can be changed and no likelihood can be read, other settings are the default."""
        if not isinstance(values, Mapping) or not asks_endpoint(values.get("model")):
            return values
        posterior = values.get("posterior", {})
        if isinstance(posterior, Mapping):
            posterior = {"views": ENDPOINT_VIEWS, **posterior}
        return {"method": "posterior", **values, "posterior": posterior}

    def flat(self) -> dict[str, Any]:
        """The settings by the names of their flags, in the order of the groups."""
        groups = self.model_dump()
        return {
            name: groups[path[0]] if len(path) == 1 else groups[path[0]][path[1]] for name, path in FLAT_NAMES.items()
        }

    def given(self) -> dict[str, Any]:
        """Those that were named when this was made, by the names of their flags."""
        groups = self.model_dump(exclude_unset=True)
        named: dict[str, object] = {}
        for name, (group, *key) in FLAT_NAMES.items():
            if group in groups and (not key or key[0] in groups[group]):
                named[name] = groups[group][key[0]] if key else groups[group]
        return named


def _flat_names() -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for key, field in SettingGroups.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, Settings):
            names |= {(key if name == "name" else name): (key, name) for name in group.model_fields}
        else:
            names[key] = (key,)
    return names


FLAT_NAMES = _flat_names()
"""The name of every setting outside its table, as flags have it, with its path: "tau" is ("evidence", "tau"). The
`name` of a group is called like the group: "gate" is ("gate", "name")."""

PLACES = frozenset(FLAT_NAMES.values())
"""The paths of all settings."""


def place_of(name: str) -> str:
    """Where a setting stands, as `--set` and recipe files have it.

    >>> place_of("tau"), place_of("gate"), place_of("seed")
    ('evidence.tau', 'gate.name', 'seed')
    """
    return ".".join(FLAT_NAMES[name])


def has_flag(name: str) -> bool:
    """Whether a setting has a flag of its own, by its name outside its table.

    >>> has_flag("method"), has_flag("accept"), has_flag("tau")
    (True, True, False)
    """
    path = FLAT_NAMES[name]
    return UNFLAGGED not in [*SettingGroups.model_fields[path[0]].metadata, *_field(path).metadata]


def with_set(flags: Settings | None, pairs: Sequence[str] | None) -> dict[str, object]:
    """The settings that flags name, by group, with those of `--set` over them, checked like flags.

    Args:
        flags: groups of settings as the command line made them; None for none.
        pairs: what --set was given, each "group.key=value".

    Raises:
        ParameterError: a pair that is none, an unknown setting, or a value that it cannot have.

    >>> with_set(None, ["evidence.tau=0.7"])
    {'evidence': {'tau': 0.7}}
    """
    groups = flags.model_dump(exclude_unset=True) if flags else {}
    if not pairs:
        return groups
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ParameterError(f"--set {pair} gives no value; write --set group.key=value, as evidence.tau=0.7.")
        path = tuple(name.strip().split("."))
        if path not in PLACES:
            (near,) = difflib.get_close_matches(path[-1], FLAT_NAMES, n=1, cutoff=0)
            raise ParameterError(f"--set {pair}: no such setting; the nearest is {place_of(near)} (docs/runs.md).")
        *group, key = path
        listed = get_origin(_field(path).annotation) is tuple
        (groups.setdefault(group[0], {}) if group else groups)[key] = (value,) if listed else value
    kind = type(flags) if isinstance(flags, SettingGroups) else SettingGroups
    return kind.model_validate(groups).model_dump(exclude_unset=True)


def nested(values: Mapping[str, object]) -> dict[str, Any]:
    """Settings by group, from tables, from flat names, or from both; a flat name wins over its table.

    Raises:
        ParameterError: a key that is neither a group nor a setting.

    >>> nested({"gate": {"name": "always"}, "tau": 0.7, "seed": 3})
    {'gate': {'name': 'always'}, 'evidence': {'tau': 0.7}, 'seed': 3}
    """
    groups: dict[str, Any] = {}
    flat: dict[str, object] = {}
    for key, value in values.items():
        if key in SettingGroups.model_fields and isinstance(value, Mapping):
            groups[key] = dict(value)
        elif key in FLAT_NAMES:
            flat[key] = value
        elif key in SettingGroups.model_fields:
            names = ", ".join(path[1] for path in FLAT_NAMES.values() if path[0] == key)
            raise ParameterError(f"{key} is {value!r}; it must be a table of the settings {names}.")
        else:
            raise ParameterError(f"there is no setting {key!r}; the settings are {', '.join(FLAT_NAMES)}.")
    for name, value in flat.items():
        *group, key = FLAT_NAMES[name]
        (groups.setdefault(group[0], {}) if group else groups)[key] = value
    return groups


def merged(values: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, Any]:
    """Settings by group (`nested`) with others that win over them.

    >>> merged({"gate": "always", "tau": 1.0}, {"tau": 0.7})
    {'gate': {'name': 'always'}, 'evidence': {'tau': 0.7}}
    """
    groups = nested(values)
    for key, value in nested(changes).items():
        groups[key] = {**groups.get(key, {}), **value} if isinstance(value, dict) else value
    return groups


def _field(path: Sequence[str]) -> FieldInfo:
    """Of a setting, by its path."""
    group: Any = SettingGroups
    for key in path[:-1]:
        group = group.model_fields[key].annotation
    found: FieldInfo = group.model_fields[path[-1]]
    return found
