"""Text from tokens, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secl.backends.generation import CONTEXT, TextRules, decode_behind
from secl.writing import Finish, Piece, Token, Writing

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
        return decode_behind(self.tokenizer, self._context, self._new)

    def _release(self, text: str) -> str:
        ends = [text.find(stop) for stop in self.stop if stop in text]
        if ends:
            self.stopped, self._held = True, ""
            return text[: min(ends)]
        kept = max((_overlap(text, stop) for stop in self.stop), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


class FreeText:
    """One text as it is written: its tokens go in, its pieces come out.

    Args:
        rules: tell the tokens that end a text.
        prompt: ids that it continues.
        writing: how it is written; `max_tokens` is given.
        number: of the text.

    Attributes:
        ended: whether its last piece is out.
        written: tokens so far.
    """

    def __init__(self, rules: TextRules, prompt: Sequence[int], writing: Writing, number: int) -> None:
        self.rules, self.writing, self.number = rules, writing, number
        self.ended = False
        self.written = 0
        self._prompt = len(prompt)
        self._stream = TextStream(rules.tokenizer, prompt, writing.stop)

    def push(self, token: int, reported: tuple[Token, ...] = ()) -> Piece:
        """Add a token, with what is reported of it."""
        self.written += 1
        if token in self.rules.end_ids:
            return self.end("stop")
        text = self._stream.push(token)
        if self._stream.stopped or self.written == self.writing.max_tokens:
            return self.end("stop" if self._stream.stopped else "length", text, reported)
        return Piece(choice=self.number, text=text, tokens=reported)

    def end(self, finish: Finish, text: str = "", reported: tuple[Token, ...] = ()) -> Piece:
        """The last piece."""
        self.ended = True
        return Piece(
            choice=self.number,
            text=text + self._stream.close(),
            tokens=reported,
            finish=finish,
            prompt_tokens=self._prompt,
            completion_tokens=self.written,
        )

    def word(self, token: int) -> str:
        """What a token stands for."""
        return str(self.rules.tokenizer.decode([token]))


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of a text that a stop text may begin with.

    >>> _overlap("one\\n", "\\n\\n"), _overlap("one", "\\n\\n")
    (1, 0)
    """
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
