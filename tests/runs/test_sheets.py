"""Sheets that people fill in become labels; samples keep their chances; references count if the user says so."""

import csv
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import load_workbook

from secl import Question, Record
from secl.errors import DataError, StorageError
from secl.labels.label import Label, valid
from secl.runs import Store, export
from secl.runs.labelling import current_records, labels_from_references, labels_from_sheet, review_queue
from tests.answers import answered, make_record, run_folder

WORDS = {
    True: ("y", "Yes", "TRUE", "1", "1.0", " right ", "Correct"),
    False: ("n", "NO", "false", "0", "0.0", "Wrong", "incorrect"),
    None: ("s", "skip", "SKIPPED"),
}
"""Words for a verdict; None is a skip."""

Said = list[tuple[int, bool | None, str, float | None]]


def entries(log: Sequence[Label]) -> Said:
    """Position, verdict, source and chance of labels."""
    return [(each.position, each.correct, each.source, each.chance) for each in log]


def taken(store: Store, path: Path, *, random: bool = False) -> Said:
    """Store the labels of a sheet, and return the new entries of the log."""
    before = len(store.label_log())
    store.add_labels(labels_from_sheet(store, path, random=random))
    return entries(store.label_log()[before:])


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A run of 40 questions with options, whose rows have an own column "label"."""
    records = answered([0.6 + 0.005 * k for k in range(40)], [None] * 40)
    with_rows = [
        replace(r, question=replace(r.question, row=(("id", f"T{r.position}"), ("label", "no")))) for r in records
    ]
    with Store(run_folder(tmp_path / "run", with_rows), writable=True) as store:
        yield store


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def sheet(store: Store, path: Path, verdicts: Mapping[int, object], column: str = "label", **how: Any) -> Path:
    """Export a sheet of a run, and fill in verdicts by position."""
    export.write(store, "csv", path, export.Content(**how))
    rows = read(path)
    for row in rows:
        row[column] = verdicts.get(int(row["record_id"].split("_")[1]), row.get(column, ""))
    return write(path, rows)


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "jsonl"])  # people may also save a sheet as jsonl
def test_a_sample_that_people_fill_in_gives_the_labels_of_a_review_in_the_terminal(
    store: Store, tmp_path: Path, ending: str
) -> None:
    path, drawn = tmp_path / f"sample.{ending}", review_queue(store).positions[:12]
    sample = path.with_suffix(".csv") if ending == "jsonl" else path
    export.write(store, None, sample, export.Content(sample=12))
    readers: dict[str, Any] = {".csv": pd.read_csv, ".xlsx": pd.read_excel, ".parquet": pd.read_parquet}
    frame = readers[sample.suffix](sample)
    assert list(frame.columns) == ["id", "given_label", "record_id", "answer", "label", "correct_answer", "sample"]
    assert [int(name[1:]) for name in frame["id"]] == list(drawn)
    frame["label"] = [position % 3 > 0 for position in drawn]
    getattr(frame, {"csv": "to_csv", "xlsx": "to_excel", "parquet": "to_parquet"}.get(ending, "to_json"))(
        path, **({"orient": "records", "lines": True} if ending == "jsonl" else {"index": False})
    )
    assert taken(store, path) == [(position, position % 3 > 0, "review", 1.0) for position in drawn]
    assert taken(store, path) == []  # a sheet may be read again
    assert review_queue(store).positions[0] not in drawn


@pytest.mark.parametrize(("word", "verdict"), [(word, verdict) for verdict, words in WORDS.items() for word in words])
def test_verdicts_have_the_words_that_people_use(store: Store, tmp_path: Path, word: str, verdict: bool | None) -> None:
    path = sheet(store, tmp_path / "a.csv", {3: word}, review=True)
    assert taken(store, path) == [(3, verdict, "feedback", None)]
    assert store.label_log()[-1].skipped is (verdict is None)


ASKED = (
    (
        Question("Capital of Peru?", options=("Quito", "Lima")),
        "B",
        {"B": True, "lima": True, "(b) Lima": True, "a": False},
    ),
    (Question("How many?", form="number"), "12", {"12": True, 12: True, "12.0": True, "about 13": False}),
    (Question("Who?"), "Ada Lovelace", {"ada lovelace": True, "Lovelace": True, "Grace Hopper": False}),
)


@pytest.mark.parametrize(("question", "answer", "right"), ASKED)
def test_a_right_answer_is_graded_by_the_grader_of_the_question(
    tmp_path: Path, question: Question, answer: str, right: dict[object, bool]
) -> None:
    records = []
    for position in range(len(right)):
        record = make_record(position, answer=answer)
        asked = replace(question, id=f"q{position}", domain="quiz")
        records.append(replace(record, question=asked, reply=replace(record.reply, text=answer), correct=None))
    with Store(run_folder(tmp_path / "run", records), writable=True) as store:
        path = sheet(store, tmp_path / "a.csv", dict(enumerate(right)), "correct_answer", review=True)
        assert [correct for _, correct, *_ in sorted(taken(store, path))] == [*right.values()]


def export_rows(store: Store, path: Path, **how: Any) -> dict[int, dict[str, Any]]:
    """Return the rows of an export, by position."""
    export.write(store, "csv", path, export.Content(**how))
    return {int(row["record_id"].split("_")[1]): row for row in read(path)}


@pytest.mark.parametrize(
    ("question", "answer", "typed", "shown"),
    [
        (ASKED[0][0], "B", " quito", "Quito"),  # option B in other capitals
        (ASKED[0][0], "B", "a", "Quito"),
        (ASKED[0][0], "B", "B", "Lima"),
        (ASKED[1][0], "12", "about 13", "about 13"),
        (ASKED[1][0], "12", "12.0", "12.0"),
        (ASKED[2][0], "Ada Lovelace", "Grace Hopper, née Murray", "Grace Hopper, née Murray"),
        (ASKED[2][0], "Ada Lovelace", "=2+2", "'=2+2"),  # no formula reaches a spreadsheet
    ],
)
@pytest.mark.parametrize("how", [{"sample": 2}, {"review": True}])
def test_an_answer_that_a_person_types_is_kept_and_exported_and_read_again_without_change(
    tmp_path: Path, question: Question, answer: str, typed: str, shown: str, how: dict[str, Any]
) -> None:
    record = make_record(0, answer=answer, correct=None)
    asked = replace(record, question=replace(question, id="q0"), reply=replace(record.reply, text=answer))
    with Store(run_folder(tmp_path / "run", [asked, make_record(1, correct=None)]), writable=True) as store:
        taken(store, sheet(store, tmp_path / "a.csv", {0: typed}, "correct_answer", **how))
        for content in ({}, {"review": True}, {"full": True}):
            rows = export_rows(store, tmp_path / "b.csv", **content)
            assert (rows[0]["correct_answer"], rows[1]["correct_answer"]) == (shown, "")
        assert taken(store, tmp_path / "a.csv") == []
        assert taken(store, tmp_path / "b.csv") == []
        record = next(current_records(store))
        assert record.correct_answer == shown.removeprefix("'")


def test_a_typed_answer_stays_until_another_verdict_and_two_different_ones_contradict(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    assert taken(store, sheet(store, path, {3: "wrong"})) == [(3, False, "feedback", None)]
    assert len(taken(store, sheet(store, path, {3: "no"}, "correct_answer"))) == 1  # now with the right answer
    assert taken(store, sheet(store, path, {3: ""}, "correct_answer")) == []  # only the label is left
    assert export_rows(store, tmp_path / "b.csv")[3]["correct_answer"] == "no"
    rows = read(path)
    write(path, [rows[3] | {"label": "", "correct_answer": word} for word in ("no", "no", "yes")])
    with pytest.raises(DataError, match="line 4 contradicts the verdict of line 2"):
        taken(store, path)
    store.add_feedback(3, True)
    assert "correct_answer" not in export_rows(store, tmp_path / "b.csv")[3]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_sample_may_be_split_sorted_and_lose_rows_and_each_unjudged_answer_counts_as_skipped(
    tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / str(len([*tmp_path.iterdir()]))
    with Store(run_folder(folder / "run", [make_record(n, correct=None) for n in range(30)]), writable=True) as store:
        export.write(store, "csv", folder / "all.csv", export.Content(sample=15))
        drawn = list(review_queue(store).positions[:15])
        said = data.draw(st.lists(st.sampled_from(["y", "n", "skip", "", "gone"]), min_size=15, max_size=15))
        reviewer = data.draw(st.lists(st.sampled_from([0, 1]), min_size=15, max_size=15))
        rows = read(folder / "all.csv")
        for number in data.draw(st.permutations([0, 1])):
            part = [row | {"label": word} for row, word, who in zip(rows, said, reviewer, strict=True) if who == number]
            part = [row for row in part if row["label"] != "gone"]
            if {*(row["label"] for row in part)} - {""}:
                taken(store, write(folder / "part.csv", data.draw(st.permutations(part))))
        words = dict(zip(drawn, said, strict=True))
        if {*said} & {"y", "n", "skip"}:
            kept = {each.position: each for each in valid(store.label_log())}
            assert kept.keys() == {*drawn}
            assert all((entry.chance, entry.source) == (1.0, "review") for entry in kept.values())
            verdict = {"y": True, "n": False}
            assert {position: entry.correct for position, entry in kept.items()} == {
                position: verdict.get(word) for position, word in words.items()
            }


def test_rows_of_ones_choice_have_no_chance_and_a_correction_keeps_the_chance_of_the_sample(
    store: Store, tmp_path: Path
) -> None:
    first, second, third, *_ = review_queue(store).positions
    store.add_feedback(first, True, drawn=True)
    path = sheet(store, tmp_path / "a.csv", {first: "wrong", second: "wrong"}, review=True)
    assert sorted(taken(store, path)) == sorted([(first, False, "review", 1.0), (second, False, "feedback", None)])
    # The label of a chosen row gets a chance only if the user says that the rows were drawn at random.
    assert taken(store, path) == []
    assert taken(store, path, random=True) == [(second, False, "feedback", 1.0)]
    path = sheet(store, tmp_path / "b.csv", {third: "right"})  # an export has the labels, which are no news
    assert taken(store, path) == [(third, True, "feedback", None)]


def test_a_run_that_went_on_after_its_sample_was_drawn_skips_none_of_the_new_answers(tmp_path: Path) -> None:
    with Store(run_folder(tmp_path / "run", [make_record(n, correct=None) for n in range(10)]), writable=True) as store:
        drawn = review_queue(store).positions[:4]
        path = sheet(store, tmp_path / "a.csv", dict.fromkeys(drawn[:3], "y"), sample=4)
        for position in range(10, 40):
            store.add(make_record(position, correct=None), 0.1)
        assert [position for position, *_ in taken(store, path)] == [*drawn]
        assert store.sample() == {(position, 0): position == drawn[3] for position in drawn}


def test_references_become_labels_once_and_the_user_may_correct_how_they_were_chosen(tmp_path: Path) -> None:
    graded: list[bool | None] = [True, False, True, None, None]
    with Store(run_folder(tmp_path / "run", answered([0.8] * 5, graded)), writable=True) as store:
        store.add_feedback(2, False, drawn=True)  # a person overrides the reference

        def references(random: bool) -> Said:
            before = len(store.label_log())
            store.add_labels(labels_from_references(store, random=random))
            return entries(store.label_log()[before:])

        assert references(random=True) == [(0, True, "reference", 1.0), (1, False, "reference", 1.0)]
        assert references(random=True) == []
        assert store.sample() == {(0, 0): False, (1, 0): False, (2, 0): False}
        assert len(references(random=False)) == 4
        assert store.sample() == {(2, 0): False}
        before, after = ([r.confidence for r in current_records(store, log)] for log in ((), None))
        assert before != after


def test_ten_thousand_rows_are_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [make_record(position, correct=None) for position in range(10_000)]
    with Store.create(tmp_path / "run", {"total": 1, "settings": {"method": "stated"}}) as store:
        with store.writing():
            for record in records:
                store.write_record(record, 0.1)
        path = sheet(store, tmp_path / "a.csv", {n: "y" if n % 3 else "n" for n in range(10_000)}, review=True)
        add, left = store.write, iter(range(5_000))

        def failing(table: str, *values: Any) -> None:
            if next(left, None) is None:
                raise sqlite3.OperationalError("disk I/O error")
            add(table, *values)

        monkeypatch.setattr(store, "write", failing)
        with pytest.raises(StorageError, match="disk I/O error"):
            taken(store, path)
        assert store.label_log() == ()
        monkeypatch.undo()
        assert len(taken(store, path)) == 10_000


def offered(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the texts that each cell of a workbook offers, by the name of the column and the number of the row."""
    book = load_workbook(path)
    sheet, texts = book.worksheets[0], dict[str, dict[str, list[str]]]()
    for rule in sheet.data_validations.dataValidation:
        assert not rule.showErrorMessage  # people may type a letter, too
        listed = rule.formula1.strip('"').split(",")
        if rule.formula1.startswith("options!"):
            ((*cells,),) = book["options"][rule.formula1.removeprefix("options!").replace("$", "")]
            listed = [cell.value for cell in cells]
        for row in (row for area in rule.sqref.ranges for row in area.rows):
            ((number, column),) = row
            texts.setdefault(sheet.cell(1, column).value, {})[f"{number}"] = listed
    return texts


@pytest.mark.parametrize("how", [{"sample": 5}, {"review": True}])
def test_a_workbook_to_fill_in_offers_the_options_of_each_row_and_is_read_again(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    long = tuple(f"a class, number {k}, " + 30 * "x" for k in range(26))  # a rule holds 255 characters and no commas
    asked = (("Quito", "Lima"), long, (), ("Quito", "Lima"), ("=1", "b"))
    questions = [Question("word " * 40, options=options, id="q", domain="quiz") for options in asked]
    records = [replace(make_record(n, correct=None), question=question) for n, question in enumerate(questions)]
    path = tmp_path / "sheet.xlsx"
    with Store(run_folder(tmp_path / "run", records), writable=True) as store:
        written = export.write(store, None, path, export.Content(**how))
        rows = pd.read_excel(path)
        by_row = {int(name.split("_")[1]): str(n) for n, name in enumerate(rows["record_id"], start=2)}
        found = offered(path)
        assert found["label"] == {row: ["y", "n"] for row in by_row.values()}
        assert found["correct_answer"] == {
            by_row[0]: ["Quito", "Lima"],
            by_row[3]: ["Quito", "Lima"],
            by_row[1]: [*long],
            by_row[4]: ["'=1", "b"],
        }
        sheet = load_workbook(path).worksheets[0]
        assert sheet.freeze_panes == "A2"
        assert all(cell.font.bold for cell in sheet[1])
        widths = [sheet.column_dimensions[cell.column_letter].width for cell in sheet[1]]
        assert all(10 <= width <= 62 for width in widths)
        assert (len(written.rows), export.describe_sheet(written, store.folder)) == (
            5,
            f"5 rows. Fill in label or correct_answer, then: secl label {store.folder} --from {path}",
        )
        rows["correct_answer"] = rows["correct_answer"].astype(object)
        rows.loc[int(by_row[0]) - 2, "correct_answer"] = "Lima"  # as a person chooses from the list
        rows.to_excel(path, index=False)
        assert (0, False) in [each[:2] for each in taken(store, path)]
        again = export.write(store, None, path, export.Content(review=True))
        assert str(export.describe_sheet(again, store.folder)).startswith(
            "5 rows, 1 of them graded already (the last one). " if how == {"review": True} else "5 rows, "
        )
        assert "options" not in load_workbook(export.write(store, "xlsx").path).sheetnames  # a table to read


def unreadable() -> Record:
    """A record without a readable answer and without a stated confidence."""
    record = make_record(0, answer=None, correct=None)
    return replace(record, reply=replace(record.reply, bins=()), kind="field")


def test_an_unreadable_answer_can_be_labelled(tmp_path: Path) -> None:
    with Store(run_folder(tmp_path / "run", [unreadable()]), writable=True) as store:
        path = sheet(store, tmp_path / "a.csv", {0: "wrong"}, review=True)
        assert taken(store, path) == [(0, False, "feedback", None)]
        assert store.labels()[0].confidence == 0.0
