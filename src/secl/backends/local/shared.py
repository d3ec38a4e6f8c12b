"""What the frozen model answers, for other models of the same weights that are asked the same questions."""

from __future__ import annotations

from dataclasses import dataclass

from secl.backends.local.asking.answers import Windows
from secl.backends.local.asking.asker import Verdicts


@dataclass(frozen=True)
class AskKey:
    """All that the frozen model's answers depend on beside the questions and what is wanted of them.

    Attributes:
        fingerprint, dtype: of the weights.
        first: number of the first adapted layer, where replays begin.
        paper, distractors, seed: how is asked, and what is drawn.
    """

    fingerprint: str
    dtype: str
    first: int
    paper: bool
    distractors: int
    seed: int


class SharedAnswers:
    """What models of the same weights share; their owner clears it when none of them will ask the same again."""

    def __init__(self) -> None:
        self._answers: dict[AskKey, tuple[Windows, Verdicts]] = {}

    def to(self, key: AskKey) -> tuple[Windows, Verdicts]:
        """The windows and verdicts of those that ask like this."""
        return self._answers.setdefault(key, ({}, {}))

    def clear(self) -> None:
        """Forget everything."""
        for windows, verdicts in self._answers.values():
            windows.clear()
            verdicts.clear()
