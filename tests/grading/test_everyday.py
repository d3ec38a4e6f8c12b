"""The everyday rule against people: questions graded by hand, and answers made to mislead it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.errors import QuestionError
from secl.grading import grade, grader_of, regrade
from secl.question import GRADERS, Question, References
from secl.testing import ScriptedModel
from tests.grading.everyday import ADVERSARIAL, CASES, Case


def graded(case: Case, grader: str = "") -> bool | None:
    return grade(
        Question(case.question, reference=References(tuple(case.reference.split("|")), ()), grader=grader), case.answer
    )


def test_the_default_agrees_with_people_on_everyday_questions_and_the_literal_graders_do_not() -> None:
    agreed = {name: sum(graded(case, name) is case.right for case in CASES) for name in ("", "exact", "contains")}
    assert len(CASES) == 40
    assert agreed[""] >= 38
    assert agreed["exact"] < agreed["contains"] < 30


@pytest.mark.parametrize("case", ADVERSARIAL, ids=lambda case: f"{case.reference}: {case.answer}")
def test_an_answer_that_mentions_the_right_one_is_not_therefore_right(case: Case) -> None:
    assert graded(case) is case.right


@given(st.text(), st.text().filter(str.strip), st.text())
def test_no_text_makes_the_default_fail_and_a_right_answer_is_right(question: str, reference: str, answer: str) -> None:
    asked = Question(f"? {question}".replace("\ud800", ""), reference=reference)
    assert grade(asked, reference) is True
    assert grade(asked, answer) in (True, False)


@pytest.mark.parametrize(
    ("grader", "reference", "answer", "right"),
    [
        ("exact", "Goethe", "It was Goethe.", False),
        ("contains", "Goethe", "It was Goethe.", True),
        ("contains", "Goethe", "It was not Goethe.", True),  # a literal rule takes no notice of the rest
        ("contains", "56", "1956", False),
        ("number", "56", "7 * 8 = 56", True),
        ("number", "56", "56 is 7 times 8", False),
        ("regex", r"colou?r", "The COLOR is red", True),
        ("regex", r"^red$", "The color is red", False),
        ("auto", "Goethe", "It was not Goethe.", False),
    ],
)
def test_a_named_grader_does_what_it_says(grader: str, reference: str, answer: str, right: bool) -> None:
    assert grade(Question("What?", reference=reference, grader=grader), answer) is right


def test_numbers_options_and_wrong_answers_bring_their_official_rule_with_them() -> None:
    assert grader_of(Question("?", reference="4", form="number")) == "number"
    assert grader_of(Question("?", reference=References(("yes",), ("no",)), form="sentence")) == "overlap"
    assert grader_of(Question("?", reference=References(("yes",), ()), form="sentence")) == "auto"
    with pytest.raises(QuestionError, match=", ".join(GRADERS)):
        Question("?", grader="contians")
    with pytest.raises(QuestionError, match="graded by their letters"):
        Question("?", options=("x", "y"), grader="exact")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question("?", reference="(", grader="regex", id="q1"), r"'q1' has the reference '\(', which is no regular"),
        (Question("?", reference="many", grader="number", id="q1"), "holds none"),
        (Question("?", reference="many", grader="overlap", id="q1"), "no wrong answers"),
    ],
)
def test_a_grader_that_cannot_do_with_the_reference_says_why(question: Question, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        grade(question, "any")


def test_records_are_graded_again_without_a_model() -> None:
    from secl import Calibrator

    choice = Question("Which?", options=("x", "y"), reference="A")
    records = list(Calibrator(ScriptedModel()).run([Question("Who?", reference="nobody at all"), choice]))
    answer = records[0].reply.answer
    assert answer is not None
    again = regrade(records, "regex")
    assert again[0].question.grader == "regex"
    assert again[0].correct is grade(again[0].question, answer)
    assert again[1] == records[1]
