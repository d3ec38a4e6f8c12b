"""The command line. Each command calls the library and prints the result."""

# isort: skip_file
from secl.cli.app import ASK, BACK, LISTS, SERVE, STUDY, app, main

# Importing a module registers its commands.
from secl.cli import ask, compare, demo, extract, label, report, run, serve, state, sweep  # noqa: F401

for group, names in {
    ASK: "ask extract score demo",
    STUDY: "check run sweep reproduce compare cache",
    SERVE: "serve keys backup",
    BACK: "report label review threshold export history show verify",
    LISTS: "models methods benchmarks",
}.items():
    for order, name in enumerate(names.split()):
        app[name].group, app[name].sort_key = (group,), order

__all__ = ["app", "main"]
