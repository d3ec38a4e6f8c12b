"""What the frozen model answers, for other models of the same weights that are asked the same questions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secl.backends.local.asking.answers import Prefetched
    from secl.backends.local.prefill import Prompts
    from secl.evidence import PTrue
    from secl.settings.groups import PromptSettings, PTrueKind


@dataclass(frozen=True)
class Asking:
    """All that the frozen model's answers depend on beside the questions and what is wanted of them.

    Attributes:
        fingerprint, dtype: of the weights.
        first: number of the first adapted layer, where replays begin.
        p_true, prompts, seed: how is asked, and what is drawn.
    """

    fingerprint: str
    dtype: str
    first: int
    p_true: PTrueKind
    prompts: PromptSettings | None
    seed: int


@dataclass(frozen=True)
class Window:
    """A window of questions as the frozen model answers it.

    Attributes:
        items: what is known about each question.
        prompts: passes over their prompts, behind which an adapter can write other answers.
    """

    items: Sequence[Prefetched]
    prompts: Prompts


@dataclass
class AnswersInCommon:
    """Answers of the frozen model to all that ask alike.

    Attributes:
        windows: by their questions and what was wanted beside the answers.
        verdicts: P(True) of candidates, and the tokens that it took, by question, candidates and their source.
    """

    windows: dict[Hashable, Window] = field(default_factory=dict)
    verdicts: dict[Hashable, tuple[PTrue, float]] = field(default_factory=dict)


class SharedAnswers:
    """What models of the same weights share; their owner clears it when none of them will ask the same again."""

    def __init__(self) -> None:
        self._answers: dict[Asking, AnswersInCommon] = {}

    def to(self, asking: Asking) -> AnswersInCommon:
        """The answers to those that ask like this."""
        return self._answers.setdefault(asking, AnswersInCommon())

    def clear(self) -> None:
        """Forget everything."""
        for answers in self._answers.values():
            answers.windows.clear()
            answers.verdicts.clear()
