"""Texts and their decoders, seeds of lists, and kernels for one row."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from secl.backends.generation import Generation, TextRules
from secl.backends.local.fast.batch import ONEDNN, fast_single_row
from secl.backends.local.loading.loader import load
from secl.backends.local.model import LocalModel
from secl.question import Form, Question
from secl.settings.groups import ModelSettings
from secl.writing import SamplingParameters, joined
from tests.backends.local.conftest import MakeModel, tokens_seen

ONE, OTHER = Question("Who wrote Hamlet?"), Question("Who wrote Faust?")


def test_sampled_lists_depend_on_seed_and_question_alone(make_model: MakeModel) -> None:
    one, other = make_model(seed=3), make_model(seed=4)
    question = Question("Who wrote Hamlet?", id="x")
    reply = one.answer(question).reply
    torch.manual_seed(1)
    first = one.gather(question, reply, ["p_true"]).p_true
    torch.manual_seed(2)
    assert one.gather(question, reply, ["p_true"]).p_true == first
    assert other.gather(question, reply, ["p_true"]).p_true != first


class Joining:
    """A tokenizer whose decoder removes the space before a comma, also across a border of texts."""

    eos_token_id = 0
    texts = ("", "Hello", " ", ",", " you")

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "".join(self.texts[number] for number in ids).replace(" ,", ",")


@pytest.mark.parametrize(("prompt", "written", "text"), [([1, 2], [3, 4], ", you"), ([1], [4], " you")])
def test_nothing_of_the_prompt_stays_in_a_text_whatever_its_decoder_makes_of_the_border(
    prompt: list[int], written: list[int], text: str
) -> None:
    generation = Generation(prompt, "sentence", 9, written=written)
    rules = TextRules(Joining(), None)
    assert rules.text(generation) == text
    (free,) = Generation.texts(prompt, SamplingParameters(max_tokens=len(written)))
    assert "".join(rules.push(free, token).text for token in written) == text


@pytest.fixture(params=[True, False])
def setting(request: pytest.FixtureRequest) -> Iterator[bool]:
    """The user's setting for the process."""
    before = ONEDNN.enabled
    ONEDNN.enabled = request.param
    yield request.param
    ONEDNN.enabled = before


def test_the_setting_comes_back_when_the_last_one_leaves(setting: bool) -> None:
    with fast_single_row():
        with fast_single_row():
            assert not ONEDNN.enabled
        assert not ONEDNN.enabled
    assert ONEDNN.enabled == setting


@pytest.mark.parametrize("served", [False, True])
def test_only_steps_of_a_text_that_is_written_alone_are_switched(make_model: MakeModel, served: bool) -> None:
    model = make_model()
    if served:  # other threads compute meanwhile
        model.learner.set_pause_hook(lambda: None)
    seen: set[tuple[int, bool]] = set()

    def note(_module: Any, _args: Any, named: dict[str, Any]) -> None:
        rows, tokens = named["input_ids"].shape
        if tokens == 1:
            seen.add((rows, ONEDNN.enabled))

    model.backend.model.register_forward_pre_hook(note, with_kwargs=True)
    questions = [Question(f"Who wrote book {number}?") for number in range(2)]
    model.answer(Question("Who wrote Hamlet?"))
    model.prefetch(questions, [()] * 2, weights_fixed=True)
    assert (1, served) in seen
    assert (2, True) in seen
    assert (2, False) not in seen


@pytest.mark.parametrize("form", ["short", "sentence"])
def test_the_probability_of_an_answer_is_that_of_the_tokens_that_the_model_wrote(smollm2: str, form: Form) -> None:
    model, question = (
        LocalModel(load(ModelSettings(name=smollm2, dtype="fp32")), paper=True),
        Question("Why do cats purr?", form=form),
    )
    generation, sums = model.prompting.start_answer(question), 0.0
    ids, text = list(generation.prompt), ""
    for _ in range(generation.limit):
        with torch.no_grad():
            log_p = model.backend.model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        token = int(log_p.argmax())
        written = model.prompting.token_ids.tokenizer.decode([token])
        if token in model.backend.rules.end_ids or (text.strip() and "\n" in written):
            break
        ids, text, sums = [*ids, token], text + written, sums + float(log_p[token])
    assert text.startswith(" ")
    reply = model.answer(question).reply
    assert reply.text == text.strip()
    assert reply.log_probability == pytest.approx(sums, abs=1e-3)


def test_decoding_steps_are_the_passes_over_the_latest_token_alone_or_in_a_batch(make_model: MakeModel) -> None:
    model = make_model()
    passes = tokens_seen(model.backend.model)
    generations = [
        Generation(model.prompting.answer(question), "short", limit) for question, limit in ((ONE, 3), (OTHER, 7))
    ]
    generations[0].seed = 5
    model.backend.writer.write(generations)
    assert [generation.decoding_steps for generation in generations] == [
        len(generation.written) - 1 for generation in generations
    ]
    assert [tokens for tokens in passes if tokens <= 2] == [2, 2, 1, 1, 1, 1]  # the shorter text leaves the batch
    (text,) = joined(model.write(ONE, SamplingParameters(max_tokens=5)))
    assert isinstance(text.generation, Generation)
    assert text.generation.decoding_steps == text.completion_tokens - 1
