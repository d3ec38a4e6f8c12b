"""The whole loop on tiny models: system texts, settings, and ratings of given answers."""

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from secl.backends.chat_templates import render
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.errors import ModelError, ParameterError, QuestionError
from secl.evidence import EvidenceKind
from secl.gates import Always, Never
from secl.model import Rating, check_given
from secl.prompts.templates import answer_prompt, confidence_prompt
from secl.question import GivenAnswer, Question
from secl.settings.groups import LoopSettings
from tests.backends.local.alone import log_p
from tests.backends.local.conftest import MakeModel, numbers
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
        answer = model.latest_answer(question)
        text = render(model.backend.token_ids.tokenizer, confidence_prompt(question, answer.text, alongside=True))
        assert list(answer.reading.bundle.answers[0]) == model.backend.token_ids.encode_before(text, "0")
        with model.adapter.on() if version else contextlib.nullcontext():
            after = log_p(model.backend.model, answer.reading.bundle.answers[0])[-1]
        bins = after[list(model.backend.token_ids.digits)].softmax(-1)
        assert reply.bins == pytest.approx(bins.tolist(), abs=1e-5)
        model.learner.learn(question, reply, 0.1)


def test_the_papers_hyperparameters_of_a_lesson_and_its_evidence_can_be_set(make_model: MakeModel) -> None:
    question = Question("Who wrote Hamlet?")
    loop = LoopSettings(bin_gate=None, samples=3)
    model = make_model(epochs=2, lora_alpha=4, distractors=2)
    (record,) = run(model, [question], loop=loop, evidence=("samples",))
    evidence, update = record.evidence, record.update
    assert len(evidence.p_true.candidates) <= 1 + 2
    assert (len(evidence.samples), len(update.losses)) == (3, 2)
    assert model.prompting.listed == 1 + 2
    assert model.learner.config["lora_alpha"] == 4
    (usual,) = run(make_model(epochs=2, distractors=2), [question], loop=loop)
    assert usual.update.losses[0] == update.losses[0]
    assert usual.update.losses[1] != update.losses[1]


def test_nonsense_settings_are_refused(make_model: MakeModel) -> None:
    for name, value in (("rank", 0), ("lora_alpha", 0), ("epochs", 0), ("beta", -1.0), ("learning_rate", 0.0)):
        with pytest.raises(ParameterError):
            make_model(**{name: value})
    with pytest.raises(ModelError, match="has no modules no_such_module; list the modules that learn"):
        make_model(modules=["no_such_module"]).adapter.check()


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


def test_the_callers_random_numbers_are_left_alone(make_model: MakeModel, questions: list[Question]) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    run(make_model(), questions)
    assert torch.equal(torch.rand(2), expected)


EVERYTHING: tuple[EvidenceKind, ...] = ("p_true", "candidates")
HAMLET = Question("Who wrote Hamlet?", reference="Shakespeare", id="d")
METAL = Question("Which is a metal?", options=("neon", "iron", "argon"), reference="B", id="b")


def all_numbers(rating: Rating) -> list[float | None]:
    """Return all numbers of a rating."""
    reply, p_true, candidates = rating.reply, rating.evidence.p_true, rating.evidence.candidates
    found: list[float | None] = [*reply.bins, reply.digit_mass, reply.entropy, reply.log_probability]
    found += [*reply.option_log_p, *([] if candidates is None else numbers(candidates))]
    return found if p_true is None else [*found, *p_true.probabilities, *p_true.false_probabilities]


def rated_by(model: LocalModel, given: Sequence[GivenAnswer]) -> list[Rating]:
    """Return ratings of answers that the model does not refuse."""
    return [each for each in model.rate(given, EVERYTHING) if isinstance(each, Rating)]


@pytest.mark.parametrize(("family", "prefilled"), [("llama", True), ("gemma2", True), ("gemma2", False)])
def test_a_models_own_answers_are_rated_as_when_it_answers(
    family: str, prefilled: bool, make_model: MakeModel, questions: list[Question]
) -> None:
    # These models begin a short answer without a space, but given texts begin with a space.
    if family != "llama" and prefilled:
        questions = [question for question in questions if question.form != "short"]
    seed = 1 if family == "llama" else 0  # a random model whose answers are tokenised again into the written tokens
    model = make_model(family, changes={"seed": seed})
    model.prompting.prefilled = prefilled
    always = LoopSettings(evidence_on="always")
    asking = Calibrator(model, method="secl", gate=Never(), evidence=EVERYTHING, learns=False, loop=always)
    asked: list[Any] = [asking.ask(question) for question in questions]
    rating = Calibrator(model, method="secl", gate=Never(), evidence=EVERYTHING, learns=False)
    rated: list[Any] = list(rating.rate_stream([GivenAnswer(record.question, record.reply.text) for record in asked]))
    for own, given in zip(asked, rated, strict=True):
        assert (given.reply.text, given.reply.answer) == (own.reply.text, own.reply.answer)
        assert given.reply.stated == pytest.approx(own.reply.stated, abs=1e-5)
        assert given.reply.log_probability == pytest.approx(own.reply.log_probability, abs=1e-4)
        assert given.reply.entropy == pytest.approx(own.reply.entropy, abs=1e-4)
        assert given.plain_tokens == own.plain_tokens
        if own.evidence.p_true is not None:
            assert set(given.evidence.p_true.candidates) == set(own.evidence.p_true.candidates)
            assert given.evidence.p_true.probabilities == pytest.approx(own.evidence.p_true.probabilities, abs=1e-6)
        assert (given.posterior is None) == (own.posterior is None)
        if own.posterior is not None and given.posterior is not None:
            drawn, others = given.evidence.candidates.samples, own.evidence.candidates.samples
            if drawn and drawn[0].own:  # the model's own answer stands in for the last sample
                assert drawn[0].text in (own.reply.answer, None)  # None: the token limit cut it off
                if drawn[0].text is not None:
                    assert drawn[0].log_p == pytest.approx(own.reply.log_probability, abs=1e-4)
                assert [each.text for each in drawn[1:]] == [each.text for each in others[:-1]]
            else:
                assert given.posterior.probabilities == pytest.approx(own.posterior.probabilities, abs=1e-4)
    assert any(record.posterior is not None for record in asked)


def test_a_window_says_of_each_answer_what_it_says_of_it_alone(
    make_model: MakeModel, questions: list[Question]
) -> None:
    texts = {"a": "rome", "b": "E", "c": "It is 3 + 4.\nAnswer: 7", "d": "Marlowe", "e": "Because it is."}
    given = [GivenAnswer(question, texts[question.id]) for question in questions]
    given.append(replace(given[3], rivals=("Kyd", "Bacon", "marlowe", "KYD")))
    together = rated_by(make_model(), given)
    for each, rating in zip(given, together, strict=True):
        (alone,) = rated_by(make_model(), [each])
        assert all_numbers(rating) == pytest.approx(all_numbers(alone), abs=1e-4)
        assert alone.reply.answer == rating.reply.answer
        # A token counts for one question, so a question never costs more in a window than alone.
        assert rating.ledger.total <= alone.ledger.total + 1e-6


def test_a_number_that_cannot_be_read_is_rated_as_a_text_and_compared_with_nothing(make_model: MakeModel) -> None:
    question = Question("How many?", form="number", id="n")
    (rating,) = rated_by(make_model(), [GivenAnswer(question, "who knows")])
    assert rating.reply.answer is None
    assert 0.05 <= rating.reply.stated <= 0.95
    assert (rating.evidence.p_true, rating.evidence.candidates) == (None, None)


def test_an_adapted_model_rates_as_the_frozen_one(make_model: MakeModel) -> None:
    model = make_model(learning_rate=0.01)
    given = [GivenAnswer(METAL, "B"), GivenAnswer(HAMLET, "Marlowe", ("Kyd",))]
    before = rated_by(model, given)
    model.learner.learn(METAL, model.answer(METAL).reply, 0.1)
    assert model.learner.version == 1
    after = rated_by(model, given)
    assert [all_numbers(rating) for rating in after] == [all_numbers(rating) for rating in before]


def test_an_answer_or_a_rival_that_is_too_long_is_refused_and_the_others_are_rated(make_model: MakeModel) -> None:
    model, long = make_model(changes={"max_position_embeddings": 400}), "word " * 400
    good = GivenAnswer(HAMLET, "Kyd", ("Marlowe",))
    check_given(model, good)
    given = [GivenAnswer(HAMLET, long), good, GivenAnswer(HAMLET, "Kyd", (long,))]
    for each in (given[0], given[2]):
        with pytest.raises(QuestionError, match=r"'d' takes .* but the model"):
            check_given(model, each)
    first, rating, last = model.rate(given, EVERYTHING)
    assert isinstance(first, QuestionError)
    assert isinstance(last, QuestionError)
    assert [rating] == rated_by(model, [good])
