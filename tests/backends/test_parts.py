"""Parts of engines without a model: entropies, distractors, and thoughts in streams of chunks."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import secl
from secl.backends.endpoint.probabilities import entropy_of
from secl.backends.generation import split_thoughts
from secl.errors import ParameterError
from secl.flow.further import choose_distractors, distinct, near_numbers
from secl.grading.numbers import parse_number
from secl.grading.texts import normalise_text
from secl.prompts.parsing import THINK_TAGS, ThinkTags, is_complete, read_answer, split_thought, trim_answer
from secl.prompts.templates import distractor_prompt
from secl.question import Form, Question
from secl.writing import Chunk, Token, joined

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


def exact(p: NDArray[np.floating[Any]]) -> float:
    seen = p[p > 0]
    return float(-(seen * np.log(seen)).sum())


@pytest.mark.parametrize("power", [0.8, 1.3, 2.5])
def test_a_power_law_tail_is_found_from_its_head(power: float) -> None:
    p = np.arange(1, 30001) ** -power
    p /= p.sum()
    assert entropy_of(np.log(p[:64]).tolist(), len(p)) == pytest.approx(exact(p), abs=0.02)


@given(st.integers(0, 10_000), st.floats(0.1, 8.0), st.integers(1, 80))
def test_the_entropy_lies_between_that_of_the_head_and_that_of_a_flat_tail(seed: int, spread: float, top: int) -> None:
    logits = np.random.default_rng(seed).normal(size=500) * spread
    p = np.sort(np.exp(logits - logits.max()))[::-1]
    p /= p.sum()
    head = p[:top]
    flat = np.concatenate([head, np.full(500 - top, max(0.0, 1 - head.sum()) / (500 - top))])
    assert exact(head) - 1e-4 <= entropy_of(np.log(head).tolist(), len(p)) <= exact(flat) + 1e-4


def test_a_head_that_says_all_gives_the_entropy_itself() -> None:
    assert entropy_of([math.log(0.25)] * 4, 4) == pytest.approx(math.log(4))
    assert entropy_of([0.0, *[-200.0] * 19], 50_000) == pytest.approx(0.0, abs=1e-12)
    assert entropy_of([-math.log(1000)] * 20, 1000) == pytest.approx(math.log(1000), abs=1e-3)


@pytest.mark.parametrize("thought", THINK_TAGS, ids=[each.opening for each in THINK_TAGS])
def test_an_answer_stands_behind_a_thought_of_any_kind(thought: ThinkTags) -> None:
    assert split_thought(f"\n{thought.opening}Hm.\n{thought.closing}\n\nParis") == ("Hm.", "Paris")
    assert split_thought(f"{thought.opening}Hm.") == ("Hm.", "")


@pytest.mark.parametrize("text", ["", " Paris\n", "<", "<b>Paris</b>", "2 < 3 <think>"])
def test_a_text_without_a_thought_stays_as_it_is(text: str) -> None:
    assert split_thought(text) == (None, text)


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


@pytest.mark.parametrize("thinking", [0, -1, True, "long"])
def test_python_refuses_a_budget_for_thoughts_as_the_command_line_does(thinking: Any) -> None:
    with pytest.raises(
        ParameterError, match=r"thinking is .*; it must be off, auto, or a number of tokens of at least"
    ):
        secl.load("smollm2", thinking=thinking)


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
