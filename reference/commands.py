"""The page of the commands, from their own help."""

from __future__ import annotations

import re
import sys
from typing import Any

from secl.cli import app

INTRODUCTION = """# Command line

`secl --help` and `secl COMMAND --help` print the same. A mistake ends in one sentence and exit code 2.
[Settings](settings.md) lists the flags of further settings, such as `--evidence.tau`.
"""


def page() -> str:
    """Return the page in Markdown."""
    started, sys.argv = sys.argv, ["secl"]  # a line of usage begins with the name of the program that is running
    try:
        _, _, commands = app.generate_docs().partition("\n")
    finally:
        sys.argv = started
    # The site has its own table of contents, and completion is a part of the shell.
    commands = re.sub(
        r"^## (Table of Contents|secl --install-completion)\n.*?(?=^## )", "", commands, flags=re.DOTALL | re.MULTILINE
    )
    start, *sections = re.split("^(?=## secl )", commands, flags=re.MULTILINE)
    return "".join([INTRODUCTION, start, *sorted(sections, key=_place)])


def _place(section: str) -> tuple[object, ...]:
    """Return the place of a command in the help."""
    command: Any = app[section.split(maxsplit=3)[2]]
    return command.group[0].sort_key, command.sort_key
