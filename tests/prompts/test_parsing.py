"""From what models write to what they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.prompts.parsing import is_complete, read_answer, read_list, trim_answer
from secl.question import FORMS, Form


@pytest.mark.parametrize(
    ("text", "form", "answer"),
    [
        (" Paris\nConfidence: 9", "short", "Paris"),
        (" Paris", "short", "Paris"),
        ("\n", "short", None),
        (" It scatters.\nMore.", "sentence", "It scatters."),
        ("3 x 4 = 12\nAnswer: 12 apples\nConfidence: 8", "number", "12"),
        ("She pays $1,250.50 in all.", "number", "1250.5"),
        ("Answer: one half is 1/3", "number", "1/3"),
        ("I do not know.", "number", None),
        ("", "number", None),
    ],
)
def test_an_answer_is_read_from_a_generated_text(text: str, form: Form, answer: str | None) -> None:
    assert read_answer(trim_answer(text, form), form) == answer


@pytest.mark.parametrize(
    ("text", "form", "complete"),
    [
        (" Paris", "short", False),
        (" Paris\n", "short", True),
        ("\n", "short", False),
        ("Step one.\nStep two.\n", "number", False),
        ("Step one.\nAnswer: 4", "number", False),
        ("Step one.\nAnswer: 4\n", "number", True),
        ("Step one.\nConfidence: 4", "number", True),
        ("It is 8.\nIt is 8.\n", "number", True),
        ("It is 8.\n\nIt is 8.\nIt is", "number", True),
    ],
)
def test_generation_ends_where_the_answer_does(text: str, form: Form, complete: bool) -> None:
    assert is_complete(text, form) is complete


def test_a_generated_list_loses_its_marks_and_its_rambling() -> None:
    text = ' Rome\n2) "Milan".\n- Turin\n\n4. ' + "so many words " * 9
    assert read_list(text, "short") == ["Rome", "Milan", "Turin"]
    assert read_list(" 12 apples\n2. $1,300\n3. none", "number") == ["12", "1300"]


@given(st.text(max_size=200), st.sampled_from(FORMS))
def test_no_text_breaks_the_readers(text: str, form: Form) -> None:
    trimmed = trim_answer(text, form)
    assert trimmed == text if form == "text" else "Confidence:" not in trimmed
    read_answer(trimmed, form)
    read_list(text, form)
    is_complete(text, form)
