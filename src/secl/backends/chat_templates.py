"""Prompts as text, rendered by a model's chat template, and the form of its tool calls, found by such a rendering."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2

from secl.conversation import Message, Prompt, ToolCall
from secl.display import excerpt
from secl.errors import ModelError
from secl.prompts.parsing import THINK_TAGS
from secl.prompts.templates import REQUESTED_TOKENS, THOUGHT_END, request_for

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Tokenizer: TypeAlias = "PreTrainedTokenizerBase"

NO_THOUGHTS: dict[str, object] = {"enable_thinking": False, "thinking": False, "thinking_budget": 0}
"""Arguments of chat templates that switch thoughts off. A template ignores arguments that it does not know."""
_DAY = date(2024, 7, 26)
_TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_ANY_TEXT = "\ud800"
"""Half of a surrogate pair, which no user's text contains. secl renders this text and looks for its place."""

SHORT = 24
"""Number of characters below which a text may stand in a prompt by chance."""

TemplateMessage = dict[str, Any]
"""A message in the form of chat templates."""

Chat = Callable[[list[TemplateMessage]], str]
"""Renders a conversation with the beginning of the model's next turn."""

_TEXTS = {"system": "the system text", "user": "the user's text", "assistant": "the reply", "tool": "a tool's result"}


def no_template(name: str) -> ModelError:
    """Return the error for a model without a chat template."""
    return ModelError(
        f"the model {name!r} has no chat template, so it cannot be asked questions; use its instruction-tuned variant, "
        'or the plain template for base models: --chat-template plain (in Python chat_template="plain").'
    )


PLAIN_TEMPLATE = (
    "{% for turn in messages %}"
    "{% if turn.role in ('system', 'assistant') %}{{ turn.content + '\\n\\n' }}"
    "{% elif (loop.first or loop.previtem.role == 'system') and 'Question: ' not in turn.content"
    " and turn.content[:1] != '\\n' %}{{ 'Question: ' + turn.content + '\\nAnswer:\\n' }}"
    "{% else %}{{ turn.content + '\\n' }}{% endif %}"
    "{% endfor %}"
)
"""The chat template for base models: the texts of a prompt without marks of roles.

secl's prompts begin with "Question:" and end with a prefill such as "Answer:". A user's bare text gets both marks. A
prompt that begins with a line break has no question (`secl.prompts.templates.candidate_prompt`).
"""

PLAIN_STOPS = ("\nQuestion:",)
"""Texts that end a base model's reply, because a base model goes on with the next question."""

PLAIN_PARAGRAPH = "\n\n"
"""Text that ends a base model's free text."""


def with_plain_template(tokenizer: Tokenizer) -> Tokenizer:
    """Return a copy of a tokenizer with `PLAIN_TEMPLATE`, after the token with which the tokenizer begins a text."""
    plain = copy.copy(tokenizer)
    first = tokenizer("", add_special_tokens=True)["input_ids"][:1]
    begins = bool(first) and first == [tokenizer.bos_token_id]
    plain.chat_template = ("{{ bos_token }}" if begins else "") + PLAIN_TEMPLATE
    return plain


def is_plain(tokenizer: object) -> bool:
    """Return whether the tokenizer's chat template is `PLAIN_TEMPLATE`, possibly with an addition."""
    return PLAIN_TEMPLATE in (getattr(tokenizer, "chat_template", None) or "")


def template_error(name: str, problem: jinja2.TemplateError) -> ModelError:
    """Return the error for a model whose chat template does not work."""
    return ModelError(f"the chat template of the model {name!r} does not work: {problem}.")


@dataclass(frozen=True, slots=True)
class ThinkingFormat:
    """How a model thinks before it answers.

    Attributes:
        tokenizer: tokenizer whose chat template allows thoughts.
        opening: beginning of a reply before the thought; "" if the template or the request opens the thought.
        closing: text that secl writes between the thought and the answer.
        mark: text with which the model ends a thought.
        request: sentence that asks for a thought; "" for a model that was trained to think.
        budget: maximum number of tokens of a thought.
        least: minimum number of tokens to leave for a thought.
        always: whether the model thinks even if the prompt switches thoughts off.
        switches: arguments of the template that control thoughts.
    """

    tokenizer: Tokenizer
    opening: str = ""
    closing: str = "\n\n"
    mark: str = THOUGHT_END
    request: str = request_for("auto")
    budget: int = REQUESTED_TOKENS
    least: int = 1
    always: bool = False
    switches: Mapping[str, object] = field(default_factory=NO_THOUGHTS.copy)


def render(
    tokenizer: Tokenizer, prompt: Prompt, thinking_format: ThinkingFormat | None = None, *, thinking: bool = False
) -> str:
    """Return a prompt as text in the model's chat format; with `thinking`, the text ends where a thought begins."""
    turns = template_messages(prompt.history)
    turns += [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(prompt.turns)]
    tools = [*map(json.loads, prompt.tools)] or None
    chat = partial(render_turns, tokenizer, tools=tools)
    begun = None
    if prompt.thought is not None and thinking_format is not None:
        free = partial(render_turns, thinking_format.tokenizer, tools=tools, switches=thinking_format.switches)
        begun = (
            _render_conversation(free, turns[: len(turns) - len(prompt.turns) + 1], prompt.system)
            + thinking_format.opening
        )
        if thinking:
            return begun
        begun += prompt.thought + thinking_format.closing
    if len(prompt.turns) > 1:
        text = _render_conversation(chat, turns, prompt.system)
        text = _restore_beginning(chat, text, turns[:-2], prompt.system, begun)
    else:
        text = begun or _render_conversation(chat, turns, prompt.system)
    return text + prompt.prefill


def template_messages(history: Sequence[Message]) -> list[TemplateMessage]:
    """Return messages in the form of chat templates.

    Calls get new ids of nine letters and digits, which Mistral's template requires.
    """
    written: list[TemplateMessage] = []
    waiting: dict[str, str] = {}
    number = 0
    for turn in history:
        message: TemplateMessage = {"role": turn.role, "content": turn.text}
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


def _restore_beginning(chat: Chat, text: str, earlier: list[TemplateMessage], system: str, thought: str | None) -> str:
    """Return the conversation `text`, in which the text before the answer equals the prompt that the model answered.

    A template that switches thoughts off begins a reply with an empty thought, but drops this thought from earlier
    turns; secl puts the thought back. If secl does not find the start of the answer, `text` stays unchanged.

    Args:
        earlier: the turns before the answer.
        thought: rendered text before the answer, up to the end of the thought; None without a thought.
    """
    begun = thought or _render_conversation(chat, earlier, system)
    if text.startswith(begun):
        return text
    later = _render_conversation(chat, [*earlier, {"role": "assistant", "content": _ANY_TEXT}, *earlier[-1:]], system)
    before = later.partition(_ANY_TEXT)[0]
    fits = text.startswith(before) and (thought is not None or begun.startswith(before))
    return begun + text[len(before) :] if fits else text


def _render_conversation(chat: Chat, turns: list[TemplateMessage], system: str) -> str:
    """Return a rendered conversation; if the template has no system role, the first user turn begins with `system`."""
    if not system:
        return _render_all(chat, turns)
    with suppress(jinja2.TemplateError):
        if _ANY_TEXT in chat([{"role": "system", "content": _ANY_TEXT}, *turns]):
            return _render_all(chat, turns, {"role": "system", "content": system})
    first = next(i for i, turn in enumerate(turns) if turn["role"] == "user")
    question = {**turns[first], "content": f"{system}\n\n{turns[first]['content']}"}
    return _render_all(chat, [*turns[:first], question, *turns[first + 1 :]])


def _render_all(chat: Chat, turns: list[TemplateMessage], *system: TemplateMessage) -> str:
    """Return a rendered conversation that has all texts: those of `turns` in order, and the system text anywhere.

    Raises:
        jinja2.TemplateRuntimeError: the template leaves out or changes a text.
    """
    text = chat([*system, *turns])
    lost = _find_lost(text, system) or _find_lost(text, turns)
    # A short text may also stand elsewhere in the prompt, so secl looks for other texts in its place.
    marked = [
        {**turn, "content": f"{_ANY_TEXT}{number}"} if 0 < len(turn["content"]) < SHORT else turn
        for number, turn in enumerate(turns)
    ]
    if lost is None and marked != turns:
        lost = _find_lost(chat([*system, *marked]), marked, turns)
    if lost is not None:
        raise jinja2.TemplateRuntimeError(f"it leaves out or changes {lost}")
    return text


def _find_lost(text: str, turns: Sequence[TemplateMessage], named: Sequence[TemplateMessage] = ()) -> str | None:
    """Return in words what a rendered conversation lacks: a turn's text or a call; None if it has all in order.

    `named` are the turns for the words, by default `turns`.
    """
    place = 0
    for number, turn in enumerate(turns):
        ends = [at + len(form) for form in _forms(turn) if (at := text.find(form, place)) >= 0]
        if not ends:
            return f"{_TEXTS[turn['role']]} {excerpt(repr((named or turns)[number]['content']), 60)}"
        place = ends[0]
        for call in (each["function"] for each in turn.get("tool_calls", ())):
            texts = (call["name"], *(value for value in call["arguments"].values() if isinstance(value, str)))
            if any(each.strip() not in text and _in_json(each) not in text for each in texts):
                return f"a call of the tool {call['name']!r}"
    return None


def _forms(turn: TemplateMessage) -> list[str]:
    """Return the texts of a turn of which a prompt needs one.

    Templates trim texts, cut thoughts out of the model's turns, and write results of tools as JSON.
    """
    content = turn["content"].strip()
    if turn["role"] == "assistant":
        return [content, *(content.rpartition(tags.closing)[2].strip() for tags in THINK_TAGS)]
    return [content, _in_json(content)] if turn["role"] == "tool" else [content]


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def render_turns(
    tokenizer: Tokenizer,
    turns: list[TemplateMessage],
    *,
    tools: list[Any] | None = None,
    go_on: bool = True,
    switches: Mapping[str, object] = NO_THOUGHTS,
) -> str:
    """Return a conversation in the model's chat format; with `go_on`, the text also opens the model's next turn."""
    with _as_template_error():
        template = _fix_date(tokenizer.get_chat_template(tools=tools))
    given = _split_parts(turns, _roles_with_parts(tokenizer, template))
    return _apply(tokenizer, given, template, {"tools": tools, "add_generation_prompt": go_on, **switches})


def _apply(tokenizer: Tokenizer, turns: list[TemplateMessage], template: str, options: Mapping[str, object]) -> str:
    day = _DAY.strftime("%d %b %Y")
    with _as_template_error():
        options = {"chat_template": template, "tokenize": False, "date_string": day, **options}
        return str(tokenizer.apply_chat_template(turns, **options))


@contextmanager
def _as_template_error() -> Iterator[None]:
    """Turn every error of a template into jinja's, with a message on one line."""
    try:
        yield
    except Exception as problem:
        raise jinja2.TemplateRuntimeError(" ".join(str(problem).split()).rstrip(".!")) from problem


def _split_parts(turns: list[TemplateMessage], roles: Sequence[str]) -> list[TemplateMessage]:
    """Return turns with the texts of some roles as lists of parts."""
    parts = (
        [{"type": "text", "text": turn["content"]}] if turn["role"] in roles else turn["content"] for turn in turns
    )
    return [{**turn, "content": content} for turn, content in zip(turns, parts, strict=True)]


@lru_cache(maxsize=8)
def _roles_with_parts(tokenizer: Tokenizer, template: str) -> tuple[str, ...]:
    """Return the roles whose texts a chat template needs as lists of parts, because it loses or rejects plain texts."""
    turns = [{"role": ("user", "assistant")[n % 2], "content": f"{_ANY_TEXT}{n}"} for n in range(3)]
    for trial in (turns, turns[:1]):
        for roles in ((), tuple(_TEXTS), ("user",), ("assistant",)):
            with suppress(jinja2.TemplateError):
                if _find_lost(_apply(tokenizer, _split_parts(trial, roles), template, NO_THOUGHTS), trial) is None:
                    return roles
    return ()


@lru_cache(maxsize=8)
def _fix_date(template: str) -> str:
    """Return a template with a fixed date in place of today's, so that records do not depend on the day.

    secl cannot replace the clock that transformers gives to templates.
    """
    return _TODAY.sub(lambda match: json.dumps(_DAY.strftime(match[2])), template)


_NAMES, _KEY, _VALUE, _ASKED = ("secl_first", "secl_second"), "secl_key", "secl value", "What is the weather?"
_ABOUT, _ABOUT_KEY = "A tool.", "A key."
_ARGUMENTS = rf'\{{\s*"{_KEY}"\s*:\s*"{_VALUE}"\s*\}}'
_ID = re.compile(r',\s*"(?:id|call_id)"\s*:\s*"call\d{5}"')
"""Id of a call in a rendered conversation (`template_messages` makes the ids). A model need not write an id."""

_DESCRIBED = (
    "You may call tools. The tools, each as JSON:\n{tools}\n\nTo call a tool, reply with nothing but a JSON object of "
    'the form {{"name": "<name of the tool>", "arguments": {{...}}}}. Write several calls on a line each. If no tool '
    "is needed, reply to the user."
)


@dataclass(frozen=True, slots=True)
class CallForm:
    """The texts around the names and arguments of calls.

    Attributes:
        opening: text before the first tool's name.
        middle: text between a name and its arguments (a JSON object).
        closing: text after the last arguments.
        between: text between arguments and the next tool's name; None if a turn can have only one call.
        text: opening of a reply without a call, if calls open differently (as in gpt-oss); else "". The prompt ends
            before this text.
        native: whether the chat template writes the tools into the prompt; if not, the system text describes them.
    """

    opening: str
    middle: str
    closing: str
    between: str | None
    text: str = ""
    native: bool = True

    @classmethod
    def of(cls, tokenizer: Tokenizer, ends: Collection[str]) -> CallForm:
        """Return the form of a chat template's calls, or `DESCRIBED` if the template does not write arguments as JSON.

        `ends` are the texts of the tokens that end a reply.
        """
        if is_plain(tokenizer):
            return replace(DESCRIBED, native=True)  # so that `TokenIds.render` sees the tools, and refuses them
        with suppress(jinja2.TemplateError, TypeError):
            return _find_form(tokenizer, ends) or DESCRIBED
        return DESCRIBED

    def prompt(self, prompt: Prompt) -> Prompt:
        """Return a prompt for the chat template, with tools in the system text unless the form is native."""
        if self.native or not (prompt.tools or prompt.history):
            return prompt
        system = _DESCRIBED.format(tools="\n".join(prompt.tools)) if prompt.tools else ""
        system = "\n\n".join(part for part in (prompt.system, system) if part)
        return replace(prompt, system=system, tools=(), history=_merge([*map(self._plain, prompt.history)]))

    def _plain(self, turn: Message) -> Message:
        """Return a turn with calls and results of tools as text."""
        if turn.role == "tool":
            return Message("user", f"Result of the call: {turn.text}")
        calls = "\n".join(
            f"{self.opening}{call.name}{self.middle}{call.arguments}{self.closing}" for call in turn.calls
        )
        return Message(turn.role, "\n".join(part for part in (turn.text, calls) if part))


DESCRIBED = CallForm('{"name": "', '", "arguments": ', "}", '}\n{"name": "', native=False)
"""The form for models whose chat template has no tools, or writes arguments in another form than JSON."""


def _merge(turns: Sequence[Message]) -> tuple[Message, ...]:
    """Join neighbouring turns of one role, which some templates reject."""
    merged: list[Message] = []
    for turn in turns:
        alike = bool(merged) and merged[-1].role == turn.role
        merged.append(Message(turn.role, f"{merged.pop().text}\n{turn.text}") if alike else turn)
    return tuple(merged)


def _find_form(tokenizer: Tokenizer, ends: Collection[str]) -> CallForm | None:
    parameters = {"type": "object", "properties": {_KEY: {"type": "string", "description": _ABOUT_KEY}}}
    tools = [
        {"type": "function", "function": {"name": name, "description": _ABOUT, "parameters": parameters}}
        for name in _NAMES
    ]
    chat = partial(render_turns, tokenizer, tools=tools)
    calls = [ToolCall(name, json.dumps({_KEY: _VALUE})) for name in _NAMES]
    asked = Message("user", _ASKED)

    def reply(count: int) -> str:
        turns = template_messages([asked, Message("assistant", "", tuple(calls[:count]))])
        return chat(turns, go_on=False).rpartition(_ASKED)[2]

    prompt = chat(template_messages([asked]))
    begun, text = prompt.rpartition(_ASKED)[2], ""
    one = reply(1)
    if not one.startswith(begun):  # the prompt ends with an empty thought, but the rendered call has none
        thought = next((each for each in THINK_TAGS if begun.endswith(each.empty)), None)
        if thought is None or not one.startswith(before := begun.removesuffix(thought.empty)):
            return None
        # The empty thought of gpt-oss, which is its closing mark, opens answers but not calls, so it becomes
        # `CallForm.text`. Other models write calls after the empty thought.
        text = thought.empty if thought.empty == thought.closing else ""
        begun = before
    found = re.fullmatch(f"(.*?){_NAMES[0]}(.*?){_ARGUMENTS}(.*)", one[len(begun) :], re.DOTALL)
    described = all(each in prompt for each in (*_NAMES, _KEY, _ABOUT, _ABOUT_KEY))
    if not described or found is None or not found[1].strip():
        return None
    opening, middle, rest = found.groups()
    closing = min((rest.partition(end)[0] for end in ends), key=len, default=rest)
    between = None
    with suppress(jinja2.TemplateError):
        first = re.escape(f"{opening}{_NAMES[0]}{middle}") + _ARGUMENTS
        second = re.match(f"{first}(.*?){_NAMES[1]}{re.escape(middle)}{_ARGUMENTS}", reply(2)[len(begun) :], re.DOTALL)
        between = second and _ID.sub("", second[1])
    return CallForm(opening, middle, _ID.sub("", closing), between, text)
