"""How a model is made to answer at once, and how it thinks before it answers: both are decided when it is loaded.

An answer is judged, learned from and graded as it stands, and digits are read where a reply begins, so no thought of
the model's own may stand there. Chat templates are asked to leave thoughts out (`secl.backends.chat_templates.render`).
If a template opens one all the same, or says nothing and the model opens one, the template is extended: the end of the
thought, or an empty one, is put into the model's mouth. A prompt with a thought takes the template as it was.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import jinja2
import torch

from secl.backends.chat_templates import Thinker, Tokenizer, render, template_error
from secl.backends.local.loading.guard import quiet
from secl.backends.local.loading.placement import compute_device
from secl.errors import ModelError
from secl.prompts.parsing import THOUGHTS, Marks
from secl.prompts.templates import answer_prompt, request_for
from secl.question import Question
from secl.settings.groups import Thinking

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ASKED = Question("Is water wet?", form="text")
"""Conversation of the trial that shows how a model begins a reply."""

CHANNEL = "<|channel|>analysis"
"""How gpt-oss opens a thought."""

THOUGHTS_ON = {"enable_thinking": True, "thinking": True}
"""What templates call their switch for thoughts."""

FREE_THOUGHT = 4096
"""Most tokens of a thought that is as long as the model likes."""

EFFORTS = {"low": 512, "medium": 2048}
"""Most tokens of a thought for which gpt-oss is asked for little, or for medium effort."""

FIRST_TOKENS = 8
"""Enough for the longest mark of a thought, also where a tokenizer cuts it into pieces."""


def thinker_of(name: str, model: PreTrainedModel, tokenizer: Tokenizer) -> tuple[Tokenizer, Thinker]:
    """Return a tokenizer whose chat template has the model answer without a thought, and how the model thinks.

    The tokenizer is the same one unless the model would think: then it is another one with a longer template.

    Raises:
        ModelError: the template does not work.
    """
    if not getattr(tokenizer, "chat_template", None):
        return tokenizer, Thinker(tokenizer)  # `TokenIds` refuses it
    template, vocabulary = tokenizer.get_chat_template(), tokenizer.get_added_vocab()
    known = [each for each in THOUGHTS if any(_mark(each) in text for text in (template, vocabulary))]
    if not known:
        return tokenizer, Thinker(tokenizer)  # nearly all models: nothing has to be tried
    try:
        prompt = render(tokenizer, answer_prompt(ASKED))
        asked = replace(answer_prompt(ASKED), thought="")
        free = render(tokenizer, asked, Thinker(tokenizer, switches=THOUGHTS_ON), thinking=True)
    except jinja2.TemplateError as problem:
        raise template_error(name, problem) from problem
    reply = prompt.rpartition(ASKED.text)[2]  # the end of the question's turn, and what the reply begins with
    thinker = _thinker(tokenizer, reply, free.rpartition(ASKED.text)[2], known)
    begun = _beginning(template, reply, known)
    at_once = _given(tokenizer, begun) if begun else tokenizer
    thinking = _thinks(model, at_once, known)
    if thinking is not None and thinker is None:
        thinker = _marked(tokenizer, thinking)
    if thinking is not None and not begun and thinking.closing not in reply:
        at_once = _given(tokenizer, thinking.empty)
        thinking = _thinks(model, at_once, known)
    if thinker is None:
        return at_once, Thinker(at_once)
    return at_once, replace(thinker, always=thinking is not None)


def _thinker(tokenizer: Tokenizer, reply: str, free: str, known: list[Marks]) -> Thinker | None:
    """How a model thinks, by the beginnings of its reply with thoughts switched off and on; None if it does not."""
    for marks in known:
        if marks.opening in free.rpartition(marks.closing)[2]:  # the template opens a thought
            return replace(_marked(tokenizer, marks), opening="")
        if marks.closing in reply and marks.closing not in free:  # it has a switch, and the model opens the thought
            before, opened, rest = reply.partition(marks.opening)
            before, behind = before.rpartition(free)[2], rest.partition(marks.closing)[2] or "\n"
            thinker = _marked(tokenizer, marks)
            if not opened or marks.opening == CHANNEL:
                return thinker
            return replace(thinker, opening=before + thinker.opening, closing=f"\n{marks.closing}{behind}")
        if marks.opening == CHANNEL and _mark(marks) in tokenizer.get_chat_template():
            return _marked(tokenizer, marks)
    return None


def _marked(tokenizer: Tokenizer, marks: Marks) -> Thinker:
    """How a model with these marks thinks."""
    opening, closing, mark = f"{marks.opening}\n", f"\n{marks.closing}\n\n", marks.closing
    if marks.opening == CHANNEL:
        opening, closing, mark = f"{CHANNEL}<|message|>", f"<|end|><|start|>assistant{marks.closing}", "<|end|>"
    return Thinker(tokenizer, opening, closing, mark, request="", switches=THOUGHTS_ON)


def with_budget(thinker: Thinker, thinking: Thinking) -> Thinker:
    """Return the same thinker with a budget: what its template or the request says of it, and the most tokens."""
    if not isinstance(thinking, int):
        return thinker if thinker.request else replace(thinker, budget=FREE_THOUGHT)
    if thinker.request:
        return replace(thinker, request=request_for(thinking), budget=thinking, least=thinking)
    effort = next((name for name, most in EFFORTS.items() if thinking <= most), "high")
    told = {"thinking_budget": thinking, "reasoning_effort": effort}
    return replace(thinker, switches={**thinker.switches, **told}, budget=thinking, least=thinking)


def check_at_once(name: str, thinker: Thinker) -> None:
    """Check that a model can answer at once.

    Raises:
        ModelError: it thinks whatever it is given.
    """
    if thinker.always:
        raise ModelError(
            f"the model {name!r} thinks aloud before it answers, and neither its chat template nor an empty thought "
            "keeps it from that; let it think with prompts.thinking=auto, or name a model that answers at once, such "
            "as an instruct variant without reasoning."
        )


def _mark(thought: Marks) -> str:
    """Return the first token of a thought's opening, where it is one of the tokenizer's own."""
    return "<|channel|>" if thought.opening == CHANNEL else thought.opening


def _beginning(template: str, reply: str, known: list[Marks]) -> str:
    """Return the beginning of a reply that the template demands; "" for none."""
    for thought in known:
        if thought.opening in reply.rpartition(thought.closing)[2]:  # the template opens a thought and leaves it open
            line_end = "" if reply.endswith("\n") else "\n"
            return f"{line_end}\n{thought.closing}\n\n"
        if thought.empty in template and thought.empty not in reply:  # earlier answers alone have it
            return thought.empty
    return ""


def _given(tokenizer: Tokenizer, text: str) -> Tokenizer:
    """Return the tokenizer with a template that lets every reply begin with `text`."""
    extended = copy.copy(tokenizer)
    addition = "{% if add_generation_prompt %}{{ " + json.dumps(text) + " }}{% endif %}"
    extended.chat_template = tokenizer.get_chat_template().removesuffix("\n") + addition
    return extended


def _thinks(model: PreTrainedModel, tokenizer: Tokenizer, known: list[Marks]) -> Marks | None:
    """Return the thought that a reply of the model begins with."""
    prompt = tokenizer(render(tokenizer, answer_prompt(ASKED)), add_special_tokens=False)["input_ids"]
    begun = torch.tensor([prompt], device=compute_device(model))
    with quiet():
        written = model.generate(
            begun, attention_mask=torch.ones_like(begun), do_sample=False, max_new_tokens=FIRST_TOKENS
        )
    reply = tokenizer.decode(written[0, len(prompt) :].tolist()).lstrip()
    return next((each for each in known if reply.startswith(each.opening)), None)
