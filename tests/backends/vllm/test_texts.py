"""Free texts that servers write are those that the model in this process writes."""

from __future__ import annotations

import pytest

from secl.errors import ModelError, UnavailableError
from secl.question import Question, Turn
from secl.writing import Writing, Written
from tests.backends.vllm.conftest import Fakes, MakeLearner
from tests.backends.vllm.test_engine import MakeFleet

pytestmark = pytest.mark.heavy

ASKED = Question(
    "And of Italy?",
    form="text",
    system="Answer like a pirate.",
    history=(Turn("user", "What is the capital of France?"), Turn("assistant", "Paris, arr.")),
)


def test_texts_are_those_of_the_model_in_this_process(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes
) -> None:
    server = tiny_server()
    model, local = make_fleet(make_learner(), server), make_learner()
    (whole,) = Written.of(local.write(ASKED, Writing(max_tokens=30)))
    bare = Question("The capital of Italy", form="completion")
    for question, writing in (
        (ASKED, Writing(max_tokens=30, n=3)),
        (ASKED, Writing(max_tokens=30, stop=("never said", whole.text[10:14]))),
        (ASKED, Writing(max_tokens=5, top_logprobs=2)),
        (ASKED, Writing(max_tokens=5, top_logprobs=0)),
        (bare, Writing(max_tokens=10)),
    ):
        found = Written.of(model.write(question, writing))
        expected = Written.of(local.write(question, writing))
        for one, other in zip(found, expected, strict=True):
            assert (one.text, one.finish) == (other.text, other.finish)
            assert (one.prompt_tokens, one.completion_tokens) == (other.prompt_tokens, other.completion_tokens)
            assert [token.text for token in one.tokens] == [token.text for token in other.tokens]
            for mine, its in zip(one.tokens, other.tokens, strict=True):
                assert mine.log_p == pytest.approx(its.log_p, abs=1e-4)
                assert [text for text, _ in mine.top] == [text for text, _ in its.top]
    assert server.asked[-1]["model"] == "base"
    reply = model.answer(ASKED, written=whole.text).reply
    assert reply.bins == pytest.approx(local.answer(ASKED, written=whole.text).reply.bins, abs=1e-5)


def test_drawn_texts_depend_on_the_seed_and_the_number_alone(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes
) -> None:
    model = make_fleet(make_learner(), tiny_server())
    one, two, three = Written.of(model.write(ASKED, Writing(max_tokens=20, temperature=0.9, seed=5, n=3)))
    assert len({one.text, two.text, three.text}) == 3
    again = Written.of(model.write(ASKED, Writing(max_tokens=20, temperature=0.9, seed=6, n=2)))
    assert again == (two, three)


def test_a_server_that_breaks_off_or_refuses_is_named(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes
) -> None:
    server = tiny_server()
    model = make_fleet(make_learner(), server)
    server.breaks_off = True
    with pytest.raises(UnavailableError, match="broke off in the middle of a text"):
        list(model.write(ASKED, Writing(max_tokens=20)))
    server.breaks_off, server.most = False, 5
    with pytest.raises(ModelError, match="status 400"):
        list(model.write(ASKED, Writing(max_tokens=20, top_logprobs=20)))
