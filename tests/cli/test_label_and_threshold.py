"""`secl label` stores a review word by word; `secl threshold` and `--accept`: promised, estimated, marked, counted."""

import csv
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from secl.explain import accepted_line
from secl.reports.acceptance_report import accepted_sentence
from secl.runs import Store
from secl.runs.labelling import review_queue, row_id
from tests.answers import answered, give_labels, run_folder, stored
from tests.cli.conftest import Interrupt, Shell


@pytest.fixture
def reviewed(shell: Shell, tmp_path: Path, scripted: None) -> Path:
    """A finished run of twelve questions of two domains."""
    run = tmp_path / "run"
    assert shell("run", "--benchmarks", "capitals:6,science:6", "--method", "stated", "--out", run).code == 0
    return run


@pytest.fixture
def say(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `secl label` with these lines from the keyboard."""

    def run(words: str, *arguments: object) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{word}\n" for word in words.split("|"))))
        return shell("label", *arguments)

    return run


def said(run: Path) -> list[bool | str | None]:
    with Store(run) as store:
        return ["skipped" if label.skipped else label.correct for label in store.label_log()]


def test_a_review_is_stored_and_goes_on_where_it_ended(say: Any, reviewed: Path) -> None:
    ended = say("y|n|maybe|s|q", reviewed).fine
    assert "1 of 12" in ended.out
    assert ended.out.count("Is it right?") == 5
    assert "2 labels: 1 right, 1 wrong, 1 skipped." in ended.out
    assert "Confidence:" not in ended.out
    assert said(reviewed) == [True, False, "skipped"]
    assert "1 of 10 " in say("n|q", reviewed).out
    with Store(reviewed) as store:
        labels = store.labels()
    assert len({label.position for label in labels}) == 3
    reviews = {("review", 1.0, correct) for correct in (True, False)}
    assert {(label.source, label.chance, label.correct) for label in labels} == reviews
    ended = say("Yes|unsure|none|yesterday|wrong|NO|u|undo|quit", reviewed)  # only the words of the keys are replies
    assert ended.out.count("Is it right?") == 9
    assert said(reviewed) == [True, False, "skipped", False, True, False, None, None]
    say("no idea|skip|q", reviewed)
    assert said(reviewed)[8:] == ["skipped"]


def test_a_skip_can_be_taken_back_and_skipped_answers_come_last(say: Any, reviewed: Path) -> None:
    ended = say("s|u|s|y|u|u|q", reviewed)
    assert said(reviewed) == ["skipped", None, "skipped", True, None, None]
    assert "0 labels: 0 right, 0 wrong." in ended.out
    say("s|y|q", reviewed)
    with Store(reviewed) as store:
        (skipped,) = (entry.position for entry in store.label_log()[6:] if entry.skipped)
        assert review_queue(store).positions[-1] == skipped
        assert len(review_queue(store).positions) == 11
    say("|".join(["y"] * 11), reviewed)
    with Store(reviewed) as store:
        assert (len(store.labels()), review_queue(store).positions) == (12, ())


def test_undo_takes_the_last_word_back_and_asks_again(say: Any, refused: Any, reviewed: Path, tmp_path: Path) -> None:
    ended = say("u|y|u|n|q", reviewed)
    assert ended.code == 0
    assert said(reviewed) == [True, None, False]
    assert "1 label: 0 right, 1 wrong." in ended.out
    with Store(reviewed) as store:
        (label,) = store.labels()
    assert "is taken back" in say("", reviewed, "--undo", label.position).out
    assert said(reviewed) == [True, None, False, None]
    for number in (99, 10**20):
        refused(("label", reviewed, "--undo", number), f"no record {number}", "12")
    refused(("label", reviewed, "--undo", label.position), "has no label to withdraw")


@pytest.mark.usefixtures("scripted")
def test_the_report_of_a_resumed_run_and_a_comparison_count_its_labels(shell: Shell, tmp_path: Path) -> None:
    rows = "".join(f'{{"question": "Number {n}?", "options": ["x", "y"]}}\n' for n in range(40))
    (tmp_path / "mine.jsonl").write_text(rows)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        run = ("run", "--questions", tmp_path / "mine.jsonl", "--method", "stated", "--out", folder)
        assert shell(*run).code == 0
        give_labels(folder, lambda position: position % 3 == 0, 30)
    resumed = shell("run", "--resume", folders[0]).fine
    assert json.loads((folders[0] / "summary.json").read_text())["unlabelled"] == 10
    assert "No answer has a label" not in resumed.out
    assert json.loads(shell("compare", *folders, "--json").out)["comparisons"][0]["graded"] == 30


@pytest.mark.usefixtures("scripted")
def test_ask_takes_over_what_labels_taught_and_compares_thresholds_after_them(shell: Shell, tmp_path: Path) -> None:
    run, question = tmp_path / "run", ("ask", "Which one?", "--option", "x", "--option", "y", "--json")
    asked = ("run", "--benchmarks", "capitals:12", "--method", "posterior", "--answer", "best")
    assert shell(*asked, "--out", run).code == 0
    before = json.loads(shell(*question).out)["confidence"]
    refused = shell(*question, "--calibration", run)
    assert (refused.code, refused.err.count("\n"), "has no labels" in refused.err) == (2, 1, True)
    give_labels(run, lambda _position: False)
    after = json.loads(shell(*question, "--calibration", run, "--accept", before).out)
    assert (after["confidence"] < before, after["accept"], after["accepted"]) == (True, before, False)
    at = json.loads(shell(*question, "--calibration", run, "--accept", after["confidence"]).out)
    assert (at["confidence"] >= at["accept"], at["accepted"]) == (True, True)
    # Labels of answers from elsewhere calibrate no answers of the model.
    (tmp_path / "given.csv").write_text("question,answer\nCapital of Peru?,Lima\n")
    assert shell("score", tmp_path / "given.csv", "--out", tmp_path / "scored").code == 0
    give_labels(tmp_path / "scored", lambda _position: True)
    ended = shell(*asked, "--out", tmp_path / "asked", "--calibration", tmp_path / "scored")
    assert (ended.code, "mode: score there, ask here" in ended.err) == (2, True)


CONFIDENCE = [0.9] * 60 + [0.5] * 60


def facts(out: str) -> dict[str, str]:
    """The rows of a printed table of two columns."""
    lines = (re.split(r"\s{2,}", line.rstrip(), maxsplit=1) for line in out.splitlines() if "  " in line)
    return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


def test_labels_give_a_promise_and_confidences_alone_an_estimate(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [True] * 60 + [False] * 60))
    ended = shell("threshold", run, "--risk", 0.05).fine
    promise = {"accept from": "0.7", "answers accepted": "50% of 120", "labelled among these": "60, 0 wrong"}
    promise |= {"wrong among these": "at most 3.8%: guaranteed with 90% certainty"}
    promise |= {"at most 5% wrong, 90% certainty": "", "rests on": "120 answers with a reference"}
    assert facts(ended.out).items() >= promise.items()
    assert "random sample" in ended.out
    step = f"next: secl export {run} --accept 0.7 --format csv; for later questions: secl run ... --accept 0.7\n"
    assert ended.out.endswith(step)
    values = json.loads(shell("threshold", run, "--risk", 0.05, "--json").out)
    assert (values["guarantee"], values["labels"], values["answers"]) == (True, 120, 120)
    assert (values["threshold"]["value"], round(values["threshold"]["bound"], 4)) == (0.7, 0.0376)
    run = run_folder(tmp_path / "unlabelled", answered(CONFIDENCE, [None] * 120))
    said = facts(shell("threshold", run, "--risk", 0.1).out)
    assert (said["accept from"], said["wrong among these"]) == ("0.7", "about 10%: an estimate")
    assert said["rests on"] == "the confidences alone"
    strict = facts(shell("threshold", run, "--risk", 0.01).out)
    assert strict["accept from"] == "no confidence suffices"
    assert strict["for a guarantee"] == "at least 230 labels of answers drawn at random"


SURE = [0.9 - 0.01 * k for k in range(28)]
NONE: tuple[tuple[list[float], list[bool | None], dict[str, str], str], ...] = (
    (
        SURE,
        [False, *[True, False] * 13, False],
        {
            "wrong": "15 of 28 graded answers",
            "for a guarantee": "at most 0 of the 22 most confident graded answers may be wrong, but 11 are",
        },
        "look at every answer, or compare other methods (secl check)",
    ),
    (
        [*SURE[:5], 0.1],
        [True, False, False, False, False, None],
        {"wrong": "4 of 5 graded answers", "for a guarantee": "at least 22 labels of answers drawn at random"},
        "label the other one and ask 16 more questions",
    ),
    (
        [0.9] * 40,
        [True] * 15 + [None] * 25,
        {
            "wrong": "0 of 15 graded answers",
            "for a guarantee": "about 22 labels of answers drawn at random, if further labels are like these",
            "lowest risk guaranteed now": "15%",
        },
        "label 7 more",
    ),
    (
        [0.95] * 90,
        [True] * 29 + [False] + [None] * 60,
        {
            "for a guarantee": "about 52 labels of answers drawn at random, if further labels are like these; "
            "22, if all of them are right",
        },
        "label 22 more",
    ),
)


def test_without_a_threshold_it_says_why_and_what_next(shell: Shell, tmp_path: Path) -> None:
    for number, (confidence, correct, why, step) in enumerate(NONE):
        run = run_folder(tmp_path / str(number), answered(confidence, [None] * len(correct)))
        with Store(run, writable=True) as store:
            for position, right in enumerate(correct):
                if right is not None:
                    store.add_feedback(position, right, drawn=True)
        out = shell("threshold", run, "--risk", 0.1).out
        assert facts(out).items() >= {"accept from": "no confidence suffices", **why}.items()
        assert out.endswith(f"next: {step}\n")


def test_a_threshold_can_rest_on_recent_labels_and_hold_for_any_number_of_looks(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered([0.9] * 60, [None] * 60))
    give_labels(run, lambda _position: True, 50)
    with Store(run, writable=True) as store:
        store.add_feedback(review_queue(store).positions[0], None, drawn=True, skipped=True)
    asked = ("threshold", run, "--risk", 0.1)
    found = json.loads(shell(*asked, "--anytime", "--json").out)
    assert (found["anytime"], found["fewest"], found["labels"], found["skipped"]) == (True, 43, 50, 1)
    assert (found["guarantee"], found["unskipped"]["coverage"], found["threshold"]) == (False, 1.0, None)
    found = json.loads(shell(*asked, "--json").out)
    assert (found["guarantee"], found["doubt"], found["change"], found["threshold"]["worth"]) == (True, None, None, 51)
    assert "A guarantee holds for one look: " in " ".join(shell(*asked).out.split())
    assert facts(shell(*asked, "--since", "1d").out)["accept from"] == "every answer"
    later = facts(shell(*asked, "--since", "2999-01-01").out)
    assert (later["rests on"], later["too old"]) == ("the confidences alone", "51 labels")


def test_what_makes_no_sense_is_refused(refused: Any, tmp_path: Path) -> None:
    run, empty = run_folder(tmp_path / "run", answered([0.9] * 5, [True] * 5)), run_folder(tmp_path / "empty", [])
    for folder, arguments, *words in (
        (run, (), "--risk"),
        (run, ("--risk", 0), "at least 1e-09 and below 1", "no number of labels"),
        (run, ("--risk", 1), "at least 1e-09 and below 1"),
        (run, ("--risk", "often"), "often"),
        (run, ("--risk", 0.1, "--certainty", 1), "certainty"),
        (run, ("--risk", 0.1, "--since", "soon"), "since is 'soon'", "like 30d"),
        (empty, ("--risk", 0.1), "nothing to accept"),
    ):
        refused(("threshold", folder, *arguments), *words)
    for chosen, *words in (
        (("--accept", 0.5, "--risk", 0.1), "--accept and --risk both choose", "leave one of them out"),
        (("--accept", 1.5), "accept is 1.5", "from 0 to 1"),
        (("--certainty", 0.9), "--certainty is the certainty of --risk"),
        (("--only", "accepted"), f"the answers of {run} have no threshold", "give --accept or --risk"),
        (("--only", "wrong", "--accept", 0.5), "--only", "accepted"),
        (("--version", 1, "--only", "accepted"), "learned weights have no accepted answers"),
        (("--version", 1, "--risk", 0.1), "learned weights have no accepted answers"),
        (("--risk", 0.1), "no confidence keeps a risk of 10%", f"secl threshold {run} --risk 0.1"),
    ):
        refused(("export", run, *chosen), *words)


@pytest.mark.parametrize("more", [(), ("--review",), ("--full",)])
@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "jsonl"])
@pytest.mark.parametrize("threshold", [("--accept", 0.7), ("--risk", 0.3), ()])
def test_accepted_and_rejected_rows_are_exported_apart_and_none_is_lost(
    shell: Shell, tmp_path: Path, threshold: tuple[Any, ...], ending: str, more: tuple[str, ...]
) -> None:
    if more == ("--full",) and ending == "jsonl":
        return
    records = answered([0.55, 0.75, 0.95] * 40, [False, True, True] * 40)
    own = (("accepted", "by me"),)  # a column of the user
    asked = [replace(each, question=replace(each.question, row=own)) for each in records]
    run = run_folder(tmp_path / "run", [replace(each, threshold=None if threshold else 0.7) for each in asked])

    def rows(*only: str) -> list[Any]:
        ended = shell("export", run, *threshold, *more, *only, "--out", tmp_path / f"t.{ending}")
        assert ended.code == 0
        kind = "json" if ending == "jsonl" else {"xlsx": "excel"}.get(ending, ending)
        lines = {"lines": True} if ending == "jsonl" else {}
        return list(getattr(pd, f"read_{kind}")(tmp_path / f"t.{ending}", **lines).to_dict("records"))

    every, taken, left = rows(), rows("--only", "accepted"), rows("--only", "rejected")
    kept = [[row["record_id"] for row in each] for each in (every, taken, left)]
    assert ({row["accepted"] for row in taken}, {row["accepted"] for row in left}) == ({True}, {False})
    assert len(taken) == 80
    assert [name for name in kept[0] if name in kept[1]] == kept[1]  # in the order of all rows
    assert {*kept[0]} == {*kept[1]} | {*kept[2]}
    assert len(every) == len(taken) + len(left)


def test_an_export_without_a_row_keeps_its_columns(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered([0.6, 0.7], [None, None]))
    out = shell("export", run, "--accept", 0.99, "--only", "accepted", "--format", "csv", "--out", "-").out
    assert "accepted" in out.splitlines()[0].split(",")
    assert len(out.splitlines()) == 1


def accepted(records: Any) -> list[tuple[float | None, bool | None]]:
    return [(record.accept, record.accepted) for record in records]


@pytest.mark.usefixtures("scripted")
def test_a_run_marks_counts_and_exports_what_it_does_not_accept(shell: Shell, tmp_path: Path, refused: Any) -> None:
    run, asked = tmp_path / "run", ("run", "--benchmarks", "capitals:6", "--method", "stated")
    refused((*asked, "--accept", 1.5, "--out", run), "accept is 1.5", "0 to 1")
    ended = shell(*asked, "--accept", 0.8, "--out", run).fine
    assert "Accepted at 0.8: 0 of 6 answers (0%); " in ended.out
    assert accepted(stored(run)) == [(0.8, False)] * 6
    rows = list(csv.DictReader(io.StringIO(shell("export", run, "--format", "csv", "--out", "-").out)))
    assert {row["accepted"] for row in rows} == {"False"}
    complete = json.loads(shell("export", run, "--out", "-").out.splitlines()[0])
    assert (complete["accept"], complete["accepted"]) == (0.8, False)
    assert "Accepted at 0.8: 0 of 6 answers" in shell("report", run).out
    assert "accept 0.8" not in shell("compare", run, run, "--estimator", "stated", "--estimator", "stated_hard").out
    file = tmp_path / "given.csv"  # answers from elsewhere
    file.write_text("question,answer,correct\nCapital of Peru?,Lima,true\nCapital of Chile?,Rio,false\n")
    out = shell("score", file, "--accept", 0.01).out
    assert "Accepted at 0.01: 2 of 2 answers (100%); 50% of these are right." in out
    scored = json.loads(shell("score", file, "--accept", 0.99, "--json").out)["answers"]
    assert [row["accepted"] for row in scored] == [False, False]


@pytest.mark.usefixtures("scripted")
def test_a_resumed_run_may_accept_more_and_both_kinds_of_answers_are_counted(
    shell: Shell, tmp_path: Path, interrupt_at: Interrupt
) -> None:
    interrupt_at(3)
    shell("run", "--benchmarks", "capitals:6", "--method", "stated", "--accept", 0.8, "--out", tmp_path / "run")
    ended = shell("run", "--resume", tmp_path / "run", "--accept", 0.7).fine
    assert accepted(stored(tmp_path / "run")) == [(0.8, False)] * 2 + [(0.7, True)] * 4
    assert "Accepted at thresholds from 0.7 to 0.8: 4 of 6 answers (67%)" in ended.out
    records = [replace(r, threshold=0.6) for r in answered([0.9, 0.9, 0.9, 0.5, 0.5], [True, True, False, False, None])]
    right = "67% of these are right; 0% of rejected answers are right."
    assert accepted_sentence(records) == f"Accepted at 0.6: 3 of 5 answers (60%); {right}"
    assert accepted_sentence(answered([0.9], [True])) is None


def test_one_answer_says_whether_it_is_accepted(shell: Shell, scripted: None, refused: Any) -> None:
    ask = ("ask", "Capital of France?", "--option", "Rome", "--option", "Paris")
    assert "\naccepted: 0." in shell(*ask, "--accept", 0.01).out
    assert "not accepted: 0." in shell(*ask, "--accept", 0.99).out
    assert "accepted" not in shell(*ask).out
    refused((*ask, "--accept", 2), "accept is 2", "from 0 to 1")
    assert "could not be read" in accepted_line(None, 0.9, 0.5)


def sheet(run: Path, file: Path, rows: str) -> Path:
    """A sheet with these rows, in which R0, R1, ... are the ids of the answers at these positions."""
    with Store(run) as store:
        ids = {f"R{record.position}": row_id(record) for record in store.records()}
    file.write_text(re.sub(r"R\d+", lambda found: ids.get(found[0], found[0]), rows))
    return file


BAD_SHEETS = {
    "record_id,label\nR0,y\nrec_7_00000000,n\n": ("line 3", "rec_7_00000000", "no answer of", "a sheet of this run"),
    "record_id,label\nR0,y\n,n\n": ("line 3", "a verdict but no record_id"),
    "record_id,label\nR0,y\nR1,y\nR0,n\n": ("line 4", "contradicts the verdict of line 2"),
    "record_id,label\nR0,y\nR1,perhaps\n": ("line 3", "'perhaps' in 'label'", "write right or wrong", "correct_answer"),
    "record_id,correct_answer\nR0,yes\nR1,maybe\n": ("line 3", "none of its options", "A. yes", "B. no"),
    "record_id,correct_answer\nR0,3\n": ("line 2", "3"),
    "record_id,label,correct_answer\nR0,wrong,yes\n": ("line 2", "'wrong'", "'correct_answer' says the opposite"),
    "record_id,label,sample\nR0,y,5 of 9 (1)\n": ("line 2", "'5 of 9 (1)' in 'sample'", "restore it"),
    "record_id,label,sample\nR0,y,all\n": ("line 2", "'all' in 'sample'"),
    "record_id,label\nR0\n": ("line 2", "1 fields but the header has 2"),
    "record_id,label\nR0,\nR1,\n": ("no verdict", "write right or wrong"),
    "record_id,label\n": ("no verdict",),
    "record_id,verdict\nR0,y\n": ("'record_id' and 'label'", "but has 'record_id', 'verdict'", "--review"),
    "id,label\nq0,y\n": ("'record_id' and 'label'",),
    "": ("is empty",),
    '{"record_id": ["R0"], "label": {"a": 1}, "sample": [1]}\n': ("line 1", "no answer of"),
    '{"record_id": "R0", "label": {"a": 1}}\n': ("line 1", "in 'label'"),
    '{"record_id": "R0", "label": "y", "sample": [1]}\n': ("line 1", "'[1]' in 'sample'"),
}


@pytest.mark.parametrize("rows", BAD_SHEETS)
def test_a_sheet_with_one_bad_row_is_refused_with_its_line_and_no_label_is_stored(
    refused: Any, tmp_path: Path, rows: str
) -> None:
    run = run_folder(tmp_path / "run", answered([0.9] * 4, [None] * 4))
    file = sheet(run, tmp_path / ("sheet.jsonl" if rows.startswith("{") else "sheet.csv"), rows)
    refused(("label", run, "--from", file), str(file), *BAD_SHEETS[rows])
    assert said(run) == []


def test_labels_of_the_wrong_table_or_of_no_table_are_refused(refused: Any, shell: Shell, tmp_path: Path) -> None:
    other, run = (
        run_folder(
            tmp_path / name, [replace(r, question=replace(r.question, text=name)) for r in answered([0.9], [None])]
        )
        for name in ("other", "run")
    )
    shell("export", other, "--review", "--out", tmp_path / "sheet.csv")
    text = (tmp_path / "sheet.csv").read_text().replace("0.9,", "0.9,y,")
    (tmp_path / "sheet.csv").write_text(text)
    refused(("label", run, "--from", tmp_path / "sheet.csv"), "line 2", "no answer of")
    refused(("label", run, "--from", tmp_path / "none.csv"), "does not exist")
    refused(("label", run, "--references"), "no question of", "has a right answer", "--columns reference=NAME")
    refused(("label", run, "--random"), "--random needs")
    refused(("label", run, "--references", "--undo", 0), "one of --from FILE, --references and --undo")
    for arguments, *words in (
        (("--sample", 0), "at least 1"),
        (("--sample", 3, "--full"), "bias labels"),
        (("--sample", 3, "--review"), "bias labels"),
        (("--sample", 3, "--accept", 0.5), "bias labels"),
        (("--sample", 3, "--format", "jsonl"), ".csv, .xlsx or .parquet"),
    ):
        refused(("export", run, *arguments), *words)
    rows = answered([0.9], [None])  # the user's own columns never have the names of columns for verdicts
    own = run_folder(
        tmp_path / "own", [replace(r, question=replace(r.question, row=(("label", "yes"),))) for r in rows]
    )
    shell("export", own, "--out", tmp_path / "own.csv")
    refused(("label", own, "--from", tmp_path / "own.csv"), "has 'given_label', 'record_id', 'answer'", "--review")


@pytest.mark.usefixtures("scripted")
def test_right_answers_of_random_rows_calibrate_this_run_and_the_next(
    shell: Shell, tmp_path: Path, refused: Any
) -> None:
    """Before, `--calibration` said that such a run "has no labels", and its confidences stayed unchanged."""
    rows = "".join(f"Number {n}?,x|y,{'A' if n < 20 else ''}\n" for n in range(40))
    (tmp_path / "mine.csv").write_text(f"question,options,Category\n{rows}")
    asked = ("run", "--questions", tmp_path / "mine.csv", "--columns", "reference=Category", "--method", "stated")
    first = tmp_path / "first"
    step = f"next: secl label {first} --references, with --random if"
    assert step in shell(*asked, "--out", first).out
    assert "secl label" in refused((*asked, "--out", tmp_path / "b", "--calibration", first), "--references")
    ended = shell("label", first, "--references", "--random").fine
    assert "20 labels: " in ended.out
    assert re.search(r"Mean confidence 0\.\d+ without labels, 0\.\d+ now", ended.out)
    before, after = stored(first), [json.loads(line) for line in shell("export", first, "--out", "-").out.splitlines()]
    assert all(row["confidence"] != record.confidence for record, row in zip(before, after, strict=True))
    assert shell(*asked, "--out", tmp_path / "next", "--calibration", first).code == 0
    assert stored(tmp_path / "next")[30].confidence == after[30]["confidence"]
    refs = "rests on"
    assert facts(shell("threshold", first, "--risk", 0.3).out)[refs].startswith("20 ")
    assert "allow no guarantee" in shell("label", first, "--references").out  # without --random
    whole = rows.replace("x|y,\n", "x|y,B\n")
    (tmp_path / "mine.csv").write_text(f"question,options,Category\n{whole}")
    assert shell(*asked, "--out", tmp_path / "all").code == 0
    assert "allow no guarantee" not in shell("label", tmp_path / "all", "--references").out  # all answers are no choice


def test_the_line_after_a_sitting_has_the_mean_before_all_labels_and_before_the_sitting(
    say: Any, reviewed: Path
) -> None:
    assert "without labels, 0." in say("n|n|q", reviewed).out
    assert "before this command" not in say("q", reviewed).out.split("Mean")[0]
    assert re.search(r"Mean confidence 0\.750 without labels, 0\.\d+ before this command, 0", say("n|q", reviewed).out)
