"""When to learn: a gate watches the replies, and opens for a burst of questions after a shift.

`GATES` has the names of gates. "FILE.py:CLASS" names a class in a Python file of the user.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from secl.errors import ParameterError
from secl.gates.detectors import Always, EntropyShift, Gate, Never, PageHinkley, replay
from secl.records import Decision

__all__ = ["GATES", "Always", "EntropyShift", "Gate", "Never", "PageHinkley", "gate_class", "is_own_gate", "replay"]

GATES: dict[str, Callable[..., Gate]] = {
    "always": Always,
    "never": Never,
    "page-hinkley": PageHinkley,
    "entropy-shift": EntropyShift,
}
"""Every gate by name; parameters are keyword arguments."""


def gate_class(name: str) -> Callable[..., Gate]:
    """Return the class of a gate: one of `GATES`, or a class in a Python file, "FILE.py:CLASS", which is executed.

    Raises:
        ParameterError: an unknown name, a file that cannot be executed, or a class that is no gate.
    """
    if name in GATES:
        return GATES[name]
    if not is_own_gate(name):
        raise ParameterError(f"there is no gate {name!r}; take {', '.join(GATES)}, or FILE.py:CLASS for your own.")
    file, _, attribute = name.rpartition(":")
    if not Path(file).is_file():
        raise ParameterError(f"the gate {name!r} cannot be loaded: there is no file {file}.")
    try:
        own: Any = runpy.run_path(file).get(attribute)
        state, decision = (None, None) if own is None else own().step(own().start(), 1.0)
    except Exception as problem:  # a user's file may raise anything
        raise ParameterError(f"the gate {name!r} cannot be loaded: {type(problem).__name__}: {problem}.") from problem
    if own is None:
        raise ParameterError(f"the gate {name!r} cannot be loaded: {file} defines no {attribute}.")
    if not ((state is None or is_dataclass(state)) and isinstance(decision, Decision)):
        raise ParameterError(
            f"the gate {name!r}: step() must return a state (a frozen dataclass of numbers, or None) and a Decision."
        )
    gate: Callable[..., Gate] = own
    return gate


def is_own_gate(name: str) -> bool:
    """Return whether a name has the form of a gate in a Python file, "FILE.py:CLASS".

    >>> is_own_gate("mine.py:EveryTenth"), is_own_gate("always")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(".py")
