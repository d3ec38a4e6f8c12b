"""All groups of settings together: a setting's place by group, and its name without one, as flags have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from secl.errors import ParameterError
from secl.settings import (
    ENDPOINT_VIEWS,
    FLAT,
    AdapterSettings,
    EvidenceSettings,
    GateSettings,
    LabelSettings,
    LoopSettings,
    ModelSettings,
    PosteriorSettings,
    PromptSettings,
    Seed,
    StreamSettings,
    asks_endpoint,
)
from secl.settings_base import Settings


class SettingGroups(Settings):
    """All groups, with what belongs to none of them. A flag of `secl run` sets one field of one group."""

    model: Annotated[ModelSettings, FLAT] = ModelSettings()
    stream: Annotated[StreamSettings, FLAT] = StreamSettings()
    method: str = Field("secl", description="Method: secl, posterior, baselines, ...; see secl methods.")
    gate: Annotated[GateSettings, FLAT] = GateSettings()
    evidence: Annotated[EvidenceSettings, FLAT] = EvidenceSettings()
    prompts: Annotated[PromptSettings, FLAT] = PromptSettings()
    posterior: Annotated[PosteriorSettings, FLAT] = PosteriorSettings()
    loop: Annotated[LoopSettings, FLAT] = LoopSettings()
    label: Annotated[LabelSettings, FLAT] = LabelSettings()
    adapter: Annotated[AdapterSettings, FLAT] = AdapterSettings()
    seed: Seed = Field(42, description="Seed of everything random.")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_endpoint(cls, values: Any) -> Any:
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
        named: dict[str, Any] = {}
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


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by group, from tables, from flat names, or from both; a flat name wins over its table.

    Raises:
        ParameterError: a key that is neither a group nor a setting.

    >>> nested({"gate": {"name": "always"}, "tau": 0.7, "seed": 3})
    {'gate': {'name': 'always'}, 'evidence': {'tau': 0.7}, 'seed': 3}
    """
    groups: dict[str, Any] = {}
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key in SettingGroups.model_fields and isinstance(value, Mapping):
            groups[key] = dict(value)
        elif key in FLAT_NAMES:
            flat[key] = value
        elif key in SettingGroups.model_fields:
            names = ", ".join(_group(key).model_fields)
            raise ParameterError(f"{key} is {value!r}; it must be a table of the settings {names}.")
        else:
            raise ParameterError(f"there is no setting {key!r}; the settings are {', '.join(FLAT_NAMES)}.")
    for name, value in flat.items():
        *group, key = FLAT_NAMES[name]
        (groups.setdefault(group[0], {}) if group else groups)[key] = value
    return groups


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by group (`nested`) with others that win over them.

    >>> merged({"gate": "always", "tau": 1.0}, {"tau": 0.7})
    {'gate': {'name': 'always'}, 'evidence': {'tau': 0.7}}
    """
    groups = nested(values)
    for key, value in nested(changes).items():
        groups[key] = {**groups.get(key, {}), **value} if isinstance(value, dict) else value
    return groups


def _group(key: str) -> Any:
    return SettingGroups.model_fields[key].annotation
