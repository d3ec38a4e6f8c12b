"""Token ids of the words that are read rather than generated, found by construction for each tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

import jinja2

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
    request_for,
    verification_prompt,
)
from secl.question import LETTERS, Question

SAMPLE = Question("Is water wet?", options=("yes", "no"))
"""A question to try a model on."""
_DAY = date(2024, 7, 26)
NO_THOUGHTS: dict[str, object] = {"enable_thinking": False, "thinking": False, "thinking_budget": 0}
"""Names of a template's switch for thoughts; a template without a switch ignores them."""
_TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_ANY_TEXT, _PLAIN = "\ud800", "\ud801"
"""Halves of characters, which no text of a user has: a text that is found again in a conversation, and what stands
before a text that is no special token, though it reads like one."""
_MARK = re.compile(r"[^\w\s].*\w.*[^\w\s]", re.DOTALL)
"""A mark of a role in a chat template: a word in brackets."""


Message = dict[str, Any]
"""A turn as chat templates have it."""

Chat = Callable[[list[Message]], str]
"""Renders a conversation up to where the model goes on."""


class Decoder(Protocol):
    """The half of a tokenizer that makes text of tokens."""

    @property
    def eos_token_id(self) -> int | None: ...

    def decode(self, tokens: Sequence[int], /, *, skip_special_tokens: bool = False) -> str: ...


class Tokenizer(Decoder, Protocol):
    """The part of a transformers tokenizer that secl uses."""

    chat_template: str | None

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]: ...

    def __len__(self) -> int: ...

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, list[int]]: ...

    def get_added_vocab(self) -> Mapping[str, int]: ...

    def get_chat_template(self, chat_template: str | None = None, tools: Any = None) -> str: ...

    def apply_chat_template(self, conversation: list[Message], **options: object) -> str: ...


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


def template_error(name: str, problem: jinja2.TemplateError) -> ModelError:
    """Return the error for a model whose chat template does not work."""
    return ModelError(f"the chat template of the model {name!r} does not work: {problem}.")


@dataclass(frozen=True, slots=True)
class Thinker:
    """How a model thinks before it answers.

    Attributes:
        tokenizer: whose chat template leaves the model free to think.
        opening: what a reply begins with before the thought; "" if the template or the request opens it.
        closing: what ends a thought.
        mark: what the model itself ends a thought with.
        request: sentence that asks for a thought; "" for a model that was trained to think.
        budget: most tokens of a thought.
        least: tokens of a thought that there must be room for.
        always: whether the model thinks whatever it is given.
        switches: what the template is told.
    """

    tokenizer: Tokenizer
    opening: str = ""
    closing: str = "\n\n"
    mark: str = "Answer:"
    request: str = request_for("auto")
    budget: int = 256
    least: int = 1
    always: bool = False
    switches: Mapping[str, object] = field(default_factory=NO_THOUGHTS.copy)


def render(tokenizer: Tokenizer, prompt: Prompt, thinker: Thinker | None = None, *, thinking: bool = False) -> str:
    """Return the full text of a prompt in the model's chat format, up to where the model goes on.

    `thinking` renders it up to where its thought begins.
    """
    turns = messages(prompt.history)
    turns += [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(prompt.turns)]
    tools = [*map(json.loads, prompt.tools)] or None
    chat = partial(render_turns, tokenizer, tools=tools)
    begun = None
    if prompt.thought is not None and thinker is not None:
        free = partial(render_turns, thinker.tokenizer, tools=tools, switches=thinker.switches)
        begun = _conversation(free, turns[: len(turns) - len(prompt.turns) + 1], prompt.system) + thinker.opening
        if thinking:
            return begun
        begun += prompt.thought + thinker.closing
    if len(prompt.turns) > 1:
        text = _conversation(chat, turns, prompt.system)
        text = _as_answered(chat, text, turns[:-2], prompt.system, begun)
    else:
        text = begun or _conversation(chat, turns, prompt.system)
    return text + prompt.prefill


def messages(history: Sequence[Turn]) -> list[Message]:
    """Turns as chat templates have them; Mistral's wants ids of calls with nine letters and digits."""
    written: list[Message] = []
    waiting: dict[str, str] = {}
    number = 0
    for turn in history:
        message: Message = {"role": turn.role, "content": turn.text}
        if turn.calls:
            message["tool_calls"] = []
        for call in turn.calls:
            number += 1
            name = waiting[call.id or str(number)] = f"call{number:05}"
            called = {"name": call.name, "arguments": json.loads(call.arguments)}
            message["tool_calls"].append({"id": name, "type": "function", "function": called})
        if turn.role == "tool":
            first = next(iter(waiting), "")
            message["tool_call_id"] = waiting.pop(turn.answers if turn.answers in waiting else first, "call00000")
        written.append(message)
    return written


def _conversation(chat: Chat, turns: list[Message], system: str) -> str:
    return _with_system(chat, turns, system) if system else chat(turns)


def _as_answered(chat: Chat, text: str, earlier: list[Message], system: str, thought: str | None = None) -> str:
    """Return a conversation in which the model's answer stands after what it was written behind.

    A template that switches thinking off begins a reply with an empty thought, and leaves that out where the reply has
    become an earlier turn. An answer is read with the very tokens before it that it was written with, which are those
    up to the end of a `thought` where there is one.
    """
    begun = thought or _conversation(chat, earlier, system)
    if text.startswith(begun):
        return text
    later = _conversation(chat, [*earlier, {"role": "assistant", "content": _ANY_TEXT}, *earlier[-1:]], system)
    before = later.partition(_ANY_TEXT)[0]
    fits = text.startswith(before) and (thought is not None or begun.startswith(before))
    return begun + text[len(before) :] if fits else text


def _with_system(chat: Chat, turns: list[Message], system: str) -> str:
    """A conversation with a system text: in the role of the system, or before the question if there is no such role."""
    with suppress(jinja2.TemplateError):
        if _ANY_TEXT in chat([{"role": "system", "content": _ANY_TEXT}, *turns]):
            return chat([{"role": "system", "content": system}, *turns])
    first = next(i for i, turn in enumerate(turns) if turn["role"] == "user")
    question = {**turns[first], "content": f"{system}\n\n{turns[first]['content']}"}
    return chat([*turns[:first], question, *turns[first + 1 :]])


def render_turns(
    tokenizer: Tokenizer,
    turns: list[Message],
    *,
    tools: list[Any] | None = None,
    go_on: bool = True,
    switches: Mapping[str, object] = NO_THOUGHTS,
) -> str:
    """A conversation in the model's chat format, with `switches` for thoughts; with `go_on` up to where the model goes
    on."""
    return tokenizer.apply_chat_template(
        turns,
        tools=tools,
        chat_template=_dated(tokenizer.get_chat_template(tools=tools)),
        tokenize=False,
        add_generation_prompt=go_on,
        **switches,
        date_string=_DAY.strftime("%d %b %Y"),
    )


@lru_cache(maxsize=8)
def _dated(template: str) -> str:
    """Return a template with a fixed date where it puts in today's, so that records are the same from day to day.

    transformers gives templates a clock that cannot be replaced.
    """
    return _TODAY.sub(lambda match: json.dumps(_DAY.strftime(match[2])), template)


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
