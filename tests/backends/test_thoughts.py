"""Thoughts before answers: secl never grades, shows or compares them."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from secl.backends.endpoint.model import EndpointModel
from secl.backends.generation import split_thoughts
from secl.errors import ParameterError
from secl.prompts.parsing import THINK_TAGS, ThinkTags, is_complete, read_answer, trim_answer, without_thought
from secl.question import Form
from secl.writing import Chunk, Token, joined
from tests.backends.local.conftest import tiny_of


@pytest.mark.parametrize("thought", THINK_TAGS, ids=[each.opening for each in THINK_TAGS])
def test_an_answer_stands_behind_a_thought_of_any_kind(thought: ThinkTags) -> None:
    assert without_thought(f"\n{thought.opening}Hm.\n{thought.closing}\n\nParis") == "Paris"
    assert without_thought(f"{thought.opening}Hm.") == ""


@pytest.mark.parametrize("text", ["", " Paris\n", "<", "<b>Paris</b>", "2 < 3 <think>"])
def test_a_text_without_a_thought_stays_as_it_is(text: str) -> None:
    assert without_thought(text) == text


@pytest.mark.parametrize(
    ("text", "form", "answer"),
    [
        ("<think>\nOkay, the user", "sentence", None),
        ("<think>\nOkay.\n</think>\n\nIt scatters.\nMore.", "sentence", "It scatters."),
        ("<think>3 and 4\nAnswer: 8\n</think>\nAnswer: 7\n", "number", "7"),
        ("<think>Okay.</think>\n\nParis", "text", "Paris"),
    ],
)
def test_no_thought_is_graded_and_no_text_ends_in_one(text: str, form: Form, answer: str | None) -> None:
    assert is_complete(text, form) is (answer is not None and form != "text")
    assert read_answer(trim_answer(text, form), form) == answer


@pytest.mark.parametrize("make", [tiny_of, lambda **settings: EndpointModel("http://127.0.0.1:9", **settings)])
@pytest.mark.parametrize("thinking", [0, -1, True, "long"])
def test_a_model_refuses_a_budget_for_thoughts_as_the_command_line_does(
    make: Callable[..., Any], thinking: Any
) -> None:
    with pytest.raises(
        ParameterError, match=r"thinking is .*; it must be off, auto, or a number of tokens of at least"
    ):
        make(thinking=thinking)


def chunks(text: str, choice: int = 0) -> list[Chunk]:
    made = [Chunk(choice=choice, text=each, tokens=(Token(each, -1.0),)) for each in text]
    return [*made, Chunk(choice=choice, finish="stop", prompt_tokens=3, completion_tokens=len(text) + 1)]


@pytest.mark.parametrize(
    ("text", "shown", "thought"),
    [
        ("Paris", "Paris", None),
        (" <b>", " <b>", None),
        ("<think>Let me < see.</think>\n\nParis <think>", "Paris <think>", "Let me < see."),
        ("<think>Let me</thin", "", "Let me</thin"),
        ("<think>Let me</think>\n", "", "Let me"),
        ("<th", "<th", None),
        ("", "", None),
    ],
)
def test_a_stream_shows_the_answer_and_its_thought_apart(text: str, shown: str, thought: str | None) -> None:
    (written,) = joined(split_thoughts(chunks(text)))
    assert (written.text, written.thought, written.finish) == (shown, thought, "stop")
    assert written.completion_tokens == len(text) + 1
    assert "".join(token.text for token in written.tokens) in (shown, shown[1:])
    (whole,) = joined(split_thoughts([Chunk(text=text, finish="stop")]))
    assert (whole.text, whole.thought) == (shown, thought)


def test_a_thought_without_a_mark_before_it_is_kept_back_up_to_its_end() -> None:
    for text, shown, thought in (("Hm.</think> Paris", "Paris", "Hm."), ("Paris", "Paris", None)):
        (written,) = joined(split_thoughts(chunks(text), unopened=True))
        assert (written.text, written.thought) == (shown, thought)
    own = [Chunk(thought="Hm"), Chunk(thought="."), *chunks("Paris")]
    assert list(split_thoughts(own)) == own


def test_a_stream_without_a_thought_comes_at_once_and_several_are_told_apart() -> None:
    assert list(split_thoughts(chunks("Paris"))) == chunks("Paris")
    both = itertools.zip_longest(chunks("<think>a</think>b"), chunks("Rome is a big city", 1))
    mixed = [chunk for pair in both for chunk in pair if chunk is not None]
    assert [each.text for each in joined(split_thoughts(mixed))] == ["b", "Rome is a big city"]
