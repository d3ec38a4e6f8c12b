"""The page of the settings, from the groups that declare them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cyclopts import Parameter
from pydantic.fields import FieldInfo

from reference.tables import code, prose, table
from secl.methods import METHODS
from secl.runs.settings import shown
from secl.server.http.settings import HttpSettings
from secl.server.online.guardrails import Bounds
from secl.server.online.limits import Limits
from secl.setting_groups import SettingGroups
from secl.settings_base import Settings, allowed

INTRODUCTION = """# Settings

Every setting is declared once, in `secl.settings`; flags, recipe files, sweep grids and the manifest of a run have
the same names. In a TOML recipe a setting stands under its own name (`tau = 0.7`) or in the table of its group
(`[evidence]`, then `tau = 0.7`); its flag is called the same with `-` for `_`, unless another one is named here, and
wins over the recipe. An empty default is the method's, the model's or the gate's own value. What is outside its range
is refused in one sentence.
"""

SERVER = """## A server's limits

Flags of `secl serve` beside those above.
"""


def page() -> str:
    """The page in Markdown."""
    parts = [INTRODUCTION]
    alone: list[tuple[str, FieldInfo]] = []
    for name, field in SettingGroups.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, Settings):
            parts.append(f"## `[{name}]`\n\n{_summary(group)}\n\n{_settings(group, name)}")
        else:
            alone.append((name, field))
    parts.append(f"## Without a table\n\n{table(COLUMNS, [_row(name, field) for name, field in alone])}")
    parts += [SERVER, *(f"{_summary(group)}\n\n{_settings(group)}" for group in (Limits, HttpSettings, Bounds))]
    parts.append(f"## Methods\n\n{_methods()}")
    return "\n\n".join(parts) + "\n"


COLUMNS = ("setting", "allowed", "default", "meaning")


def _settings(group: type[Settings], called: str = "") -> str:
    return table(COLUMNS, [_row(name, field, called) for name, field in group.model_fields.items()])


def _row(name: str, field: FieldInfo, group: str = "") -> tuple[str, ...]:
    """A setting's line, with its flag where that does not follow from its name."""
    usual = f"--{name.replace('_', '-')}"
    flag = next(_named(field), f"--{group}" if name == "name" else usual)
    value = field.get_default(call_default_factory=True)
    default = "" if value in (None, (), "") and name != "bin_gate" else code(shown(name, value))
    called = code(name) if flag == usual else f"{code(name)}, {code(flag)}"
    return (called, allowed(field), default, field.description or "")


def _named(field: FieldInfo) -> Iterator[str]:
    """The flags that a setting names itself."""
    for part in field.metadata:
        if isinstance(part, Parameter) and part.name:
            yield from (str(name) for name in part.name)


def _summary(group: type[Settings]) -> str:
    """The first paragraph of a group's docstring."""
    return prose((group.__doc__ or "").split("\n\n")[0])


def _methods() -> str:
    rows: list[tuple[Any, ...]] = [(code(name), code(method.gate), method.note) for name, method in METHODS.items()]
    return table(("method", "gate", "what"), rows)
