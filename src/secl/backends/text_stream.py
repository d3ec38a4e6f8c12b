"""Texts that are written token by token, as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secl.backends.generation import CONTEXT, Draft, TextRules, decode_behind
from secl.prompts.parsing import answer_behind, without_thought
from secl.writing import Finish, Piece, Token, Writing

HALF = "\ufffd"
"""A decoder's text for the first bytes of a character."""


class FreeText:
    """One text as it is written: its tokens go in, its pieces come out and never have to be taken back.

    Text that may become a stop text or a part of a character waits for the next token.

    Attributes:
        ended: whether its last piece is out.
        draft: the tokens so far; the last piece holds it.
    """

    def __init__(self, rules: TextRules, prompt: Sequence[int], writing: Writing, number: int) -> None:
        self.rules, self.writing, self.number = rules, writing, number
        self.ended = False
        self.draft = Draft([*prompt], "text", writing.max_tokens or 1, free=True)
        self._context = list(prompt[-CONTEXT:])
        self._new: list[int] = []
        self._held = ""

    def push(self, token: int, reported: tuple[Token, ...] = ()) -> Piece:
        """Add a token with its log-probabilities."""
        self.draft.written.append(token)
        if token in self.rules.end_ids:
            return self.end("stop")
        self._new.append(token)
        new = decode_behind(self.rules.tokenizer, self._context, self._new)
        text = ""
        if not new.endswith(HALF):
            self._context, self._new = [*self._context, *self._new][-CONTEXT:], []
            text = self._held + new
            ends = [text.find(stop) for stop in self.writing.stop if stop in text]
            if ends:
                self._held = ""
                return self.end("stop", text[: min(ends)], reported)
            held = max((_overlap(text, stop) for stop in self.writing.stop), default=0)
            text, self._held = text[: len(text) - held], text[len(text) - held :]
        if len(self.draft.written) == self.writing.max_tokens:
            return self.end("length", text, reported)
        return Piece(choice=self.number, text=text, tokens=reported)

    def end(self, finish: Finish, text: str = "", reported: tuple[Token, ...] = ()) -> Piece:
        """Return the last piece, with what was held back."""
        self.ended = True
        rest = decode_behind(self.rules.tokenizer, self._context, self._new) if self._new else ""
        return Piece(
            choice=self.number,
            text=text + self._held + rest,
            tokens=reported,
            finish=finish,
            prompt_tokens=len(self.draft.prompt),
            completion_tokens=len(self.draft.written),
            draft=self.draft,
        )

    def word(self, token: int) -> str:
        """Return the text of a token."""
        return self.rules.tokenizer.decode([token])


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of a text that a stop text may begin with.

    >>> _overlap("one\\n", "\\n\\n"), _overlap("one", "\\n\\n")
    (1, 0)
    """
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


def answers_alone(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces of texts without the thoughts that the texts begin with; nothing is kept back longer than needed.

    The pieces stay as many as they were, and tokens are counted with those of the thought, because they were written.
    """
    unfinished: dict[int, tuple[str, tuple[Token, ...]]] = {}
    answering: set[int] = set()
    for piece in pieces:
        if piece.choice in answering:
            yield piece
            continue
        before, tokens = unfinished.get(piece.choice, ("", ()))
        text, tokens = before + piece.text, tokens + piece.tokens
        answer = answer_behind(text)
        if answer is None and piece.finish is None:
            unfinished[piece.choice] = text, tokens
            yield replace(piece, text="", tokens=())
            continue
        answering.add(piece.choice)
        answer = without_thought(text) if answer is None else answer
        # Whether a token at the border belongs to the thought or to the answer, its text does not say.
        yield replace(piece, text=answer, tokens=tokens if answer == text else ())
