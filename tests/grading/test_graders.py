"""Graders: the everyday rule against people, tables of the literal ones, ROUGE-1 from its definition; and in runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secl import RunSettings
from secl.data.streams import fingerprint
from secl.errors import DataError, ParameterError, QuestionError
from secl.grading.rules import grade, grader_of
from secl.grading.texts import parse_number, same_text
from secl.question import GRADERS, Question, References
from secl.runs.loading import read_stream
from secl.settings.groups import StreamSettings
from tests.grading.everyday import ADVERSARIAL, CASES, Case


def graded(case: Case, grader: str = "") -> bool | None:
    references = References(tuple(case.reference.split("|")), ())
    return grade(Question(case.question, reference=references, grader=grader), case.answer)


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
    ("question", "answer", "right"),
    [
        (Question("?", ("x", "y"), "B"), "B", True),
        (Question("?", ("x", "y"), "B"), "y", False),
        (Question("?", ("x", "y"), "B"), None, False),
        (Question("?", ("x", "y")), "B", None),
        (Question("?"), None, None),
        (Question("?", reference="1234", form="number"), "1,234.00", True),
        (Question("?", reference="so 2+2\n#### 1,234", form="number"), "1234", True),
        (Question("?", reference="0.5", form="number"), "1/2", True),
        (Question("?", reference="5", form="number"), "six", False),
        (Question("Which element has the symbol Al?", reference="aluminium"), "Aluminum", True),
        (Question("Which element has the symbol Cs?", reference="caesium"), "It is Cesium.", True),
        (Question("Which element has the symbol S?", reference="sulfur"), "sulphur", True),
        *(
            (Question("What?", reference=reference, grader=grader), answer, right)
            for grader, reference, answer, right in (
                ("exact", "Goethe", "It was Goethe.", False),
                ("exact", "Paris", "Paris, France", False),
                ("contains", "Goethe", "It was Goethe.", True),
                ("contains", "Goethe", "It was not Goethe.", True),  # a literal rule ignores the other words
                ("contains", "56", "1956", False),
                ("number", "56", "7 * 8 = 56", True),
                ("number", "56", "56 is 7 times 8", False),
                ("regex", r"colou?r", "The COLOR is red", True),
                ("regex", r"^red$", "The color is red", False),
                ("auto", "Goethe", "It was not Goethe.", False),
            )
        ),
    ],
)
def test_an_answer_is_graded_by_grader_and_form(question: Question, answer: str | None, right: bool | None) -> None:
    assert grade(question, answer) is right


def test_numbers_options_and_wrong_answers_bring_their_official_rule_and_a_grader_says_what_it_cannot_do_with() -> None:
    assert grader_of(Question("?", reference="4", form="number")) == "number"
    assert grader_of(Question("?", reference=References(("yes",), ("no",)), form="sentence")) == "overlap"
    assert grader_of(Question("?", reference=References(("yes",), ()), form="sentence")) == "auto"
    with pytest.raises(QuestionError, match=", ".join(GRADERS)):
        Question("?", grader="contians")
    with pytest.raises(QuestionError, match="graded by their letters"):
        Question("?", options=("x", "y"), grader="exact")
    for reference, grader, message in (
        ("(", "regex", r"'q1' has the reference '\(', which is not a regular"),
        ("many", "number", "has no number"),
        ("many", "overlap", "no wrong answers"),
    ):
        with pytest.raises(QuestionError, match=message):
            grade(Question("?", reference=reference, grader=grader, id="q1"), "any")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("48/2 = <<48/2=24>>24 clips.\n48+24 = 72 clips.\n#### 72", 72),
        ("#### -1,234,567", -1234567),
        ("#### $1,000.50", Fraction(2001, 2)),
        ("$-5", -5),
        ("He has 3 cats and 7 dogs", 7),
        ("\u22123", -3),
        ("5 - 3", 3),
        ("1 1/2 cups", Fraction(3, 2)),
        ("1/0", None),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"so \boxed{18}.", 18),
        (".5", Fraction(1, 2)),
        ("Answer: 18 dollars in 2 days", 18),
        ("answer: 3 + 4 = 7 eggs", 7),
        ("**Answer:** 6\nThis took 2 steps.", 6),
        ("Answer: unclear, maybe\n9", 9),
        ("Answer: 5\n#### 6", 6),
        ("H2O", None),
    ],
)
def test_a_number_is_read_the_gsm8k_way(text: str, number: int | Fraction | None) -> None:
    assert parse_number(text) == number


SAME = "The Beatles = beatles | U.S.A. = USA | well-known = well known | Straße = STRASSE | $1,000 = 1000.00 | 50% = 50"
OTHER = "Vitamin A = vitamin | 7 apples = 7 | C++ = C | か = が | ! = ?"


def test_two_short_texts_are_compared_by_what_they_say() -> None:
    for pairs, same in ((SAME, True), (OTHER, False)):
        for one, other in (pair.split(" = ") for pair in pairs.split(" | ")):
            assert same_text(one, other) is same_text(other, one) is same, one


VOCABULARY = ("the", "cat", "sat", "on", "a", "mat", "and", "dogs", "ran", "home", "no", "comment")
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8)


def rouge_1(reference: str, answer: str) -> float:
    """ROUGE-1 F from its definition: clipped unigram overlap over lower-case alphanumeric tokens."""
    first, second = (Counter(re.findall("[a-z0-9]+", text.lower())) for text in (reference, answer))
    shared = sum((first & second).values())
    return 2 * shared / (sum(first.values()) + sum(second.values()))


@given(st.lists(WORDS, min_size=1, max_size=3), st.lists(WORDS, min_size=1, max_size=3), WORDS)
def test_rouge_1_grades_references(correct: list[list[str]], incorrect: list[list[str]], answer: list[str]) -> None:
    right = tuple(" ".join(words) for words in correct)
    wrong = tuple(" ".join(words) for words in incorrect)
    text = " ".join(answer)
    best_right = max(rouge_1(reference, text) for reference in (*right, "I have no comment."))
    best_wrong = max(rouge_1(reference, text) for reference in wrong)
    assume(abs(best_right - best_wrong) > 1e-9)
    graded = grade(Question("?", reference=References(right, wrong), form="sentence"), text)
    assert graded is (best_right > best_wrong)
    assert grade(Question("?", reference=References(right, wrong), form="sentence"), "I have no comment.")


def test_the_grader_of_a_run_is_for_open_questions_that_have_none_of_their_own(tmp_path: Path) -> None:
    path, file = tmp_path / "mine.jsonl", {"stream.questions": str(tmp_path / "mine.jsonl")}
    rows: list[dict[str, Any]] = [
        {"question": "Who?", "reference": "x"},
        {"question": "Who?", "reference": "x", "grader": "exact"},
        {"question": "Which?", "options": ["x", "y"], "reference": "A"},
        {"question": "2 + 2?", "reference": "4", "form": "number"},
        {"question": "Who?", "references": {"correct": ["x"], "incorrect": ["y"]}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    plain = read_stream(RunSettings.of(file)).questions
    named = read_stream(RunSettings.of({**file, "stream.grader": "contains"})).questions
    assert [question.grader for question in plain] == ["", "exact", "", "", ""]
    assert [question.grader for question in named] == ["contains", "exact", "", "", ""]
    assert fingerprint(plain) == fingerprint(named)  # the questions are the same for a model
    path.write_text(json.dumps(rows[0]) + '\n{"question": "What?", "reference": "(", "id": "q2"}')
    regex = {**file, "stream.grader": "regex"}
    with pytest.raises(DataError, match="'q2' has the reference '\\('"):
        read_stream(RunSettings.of(regex))
    stream = read_stream(RunSettings.of({**regex, "stream.skip_bad": True}))
    assert [question.text for question in stream.questions] == ["Who?"]
    assert stream.skipped[0][0].endswith("line 2")
    with pytest.raises(ParameterError, match="official rules"):
        RunSettings.of({"stream.benchmarks": ["capitals"], "stream.grader": "contains"})
    with pytest.raises(ParameterError, match="grader is 'fuzzy'; it must be one of auto, exact"):
        StreamSettings.model_validate({"grader": "fuzzy"})
