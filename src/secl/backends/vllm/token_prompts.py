"""The token ids of every request: the same that the model in this process would read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from secl.prompts.templates import (
    Prompt,
    answer_prompt,
    choice_with_confidence,
    confidence_prompt,
    distractor_prompt,
    p_true_prompt,
)
from secl.records import Question


class Prompting:
    """Builds token sequences.

    Args:
        words: of the model's tokenizer (`secl.backends.local.token_ids.TokenIds`).
    """

    def __init__(self, words: Any) -> None:
        self.words = words

    def answer(self, question: Question) -> list[int]:
        """Ids after which an open answer begins."""
        return self._encode(self._render(answer_prompt(question)))

    def letter(self, question: Question) -> list[int]:
        """Ids after which the letter of an option comes."""
        return self._before(self._render(answer_prompt(question)), " A")

    def digit(self, question: Question, text: str) -> list[int]:
        """Ids after which the confidence digit comes: behind an option letter, or behind an open answer."""
        if question.options:
            return self._before(self._render(answer_prompt(question)) + choice_with_confidence(text), "0")
        return self._before(self._render(confidence_prompt(question, text)), "0")

    def written(self, question: Question, text: str, sequence: Sequence[int]) -> range:
        """Places in the `sequence` before the digit that hold the open answer `text`."""
        prompt = self._render(answer_prompt(question))
        start = common(self._encode(prompt), sequence)
        return range(start, max(start, common(self._encode(prompt + text), sequence)))

    def verdict(self, question: Question, candidate: str) -> list[int]:
        """Ids after which True or False comes."""
        return self._before(self._render(p_true_prompt(question, candidate)), "True")

    def listing(self, question: Question) -> list[int]:
        """Ids after which a list of answers begins."""
        return self._encode(self._render(distractor_prompt(question)))

    def _render(self, prompt: Prompt) -> str:
        from secl.backends.local.token_ids import render

        return render(self.words.tokenizer, prompt)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.words.encode(text)
        return ids

    def _before(self, text: str, word: str) -> list[int]:
        ids: list[int] = self.words.before(text, word)
        return ids


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning.

    >>> common([1, 2, 3], [1, 2, 4, 5])
    2
    """
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def distinct_tokens(sequences: Sequence[Sequence[int]]) -> int:
    """Tokens that go through the network where common beginnings are computed once, as a prefix cache does.

    >>> distinct_tokens([[1, 2, 3], [1, 2, 4, 5], [1, 2]])
    5
    """
    ordered = sorted(map(tuple, sequences))
    shared = sum(common(one, other) for one, other in itertools.pairwise(ordered))
    return sum(map(len, ordered)) - shared
