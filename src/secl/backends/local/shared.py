"""Answers of a frozen model, shared by models of the same weights that are asked the same questions."""

from __future__ import annotations

from collections.abc import Hashable

from secl.backends.local.asking.answers import Windows
from secl.backends.local.asking.asker import Verdicts


class SharedAnswers:
    """A cache that models of the same weights share. Its owner clears it when none of them asks the same again."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[Windows, Verdicts]] = {}

    def to(self, *key: Hashable) -> tuple[Windows, Verdicts]:
        """Return windows and verdicts of models with the same weights, adapted layers, prompts and seed."""
        return self._answers.setdefault(key, ({}, {}))

    def clear(self) -> None:
        """Forget everything."""
        for windows, verdicts in self._answers.values():
            windows.clear()
            verdicts.clear()
