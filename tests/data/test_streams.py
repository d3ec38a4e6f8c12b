"""The built-in quiz, streams in three orders with their fingerprints, and the same options for all rows of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl import read_rows
from secl.data.benchmarks import arrange, fingerprint, load, load_stream, quiz
from secl.errors import DataError, ParameterError, SeclError
from secl.question import Question, References

NAMES = ["arithmetic", "capitals", "science"]

QUESTIONS = st.lists(st.builds(Question, st.sampled_from("abcdef"), domain=st.sampled_from("xyz")), max_size=12)


def test_a_shuffled_stream_mixes_the_domains_by_the_seed() -> None:
    forward = load_stream(NAMES, 10, seed=3)
    assert forward == [question for name in NAMES for question in load(name, 10, seed=3)]
    shuffled = load_stream(NAMES, 10, order="shuffled", seed=3)
    assert shuffled == load_stream(NAMES, 10, order="shuffled", seed=3)
    assert arrange(forward, "shuffled", 3) == shuffled != forward
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
        ("capitals", 5, "forward", "give a list of names"),
        (["capitals"], 0, "forward", "questions of capitals is 0; ask for at least 1"),
        (["capitals"], 5, "sideways", "'sideways' is unknown; the orders are forward, reversed, shuffled"),
    ],
)
def test_a_senseless_stream_is_refused(names: list[str], per_domain: int, order: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load_stream(names, per_domain, order=order)  # type: ignore[arg-type]


def test_the_fingerprint_changes_with_any_field_and_with_the_order() -> None:
    base = Question("Why?", ("x", "y"), "A", "d", "one")
    changes: dict[str, Any] = {"text": "Why not?", "options": ("x", "z"), "reference": "B", "domain": "e", "id": "two"}
    changes |= {"context": "x", "system": "x", "row": (("x", "y"),)}
    changed = [replace(base, **{name: value}) for name, value in changes.items()]
    changed += [replace(base, options=("y", "x")), replace(base, reference=None)]
    changed += [Question("Why?", reference=References((), ("A",)), domain="d", id="one")]
    prints = [fingerprint(questions) for questions in ([], [base], [base, base], *([one] for one in changed))]
    assert len(set(prints)) == len(prints)
    assert fingerprint([base, changed[0]]) != fingerprint([changed[0], base])
    assert all(len(text) == 64 and int(text, 16) >= 0 for text in prints)


@pytest.mark.parametrize(
    ("domain", "questions", "digest"),
    [
        ("arithmetic", 500, "a04473d3813d7132"),
        ("capitals", 176, "644db47cb514e99d"),
        ("science", 683, "4b1d4ea090edeae3"),
        ("misconceptions", 98, "a0f3b8add548324b"),
    ],
)
def test_the_quiz_is_that_of_the_recorded_figures_for_its_seed(domain: str, questions: int, digest: str) -> None:
    asked = quiz(domain)
    assert (len(asked), fingerprint(asked)[:16]) == (questions, digest)
    assert len({question.text for question in asked}) == questions
    one, other = quiz(domain, seed=7), quiz(domain, seed=8)
    assert quiz(domain, 15, 7) == one[:15] != other[:15]
    alike = [{(question.text, *sorted(question.options)) for question in each} for each in (one, other)]
    assert alike[0] == alike[1]
    if domain != "arithmetic":
        assert all(3 <= len({*question.options}) == len(question.options) <= 5 for question in one)


OPTIONS = ["bug", "feature, idea"]
TEMPLATE = "Which team? {subject}: {Body} {{now}}"
TICKETS: list[dict[str, Any]] = [
    {"subject": "Login", "body": "It fails.", "gold": "bug"},
    {"subject": "Dark {mode}", "body": None, "gold": "B"},
    {"subject": "1 + 1", "body": 7, "gold": None},
]


@pytest.mark.parametrize("kind", ["csv", "xlsx", "frame", "list"])
def test_every_kind_of_table_is_classified_by_a_template_and_options(kind: str, tmp_path: Path) -> None:
    frame, csv, xlsx = pd.DataFrame(TICKETS), tmp_path / "tickets.csv", tmp_path / "tickets.xlsx"
    frame.to_csv(csv, index=False)
    frame.to_excel(xlsx, index=False)
    sources: dict[str, Any] = {"frame": frame, "list": TICKETS, "csv": csv, "xlsx": xlsx}
    file = read_rows(sources[kind], options=OPTIONS, template=TEMPLATE)
    texts = ["Which team? Login: It fails. {now}", "Which team? Dark {mode}:  {now}", "Which team? 1 + 1: 7 {now}"]
    assert [question.text for question in file.questions] == texts
    assert {question.options for question in file.questions} == {tuple(OPTIONS)}
    assert [question.reference for question in file.questions] == ["A", "B", None]
    assert [[name for name, _ in question.row] for question in file.questions] == [["subject", "body", "gold"]] * 3
    assert not file.notes


def test_texts_and_questions_are_rows_and_take_the_options() -> None:
    asked = Question("Login fails.", id="x", reference="feature, idea")
    file = read_rows(["Dark mode?", asked], options=OPTIONS)
    first, second = file.questions
    assert (first.text, first.options, first.id) == ("Dark mode?", tuple(OPTIONS), "questions-0001")
    assert second == replace(asked, options=tuple(OPTIONS), reference="B", form="choice")
    assert read_rows([asked]).questions == (asked,)


def test_a_template_comes_before_a_question_column_and_a_row_that_leaves_it_empty_may_be_skipped() -> None:
    file = read_rows([{"question": "Why?", "text": "sky"}], template="What about the {text}?")
    assert (file.questions[0].text, file.questions[0].row[0]) == ("What about the sky?", ("question", "Why?"))
    assert not file.notes
    (note,) = read_rows([{"question": "Why?", "label": "bug"}], options=OPTIONS).notes
    assert note.endswith("if it is the reference, add --columns 'reference=label'.")
    assert len(read_rows([*TICKETS, {"subject": "", "body": None}], template=TEMPLATE, skip_bad=True).questions) == 3


CLASSES: dict[str, Any] = {"options": OPTIONS}
BAD: list[tuple[Any, dict[str, Any], str]] = [
    *(
        (TICKETS, {"template": "{subject}", **how}, message)
        for how, message in (
            ({"template": "{sybject}"}, "'sybject', which is not a column; the columns are 'subject', 'body', 'gold'"),
            ({"template": "{}"}, "the template names '', which is not a column"),
            ({"template": "Which {subject"}, "has an unmatched brace; write {column} for a column, and {{ or }}"),
            ({"template": "Which subject}"}, "has an unmatched brace"),
            ({"template": "Which?"}, "names no column; write {column}"),
            ({"options": ["bug"]}, "there is one option, 'bug'; give at least two"),
            ({"options": ["bug", "bug"]}, "the option 'bug' is given twice"),
            ({"options": ["bug", " "]}, "an option is empty"),
            ({"options": "bug"}, "the options are the text 'bug'; give a list"),
            ({"options": [str(number) for number in range(27)]}, "27 options but only 26 letters"),
        )
    ),
    ([{"question": "a", "options": ["x", "y"]}], CLASSES, "row 1 has its own options, but options for all rows are"),
    ([{"question": "a", "A": "x", "B": "y"}], CLASSES, "row 1 has its own options"),
    ([Question("a", ("x", "y"))], CLASSES, "row 1 has its own options"),
    (["a", Question("a", form="number")], CLASSES, "row 2 cannot be asked"),
    ([Question("a", reference="z")], CLASSES, "row 1 has a reference that names no option: the answer 'z'"),
    ([{"question": "a", "gold": "crash"}], CLASSES, "row 1 has a reference that names no option: the answer 'crash'"),
    ([], CLASSES, "questions holds no question; add one."),
    (pd.DataFrame({"subject": [], "body": []}), {"template": TEMPLATE}, "questions holds no question; add one"),
    ([*TICKETS, {"subject": ""}], {"template": TEMPLATE}, "row 4 has no value in the template's columns ('subject'"),
]


@pytest.mark.parametrize(("rows", "how", "message"), BAD, ids=[message for *_, message in BAD])
def test_a_senseless_template_option_or_row_is_refused(rows: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(SeclError) as caught:
        read_rows(rows, **how)
    assert isinstance(caught.value, ParameterError if rows is TICKETS else DataError)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
