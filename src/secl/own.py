"""Objects in a Python file of the user, named as FILE.py:NAME on the command line."""

from __future__ import annotations

import runpy
from pathlib import Path

from secl.errors import ParameterError


def is_own(name: str) -> bool:
    """Return whether a name has the form of an object in a Python file.

    >>> is_own("mine.py:EveryTenth"), is_own("always")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(".py")


def load_own(name: str, noun: str) -> object:
    """Execute a Python file and return its object; `noun` names the kind of object in messages.

    Raises:
        ParameterError: no such file, a file that cannot be executed, or a file without the object.
    """
    file, _, attribute = name.rpartition(":")
    if not Path(file).is_file():
        raise ParameterError(f"the {noun} {name!r} cannot be loaded: there is no file {file}.")
    try:
        found: object = runpy.run_path(file).get(attribute)
    except Exception as problem:  # a user's file may raise anything
        raise ParameterError(f"the {noun} {name!r} cannot be loaded: {type(problem).__name__}: {problem}.") from problem
    if found is None:
        raise ParameterError(f"the {noun} {name!r} cannot be loaded: {file} defines no {attribute}.")
    return found
