"""The table of all settings in docs/runs.md, from the groups that declare them.

    python -m reference.settings

makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cyclopts import Parameter
from pydantic.fields import FieldInfo

from reference.tables import code, table
from secl.runs.settings import shown
from secl.settings.base import allowed
from secl.settings.tree import FLAT_NAMES, SettingGroups, has_flag, place_of

COLUMNS = ("key", "flag", "default", "meaning")
MARK = "<!-- made by: python -m reference.settings -->\n"


def all_settings() -> str:
    """Every setting in one table, by its key for `--set` and recipes."""
    rows = []
    for name, (*group, key) in FLAT_NAMES.items():
        holder: Any = SettingGroups.model_fields[group[0]].annotation if group else SettingGroups
        field: FieldInfo = holder.model_fields[key]
        usual = f"--{name.replace('_', '-')}"
        flag = code(next(_named(field), usual)) if has_flag(name) else ""
        value = field.get_default(call_default_factory=True)
        default = "" if value in (None, (), "") and name != "bin_gate" else code(shown(name, value))
        rows.append((code(place_of(name)), flag, default, _meaning(field)))
    return table(COLUMNS, rows)


def _meaning(field: FieldInfo) -> str:
    """What a setting does, with its choices unless the text names them."""
    meaning, (kind, _, choices) = field.description or "", allowed(field).partition(" of ")
    named = kind not in ("one", "one or more") or all(choice in meaning for choice in choices.split(", "))
    return meaning if named else f"{meaning} One of {choices}."


def _named(field: FieldInfo) -> Iterator[str]:
    """The flags that a setting names itself."""
    for part in field.metadata:
        if isinstance(part, Parameter) and part.name:
            yield from (str(name) for name in part.name)


def with_all_settings(text: str) -> str:
    """docs/runs.md with the table behind its mark, made anew."""
    return text[: text.index(MARK) + len(MARK)] + "\n" + all_settings() + "\n"


if __name__ == "__main__":
    runs = Path(__file__).parents[1] / "docs" / "runs.md"
    runs.write_text(with_all_settings(runs.read_text(encoding="utf-8")), encoding="utf-8")
