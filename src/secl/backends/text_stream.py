"""Text from tokens, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secl.backends.generation import CONTEXT

HALF = "\ufffd"
"""What a decoder makes of the first bytes of a character."""


class TextStream:
    """Turns the tokens of a text into pieces that never have to be taken back.

    What may become a stop text, or the rest of a character, is kept until the next token tells.

    Args:
        tokenizer: of the model.
        prompt: ids that the text continues.
        stop: texts before which it ends.

    Attributes:
        stopped: whether a stop text has come.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.tokenizer = tokenizer
        self.stop = stop
        self.stopped = False
        # Some decoders drop the space at the start of what they are given, so a little of what was before goes along.
        self._context = list(prompt[-CONTEXT:])
        self._new: list[int] = []
        self._held = ""

    def push(self, token: int) -> str:
        """Add a token; returns what is certain now."""
        self._new.append(token)
        text = self._decoded()
        if text.endswith(HALF):
            return ""
        self._context, self._new = [*self._context, *self._new][-CONTEXT:], []
        return self._release(self._held + text)

    def close(self) -> str:
        """The end of the text; returns what was kept."""
        text, self._held = self._held + (self._decoded() if self._new else ""), ""
        return "" if self.stopped else text

    def _decoded(self) -> str:
        before = str(self.tokenizer.decode(self._context, skip_special_tokens=True))
        whole = str(self.tokenizer.decode([*self._context, *self._new], skip_special_tokens=True))
        return whole[len(before) :]

    def _release(self, text: str) -> str:
        ends = [text.find(stop) for stop in self.stop if stop in text]
        if ends:
            self.stopped, self._held = True, ""
            return text[: min(ends)]
        kept = max((_overlap(text, stop) for stop in self.stop), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of a text that a stop text may begin with.

    >>> _overlap("one\\n", "\\n\\n"), _overlap("one", "\\n\\n")
    (1, 0)
    """
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
