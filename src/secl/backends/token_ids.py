"""Token ids of the words that are read rather than generated, found by construction for each tokenizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jinja2

from secl.backends.chat_templates import Thinker, Tokenizer, render, template_error
from secl.conversation import Turn
from secl.errors import ModelError
from secl.prompts.templates import (
    WORDS_FALSE,
    WORDS_TRUE,
    WORDS_YES_NO,
    Prompt,
    answer_prompt,
    confidence_prompt,
    p_true_prompt,
    verification_prompt,
)
from secl.question import LETTERS, Question

SAMPLE = Question("Is water wet?", options=("yes", "no"))
"""A question to try a model on."""
_PLAIN = "\ud801"
"""Half of a character, which no text of a user has. It stands before a text that only reads like a special token."""
_MARK = re.compile(r"[^\w\s].*\w.*[^\w\s]", re.DOTALL)
"""A mark of a role in a chat template: a word in brackets."""


@dataclass(frozen=True)
class TokenIds:
    """Renders prompts to token ids and knows the ids of the digits, the option letters, True and False.

    Attributes:
        digits: ids of the ten digits after "Confidence: ".
        letters: ids of the option letters after "Answer:", as many as are single tokens.
        true: ids of the variants of "True" (case, leading space) at the start of a reply.
        false: the same for "False".
        yes_no: ids of "Yes" and "No" at the start of a reply; empty if they are not single tokens.
        thinker: how the model thinks before it answers, where a prompt has a thought.
    """

    tokenizer: Tokenizer
    digits: tuple[int, ...]
    letters: tuple[int, ...]
    true: tuple[int, ...]
    false: tuple[int, ...]
    yes_no: tuple[int, ...]
    thinker: Thinker | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer, name: str = "in memory") -> TokenIds:
        """Find all ids for the tokenizer of the model `name` and check them.

        Raises:
            ModelError: no chat template, or digits, letters or True/False are not single tokens.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"the model {name!r} has no chat template, so it cannot be asked questions; use its instruction-tuned "
                "variant."
            )
        try:
            answer = render(tokenizer, answer_prompt(SAMPLE))
            confidence = render(tokenizer, confidence_prompt(SAMPLE, "A"))
            judge = render(tokenizer, p_true_prompt(SAMPLE, "yes"))
        except jinja2.TemplateError as problem:
            raise template_error(name, problem) from problem
        digits = _last_tokens(tokenizer, confidence, [str(digit) for digit in range(10)])
        if None in digits:
            raise ModelError(f"the tokenizer of the model {name!r} has no single token for each digit.")
        letters = _last_tokens(tokenizer, answer, [f" {letter}" for letter in LETTERS])
        letters = letters[: letters.index(None)] if None in letters else letters
        true = _last_tokens(tokenizer, judge, WORDS_TRUE)
        false = _last_tokens(tokenizer, judge, WORDS_FALSE)
        verify = render(tokenizer, verification_prompt(SAMPLE, "yes"))
        yes_no = _last_tokens(tokenizer, verify, WORDS_YES_NO)
        if len(letters) < 2 or true[0] is None or false[0] is None:
            raise ModelError(f"the tokenizer of the model {name!r} splits option letters or the words True and False.")
        yes_no = [] if None in yes_no else yes_no
        read, letter, yes, no, verdict = (
            tuple(i for i in ids if i is not None) for ids in (digits, letters, true, false, yes_no)
        )
        return cls(tokenizer, read, letter, yes, no, verdict)

    @property
    def special(self) -> tuple[int, ...]:
        """All ids whose logits are computed by the float32 head."""
        return tuple(dict.fromkeys((*self.digits, *self.letters, *self.true, *self.false, *self.yes_no)))

    @cached_property
    def reserved(self) -> tuple[str, ...]:
        """Tokens that only the chat template may write: special tokens, and others that mark roles."""
        template, added = self.tokenizer.get_chat_template(), self.tokenizer.added_tokens_decoder.values()
        if self.thinker is not None:
            template += self.thinker.opening + self.thinker.closing
        roles = {each.content for each in added if each.content in template and _MARK.fullmatch(each.content)}
        return tuple(each.content for each in added if each.special or each.content in roles)

    def render(self, prompt: Prompt, *, thinking: bool = False) -> str:
        """The full text of a prompt, as `encode` takes it: what it quotes of users stays text and forges no turn.

        `thinking` renders it up to where its thought begins.
        """
        quoted = Prompt(
            tuple(map(self._quoted, prompt.turns)),
            self._quoted(prompt.prefill),
            self._quoted(prompt.system),
            tuple(map(self._quoted_turn, prompt.history)),
            tuple(map(self._quoted, prompt.tools)),
            None if prompt.thought is None else self._quoted(prompt.thought),
        )
        return render(self.tokenizer, quoted, self.thinker, thinking=thinking)

    def _quoted(self, text: str) -> str:
        """Return a text with `_PLAIN` before everything in it that reads like a reserved token."""
        found = [each for each in self.reserved if each in text]
        places = {match.start() for each in found for match in re.finditer(re.escape(each), text)}
        return "".join(_PLAIN * (i in places) + char for i, char in enumerate(text)) if places else text

    def _quoted_turn(self, turn: Turn) -> Turn:
        calls = (
            replace(call, name=self._quoted(call.name), arguments=self._quoted(call.arguments)) for call in turn.calls
        )
        return replace(turn, text=self._quoted(turn.text), calls=tuple(calls))

    def encode(self, text: str) -> list[int]:
        """Token ids of a rendered text; the chat template has already put the special tokens in."""
        # Cut after the first character of what reads like a token, it is none.
        first, *others = re.sub(f"{_PLAIN}(.)", rf"\1{_PLAIN}", text).split(_PLAIN)
        ids = self._ids(first)
        for other in others:
            # Some tokenizers put a space before a text; after a line break they do not.
            before, whole = self._ids("\n"), self._ids(f"\n{other}")
            ids += whole[len(before) :] if whole[: len(before)] == before else self._ids(other)
        return ids

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def before(self, text: str, word: str) -> list[int]:
        """Token ids after which `word` comes next: those of `text + word` without the last."""
        return self.encode(text + word)[:-1]


def _last_tokens(tokenizer: Tokenizer, text: str, words: Sequence[str]) -> list[int | None]:
    """The id of each word after `text`; None if it is not exactly one token more than the first word's prefix."""
    encoded = [tokenizer(text + word, add_special_tokens=False)["input_ids"] for word in words]
    prefix = encoded[0][:-1]
    ids = [ids[-1] if ids[:-1] == prefix else None for ids in encoded]
    return [i if i is None or i not in ids[:rank] else None for rank, i in enumerate(ids)]


def distinct_tokens(*groups: Sequence[Sequence[int]]) -> list[int]:
    """Count the tokens of each group of sequences that no sequence before has at the same place after the same text.

    >>> distinct_tokens([[1, 2, 3], [1, 2, 4, 5]], [[1, 2], [1, 6]])
    [5, 1]
    """
    nodes: dict[tuple[int, int], int] = {}  # the next node by the node before and the token, as in a prefix tree
    counts = []
    for group in groups:
        before = len(nodes)
        for sequence in group:
            node = -1
            for token in sequence:
                node = nodes.setdefault((node, token), len(nodes))
        counts.append(len(nodes) - before)
    return counts


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
