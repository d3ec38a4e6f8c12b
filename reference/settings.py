"""The page of the settings, from the groups that declare them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cyclopts import Parameter
from pydantic.fields import FieldInfo

from reference.tables import code, prose, table
from secl.methods import METHODS
from secl.runs.settings import shown
from secl.server.settings import Bounds, HttpSettings, Limits
from secl.setting_groups import FLAT_NAMES, SettingGroups, has_flag, place_of
from secl.settings import UNFLAGGED
from secl.settings_base import Settings, allowed

INTRODUCTION = """# Settings

Every setting is declared once, in `secl.settings`; flags, recipe files, sweep grids and the manifest of a run have
the same names. In a TOML recipe a setting stands under its own name (`tau = 0.7`) or in the table of its group
(`[evidence]`, then `tau = 0.7`). The usual ones have a flag of their own, which wins over the
recipe; the others are set by `--set evidence.tau=0.7`, which wins over both. An empty default is the method's, the
model's or the gate's own value. What is outside its range is refused in one sentence.
"""

KEYS = ("key", "flag", "allowed", "default", "meaning")


def keys() -> str:
    """Every setting in one table, by its key for `--set` and recipes, as docs/runs.md has it."""
    rows = []
    for name, (*group, key) in FLAT_NAMES.items():
        holder: Any = SettingGroups.model_fields[group[0]].annotation if group else SettingGroups
        called, *rest = _row(key, holder.model_fields[key], group[0] if group else "")
        flag = called.split(", ")[-1].replace("_", "-") if has_flag(name) else ""
        flag = flag if not flag or "--" in flag else code(f"--{name.replace('_', '-')}")
        rows.append((code(place_of(name)), flag, *rest))
    return table(KEYS, rows)


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
    has_one = UNFLAGGED not in field.metadata
    called = code(name) if flag == usual or not has_one else f"{code(name)}, {code(flag)}"
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


MARK = "<!-- made by: python -m reference.settings -->\n"


def with_keys(text: str) -> str:
    """docs/runs.md with the table of all settings behind its mark, made anew."""
    return text[: text.index(MARK) + len(MARK)] + "\n" + keys() + "\n"


if __name__ == "__main__":
    from pathlib import Path

    runs = Path(__file__).parents[1] / "docs" / "runs.md"
    runs.write_text(with_keys(runs.read_text(encoding="utf-8")), encoding="utf-8")
