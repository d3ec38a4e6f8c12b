"""Texts that secl streams token by token while the model writes them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from secl.backends.generation import CONTEXT, Draft, TextRules, decode_behind
from secl.prompts.parsing import THOUGHTS, Marks
from secl.writing import Finish, Piece, Token, Writing

HALF = "\ufffd"
"""A decoder's text for an incomplete character."""


class FreeText:
    """Turns the tokens of one text into pieces. A later token never changes an earlier piece.

    Text that may become a stop text waits for the next token. So does part of a character. Tokens in `ends` also end
    the text.

    Attributes:
        ended: whether the last piece has been returned.
        draft: the tokens so far. The last piece holds this draft.
    """

    def __init__(
        self, rules: TextRules, prompt: Sequence[int], writing: Writing, number: int, ends: Sequence[int] = ()
    ) -> None:
        self.rules, self.writing, self.number = rules, writing, number
        self.ended = False
        self.draft = Draft([*prompt], "text", writing.max_tokens or 1, ends=(*ends,), free=True)
        self._context = list(prompt[-CONTEXT:])
        self._new: list[int] = []
        self._held = ""

    def push(self, token: int, reported: tuple[Token, ...] = ()) -> Piece:
        """Add a token with its log-probabilities."""
        self.draft.written.append(token)
        if token in self.rules.end_ids or token in self.draft.ends:
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
        """Return the last piece, with the text that was held back."""
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
    """Return the number of characters at the end of a text that begin a stop text.

    >>> _overlap("one\\n", "\\n\\n"), _overlap("one", "\\n\\n")
    (1, 0)
    """
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


def thoughts_apart(pieces: Iterable[Piece], *, unopened: bool = False) -> Generator[Piece, None, None]:
    """Yield the pieces of texts, with the thought at the beginning of a text moved from `text` to `thought`.

    The number of pieces does not change. No text is held back longer than needed. Token counts include the thought,
    because the model wrote its tokens.

    Args:
        unopened: whether a thought may begin without a mark. If so, each text is held back up to the end of its
            thought.
    """
    beginnings: dict[int, _Beginning] = {}
    for piece in pieces:
        begun = beginnings.setdefault(piece.choice, _Beginning(unopened))
        yield piece if begun.over else begun.push(piece)


@dataclass
class _Beginning:
    """State machine for the beginning of a text: undecided, then inside a thought, then `over`.

    Attributes:
        held: text that is held back.
        tokens: tokens of the text so far.
        marks: marks around the thought; None while undecided.
        closed: whether the closing mark has appeared.
    """

    unopened: bool
    held: str = ""
    tokens: tuple[Token, ...] = ()
    marks: Marks | None = None
    closed: bool = False
    over: bool = False

    def push(self, piece: Piece) -> Piece:
        """Return a piece with the thought separated from the text."""
        # A token across the border belongs to thought and answer, so its log-probability is dropped.
        self.tokens = () if self.marks and not self.closed else self.tokens + piece.tokens
        self.held += piece.text
        ended, thought = piece.finish is not None, piece.thought
        if self.marks is None:
            self._open()
        if self.marks is None:
            waits = self.unopened or any(each.opening.startswith(self.held.lstrip()) for each in THOUGHTS)
            self.over = ended or not waits
        elif not self.closed:
            text, closing, rest = self.held.partition(self.marks.closing)
            kept = 0 if closing or ended else _overlap(text, self.marks.closing)
            thought = (thought or "") + text[: len(text) - kept]
            self.held, self.closed = rest if closing else text[len(text) - kept :], bool(closing)
        if self.closed:
            self.held = self.held.lstrip()
            self.over = bool(self.held)
            self.tokens = self.tokens if self.over else ()
        if not self.over and not ended:
            return replace(piece, text="", tokens=(), thought=thought)
        return replace(piece, text=self.held, tokens=self.tokens, thought=thought)

    def _open(self) -> None:
        begun = self.held.lstrip()
        for each in THOUGHTS:
            if begun.startswith(each.opening) or (self.unopened and each.closing in begun):
                self.marks, self.held, self.tokens = each, begun.removeprefix(each.opening), ()
                return
