"""Distractors differ from the answer and from each other. Numbers always have enough distractors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.flow.further import choose_distractors, distinct, near_numbers
from secl.grading.numbers import parse_number
from secl.grading.texts import normalise_text
from secl.prompts.templates import distractor_prompt
from secl.question import Question

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


@pytest.mark.parametrize("count", range(1, 10))
def test_as_many_distractors_are_asked_for_and_kept_as_are_set(count: int) -> None:
    (turn,) = distractor_prompt(Question("How many?", form="number"), count + 1).turns
    said = "two three four five six seven eight nine ten".split()[count - 1]  # noqa: SIM905
    assert turn.count(f"{said} ") == 2
    assert len(choose_distractors("12", "number", count, ["15", "12.0"], [["16"]]).answers) == count
