"""Models that would think before they answer: switched off, given an empty thought, or refused."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from secl.backends.chat_templates import render
from secl.backends.local.loading.loader import wrap
from secl.backends.local.loading.thinking import ASKED
from secl.backends.local.model import LocalModel
from secl.backends.token_ids import TokenIds
from secl.conversation import Turn
from secl.errors import ModelError
from secl.prompts.templates import answer_prompt
from secl.question import FORMS, Question
from secl.writing import Writing, Written
from tests.backends.local.architectures import ARCHITECTURES, tokenizer_with
from tests.backends.local.conftest import tiny_local
from tests.tiny import TEMPLATE, tiny_model

pytestmark = pytest.mark.heavy

NAMES = ("ChatML", *sorted({each.template for each in ARCHITECTURES} - {"ChatML"}))
SHAPES = pytest.mark.parametrize("template", NAMES)


class Habit:
    """A tiny Llama with a habit: behind some texts it says certain tokens, whatever its weights are.

    Args:
        tokenizer: of the model.
        says: for the end of a text, what comes then; the first that fits counts.
    """

    def __init__(self, tokenizer: Any, says: Mapping[str, str]) -> None:
        self.tokenizer = tokenizer
        self.says = says
        self.model = tiny_model(vocab_size=len(tokenizer))
        self.model.register_forward_pre_hook(self._listen, with_kwargs=True)
        self.model.register_forward_hook(self._speak)
        self._text: list[int] = []

    def _listen(self, _model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        ids = kwargs["input_ids"][0].tolist()
        past = kwargs.get("past_key_values")
        self._text = [*self._text, *ids] if past is not None and past.get_seq_length() else ids

    def _speak(self, _model: Any, _args: Any, out: Any) -> None:
        text = self.tokenizer.decode(self._text, skip_special_tokens=False)
        for end, said in self.says.items():
            for done in range(len(said) + 1):
                if text.endswith(end + said[:done]) and done < len(said):
                    token = self.tokenizer(said[done:], add_special_tokens=False)["input_ids"][0]
                    out.logits[:, -1, :] = -50.0
                    out.logits[:, -1, token] = 50.0
                    return


def thinking_tokenizer(template: str = TEMPLATE + "\n") -> Any:
    tokenizer = copy.deepcopy(tokenizer_with("Qwen 3"))
    tokenizer.chat_template = template
    return tokenizer


def with_habit(tokenizer: Any, says: Mapping[str, str]) -> LocalModel:
    loaded = wrap("thinker", Habit(tokenizer, says).model, tokenizer)
    model = tiny_local(loaded)
    model.backend.passes.shared = None  # so that the model itself writes every token, and hears itself
    return model


@SHAPES
def test_nothing_stands_before_an_answer_but_a_closed_thought(template: str, brief: None) -> None:
    tokenizer = tokenizer_with(template)
    loaded = wrap(template, tiny_model(vocab_size=len(tokenizer)), tokenizer)
    for form in FORMS:
        question = Question("Why?", form=form, options=("a", "b") if form == "choice" else ())
        text = render(loaded.tokenizer, answer_prompt(question))
        assert text.count("<think>") == text.count("</think>")
        assert "<think>" not in text or text.partition("<think>")[2].startswith("\n\n</think>\n\n")
        if template == "gpt-oss":
            assert "<|start|>assistant<|channel|>final<|message|>" in text
    TokenIds.of(loaded.tokenizer)


@SHAPES
@pytest.mark.parametrize("system", ["", "Be brief."])
def test_an_answer_is_read_behind_what_it_was_written_behind(template: str, system: str, brief: None) -> None:
    tokenizer = tokenizer_with(template)
    model = tiny_local(wrap(template, tiny_model(vocab_size=len(tokenizer)), tokenizer))
    history = (Turn("user", "Who was first?"), Turn("assistant", "Romulus."))
    for form in ("short", "sentence", "number", "text"):
        question = Question("And after him?", form=form, system=system, history=history)
        answer = model.prompting.answer(question)
        bundle = model.prompting.written(question, " Numa Pompilius" if form == "short" else "Numa Pompilius")
        (sequence,) = bundle.answers
        # The tokens at the border may be cut in another way; what is read is the whole answer all the same.
        assert bundle.positions[0][1] >= len(answer) - 1
        assert len(bundle.positions) > 5
        text = model.backend.token_ids.tokenizer.decode(sequence)
        assert text.index("Romulus.") < text.index("Numa Pompilius") < text.index("How confident")


def test_a_thought_that_the_template_opens_is_closed(brief: None) -> None:
    tokenizer = tokenizer_with("DeepSeek-R1")
    before = tokenizer.chat_template
    loaded = wrap("r1", tiny_model(vocab_size=len(tokenizer)), tokenizer)
    assert tokenizer.chat_template == before
    assert loaded.fingerprint != "in memory"
    text = render(loaded.tokenizer, answer_prompt(ASKED))
    assert text.endswith("<|assistant|><think>\n\n</think>\n\n")


def test_a_model_that_opens_a_thought_by_itself_is_given_an_empty_one(brief: None) -> None:
    tokenizer = thinking_tokenizer()
    model = with_habit(tokenizer, {"assistant\n": "<think>\nOkay", "</think>\n\n": "Yes, it is."})
    text = render(model.backend.token_ids.tokenizer, answer_prompt(ASKED))
    assert text.endswith("<|start|>assistant\n<think>\n\n</think>\n\n")
    reply = model.answer(Question("Is water wet?", form="sentence")).reply
    assert reply.answer is not None
    assert reply.answer.startswith("Yes, it is.")
    (written,) = Written.of(model.write(ASKED, Writing(max_tokens=8)))
    assert written.text.startswith("Yes, it is.")


def test_a_model_that_thinks_whatever_it_is_given_is_refused_in_one_sentence(brief: None) -> None:
    for template in (TEMPLATE, tokenizer_with("DeepSeek-R1").chat_template):
        tokenizer = thinking_tokenizer(template)
        stubborn = {"assistant\n": "<think>\nOkay", "\n\n": "<think>\nOkay"}
        with pytest.raises(ModelError, match=r"^the model 'thinker' thinks aloud before it answers.*\.$"):
            with_habit(tokenizer, stubborn)


def test_a_thought_that_comes_all_the_same_is_neither_graded_nor_shown(brief: None) -> None:
    says = {"Why?<|end|>\n<|start|>assistant\n": "<think>\nOkay</think>\n\nBecause."}
    model = with_habit(thinking_tokenizer(), says)
    (written,) = Written.of(model.write(Question("Why?", form="text"), Writing(max_tokens=20)))
    assert written.text.startswith("Because.")
