"""The page of all settings, from the groups that declare them."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from reference.tables import code, table
from secl.settings.groups import allowed
from secl.settings.names import SETTINGS, flag_of, shown

INTRODUCTION = """# Settings

Every setting has one name, `group.key`. Python, recipes and the shell take the same names:

    secl.load("smollm2", settings={"evidence.tau": 0.7})           # Python
    secl run --benchmarks capitals:40 --evidence.tau 0.7           # shell
    evidence.tau = 0.7                                             # recipe.toml, for secl run recipe.toml

Usual settings have short flags, which `--help` lists. A flag overrides the recipe. Where the default is empty, the
method, the model or the gate chooses the value.
"""


def page() -> str:
    """Return the page in Markdown."""
    rows = []
    for name, field in SETTINGS.items():
        flag = flag_of(name)
        value = field.get_default(call_default_factory=True)
        default = "" if value in (None, (), "") and name != "loop.bin_gate" else code(shown(name, value))
        rows.append((code(name), code(flag), default, _meaning(field)))
    return f"{INTRODUCTION}\n{table(('key', 'flag', 'default', 'meaning'), rows)}\n"


def _meaning(field: FieldInfo) -> str:
    """Return what a setting does, with its choices unless the text names them."""
    meaning, (kind, _, choices) = field.description or "", allowed(field).partition(" of ")
    named = kind not in ("one", "one or more") or all(choice in meaning for choice in choices.split(", "))
    return meaning if named else f"{meaning} One of {choices}."
