"""Distractors differ from the answer and from each other, and numbers never run out of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from secl.grading import normalise_text, parse_number
from secl.prompts.distractors import distinct, near_numbers

ANSWERS = st.text(st.sampled_from("abcAB .,the"), min_size=1, max_size=8)


@given(ANSWERS, st.lists(ANSWERS, max_size=12))
def test_distractors_are_distinct_once_normalised(answer: str, candidates: list[str]) -> None:
    distractors = distinct(answer, candidates, "short", 4)
    keys = [normalise_text(text) for text in (answer, *distractors)]
    assert len(set(keys)) == len(keys)
    assert len(distractors) <= 4


@given(st.one_of(st.integers(-(10**6), 10**6).map(str), st.decimals(-1000, 1000, places=2).map(str)))
def test_a_number_always_has_enough_near_misses(answer: str) -> None:
    assert near_numbers("no idea") == []
    distractors = distinct(answer, near_numbers(answer), "number", 4)
    assert len(distractors) == 4
    assert parse_number(answer) not in {parse_number(text) for text in distractors}
