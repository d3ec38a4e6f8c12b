"""The table of all settings in docs/runs.md, from the groups that declare them.

    python -m reference.settings

makes it anew.
"""

from __future__ import annotations

from pathlib import Path

from pydantic.fields import FieldInfo

from reference.tables import code, table
from secl.settings.base import allowed
from secl.settings.names import SETTINGS, flag_of, shown

COLUMNS = ("key", "flag", "default", "meaning")
MARK = "<!-- made by: python -m reference.settings -->\n"


def all_settings() -> str:
    """Every setting in one table, by its key for `--set` and recipes."""
    rows = []
    for name, field in SETTINGS.items():
        flag = flag_of(name)
        value = field.get_default(call_default_factory=True)
        default = "" if value in (None, (), "") and name != "loop.bin_gate" else code(shown(name, value))
        rows.append((code(name), code(flag) if flag else "", default, _meaning(field)))
    return table(COLUMNS, rows)


def _meaning(field: FieldInfo) -> str:
    """What a setting does, with its choices unless the text names them."""
    meaning, (kind, _, choices) = field.description or "", allowed(field).partition(" of ")
    named = kind not in ("one", "one or more") or all(choice in meaning for choice in choices.split(", "))
    return meaning if named else f"{meaning} One of {choices}."


def with_all_settings(text: str) -> str:
    """docs/runs.md with the table behind its mark, made anew."""
    return text[: text.index(MARK) + len(MARK)] + "\n" + all_settings() + "\n"


if __name__ == "__main__":
    runs = Path(__file__).parents[1] / "docs" / "runs.md"
    runs.write_text(with_all_settings(runs.read_text(encoding="utf-8")), encoding="utf-8")
