"""A user's own files: what may stand in them, and what is said about what may not."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.data.question_files import read_questions, read_rows
from secl.errors import DataError
from secl.question import Question, References


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def test_every_key_of_jsonl_is_understood(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": "Pick", "options": ["x", "y"], "reference": "B", "domain": "d", "id": "one"},
        {"question": "Pick", "options": ["x", "y"], "reference": "X", "id": "two"},
        {"question": "Pick", "options": [1, 2.5, 40], "reference": 40, "id": "three"},
        {"question": "Legs?", "reference": 8, "form": "number", "id": 4},
        {"question": "City?", "reference": " Oslo ", "id": "five", "options": None, "form": None, "domain": ""},
        {"question": "Say", "references": {"correct": ["a b"], "incorrect": ["c"]}, "id": "six"},
        {"question": "Say", "references": {"correct": ["USA", "US"]}, "form": "short", "id": "seven"},
        {"question": "Pick", "options": ["x", "Y", "Y"], "reference": "y", "id": "eight"},
    ]
    path = written(tmp_path, "all.JSONL", "\n".join(json.dumps(row) for row in rows))
    assert read_questions(str(path)) == [
        Question("Pick", ("x", "y"), "B", "d", "one"),
        Question("Pick", ("x", "y"), "A", "all", "two"),
        Question("Pick", ("1", "2.5", "40"), "C", "all", "three"),
        Question("Legs?", (), "8", "all", "4", "number"),
        Question("City?", (), "Oslo", "all", "five"),
        Question("Say", (), References(("a b",), ("c",)), "all", "six", "sentence"),
        Question("Say", (), References(("USA", "US"), ()), "all", "seven", "short"),
        Question("Pick", ("x", "Y", "Y"), "B", "all", "eight"),
    ]


def test_csv_takes_options_in_letter_columns_or_in_one(tmp_path: Path) -> None:
    letters = written(
        tmp_path,
        "l.csv",
        '\ufeffquestion,A,B,C,reference\n"One,\r\ntwo?",x,y,,y\r\n,,,,\nOpen?,,,,some text\nZ?,p,q,r,C\n',
    )
    assert read_questions(letters) == [
        Question("One,\r\ntwo?", ("x", "y"), "B", "l", "l-0002"),
        Question("Open?", (), "some text", "l", "l-0005"),
        Question("Z?", ("p", "q", "r"), "C", "l", "l-0006"),
    ]
    piped = written(tmp_path, "p.csv", "id,question,options,reference\na,One?,x | y|z,z\nb,Two?,,\n")
    assert read_questions(piped) == [
        Question("One?", ("x", "y", "z"), "C", "p", "a"),
        Question("Two?", (), None, "p", "b"),
    ]


BAD_JSONL = [
    ('{"question": "a"}\n{"question": ', "line 2 is broken JSON"),
    ('["question"]', "line 1 is not a JSON object"),
    ('{"id": "a"}', "line 1 has no 'question'; its names are 'id'; say which one it is with --columns question=NAME"),
    ('{"question": "  "}', "line 1 has no 'question'"),
    ('{"question": "a", "id": true}', "line 1 has a 'id' that is neither text nor number"),
    ('{"question": "a", "id": "x"}\n{"question": "b", "id": "x"}', "line 2 repeats the id 'x' of line 1"),
    ('{"question": "a", "grader": "fuzzy"}', "line 1.*unknown grader 'fuzzy'"),
    ('{"question": "a", "reference": "(", "grader": "regex"}', "line 1.*no regular expression"),
    ('{"question": "a", "options": 5}', "line 1 has 'options' that is not a list"),
    ('{"question": "a", "options": ["x", ""]}', "line 1 has 'options' with an empty member"),
    ('{"question": "a", "options": ["x", "y"], "reference": "C"}', "line 1 has the reference 'C'.*neither a letter"),
    ('{"question": "a", "options": ["B", "A"], "reference": "A"}', "line 1 .*text of option B and also a letter"),
    ('{"question": "a", "form": "poem"}', "line 1 asks for the unknown form 'poem'"),
    ('{"question": "a", "form": "number", "reference": "many"}', "line 1 asks for a number but its reference 'many'"),
    ('{"question": "a", "reference": "b", "references": ["b"]}', "line 1 has both 'reference' and 'references'"),
    ('{"question": "a", "gold": "b", "ground_truth": "c"}', "line 1 has 'gold' and 'ground_truth', which both mean"),
    ('{"question": "a", "answer": ["b"]}', "line 1 has an 'answer' that is a list; right answers go into 'references'"),
    ('{"question": "a", "answer": "b", "correct": "maybe"}', "line 1 has a 'correct' that is 'maybe'"),
    ('{"question": "a", "options": ["x", "y"], "reference": 1}', "line 1 .*from 0 or from 1 cannot be known"),
    ('{"question": "a", "options": ["x", "y"], "reference_index": 2}', "line 1 .*a number from 0 to 1"),
    ('{"question": "a", "options": ["Xa", "XA"], "reference": "xa"}', "line 1 has the reference 'xa'"),
    ('{"question": "a", "references": {"right": ["b"]}}', "line 1 has 'references' of another shape"),
    (
        '{"question": "a", "options": ["x", "y"], "references": ["x", "y"]}',
        "line 1 has 'options' and several references",
    ),
    ("", "is empty"),
    (b'{"question": "ok"}\n{"question": "caf\xe9"}', "line 2 is not UTF-8"),
    ("[" * 200_000, "line 1 is JSON that Python cannot hold"),
    (json.dumps({"question": "a", "options": [str(k) for k in range(27)]}), "line 1 has 27 options"),
]


@pytest.mark.parametrize(("text", "message"), BAD_JSONL, ids=[message for _, message in BAD_JSONL])
def test_a_bad_jsonl_file_is_refused_with_file_and_line(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"f\.jsonl.*{message}") as caught:
        read_questions(written(tmp_path, "f.jsonl", text))
    assert "\n" not in str(caught.value)


BAD_CSV = [
    ("text,A,B\na,b,c\n", "line 1 has no column 'question'; its names are 'text', 'A', 'B'; say which one it is with"),
    ("question,A,options\na,b,c\n", "line 1 has both 'options' and the column 'A'"),
    ("question,A,C\na,b,c\n", "line 1 has the option columns A, C"),
    ("question,A,B,C\na,x,,z\n", "line 2 leaves the option B empty"),
    ("question,A,B\na,x\n", "line 2 has 2 fields but the header has 3"),
    ('question\n"a\nb"\n"c', "line 4 is broken CSV"),
    ('question,references\na,"{x"\n', "line 2, column 'references' is broken JSON"),
    ("question\n", "holds no question"),
    ("", "is empty"),
]


@pytest.mark.parametrize(("text", "message"), BAD_CSV, ids=[message for _, message in BAD_CSV])
def test_a_bad_csv_file_is_refused_with_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"f\.csv.*{message}") as caught:
        read_questions(written(tmp_path, "f.csv", text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_question_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ends in '\.txt'.*\.jsonl, .* or \.xlsx"):
        read_questions(written(tmp_path, "f.txt", "a"))
    with pytest.raises(DataError, match=r"gone\.csv does not exist"):
        read_questions(tmp_path / "gone.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv is a folder; give a file, or a folder written by save_to_disk"):
        read_questions(tmp_path / "folder.csv")


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["b.csv", "b.jsonl"]))
def test_no_content_makes_the_reader_fail_in_another_way(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = written(tmp_path_factory.mktemp("any"), name, content)
    with contextlib.suppress(DataError):
        assert read_questions(path)


def test_an_answer_is_an_answer_and_no_reference(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": "City?", "answer": " Oslo "},
        {"question": "City?", "answer": 7, "correct": False, "reference": "Oslo"},
        {"question": "Pick", "options": ["x", "y"], "answer": "Y", "correct": "YES"},
        {"question": "None?", "answer": "", "correct": None},
        {"question": "One?", "correct": 1.0},
    ]
    path = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    file = read_rows(path)
    assert [(row.answer, row.correct, row.line) for row in file.rows] == [
        ("Oslo", None, 1),
        ("7", False, 2),
        ("Y", True, 3),
        (None, None, 4),
        (None, True, 5),
    ]
    assert [row.question.reference for row in file.rows] == [None, "Oslo", None, None, None]
    assert [row.question for row in file.rows] == read_questions(path)


LINES = [
    (
        "f.jsonl",
        '{"question": "a"}\n{"question": \n{"question": "b", "options": ["x"]}\n{"question": "c"}\n',
        [2, 3],
        [1, 4],
    ),
    ("f.csv", "question,A,B\na,,\nb,x\nc,x,\nd,x,y\n", [3, 4], [2, 5]),
]


@pytest.mark.parametrize(("name", "text", "bad", "good"), LINES)
def test_rows_that_cannot_be_used_are_skipped_and_named_if_asked_for(
    name: str, text: str, bad: list[int], good: list[int], tmp_path: Path
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(DataError, match=f"line {bad[0]}"):
        read_rows(path)
    with pytest.raises(DataError, match=r"To leave such rows out: --skip-bad"):
        read_rows(path)
    file = read_rows(path, skip_bad=True)
    assert [row.line for row in file.rows] == good
    assert [where for where, _ in file.skipped] == [f"{path}, line {number}" for number in bad]
    assert all(str(path) not in reason for _, reason in file.skipped)
    with pytest.raises(DataError, match=r"holds no question that can be used: .*line 1 is broken JSON"):
        read_rows(written(tmp_path, "none.jsonl", "{"), skip_bad=True)
