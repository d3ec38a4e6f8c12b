"""Classification: the same options for all rows, and questions made from the columns of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from secl import Question, read_rows
from secl.errors import DataError, ParameterError, SeclError

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
            ({"template": "{sybject}"}, "'sybject', which is no column; the columns are 'subject', 'body', 'gold'"),
            ({"template": "{}"}, "the template names '', which is no column"),
            ({"template": "Which {subject"}, "has a brace without its partner; write {column}"),
            ({"template": "Which subject}"}, "has a brace without its partner"),
            ({"template": "Which?"}, "names no column, so every row would ask the same"),
            ({"options": ["bug"]}, "there is one option, 'bug'; give at least two"),
            ({"options": ["bug", "bug"]}, "the option 'bug' is given twice"),
            ({"options": ["bug", " "]}, "an option is empty"),
            ({"options": "bug"}, "the options are the text 'bug'; give a list"),
            ({"options": [str(number) for number in range(27)]}, "27 options but only 26 letters"),
        )
    ),
    ([{"question": "a", "options": ["x", "y"]}], CLASSES, "row 1 has options of its own, but the same options are"),
    ([{"question": "a", "A": "x", "B": "y"}], CLASSES, "row 1 has options of its own"),
    ([Question("a", ("x", "y"))], CLASSES, "row 1 has options of its own"),
    (["a", Question("a", form="number")], CLASSES, "row 2 cannot be asked"),
    ([Question("a", reference="z")], CLASSES, "row 1 has a reference that names no option: the answer 'z'"),
    ([{"question": "a", "gold": "crash"}], CLASSES, "row 1 has a reference that names no option: the answer 'crash'"),
    ([], CLASSES, "questions holds no question; add one."),
    (pd.DataFrame({"subject": [], "body": []}), {"template": TEMPLATE}, "questions holds no question; add one"),
    ([*TICKETS, {"subject": ""}], {"template": TEMPLATE}, "row 4 leaves every column of the template empty ('subject'"),
]


@pytest.mark.parametrize(("rows", "how", "message"), BAD, ids=[message for *_, message in BAD])
def test_a_senseless_template_option_or_row_is_refused(rows: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(SeclError) as caught:
        read_rows(rows, **how)
    assert isinstance(caught.value, ParameterError if rows is TICKETS else DataError)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
