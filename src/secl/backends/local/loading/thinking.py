"""Models that think aloud before they answer are made to answer at once; this is decided when they are loaded.

An answer is judged, learned from and graded as it stands, and digits are read where a reply begins, so no thought may
stand there. Chat templates are always asked to leave thoughts out (`secl.backends.token_ids.render`). Where a template
opens one all the same, or says nothing and the model opens one, the template is extended: the end of the thought, or an
empty one, is put into the model's mouth.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import jinja2
import torch

from secl.backends.local.loading.guard import quiet
from secl.backends.local.loading.placement import compute_device
from secl.backends.token_ids import Tokenizer, render, template_error
from secl.errors import ModelError
from secl.prompts.parsing import THOUGHTS, Marks
from secl.prompts.templates import answer_prompt
from secl.question import Question

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ASKED = Question("Is water wet?", form="text")
"""What a model is asked, as in a chat, to see how it begins."""

FIRST_TOKENS = 8
"""Enough for the longest mark of a thought, also where a tokenizer cuts it into pieces."""


def answering_at_once(name: str, model: PreTrainedModel, tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer whose chat template has the model answer without a thought.

    Returns:
        the same tokenizer; another one with a longer template for a model that would think.

    Raises:
        ModelError: the model thinks aloud whatever it is given, or its template does not work.
    """
    if not getattr(tokenizer, "chat_template", None):
        return tokenizer  # `TokenIds` refuses it
    template, vocabulary = tokenizer.get_chat_template(), tokenizer.get_added_vocab()
    known = [each for each in THOUGHTS if any(_mark(each) in text for text in (template, vocabulary))]
    if not known:
        return tokenizer  # nearly all models: nothing has to be tried
    try:
        prompt = render(tokenizer, answer_prompt(ASKED))
    except jinja2.TemplateError as problem:
        raise template_error(name, problem) from problem
    reply = prompt.rpartition(ASKED.text)[2]  # the end of the question's turn, and what the reply begins with
    begun = _beginning(template, reply, known)
    if begun:
        tokenizer = _given(tokenizer, begun)
    thinking = _thinks(model, tokenizer, known)
    if thinking is not None and not begun and thinking.closing not in reply:
        tokenizer = _given(tokenizer, thinking.empty)
        thinking = _thinks(model, tokenizer, known)
    if thinking is not None:
        raise ModelError(
            f"the model {name!r} thinks aloud before it answers, and neither its chat template nor an empty thought "
            "keeps it from that; name one that answers at once, such as an instruct variant without reasoning."
        )
    return tokenizer


def _mark(thought: Marks) -> str:
    """The first token of a thought's opening, where it is one of the tokenizer's own."""
    return "<|channel|>" if thought.opening.startswith("<|channel|>") else thought.opening


def _beginning(template: str, reply: str, known: list[Marks]) -> str:
    """What has to stand at the beginning of a reply, as far as the template tells; "" for nothing."""
    for thought in known:
        if thought.opening in reply.rpartition(thought.closing)[2]:  # the template opens a thought and leaves it open
            line_end = "" if reply.endswith("\n") else "\n"
            return f"{line_end}\n{thought.closing}\n\n"
        if thought.empty in template and thought.empty not in reply:  # earlier answers alone have it
            return thought.empty
    return ""


def _given(tokenizer: Tokenizer, text: str) -> Tokenizer:
    """The tokenizer with a template that lets every reply begin with `text`."""
    extended = copy.copy(tokenizer)
    addition = "{% if add_generation_prompt %}{{ " + json.dumps(text) + " }}{% endif %}"
    extended.chat_template = tokenizer.get_chat_template().removesuffix("\n") + addition
    return extended


def _thinks(model: PreTrainedModel, tokenizer: Tokenizer, known: list[Marks]) -> Marks | None:
    """The thought that a reply of the model begins with."""
    prompt = tokenizer(render(tokenizer, answer_prompt(ASKED)), add_special_tokens=False)["input_ids"]
    begun = torch.tensor([prompt], device=compute_device(model))
    with quiet():
        written = model.generate(
            begun, attention_mask=torch.ones_like(begun), do_sample=False, max_new_tokens=FIRST_TOKENS
        )
    reply = tokenizer.decode(written[0, len(prompt) :].tolist()).lstrip()
    return next((each for each in known if reply.startswith(each.opening)), None)
