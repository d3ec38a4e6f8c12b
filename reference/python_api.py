"""The pages of the public names, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import secl
from secl import learning, runs, testing
from secl.settings.groups import Settings

GROUPS: dict[str, tuple[ModuleType, tuple[str, ...]]] = {
    "Asking": (secl, ("load", "CalibratedModel", "Question", "References", "Message", "GivenAnswer")),
    "Answers": (secl, ("Record", "Confidences", "Source", "Extraction", "Calls", "Call", "Label", "Advice")),
    "Questions": (secl, ("read_rows", "load_stream")),
    "Models": (secl, ("Model",)),
    "Errors": (
        secl,
        (
            "SeclError",
            "DataError",
            "ModelError",
            "ParameterError",
            "QuestionError",
            "RunError",
            "StorageError",
            "TooLongError",
            "UnavailableError",
            "UnfinishedError",
        ),
    ),
    "Runs": (runs, ("start_run", "resume_run", "RunSettings", "Store", "current_records")),
    "Numbers of many records": (runs, ("summarise", "Summary", "assess", "Verdict", "to_frame")),
    "Learning": (learning, ("Calibrator", "LoopSettings", "AdapterSettings", "EntropyShift", "PageHinkley")),
    "Testing": (testing, ("ScriptedModel", "toy_stream")),
}
"""Module and public names of each section, in the order in which a reader needs them."""

INTRODUCTION = """# Python

`import secl`, then `secl.load`: most programs need no more. After `import secl`, the further names of `secl.runs`,
`secl.learning` and `secl.testing` are available, too. PyTorch is loaded when a name first needs it. The
[tutorial](../tutorial.md) begins with an example. [Records](records.md) lists the fields of a record, and
[settings](settings.md) the names that `settings=` takes.
"""

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)", re.MULTILINE)
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):\n((?: {4}.*\n|\n)+)", re.MULTILINE)


def place_of(title: str) -> str:
    """Return the place of a section's page in docs/.

    >>> place_of("Numbers of many records")
    'reference/python/numbers-of-many-records.md'
    """
    return f"reference/python/{title.lower().replace(' ', '-')}.md"


def overview() -> str:
    """Return the page with the introduction, and a link to each section with its names."""
    rows = [
        f"| [{title}](python/{Path(place_of(title)).name}) | `{module.__name__}` | `{'`, `'.join(names)}` |"
        for title, (module, names) in GROUPS.items()
    ]
    return "\n".join([INTRODUCTION, "| page | module | names |", "|---|---|---|", *rows, ""])


def section(title: str) -> str:
    """Return the page of a section in Markdown."""
    module, names = GROUPS[title]
    parts = [f"# {title}", f"Names of `{module.__name__}`; [all names](../python.md)."]
    for name in names:
        thing = getattr(module, name)
        parts += [f"## {name}", *_described(name, thing)]
        for member, value in _members(thing):
            parts += [f"### {name}.{member}", *_described(f"{name}.{member}", value)]
    return "\n\n".join(parts) + "\n"


def _described(name: str, thing: Any) -> Iterator[str]:
    """Yield a signature, if there is one that a reader can call, and the docstring."""
    if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, Exception | Settings)):
        yield f"```python\n{_signature(name, thing)}\n```"
    yield markdown(inspect.getdoc(thing) or "")


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield methods and properties with a docstring, those of bases in this package first."""
    if not inspect.isclass(thing):
        return
    found: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        found |= vars(base) if base.__module__.startswith("secl.") else {}
    for name, member in found.items():
        value = getattr(member, "__func__", member)
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)) and value.__doc__:
            yield name, value


class _Raw:
    """An annotation that is printed without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(name: str, thing: Any) -> str:
    """Return a call of a function or class as Python, one argument on a line if all do not fit on one."""
    found = inspect.signature(thing)
    arguments: list[str] = []
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(each.startswith("*") for each in arguments):
            arguments.append("*")
        text = parameter.annotation
        arguments.append(str(parameter.replace(annotation=_Raw(text) if isinstance(text, str) else text)))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            arguments.append("/")
    returned = f" -> {found.return_annotation}" if isinstance(found.return_annotation, str) else ""
    line = f"{name}({', '.join(arguments)}){'' if is_dataclass(thing) else returned}"
    if len(line) <= 100:
        return line
    arguments = [re.sub(r"<function .*>", "...", argument) for argument in arguments]
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){returned}"])


def markdown(text: str) -> str:
    r"""Return a docstring as Markdown: sections become lists, examples blocks of code.

    >>> print(markdown("Add.\n\nArgs:\n    x: a number,\n        or none.\n"))
    Add.
    <BLANKLINE>
    **Args**
    <BLANKLINE>
    * `x`: a number, or none.
    """
    text = _SECTION.sub(lambda match: f"**{match[1]}**\n\n{_entries(match[2])}\n\n", text.rstrip() + "\n")
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text).strip()


def _entries(block: str) -> str:
    """Return the entries of a section as a list; a block without names stays a paragraph."""
    entries = [" ".join(each.split()) for each in re.split(r"\n(?= {4}\S)", "\n" + block.rstrip()) if each.strip()]
    named = [re.match(r"([\w., ]+): (.*)", entry) for entry in entries]
    if not all(named):
        return " ".join(entries)
    return "\n".join(f"* `{match[1]}`: {match[2]}" for match in named if match)
