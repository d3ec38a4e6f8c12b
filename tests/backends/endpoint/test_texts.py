"""Free answers pass through as the server writes them."""

from __future__ import annotations

import math

import pytest

from secl.backends.endpoint.model import EndpointModel
from secl.conversation import Turn
from secl.errors import TooLongError
from secl.question import Question
from secl.writing import Writing, joined
from tests.backends.endpoint.fake import Body, Distribution, FakeServer, knowing

FREE = Question(
    "And of Peru?", form="text", system="Be brief.", history=(Turn("user", "Capital?"), Turn("assistant", ""))
)
WORDS: list[Distribution] = [{word: 0.5, "x": 0.25} for word in ("Li", "ma", ", of", " course", ".")]


@pytest.fixture
def wordy(server: FakeServer) -> FakeServer:
    """A server that writes five tokens, and states a confidence in them."""

    def rule(body: Body) -> list[Distribution]:
        return knowing(body) if "one digit" in str(body.get("messages", "")[-1:]) else WORDS

    server.rule = rule
    return server


def test_the_conversation_and_all_parameters_pass_unchanged(model: EndpointModel, wordy: FakeServer) -> None:
    writing = Writing(max_tokens=9, temperature=0.5, top_p=0.75, seed=3, stop=("\n",))
    (text,) = joined(model.write(FREE, writing))
    assert (text.text, text.finish, text.tokens) == ("Lima, of course.", "stop", ())
    assert (text.prompt_tokens, text.completion_tokens) == (10, 5)
    (body,) = wordy.asked
    assert [(each["role"], each["content"]) for each in body["messages"]] == [
        ("system", "Be brief."),
        ("user", "Capital?"),
        ("assistant", ""),
        ("user", "And of Peru?"),
    ]
    assert {name: body[name] for name in ("max_tokens", "temperature", "top_p", "seed", "stop", "model")} == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.75,
        "seed": 3,
        "stop": ["\n"],
        "model": "tiny",
    }


def test_several_texts_are_requests_with_seeds_and_log_probabilities(model: EndpointModel, wordy: FakeServer) -> None:
    texts = joined(model.write(FREE, Writing(n=3, temperature=1, seed=5, top_logprobs=2)))
    assert sorted(body["seed"] for body in wordy.asked) == [5, 6, 7]
    for text in texts:
        assert text.text == "".join(token.text for token in text.tokens) == "Lima, of course."
        assert text.tokens[0].top == (("Li", math.log(0.5)), ("x", math.log(0.25)))


def test_a_written_text_is_answered_for_in_the_same_conversation(model: EndpointModel, wordy: FakeServer) -> None:
    (text,) = joined(model.write(FREE, Writing()))
    answer = model.answer(FREE, written=text)
    assert answer.reply.text == "Lima, of course."
    assert answer.reply.log_probability == pytest.approx(5 * math.log(0.5))
    assert answer.plain_tokens == 15 + 11
    written, stated = wordy.asked
    assert stated["messages"][:-2] == written["messages"]
    assert stated["messages"][-2] == {"role": "assistant", "content": "Lima, of course."}
    # A text whose tokens nobody knows any more has a confidence all the same.
    again = model.answer(FREE, written=text.text).reply
    assert again.bins == answer.reply.bins
    assert math.isnan(again.log_probability)


def test_a_server_that_does_not_count_the_tokens_of_a_stream_is_asked(model: EndpointModel, wordy: FakeServer) -> None:
    wordy.tells_usage = False
    (text,) = joined(model.write(FREE, Writing()))
    assert (text.prompt_tokens, text.completion_tokens) == (10, 5)
    assert [body.get("max_tokens") for body in wordy.asked] == [None, 1]


@pytest.mark.parametrize("hushed", [False, True])
def test_a_conversation_that_is_too_long_is_said_to_be(model: EndpointModel, wordy: FakeServer, hushed: bool) -> None:
    wordy.hushed = hushed
    with pytest.raises(TooLongError, match="maximum context length is 1024 tokens, but 1500 are asked"):
        next(model.write(Question("long " * 2000, form="text"), Writing()))
