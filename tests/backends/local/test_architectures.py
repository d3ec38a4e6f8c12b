"""A tiny model of each architecture against plain transformers: answers, confidences, P(True), and one lesson."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import transformers

from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.loader import load, wrap
from secl.backends.local.loading.model_parts import layers_of
from secl.prompts.parsing import as_written, trim_answer
from secl.question import Question
from secl.settings.groups import ModelSettings
from secl.writing import SamplingParameters, joined
from tests.backends.local.alone import generated, log_p
from tests.backends.local.architectures import ARCHITECTURES, PAGE, WINDOW, Architecture, page_with_table
from tests.backends.local.conftest import tiny_local

pytestmark = pytest.mark.heavy

LONG = [
    each for each in ARCHITECTURES if {"sliding_window", "attention_chunk_size", "rope_parameters"} & {*each.changes}
]
"""Architectures with windows, or with positions that are stretched after the first few hundred."""

SENTENCE = "It was a dark and stormy night, and 17 ships lay in the harbour. "
CHOICES = (
    Question("Which is a metal?", options=("neon", "iron", "argon", "sulfur"), id="choice"),
    Question("What is the capital of France?", options=("Paris", "Rome", "Bern"), system="Be brief.", id="system"),
)
OPEN = (Question("Who wrote Hamlet?", id="short"), Question("Why is the sky blue?", form="sentence", id="sentence"))


def local(architecture: Architecture, **settings: Any) -> Any:
    loaded = wrap(architecture.name, architecture.model(), architecture.tokenizer)
    return tiny_local(loaded, **{"learning_rate": 0.05, **settings})


def bins(network: Any, tokens: Sequence[int], digits: Sequence[int]) -> Any:
    return pytest.approx(log_p(network, tokens)[-1, list(digits)].softmax(-1).tolist(), abs=2e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=[each.name for each in ARCHITECTURES])
def test_a_model_answers_writes_and_learns_as_plain_transformers_says(architecture: Architecture, brief: None) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = local(architecture)
    plainly = [str(each.message) for each in said if "plain path" in str(each.message)]
    fast = isinstance(model.backend.network, SharedNetwork)
    assert fast == (architecture.path == "fast"), plainly
    assert f"{architecture.path} path" in model.backend.described
    assert [architecture.why in each for each in plainly] == [True] * (not fast)
    by_itself, ids, prompting = architecture.model(), model.backend.token_ids, model.prompting

    model.prefetch([*CHOICES, *OPEN], [["p_true"]] * 4, weights_fixed=True)
    for question in CHOICES:
        answer = model.answer(question, evidence=["p_true"])
        prompt = prompting.confidence(question, "A")
        letters = log_p(by_itself, prompt[: prompt.index(ids.letters[0], len(prompt) - 8)])[-1, list(ids.letters)]
        assert answer.reply.answer == "ABCD"[int(letters[: len(question.options)].argmax())]
        assert answer.reply.bins == bins(by_itself, prompting.confidence(question, answer.reply.text), ids.digits)
        scored = model.gather(question, answer.reply, ["p_true"]).p_true
        for candidate, p in zip(scored.candidates, scored.probabilities, strict=True):
            (verdict,) = prompting.verdicts(question, [candidate])
            assert p == pytest.approx(log_p(by_itself, verdict)[-1, list(ids.true)].exp().sum().item(), abs=2e-5)
    for question in OPEN:
        reply, item = model.answer(question).reply, model.latest_answer(question)
        assert reply.text == trim_answer(generated(by_itself, model, question), question.form).strip()
        behind = prompting.confidence(question, item.text or "")
        assert reply.bins == bins(by_itself, behind, ids.digits)

    check_chat(model, by_itself)
    if architecture in LONG:
        check_long_question(model, by_itself)
    check_lesson(model)


def check_chat(model: Any, by_itself: Any) -> None:
    """Check that a chat equals the text of `generate`, and that its confidence goes on from its state."""
    question = Question(SENTENCE * 4 + "What of it?", form="text")
    (written,) = joined(model.write(question, SamplingParameters(max_tokens=20)))
    assert written.text == generated(by_itself, model, question)
    reply = model.answer(question, written=written).reply
    behind = model.prompting.confidence(question, as_written(written.text, "text"))
    assert len(behind) > 2 * WINDOW
    assert reply.bins == bins(by_itself, behind, model.backend.token_ids.digits)


def check_long_question(model: Any, by_itself: Any) -> None:
    """Check that the model reads a question that is much longer than any window."""
    passage = SENTENCE * (1400 // len(model.backend.token_ids.encode(SENTENCE)) + 1)
    question = Question("How many ships lay there?", options=("16", "17", "18"), context=passage, id="long")
    model.check(question)
    reply = model.answer(question).reply
    sequence = model.prompting.confidence(question, reply.text)
    assert 1400 < len(sequence) < model.backend.limit == 2048
    assert reply.bins == bins(by_itself, sequence, model.backend.token_ids.digits)


def check_lesson(model: Any) -> None:
    """Check that a lesson moves the confidence to that of the adapted network."""
    for question in (CHOICES[0], OPEN[0]):
        before = model.answer(question).reply
        update = model.learner.learn(question, before, 0.05)
        assert update.after < before.stated
        reply, item = model.answer(question).reply, model.latest_answer(question)
        said = reply.text if question.options else item.text or ""
        with model.adapter.on():
            expected = bins(
                model.backend.model, model.prompting.confidence(question, said), model.backend.token_ids.digits
            )
        assert reply.bins == expected
        assert reply.bins != pytest.approx(before.bins, abs=1e-4)


MULTIMODAL = [each for each in ARCHITECTURES if each.images is not None]


@pytest.mark.parametrize("architecture", MULTIMODAL, ids=[each.name for each in MULTIMODAL])
def test_a_multimodal_folder_is_loaded_for_its_text_model(
    architecture: Architecture, tmp_path: Path, brief: None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = load(ModelSettings(name=str(architecture.save(tmp_path)), dtype="fp32"))
        model = tiny_local(loaded)
    assert len(layers_of(loaded.model)) == 4
    assert all("vision" not in name and "visual" not in name for name in model.adapter.parameters)
    assert len(model.adapter.parameters) == 2 * 2 * 2  # two layers, two modules, two matrices
    reply = model.answer(CHOICES[0]).reply
    sequence = model.prompting.confidence(CHOICES[0], reply.text)
    whole = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path)
    assert reply.bins == bins(whole, sequence, model.backend.token_ids.digits)


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page_with_table(text) == text, "write it with: python -m tests.backends.local.architectures"
