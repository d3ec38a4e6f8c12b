"""Prompts as token ids, and the ids of words whose probabilities are read: digits, letters, True, False, Yes, No."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import jinja2

from secl.backends.chat_templates import (
    DESCRIBED,
    ThinkingFormat,
    Tokenizer,
    is_plain,
    no_template,
    render,
    template_error,
)
from secl.conversation import Message, Prompt
from secl.errors import ModelError, QuestionError
from secl.prompts.templates import (
    WORDS_FALSE,
    WORDS_TRUE,
    WORDS_YES_NO,
    answer_prompt,
    confidence_prompt,
    p_true_prompt,
    verification_prompt,
)
from secl.question import LETTERS, Question

SAMPLE = Question("Is water wet?", options=("yes", "no"))
"""A question for trials of a model."""
_PLAIN, _INSIDE = "\ud801", "\ud802"
"""Halves of surrogate pairs, which no user's text contains.

secl puts one before, or behind the first character of, a part of a user's text that only looks like a special token."""
_MARK = re.compile(r"[^\w\s].*\w.*[^\w\s]", re.DOTALL)
"""A role mark of a chat template: a word between punctuation marks, such as "<|user|>" or "[INST]"."""


@dataclass(frozen=True)
class TokenIds:
    """Renders prompts to token ids, and holds the ids of words whose probabilities are read.

    Attributes:
        digits: the ten digits after "Confidence: ".
        letters: option letters after "Answer:", up to the first letter that is not a single token.
        true, false: spellings of "True" and "False" (case, leading space) at the start of a reply.
        yes_no: "Yes" and "No" at the start of a reply; empty if either word is not a single token.
        thinking_format: how the model thinks, for prompts with a thought; None for a model without thoughts.
    """

    tokenizer: Tokenizer
    digits: tuple[int, ...]
    letters: tuple[int, ...]
    true: tuple[int, ...]
    false: tuple[int, ...]
    yes_no: tuple[int, ...]
    thinking_format: ThinkingFormat | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer, name: str = "in memory") -> TokenIds:
        """Find the ids for the tokenizer of the model `name`.

        Raises:
            ModelError: no working chat template; or a digit, A, B, True or False is not a single token.
        """
        answer = sample_text(tokenizer, name)
        confidence = sample_text(tokenizer, name, confidence_prompt(SAMPLE, "A"))
        judge = sample_text(tokenizer, name, p_true_prompt(SAMPLE, "yes"))
        digits = _last_tokens(tokenizer, confidence, [str(digit) for digit in range(10)])
        if None in digits:
            raise ModelError(f"the tokenizer of the model {name!r} splits digits, so secl cannot read its confidences.")
        letters = _last_tokens(tokenizer, answer, [f" {letter}" for letter in LETTERS])
        letters = letters[: [*letters, None].index(None)]
        # Read together, because a split "True" has a first part that "False" lacks.
        verdicts = _last_tokens(tokenizer, judge, (*WORDS_TRUE, *WORDS_FALSE))
        true, false = verdicts[: len(WORDS_TRUE)], verdicts[len(WORDS_TRUE) :]
        verify = sample_text(tokenizer, name, verification_prompt(SAMPLE, "yes"))
        yes_no = _last_tokens(tokenizer, verify, WORDS_YES_NO)
        if len(letters) < 2 or true[0] is None or false[0] is None:
            split = "splits option letters or the words True and False, so secl cannot read their probabilities"
            raise ModelError(f"the tokenizer of the model {name!r} {split}.")
        yes_no = [] if None in yes_no else yes_no
        read, letter, yes, no, verdict = (
            tuple(i for i in ids if i is not None) for ids in (digits, letters, true, false, yes_no)
        )
        return cls(tokenizer, read, letter, yes, no, verdict)

    @property
    def special(self) -> tuple[int, ...]:
        """Ids of digits, letters, True, False, Yes and No. A local model computes their logits in float32."""
        return tuple(dict.fromkeys((*self.digits, *self.letters, *self.true, *self.false, *self.yes_no)))

    @cached_property
    def plain(self) -> bool:
        """Whether prompts are plain texts for a base model."""
        return is_plain(self.tokenizer)

    @cached_property
    def reserved(self) -> tuple[str, ...]:
        """Tokens that only the chat template may write: special tokens and role marks."""
        template, added = self.tokenizer.get_chat_template(), self.tokenizer.added_tokens_decoder.values()
        if self.thinking_format is not None:
            template += self.thinking_format.opening + self.thinking_format.closing
        roles = {each.content for each in added if each.content in template and _MARK.fullmatch(each.content)}
        return tuple(each.content for each in added if each.special or each.content in roles)

    def render(self, prompt: Prompt, *, thinking: bool = False) -> str:
        """Return the text of a prompt for `encode`, in which users' texts cannot forge a turn of the conversation.

        With `thinking`, the text ends where the thought begins. If the chat template does not write the calls in the
        conversation's history, calls and results become texts.

        Raises:
            QuestionError: the chat template rejects the conversation, or leaves out or changes one of its texts; or
                a conversation for the plain template, which has no turns and no tools.
        """
        if self.plain and (prompt.history or prompt.tools):
            what = "tools" if prompt.tools else "earlier turns"
            raise QuestionError(
                f"the request has {what}, but the model's plain template has none; take a chat model, or ask a single "
                "question."
            )
        try:
            with suppress(jinja2.TemplateError):
                return render(self.tokenizer, self._quoted_prompt(prompt, 0), self.thinking_format, thinking=thinking)
            # A template may cut texts before a mark such as "</think>", which a mark inside of it prevents.
            return render(
                self.tokenizer,
                DESCRIBED.prompt(self._quoted_prompt(prompt, 1)),
                self.thinking_format,
                thinking=thinking,
            )
        except jinja2.TemplateError as problem:
            raise QuestionError(f"the model's chat template does not accept this conversation: {problem}.") from problem

    def _quoted_prompt(self, prompt: Prompt, depth: int) -> Prompt:
        """Return a prompt with a mark `depth` characters behind the start of every part like a reserved token."""

        def quoted(text: str) -> str:
            found = [each for each in self.reserved if each in text]
            places = {match.start() + depth for each in found for match in re.finditer(re.escape(each), text)}
            mark = (_PLAIN, _INSIDE)[depth]
            return "".join(mark * (i in places) + char for i, char in enumerate(text)) if places else text

        def quoted_turn(turn: Message) -> Message:
            calls = (replace(call, name=quoted(call.name), arguments=quoted(call.arguments)) for call in turn.calls)
            return replace(turn, text=quoted(turn.text), calls=tuple(calls))

        return Prompt(
            tuple(map(quoted, prompt.turns)),
            quoted(prompt.prefill),
            quoted(prompt.system),
            tuple(map(quoted_turn, prompt.history)),
            tuple(map(quoted, prompt.tools)),
            None if prompt.thought is None else quoted(prompt.thought),
        )

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a rendered text, which contains all special tokens already."""
        # The tokenizer would encode a user's "<|im_end|>" as a special token. So secl splits this text after its first
        # character, and encodes both parts separately.
        first, *others = re.sub(f"{_PLAIN}(.)", rf"\1{_INSIDE}", text).split(_INSIDE)
        ids = self._ids(first)
        for other in others:
            # Some tokenizers add a space at the start of a text, but none after a line break. So secl encodes a line
            # break with the text, and drops the ids of the line break.
            before, whole = self._ids("\n"), self._ids(f"\n{other}")
            ids += whole[len(before) :] if whole[: len(before)] == before else self._ids(other)
        return ids

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def encode_before(self, text: str, word: str) -> list[int]:
        """Return the token ids after which `word` comes next: the ids of `text + word` without the last id."""
        return self.encode(text + word)[:-1]


def sample_text(tokenizer: Tokenizer, name: str, prompt: Prompt | None = None) -> str:
    """Return a rendered prompt about `SAMPLE`, by default for its answer.

    Raises:
        ModelError: the model `name` has no chat template, or a template that does not work.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise no_template(name)
    try:
        return render(tokenizer, prompt or answer_prompt(SAMPLE))
    except jinja2.TemplateError as problem:
        raise template_error(name, problem) from problem


def _last_tokens(tokenizer: Tokenizer, text: str, words: Sequence[str]) -> list[int | None]:
    """Return the id of each word after `text`.

    None for a word that takes several tokens, changes the tokens of `text`, or repeats an earlier id.
    """
    encoded = [tokenizer(text + word, add_special_tokens=False)["input_ids"] for word in words]
    prefix = encoded[0][:-1]
    ids = [ids[-1] if ids[:-1] == prefix else None for ids in encoded]
    return [i if i is None or i not in ids[:rank] else None for rank, i in enumerate(ids)]


def distinct_tokens(*groups: Sequence[Sequence[int]]) -> list[int]:
    """Count the new tokens of each group of sequences; a prefix that an earlier sequence shares is not new.

    >>> distinct_tokens([[1, 2, 3], [1, 2, 4, 5]], [[1, 2], [1, 6]])
    [5, 1]
    """
    nodes: dict[tuple[int, int], int] = {}  # a prefix tree: maps a node and a token to the next node
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
    """Return the length of the common beginning of two sequences.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
