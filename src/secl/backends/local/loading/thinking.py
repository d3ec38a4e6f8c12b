"""While loading a model, secl finds out how the model writes replies with and without a thought.

secl reads answers and digits at the beginning of a reply, so a reply must not begin with the model's own thought. The
switches of chat templates turn thoughts off (`secl.backends.chat_templates.render`). If the template or the model still
opens a thought, secl extends the template by the end of a thought or by an empty thought. Prompts with a thought use
the original template.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import jinja2
import torch

from secl.backends.chat_templates import ThinkingFormat, Tokenizer, render, template_error
from secl.backends.local.loading.guard import quiet
from secl.backends.local.loading.model_parts import compute_device
from secl.errors import ModelError
from secl.prompts.parsing import THINK_TAGS, ThinkTags
from secl.prompts.templates import answer_prompt, request_for
from secl.question import Question
from secl.settings.groups import Thinking

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ASKED = Question("Is water wet?", form="text")
"""Question of the trial that shows how a model begins a reply."""

CHANNEL = "<|channel|>analysis"
"""Text with which gpt-oss opens a thought."""

THOUGHTS_ON = {"enable_thinking": True, "thinking": True}
"""Arguments of chat templates that switch thoughts on."""

FREE_THOUGHT = 4096
"""Maximum number of tokens of a thought if the user sets none."""

EFFORTS = {"low": 512, "medium": 2048}
"""Largest token budgets of thoughts with low and with medium effort, for gpt-oss; larger budgets get high effort."""

FIRST_TOKENS = 8
"""Number of tokens that the model writes in the trial, enough for the longest opening of a thought."""


Begin = Callable[[list[int]], list[int]]
"""Function that returns the first `FIRST_TOKENS` tokens of a model's greedy reply to a prompt."""


def find_thinking_format(name: str, begin: Begin, tokenizer: Tokenizer) -> tuple[Tokenizer, ThinkingFormat]:
    """Return a tokenizer whose chat template makes the model answer at once, and how the model thinks.

    If the model would think, the tokenizer is a copy with a longer template. Otherwise it is `tokenizer` itself.

    Raises:
        ModelError: the template does not work.
    """
    template, vocabulary = tokenizer.get_chat_template(), tokenizer.get_added_vocab()
    known = [each for each in THINK_TAGS if any(_mark(each) in text for text in (template, vocabulary))]
    if not known:
        return tokenizer, ThinkingFormat(tokenizer)  # template and vocabulary have no tags of thoughts
    try:
        prompt = render(tokenizer, answer_prompt(ASKED))
        asked = replace(answer_prompt(ASKED), thought="")
        free = render(tokenizer, asked, ThinkingFormat(tokenizer, switches=THOUGHTS_ON), thinking=True)
    except jinja2.TemplateError as problem:
        raise template_error(name, problem) from problem
    reply = prompt.rpartition(ASKED.text)[2]  # the end of the question's turn, and the beginning of the reply
    thinking_format = _read_format(tokenizer, reply, free.rpartition(ASKED.text)[2], known)
    begun = _beginning(template, reply, known)
    at_once = _prefill_replies(tokenizer, begun) if begun else tokenizer
    thinking = _find_thought(begin, at_once, known)
    if thinking is not None and thinking_format is None:
        thinking_format = _format_of(tokenizer, thinking)
    if thinking is not None and not begun and thinking.closing not in reply:
        at_once = _prefill_replies(tokenizer, thinking.empty)
        thinking = _find_thought(begin, at_once, known)
    if thinking_format is None:
        return at_once, ThinkingFormat(at_once)
    return at_once, replace(thinking_format, always=thinking is not None)


def _read_format(tokenizer: Tokenizer, reply: str, free: str, known: list[ThinkTags]) -> ThinkingFormat | None:
    """Return how a model thinks according to its template; None without any sign of thoughts.

    The template begins replies without a thought with `reply`, and replies with a thought with `free`.
    """
    for tags in known:
        if tags.opening in free.rpartition(tags.closing)[2]:  # the template opens a thought
            return replace(_format_of(tokenizer, tags), opening="")
        # The template has a switch for thoughts, and the model itself opens the thought.
        if tags.closing in reply and tags.closing not in free:
            before, opened, rest = reply.partition(tags.opening)
            before, behind = before.rpartition(free)[2], rest.partition(tags.closing)[2] or "\n"
            thinking_format = _format_of(tokenizer, tags)
            if not opened or tags.opening == CHANNEL:
                return thinking_format
            return replace(
                thinking_format, opening=before + thinking_format.opening, closing=f"\n{tags.closing}{behind}"
            )
        if tags.opening == CHANNEL and _mark(tags) in tokenizer.get_chat_template():
            return _format_of(tokenizer, tags)
    return None


def _format_of(tokenizer: Tokenizer, tags: ThinkTags) -> ThinkingFormat:
    """Return how a model with these tags thinks."""
    opening, closing, mark = f"{tags.opening}\n", f"\n{tags.closing}\n\n", tags.closing
    if tags.opening == CHANNEL:
        opening, closing, mark = f"{CHANNEL}<|message|>", f"<|end|><|start|>assistant{tags.closing}", "<|end|>"
    return ThinkingFormat(tokenizer, opening, closing, mark, request="", switches=THOUGHTS_ON)


def with_budget(name: str, thinking_format: ThinkingFormat, thinking: Thinking) -> ThinkingFormat | None:
    """Return the format with a token budget; None without thoughts.

    The model `name` learns the budget from its template, or from a request.

    Raises:
        ModelError: `thinking` is "off", but the model always thinks.
    """
    if thinking == "off":
        if thinking_format.always:
            raise ModelError(
                f"the model {name!r} thinks before it answers, and neither its chat template nor an empty thought "
                "prevents this; set thinking to auto, or name a model that answers at once, such as an instruct "
                "variant without reasoning."
            )
        return None
    if not isinstance(thinking, int):
        return thinking_format if thinking_format.request else replace(thinking_format, budget=FREE_THOUGHT)
    if thinking_format.request:
        return replace(thinking_format, request=request_for(thinking), budget=thinking, least=thinking)
    effort = next((name for name, most in EFFORTS.items() if thinking <= most), "high")
    told = {"thinking_budget": thinking, "reasoning_effort": effort}
    return replace(thinking_format, switches={**thinking_format.switches, **told}, budget=thinking, least=thinking)


def _mark(thought: ThinkTags) -> str:
    """Return the first special token of a thought's opening."""
    return "<|channel|>" if thought.opening == CHANNEL else thought.opening


def _beginning(template: str, reply: str, known: list[ThinkTags]) -> str:
    """Return the text that the template must add to a reply to skip the thought; "" if no text is needed."""
    for thought in known:
        if thought.opening in reply.rpartition(thought.closing)[2]:  # the template opens a thought
            line_end = "" if reply.endswith("\n") else "\n"
            return f"{line_end}\n{thought.closing}\n\n"
        # The template adds an empty thought to earlier answers only.
        if thought.empty in template and thought.empty not in reply:
            return thought.empty
    return ""


def _prefill_replies(tokenizer: Tokenizer, text: str) -> Tokenizer:
    """Return a copy of the tokenizer whose template begins every reply with `text`."""
    extended = copy.copy(tokenizer)
    addition = "{% if add_generation_prompt %}{{ " + json.dumps(text) + " }}{% endif %}"
    extended.chat_template = tokenizer.get_chat_template().removesuffix("\n") + addition
    return extended


def _find_thought(begin: Begin, tokenizer: Tokenizer, known: list[ThinkTags]) -> ThinkTags | None:
    """Return the tags of the thought with which the model's reply begins; None without a thought."""
    prompt = tokenizer(render(tokenizer, answer_prompt(ASKED)), add_special_tokens=False)["input_ids"]
    reply = tokenizer.decode(begin(prompt)).lstrip()
    return next((each for each in known if reply.startswith(each.opening)), None)


def first_tokens(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    """Return the first tokens of the model's greedy reply to a prompt."""
    begun = torch.tensor([prompt], device=compute_device(model))
    with quiet():
        written = model.generate(
            begun, attention_mask=torch.ones_like(begun), do_sample=False, max_new_tokens=FIRST_TOKENS
        )
    reply: list[int] = written[0, len(prompt) :].tolist()
    return reply
