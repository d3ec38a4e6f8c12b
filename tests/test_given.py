"""Answers from elsewhere: which option a given answer means, and what cannot be rated."""

from __future__ import annotations

import pytest

from secl.errors import QuestionError
from secl.question import GivenAnswer, Question

CAPITAL = Question("What is the capital of France?", options=("Rome", "Paris", "St. Denis."), id="q1")


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        (" paris ", "B"),
        ("PARIS.", "B"),
        ("B.", "B"),
        ("(B)", "B"),
        ("b) Paris", "B"),
        ("(B) paris", "B"),
        ("B: Paris", "B"),
        ("(B). Paris", "B"),
        ("st. denis", "C"),
        ("C. St. Denis.", "C"),
    ],
)
def test_an_option_is_given_by_its_letter_its_text_or_both(answer: str, letter: str) -> None:
    assert GivenAnswer(CAPITAL, answer).answer == letter


@pytest.mark.parametrize("answer", ["London", "D", "A. Paris", "B. London", "Par", "(", "BB"])
def test_an_answer_that_is_none_of_the_options_is_an_error_that_names_them(answer: str) -> None:
    with pytest.raises(QuestionError, match=r"'q1' is none of its options \(A\. Rome, B\. Paris, C\. St\. Denis\.\)"):
        GivenAnswer(CAPITAL, answer)


def test_a_letter_that_is_the_text_of_another_option_is_asked_back() -> None:
    question = Question("Which blood group can anyone receive?", options=("O", "B", "A"))
    with pytest.raises(QuestionError, match=r"write 'C\. A' or 'A\. O'"):
        GivenAnswer(question, "A")
    assert GivenAnswer(question, "C. A").answer == "C"
    assert GivenAnswer(question, "O").answer == "A"
    assert GivenAnswer(question, "b").answer == "B"  # letter and text agree


def test_an_exact_letter_is_rather_meant_than_a_text_in_another_case() -> None:
    question = Question("Which vowel?", options=("m", "b", "a"))
    assert [GivenAnswer(question, answer).answer for answer in ("A", "B", "C", "M", "m")] == ["A", "B", "C", "A", "A"]
    assert GivenAnswer(question, "a").answer == "C"


def test_of_equal_options_the_first_is_meant_by_the_text() -> None:
    assert GivenAnswer(Question("Which?", options=("x", "y", "y")), "y").answer == "B"


@pytest.mark.parametrize("text", ["", "  ", "\ud800"])
def test_what_is_no_text_is_no_answer_and_no_rival(text: str) -> None:
    open_question = Question("Who wrote Hamlet?", id="h")
    with pytest.raises(QuestionError, match="'h'"):
        GivenAnswer(open_question, text)
    with pytest.raises(QuestionError, match="'h'"):
        GivenAnswer(open_question, "Shakespeare", ("Marlowe", text))


def test_options_are_the_only_rivals_where_there_are_options() -> None:
    with pytest.raises(QuestionError, match="give no others"):
        GivenAnswer(CAPITAL, "B", ("London",))
