"""Thoughts before answers: never part of what is graded, shown or compared."""

from __future__ import annotations

import itertools

import pytest

from secl.backends.text_stream import answers_alone
from secl.prompts.parsing import THOUGHTS, Marks, is_complete, read_answer, trim_answer, without_thought
from secl.question import Form
from secl.writing import Piece, Token, Written


@pytest.mark.parametrize("thought", THOUGHTS, ids=[each.opening for each in THOUGHTS])
def test_an_answer_stands_behind_a_thought_of_any_kind(thought: Marks) -> None:
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


def pieces(text: str, choice: int = 0) -> list[Piece]:
    made = [Piece(choice=choice, text=each, tokens=(Token(each, -1.0),)) for each in text]
    return [*made, Piece(choice=choice, finish="stop", prompt_tokens=3, completion_tokens=len(text) + 1)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Paris", "Paris"),
        (" <b>", " <b>"),
        ("<think>Let me see.</think>\n\nParis <think>", "Paris <think>"),
        ("<think>Let me", ""),
        ("<th", "<th"),
        ("", ""),
    ],
)
def test_a_stream_shows_the_answer_alone(text: str, shown: str) -> None:
    (written,) = Written.of(answers_alone(pieces(text)))
    assert (written.text, written.completion_tokens, written.finish) == (shown, len(text) + 1, "stop")
    assert "".join(token.text for token in written.tokens) in (shown, shown[1:])


def test_a_stream_without_a_thought_comes_at_once_and_several_are_told_apart() -> None:
    assert list(answers_alone(pieces("Paris"))) == pieces("Paris")
    both = itertools.zip_longest(pieces("<think>a</think>b"), pieces("Rome is a big city", 1))
    mixed = [piece for pair in both for piece in pair if piece is not None]
    assert [each.text for each in Written.of(answers_alone(mixed))] == ["b", "Rome is a big city"]
