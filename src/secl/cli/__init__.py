"""The front door from the shell: every command is a few lines around the library."""

# isort: skip_file
from secl.cli.app import app, main

# Importing a module registers its commands, in the order of `secl --help`.
from secl.cli import ask, audit, check, compare, label, report, reproduce, run, score  # noqa: F401
from secl.cli import serve, keeping, keys, sweep, threshold  # noqa: F401

__all__ = ["app", "main"]
