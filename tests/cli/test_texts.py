"""Texts with facts on the command line: ask, export, label, threshold."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.model import ModelAnswer
from secl.question import Question
from secl.records import Record
from secl.runs import Store
from secl.runs.labelling import current_records, review_queue, row_id
from tests.cli.conftest import Shell, Use
from tests.texts import POEM, Writer, asked_about, facts_of_run, question_file, run_of_texts, text_about


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return run_of_texts(tmp_path / "run", 6)


@pytest.fixture
def writer(use: Use) -> None:
    use(Writer())


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def texts_of(folder: Path) -> list[Record]:
    with Store(folder) as store:
        return list(current_records(store))


@pytest.mark.usefixtures("writer")
def test_ask_marks_uncertain_facts_and_counts_the_right_ones(shell: Shell) -> None:
    out = shell("ask", asked_about(3), "--form", "text").fine.out
    assert "founded in 1687 [0.30], and 6 million people live" in " ".join(out.split())
    assert "Of the 4 facts of the text, 3.0 are expected to be right" in out
    assert "The town was founded in ____, and 6 million people live there today." in out
    assert "did not compare" not in out


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize(
    ("accept", "marked", "line"),
    [
        (0.2, "", "accepted: all 4 facts"),
        (0.7, "1687 [0.30]", "not accepted: 1 of 4 facts"),
        (0.95, "120 km [0.90]", "4 of 4"),
    ],
)
def test_ask_marks_the_facts_that_a_threshold_rejects(shell: Shell, accept: float, marked: str, line: str) -> None:
    out = " ".join(shell("ask", asked_about(3), "--form", "text", "--accept", accept).fine.out.split())
    assert marked in out
    assert line in out
    assert bool(marked) == ("[0." in out)


@pytest.mark.usefixtures("writer")
def test_ask_gives_a_text_without_facts_a_reason_and_no_number(shell: Shell) -> None:
    out = shell("ask", POEM, "--form", "text").fine.out
    assert out.startswith("the sea is calm")
    assert "so it has no confidence" in " ".join(out.split())
    assert "%" not in out
    plain = json.loads(shell("ask", POEM, "--form", "text", "--json").fine.out)
    assert (plain["confidence"], plain["facts"]) == (None, [])


def test_ask_prints_a_text_that_repeats_itself_and_gives_the_reason(shell: Shell, use: Use) -> None:
    class Loop(Writer):
        def answer(self, question: Question, **how: Any) -> ModelAnswer:
            told = super().answer(question, **how)
            reply = replace(told.reply, text="It is by the sea. " * 40, answer=None)
            return replace(told, reply=reply, frozen=reply)

    use(Loop())
    out = " ".join(shell("ask", asked_about(3), "--form", "text").fine.out.split())
    assert out.startswith("It is by the sea. It is by the sea.")
    assert "The text repeats itself, so it has no confidence." in out


@pytest.mark.usefixtures("writer")
def test_the_json_of_a_text_has_its_facts(shell: Shell) -> None:
    plain = json.loads(shell("ask", asked_about(3), "--form", "text", "--accept", "0.7", "--json").fine.out)
    facts = plain["facts"]
    assert [fact["text"] for fact in facts] == ["1687", "6 million people", "120 km", "Arequipa"]
    assert [plain["text"][slice(*fact["span"])] for fact in facts] == [fact["text"] for fact in facts]
    assert [fact["accepted"] for fact in facts] == [False, True, True, True]
    assert facts[0]["confidence"] == pytest.approx(0.3)
    assert facts[0]["low"] < 0.3 < facts[0]["high"]


@pytest.mark.usefixtures("writer")
def test_score_rates_the_facts_of_given_texts(shell: Shell, tmp_path: Path) -> None:
    rows = [{"question": each, "answer": text_about(each), "form": "text"} for each in (asked_about(3), POEM)]
    path = tmp_path / "given.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    out = shell("score", path).fine.out
    assert "1.0 wrong, expected" in out
    assert "the probability that all its facts are right" in out
    assert "posterior of the answer among its rivals" not in out


@pytest.mark.usefixtures("writer")
def test_run_and_report_speak_about_facts(shell: Shell, tmp_path: Path) -> None:
    path = question_file(tmp_path / "q.jsonl", 6)
    out = " ".join(shell("run", "--questions", path, "--out", tmp_path / "out").fine.out.split())
    facts = facts_of_run(tmp_path / "out")
    assert f"6 texts with {len(facts)} facts" in out
    assert "1 text has no facts, and so no confidence." in out
    assert "No fact has a label" in out
    assert "____" in out  # the sentence of the fact to look at first
    full = shell("report", tmp_path / "out", "--full").fine.out
    assert "Texts with their facts" in full
    assert "[0.30]" in full


def test_an_export_counts_the_facts_of_each_text(shell: Shell, folder: Path) -> None:
    rows = rows_of(shell("export", folder, "--format", "csv", "--out", "-").fine.out)
    for row, record in zip(rows, texts_of(folder), strict=True):
        facts = record.facts or ()
        assert row["note"].startswith("row")
        assert int(row["facts"]) == len(facts)
        if facts:
            assert float(row["expected_errors"]) == pytest.approx(sum(1 - fact.confidence for fact in facts))
            least = min(facts, key=lambda fact: fact.confidence)
            assert row["least_certain"].split(" | ")[0] == least.text
        else:
            assert row["expected_errors"] == row["confidence"] == row["least_certain"] == ""


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
def test_an_export_has_a_row_for_each_fact(shell: Shell, folder: Path, tmp_path: Path, ending: str) -> None:
    pandas: Any = pytest.importorskip("pandas")
    path, facts = tmp_path / f"facts.{ending}", facts_of_run(folder)
    assert shell("export", folder, "--facts", "--accept", "0.7", "--out", path).fine.out.strip() == str(path)
    if ending == "jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [(line["text"], line["fact"], line["accepted"]) for line in lines] == [
            (fact.text, fact.fact, fact.confidence >= 0.7) for fact in facts
        ]
        return
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet, "xlsx": pandas.read_excel}[ending]
    table = read(path)
    assert [*table["answer"].astype(str)] == [fact.text for fact in facts]
    assert [*table["confidence"]] == pytest.approx([fact.confidence for fact in facts])
    assert [*table["accepted"]] == [fact.confidence >= 0.7 for fact in facts]
    assert [*zip(table["start"], table["end"], strict=True)] == [fact.span for fact in facts]
    assert table["sentence"].str.contains("____").all()
    assert table["note"].str.startswith("row").all()  # the user's own column


def test_the_threshold_of_a_run_of_texts_is_about_facts(shell: Shell, folder: Path) -> None:
    with Store(folder, writable=True) as store:
        for fact in (fact for record in store.records() for fact in record.facts or ()):
            store.add_feedback(fact.position, fact.confidence > 0.5, drawn=True, fact=fact.fact)
    facts = facts_of_run(folder)
    out = " ".join(shell("threshold", folder, "--risk", "0.4").fine.out.split())
    assert f"of {len(facts)}" in out
    assert "facts accepted" in out or "graded facts" in out
    assert f"{len(facts)} labels of facts in 6 texts drawn at random" in out
    assert "labels of one text" in out


def label(shell: Shell, monkeypatch: pytest.MonkeyPatch, folder: Path, keys: str, *, code: int = 0) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{key}\n" for key in keys)))
    ended = shell("label", folder)
    assert ended.code == code, ended
    return ended.out


def sample_of(folder: Path) -> dict[tuple[int, int], bool]:
    with Store(folder) as store:
        return store.sample()


def test_labelling_goes_through_the_facts_of_texts(shell: Shell, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with Store(folder) as store:
        first, second, *_ = review_queue(store).positions
        texts = {record.position: record for record in store.records()}
    facts = texts[first].facts or ()
    out = label(shell, monkeypatch, folder, "yn" + "q")  # quits in the middle of the first text
    total = sum(len(record.facts or ()) for record in texts.values())
    assert f"1 of {total} " in out
    assert out.count(str(texts[first].text)) == 1  # the text once, then the sentences of its facts
    for number, fact in enumerate(facts[:3], 1):
        sentence = fact.question.text.replace("____", f"[{fact.text}]")
        assert f"Fact {number} of {len(facts)}: {sentence}" in out
    assert "2 labels: 1 right, 1 wrong" in out
    assert sample_of(folder) == {(first, 1): False, (first, 2): False}
    out = label(shell, monkeypatch, folder, "y" * (len(facts) - 2) + "sq")  # the rest of it, one skip in the next text
    assert f"1 of {total - 2} " in out
    assert f"Fact 3 of {len(facts)}" in out
    assert sample_of(folder)[second, 1] is True
    with Store(folder) as store:
        queue = review_queue(store)
        assert first not in queue.positions
        assert second in queue.positions
    label(shell, monkeypatch, folder, "y" * total)
    with Store(folder) as store:
        assert review_queue(store).positions == ()
    assert sum(sample_of(folder).values()) == 0
    assert len(sample_of(folder)) == total


def test_the_last_label_of_a_fact_can_be_taken_back(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    out = label(shell, monkeypatch, folder, "yyunq")
    assert out.count("Fact 2 of") == 2
    assert "2 labels: 1 right, 1 wrong" in out
    (position,) = {position for position, _ in sample_of(folder)}
    assert "taken back" in shell("label", folder, "--undo", position).fine.out
    assert sample_of(folder) == {}


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_a_sheet_of_sampled_texts_comes_back_with_a_label_for_each_fact(
    shell: Shell, folder: Path, tmp_path: Path, ending: str
) -> None:
    pandas: Any = pytest.importorskip("pandas")
    path = tmp_path / f"sheet.{ending}"
    assert shell("export", folder, "--sample", 3, "--out", path).code == 0
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet, "xlsx": pandas.read_excel}[ending]
    table = read(path)
    assert "confidence" not in table.columns
    texts = {record.position: record for record in texts_of(folder)}
    drawn = {int(name.split("_")[1]) for name in table["record_id"]}
    assert len(table) == sum(len(texts[position].facts or ()) for position in drawn)
    judged = ["right" if number % 3 else "wrong" for number in range(len(table) - 1)]
    table["label"] = [*judged, None]
    write = {"csv": "to_csv", "parquet": "to_parquet", "xlsx": "to_excel"}[ending]
    getattr(table, write)(path, index=False)
    out = shell("label", folder, "--from", path).fine.out
    assert f"{len(judged)} labels: {judged.count('right')} right, {judged.count('wrong')} wrong, 1 skipped" in out
    assert {position for position, _ in sample_of(folder)} == {p for p in drawn if texts[p].facts}
    with Store(folder) as store:
        labels = {label.key: label.correct for label in store.labels()}
    rows = zip(table["record_id"], table["fact"], judged, strict=False)
    assert labels == {(int(name.split("_")[1]), int(fact)): verdict == "right" for name, fact, verdict in rows}
    assert shell("label", folder, "--from", path).code == 0  # the same sheet again changes nothing
    with Store(folder) as store:
        assert len(store.label_log()) == len(table)


def sheet(path: Path, *rows: dict[str, object]) -> Path:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_the_row_of_a_whole_text_is_about_all_its_facts(shell: Shell, folder: Path, tmp_path: Path) -> None:
    name, facts = row_id(texts_of(folder)[0]), texts_of(folder)[0].facts or ()
    path = sheet(tmp_path / "sheet.csv", {"record_id": name, "wrong_fields": "1, 3"})
    assert shell("label", folder, "--from", path).code == 0
    with Store(folder) as store:
        assert {label.fact: label.correct for label in store.labels()} == {
            fact.fact: fact.fact not in (1, 3) for fact in facts
        }


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"fact": 99, "label": "right"}, "its answer has"),
        ({"fact": "x", "label": "right"}, "restore the number"),
        ({"wrong_fields": "7"}, "its facts are 1, 2, 3"),
        ({"label": "wrong"}, "name its wrong facts"),
    ],
)
def test_a_sheet_that_names_no_fact_of_the_text_is_refused(
    refused: Any, folder: Path, tmp_path: Path, row: dict[str, object], words: str
) -> None:
    path = sheet(tmp_path / "sheet.csv", {"record_id": row_id(texts_of(folder)[0]), **row})
    refused(("label", folder, "--from", path), words, "line 2")


def test_a_verdict_about_a_text_without_facts_is_refused(refused: Any, folder: Path, tmp_path: Path) -> None:
    (poem,) = (record for record in texts_of(folder) if record.facts == ())
    path = sheet(tmp_path / "sheet.csv", {"record_id": row_id(poem), "label": "right"})
    refused(("label", folder, "--from", path), "a text without facts")


def test_a_review_puts_the_texts_with_most_wrong_facts_first(shell: Shell, folder: Path) -> None:
    rows = rows_of(shell("export", folder, "--review", "--format", "csv", "--out", "-").fine.out)
    order = list(dict.fromkeys(row["record_id"] for row in rows))
    wrong = {name: sum(1 - float(row["confidence"]) for row in rows if row["record_id"] == name) for name in order}
    assert [wrong[name] for name in order] == pytest.approx(sorted(wrong.values(), reverse=True))
    assert {"label", "correct_answer", "fact", "sentence"} <= {*rows[0]}


def test_a_right_value_in_a_sheet_grades_the_fact(shell: Shell, folder: Path, tmp_path: Path) -> None:
    record = texts_of(folder)[0]
    first, second, *_ = record.facts or ()
    rows = ({"fact": 1, "correct_answer": first.text}, {"fact": 2, "correct_answer": "Simón Bolívar"})
    path = sheet(tmp_path / "sheet.csv", *({"record_id": row_id(record), **row} for row in rows))
    assert shell("label", folder, "--from", path).code == 0
    with Store(folder) as store:
        assert [(label.fact, label.correct) for label in store.labels()] == [(1, True), (2, False)]
    assert second.text != "Simón Bolívar"


def test_two_runs_of_texts_are_compared_over_their_facts(shell: Shell, folder: Path, tmp_path: Path) -> None:
    other = run_of_texts(tmp_path / "other", 6, accept=0.5)
    total = len(facts_of_run(folder))
    for each in (folder, other):
        with Store(each, writable=True) as store:
            for fact in (fact for record in store.records() for fact in record.facts or ()):
                store.add_feedback(fact.position, fact.confidence > 0.5, drawn=True, fact=fact.fact)
    plain = json.loads(shell("compare", folder, other, "--json").fine.out)["comparisons"][0]
    assert (plain["shared"], plain["graded"], plain["answers_differ"], plain["unfinished"]) == (total, total, 0, False)
    assert shell("verify", folder).code == 0


def test_secl_check_needs_short_answers(refused: Any, folder: Path) -> None:
    refused(("check", folder), "name a run with short answers")


def test_a_sweep_of_texts_has_a_table(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Use) -> None:
    use(Writer())
    monkeypatch.setattr("secl.runs.sweep.load_model", lambda *_, **__: Writer())
    path = tmp_path / "poem.jsonl"
    path.write_text(json.dumps({"question": POEM, "form": "text"}))
    recipe = tmp_path / "grid.toml"
    recipe.write_text(f'stream.questions = "{path}"\n[grid]\nmethod = ["posterior", "stated"]\n')
    out = shell("sweep", recipe, "--out", tmp_path / "sweep").fine.out
    assert "Stated (frozen)" in out  # the method "stated" reads no facts
