"""Streams: domains one after the other, three orders, and a fingerprint of what will be asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.data.benchmarks import load
from secl.data.streams import arrange, fingerprint, load_stream
from secl.errors import ParameterError
from secl.question import Question, References

NAMES = ["arithmetic", "capitals", "science"]

QUESTIONS = st.lists(st.builds(Question, st.sampled_from("abcdef"), domain=st.sampled_from("xyz")), max_size=12)


def test_a_shuffled_stream_mixes_the_domains_by_the_seed() -> None:
    forward = load_stream(NAMES, 10, seed=3)
    assert forward == [question for name in NAMES for question in load(name, 10, seed=3)]
    shuffled = load_stream(NAMES, 10, order="shuffled", seed=3)
    assert shuffled == load_stream(NAMES, 10, order="shuffled", seed=3)
    assert shuffled != forward
    assert sorted(q.id for q in shuffled) == sorted(q.id for q in forward)
    assert arrange(forward, "shuffled", 3) == shuffled
    assert arrange(forward, "shuffled", 4) != shuffled


@given(QUESTIONS, st.integers())
def test_arranging_keeps_every_question_and_reversing_twice_is_grouping(questions: list[Question], seed: int) -> None:
    assert arrange(questions, "forward") == questions
    assert Counter(arrange(questions, "reversed")) == Counter(questions)
    assert Counter(arrange(questions, "shuffled", seed)) == Counter(questions)
    twice = arrange(arrange(questions, "reversed"), "reversed")
    assert arrange(twice, "reversed") == arrange(questions, "reversed")


@pytest.mark.parametrize(
    ("names", "per_domain", "order", "message"),
    [
        ([], 5, "forward", "no benchmark is named; choose from gsm8k"),
        (["capitals", "poems"], 5, "forward", "'poems' is unknown; the benchmarks are gsm8k, mmlu"),
        (["capitals", "capitals"], 5, "forward", "'capitals' is named twice"),
        ("capitals", 5, "forward", "give a list of names"),
        (["capitals"], 0, "forward", "questions of capitals is 0; ask for at least 1"),
        (["capitals"], 5, "sideways", "'sideways' is unknown; the orders are forward, reversed, shuffled"),
    ],
)
def test_a_senseless_stream_is_refused_before_anything_is_read(
    names: list[str], per_domain: int, order: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        load_stream(names, per_domain, order=order)  # type: ignore[arg-type]


def test_the_fingerprint_changes_with_any_field_and_with_the_order() -> None:
    base = Question("Why?", ("x", "y"), "A", "d", "one")
    changes: list[dict[str, object]] = [
        {"text": "Why not?"},
        {"options": ("x", "z")},
        {"options": ("y", "x")},
        {"reference": "B"},
        {"reference": None},
        {"domain": "e"},
        {"id": "two"},
        {"context": "x"},
        {"system": "x"},
        {"row": (("x", "y"),)},
    ]
    changed = [replace(base, **change) for change in changes]  # type: ignore[arg-type]
    changed += [Question("Why?", reference=References((), ("A",)), domain="d", id="one")]
    prints = [fingerprint(questions) for questions in ([], [base], [base, base], *([one] for one in changed))]
    assert len(set(prints)) == len(prints)
    assert fingerprint([base, changed[0]]) != fingerprint([changed[0], base])
    assert all(len(text) == 64 and int(text, 16) >= 0 for text in prints)
