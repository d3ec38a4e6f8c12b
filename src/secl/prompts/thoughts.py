"""Thoughts that some models write down before they answer: where they begin and end, and the answer without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from secl.writing import Piece, Token


@dataclass(frozen=True, slots=True)
class Thought:
    """The texts before and behind a thought of a family of models.

    Given the text `empty` as its beginning (an empty thought, or what opens the answer), such a model thinks no more.
    """

    opening: str
    closing: str
    empty: str


def _tagged(opening: str, closing: str) -> Thought:
    return Thought(opening, closing, f"{opening}\n\n{closing}\n\n")


THOUGHTS = (
    _tagged("<think>", "</think>"),  # Qwen 3, DeepSeek-R1, SmolLM 3 and most others
    _tagged("[THINK]", "[/THINK]"),  # Magistral and the Ministral that reasons
    _tagged("<seed:think>", "</seed:think>"),
    _tagged("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    Thought("<|channel|>analysis", "<|channel|>final<|message|>", "<|channel|>final<|message|>"),  # gpt-oss
)


def answer_behind(text: str) -> str | None:
    """A text without the thought that it begins with; None as long as only more text can tell.

    >>> answer_behind("Paris"), answer_behind("<think>Let me"), answer_behind("<think>Let me see.</think> Paris")
    ('Paris', None, 'Paris')
    """
    begun = text.lstrip()
    for thought in THOUGHTS:
        if begun.startswith(thought.opening):
            return begun.partition(thought.closing)[2].lstrip() or None
        if thought.opening.startswith(begun):
            return None
    return text


def without_thought(text: str) -> str:
    """A finished text without the thought that it begins with; "" for a thought that never ended."""
    answer = answer_behind(text)
    if answer is not None:
        return answer
    return "" if any(text.lstrip().startswith(thought.opening) for thought in THOUGHTS) else text


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
