"""The whole loop on tiny random models of the four families, and the words and numbers that it reads."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import torch

from secl.backends.chat_templates import render
from secl.backends.token_ids import TokenIds
from secl.calibrator import Calibrator
from secl.errors import ModelError, ParameterError, QuestionError
from secl.gates import Always
from secl.prompts.templates import CONFIDENCE, answer_prompt, confidence_prompt
from secl.question import Question
from secl.settings.groups import LoopSettings
from tests.backends.local.alone import log_p
from tests.backends.local.conftest import MakeModel
from tests.tiny import tiny_tokenizer

pytestmark = pytest.mark.heavy


def run(model: Any, questions: list[Question], **settings: Any) -> list[Any]:
    usual = {"method": "secl", "gate": Always(), "loop": LoopSettings(bin_gate=None)}
    return list(Calibrator(model, **{**usual, **settings}).run(questions))


def test_more_options_than_letters_are_refused_by_name(make_model: MakeModel) -> None:
    model = make_model()
    count = len(model.backend.token_ids.letters) + 1
    with pytest.raises(QuestionError, match="'many' has"):
        model.answer(Question("Which?", options=tuple(f"option {i}" for i in range(count)), id="many"))


@pytest.mark.parametrize("form", ["short", "sentence", "number"])
def test_a_confidence_alongside_an_open_answer_comes_from_the_same_reply(form: Any, make_model: MakeModel) -> None:
    model = make_model(paper=True)
    question = Question("Which river is longest?", form=form)
    for version in range(2):
        reply = model.answer(question).reply
        item = model._latest
        answer = item.by(version)
        text = render(model.backend.token_ids.tokenizer, confidence_prompt(question, answer.text, alongside=True))
        assert list(answer.reading.bundle.answers[0]) == model.backend.token_ids.before(text, "0")
        with model.adapter.on() if version else contextlib.nullcontext():
            after = log_p(model.backend.model, answer.reading.bundle.answers[0])[-1]
        bins = after[list(model.backend.token_ids.digits)].softmax(-1)
        assert reply.bins == pytest.approx(bins.tolist(), abs=1e-5)
        model.learn(question, reply, 0.1)


def test_the_papers_hyperparameters_of_a_lesson_and_its_evidence_can_be_set(make_model: MakeModel) -> None:
    question = Question("Who wrote Hamlet?")
    loop = LoopSettings(bin_gate=None, samples=3)
    model = make_model(epochs=2, lora_alpha=4, distractors=2)
    (record,) = run(model, [question], loop=loop, evidence=("samples",))
    evidence, update = record.evidence, record.update
    assert evidence.p_true is not None
    assert len(evidence.p_true.candidates) <= 1 + 2
    assert (len(evidence.samples), len(update.losses)) == (3, 2)
    assert model.asker.list_of_answers(question).lines == 1 + 2
    assert model.adapter_config["lora_alpha"] == 4
    (usual,) = run(make_model(epochs=2, distractors=2), [question], loop=loop)
    assert usual.update.losses[0] == update.losses[0]
    assert usual.update.losses[1] != update.losses[1]


def test_nonsense_settings_are_refused(make_model: MakeModel) -> None:
    for name, value in (("rank", 0), ("lora_alpha", 0), ("epochs", 0), ("beta", -1.0), ("learning_rate", 0.0)):
        with pytest.raises(ParameterError):
            make_model(**{name: value})
    with pytest.raises(ModelError, match="LoRA"):
        make_model(modules=["no_such_module"])


NO_ROLE = (
    "{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
)
DEAF = NO_ROLE.replace("{{ raise_exception('System role not supported') }}", "{% continue %}")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (None, "<|start|>system\nBe brief.<|end|>\n<|start|>user\nQuestion: Why?\n"),
        (NO_ROLE, "<|start|>user\nBe brief.\n\nQuestion: Why?\n"),
        (DEAF, "<|start|>user\nBe brief.\n\nQuestion: Why?\n"),
    ],
    ids=["role", "no role", "ignored"],
)
def test_a_system_text_has_the_role_of_the_system_or_stands_before_the_question(
    template: str | None, text: str
) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.chat_template = template or tokenizer.chat_template
    assert render(tokenizer, answer_prompt(Question("Why?", system="Be brief."))).startswith(text)
    assert "system" not in render(tokenizer, answer_prompt(Question("Why?")))


@pytest.mark.parametrize("asked", ["Translate this: hello", "\ue000 \ue001"])
def test_a_system_text_that_stands_in_the_question_too_is_kept(asked: str) -> None:
    for template in (NO_ROLE, DEAF):
        tokenizer = copy.deepcopy(tiny_tokenizer())
        tokenizer.chat_template = template
        system = asked.split()[0]
        text = render(tokenizer, answer_prompt(Question(asked, form="text", system=system)))
        assert text.startswith(f"<|start|>user\n{system}\n\n{asked}<|end|>")


def test_digits_letters_and_verdicts_are_found_by_construction() -> None:
    tokenizer = tiny_tokenizer()
    token_ids = TokenIds.of(tokenizer)
    assert [tokenizer.decode([i]) for i in token_ids.digits] == list("0123456789")
    assert [tokenizer.decode([i]).strip() for i in token_ids.letters[:3]] == ["A", "B", "C"]
    assert {tokenizer.decode([i]).strip().lower() for i in token_ids.true} == {"true"}
    assert {tokenizer.decode([i]).strip().lower() for i in token_ids.false} == {"false"}
    bare = copy.deepcopy(tokenizer)
    bare.chat_template = None
    with pytest.raises(ModelError, match="chat template"):
        TokenIds.of(bare)
    assert token_ids.encode(f"x{CONFIDENCE}7") == [*token_ids.before(f"x{CONFIDENCE}", "7"), token_ids.digits[7]]


def test_the_callers_random_numbers_are_left_alone(make_model: MakeModel, questions: list[Question]) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    run(make_model(), questions)
    assert torch.equal(torch.rand(2), expected)
