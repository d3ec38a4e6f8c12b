"""Models that would think before they answer: secl switches thoughts off, adds an empty thought, or refuses."""

import copy
from typing import Any

import pytest

from secl.backends.chat_templates import render
from secl.backends.local.loading.loader import wrap
from secl.backends.local.loading.thinking import ASKED
from secl.backends.token_ids import TokenIds
from secl.conversation import Message
from secl.errors import ModelError
from secl.prompts.templates import answer_prompt
from secl.question import FORMS, Question
from secl.writing import SamplingParameters, joined
from tests.backends.local.architectures import ARCHITECTURES, tokenizer_with
from tests.backends.local.conftest import tiny_with
from tests.tiny import TEMPLATE, tiny_model

pytestmark = pytest.mark.heavy

NAMES = ("ChatML", *sorted({each.template for each in ARCHITECTURES} - {"ChatML"}))
SHAPES = pytest.mark.parametrize("template", NAMES)
BEGUN = {"gpt-oss": "<|start|>assistant<|channel|>final<|message|>", "DeepSeek-R1": "<think>\n\n</think>\n\n"}


def thinking_tokenizer(template: str = TEMPLATE + "\n") -> Any:
    tokenizer = copy.deepcopy(tokenizer_with("Qwen 3"))
    tokenizer.chat_template = template
    return tokenizer


@SHAPES
def test_nothing_stands_before_an_answer_but_a_closed_thought(template: str, brief: None) -> None:
    tokenizer = tokenizer_with(template)
    before = tokenizer.chat_template
    loaded = wrap(template, tiny_model(vocab_size=len(tokenizer)), tokenizer)
    assert tokenizer.chat_template == before
    assert (loaded.fingerprint != "in memory") is (loaded.tokenizer.chat_template != before)
    for form in FORMS:
        question = Question("Why?", form=form, options=("a", "b") if form == "choice" else ())
        text = render(loaded.tokenizer, answer_prompt(question))
        assert text.count("<think>") == text.count("</think>")
        assert "<think>" not in text or text.partition("<think>")[2].startswith("\n\n</think>\n\n")
        assert BEGUN.get(template, "") in text
    TokenIds.of(loaded.tokenizer)


@SHAPES
@pytest.mark.parametrize("system", ["", "Be brief."])
def test_an_answer_is_read_behind_what_it_was_written_behind(template: str, system: str, brief: None) -> None:
    model = tiny_with(template)
    history = (Message("user", "Who was first?"), Message("assistant", "Romulus."))
    for form in ("short", "sentence", "number", "text"):
        question = Question("And after him?", form=form, system=system, history=history)
        answer = model.prompting.answer(question)
        bundle = model.prompting.bundle_answer(question, " Numa Pompilius" if form == "short" else "Numa Pompilius")
        (sequence,) = bundle.answers
        # Tokens may span the border of the answer. The positions still cover the whole answer.
        assert bundle.positions[0][1] >= len(answer) - 1
        assert len(bundle.positions) > 5
        text = model.backend.token_ids.tokenizer.decode(sequence)
        assert text.index("Romulus.") < text.index("Numa Pompilius") < text.index("How confident")


def test_a_model_that_opens_a_thought_by_itself_is_given_an_empty_one(brief: None) -> None:
    model = tiny_with(thinking_tokenizer(), {"assistant\n": "<think>\nOkay", "</think>\n\n": "Yes, it is."})
    text = render(model.backend.token_ids.tokenizer, answer_prompt(ASKED))
    assert text.endswith("<|start|>assistant\n<think>\n\n</think>\n\n")
    reply = model.answer(Question("Is water wet?", form="sentence")).reply
    assert reply.answer.startswith("Yes, it is.")
    (written,) = joined(model.write(ASKED, SamplingParameters(max_tokens=8)))
    assert written.text.startswith("Yes, it is.")


def test_a_model_that_thinks_whatever_it_is_given_is_refused_in_one_sentence(brief: None) -> None:
    for template in (TEMPLATE, tokenizer_with("DeepSeek-R1").chat_template):
        stubborn = {"assistant\n": "<think>\nOkay", "\n\n": "<think>\nOkay"}
        with pytest.raises(ModelError, match=r"^the model 'tiny' thinks before it answers.*\.$"):
            tiny_with(thinking_tokenizer(template), stubborn)


def test_a_thought_that_comes_all_the_same_is_neither_graded_nor_shown(brief: None) -> None:
    says = {"Why?<|end|>\n<|start|>assistant\n": "<think>\nOkay</think>\n\nBecause."}
    model = tiny_with(thinking_tokenizer(), says)
    (written,) = joined(model.write(Question("Why?", form="text"), SamplingParameters(max_tokens=20)))
    assert written.text.startswith("Because.")
