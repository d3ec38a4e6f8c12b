"""The page of the commands, from their own help."""

from __future__ import annotations

import re
import sys

from secl.cli import app

INTRODUCTION = """# Command line

Made from the commands' own help: `secl --help` and `secl COMMAND --help` say the same. A mistake ends in one sentence
and exit code 2. Every flag of `secl run` that is a setting is described under
[runs](../runs.md#all-settings).
"""


def page() -> str:
    """The page in Markdown."""
    started, sys.argv = sys.argv, ["secl"]  # a line of usage begins with the name of the program that is running
    try:
        _, _, commands = app.generate_docs().partition("\n")
    finally:
        sys.argv = started
    # The site has a table of contents of its own.
    return INTRODUCTION + re.sub(r"^## Table of Contents\n.*?(?=^## )", "", commands, flags=re.DOTALL | re.MULTILINE)
