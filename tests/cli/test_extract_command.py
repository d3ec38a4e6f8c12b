"""`secl extract`: from documents to a run of fields, and their exports, reviews, labels and reports."""

import csv
import io
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl import Record, SeclError
from secl.cli import extract
from secl.errors import ParameterError
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.grading.rules import grade
from secl.labels.label import valid
from secl.runs import RunSettings, Store
from secl.runs.encoding import to_body
from secl.runs.extracting import read_document_stream
from secl.runs.folder import FILE
from secl.runs.labelling import row_id
from secl.runs.runner import TOO_WEAK
from tests.answers import stored
from tests.cli.conftest import Interrupt, Shell, Use
from tests.fields.scribe import Scribe, written

SCHEMA: Any = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "description": "Number of the invoice"},
        "total": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["number", "total", "paid", "lines"],
}


class Clerk(Scribe):
    """Writes the object at the end of a document, with low certainty for the word "unsure"."""

    def __init__(self) -> None:
        super().__init__(written("{}"))

    def check_schema(self, schema: Schema) -> tuple[str, ...]:
        """Accept every schema."""
        return schema.remarks

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        outcomes = []
        for request in requests:
            text = request.question.context.partition("=> ")[2] or "{}"
            self.greedy, self.samples = written(text, unsure="unsure"), (text.replace("unsure", "other"),) * 5
            outcomes += super().write_objects([request], samples)
        return outcomes


@pytest.fixture(autouse=True)
def _clerk(use: Use) -> None:
    use(Clerk())


def invoice(number: str = "A-1", total: Any = 12.5, paid: bool = True, lines: Sequence[str] = ("Bolt", "Nut")) -> str:
    values = {"number": number, "total": total, "paid": paid, "lines": list(lines)}
    return f"An invoice => {json.dumps(values)}"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "invoice.json"
    path.write_text(json.dumps(SCHEMA))
    return path


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Ten documents, with references of every type; the third one fails."""
    rows = [["body", "Number", "total", "paid", "lines", "city"]]
    rows += [
        [invoice(), "A-1", "12.50", "TRUE", "Bolt | Nut", "Lima"],
        [invoice("unsure", None, paid=False), "other", "null", "True", '["Bolt", "Nut"]', ""],
        ["fail", "A-3", "1", "True", "", ""],
        *([invoice(f"A-{number}"), "", "", "", "", ""] for number in range(4, 11)),
    ]
    path = tmp_path / "invoices.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def extracted(shell: Shell, *arguments: Any) -> list[Record]:
    ended = shell("extract", *arguments)
    assert ended.code == 0, ended
    return stored(arguments[-1])


def test_a_field_is_a_record_graded_by_its_type(shell: Shell, documents: Path, schema: Path, tmp_path: Path) -> None:
    records = extracted(shell, documents, "--schema", schema, "--text", "body", "--out", tmp_path / "run")
    assert [record.position for record in records] == [*range(36)]
    assert [record.question.domain for record in records[:4]] == [*SCHEMA["properties"]]
    assert records[4].question.id == "invoices-0002/number"
    assert [record.correct for record in records[:8]] == [True, True, True, True, False, True, False, True]
    assert {record.correct for record in records[8:]} == {None}
    assert {record.kind for record in records} == {"field"}
    assert dict(records[0].question.row)["city"] == "Lima"


def test_an_endless_number_stays_a_text_in_json(shell: Shell, schema: Path, tmp_path: Path) -> None:
    path = tmp_path / "endless.csv"
    path.write_text('body\n"' + invoice(total=1).replace(": 1,", ": -1e999,").replace('"', '""') + '"\n')
    (document,) = json.loads(shell("extract", path, "--schema", schema, "--text", "body", "--json").out)["documents"]
    assert document["total"] == "-Infinity"


def test_a_limit_takes_the_first_documents_or_a_random_sample(
    shell: Shell, documents: Path, schema: Path, tmp_path: Path
) -> None:
    whole = ("extract", documents, "--schema", schema, "--text", "body")
    names = []
    for order in ("forward", "shuffled"):
        ended = shell(*whole, "--limit", 4, "--order", order, "--json")
        names.append([each["document"][-2:] for each in json.loads(ended.out)["documents"]])
    assert sorted(names[0]) == ["01", "02", "03", "04"]
    assert len({*names[1]}) == 4
    assert {*names[1]} != {*names[0]}


def test_a_dry_run_of_documents_estimates_the_time_of_all(
    shell: Shell, documents: Path, schema: Path, tmp_path: Path
) -> None:
    whole = ("extract", documents, "--schema", schema, "--text", "body", "--dry-run")
    said = shell(*whole).fine.out
    assert "the first 8 documents took" in said
    assert "so all 10 take about 0:00:0" in said
    path = tmp_path / "bad.csv"
    path.write_text("body\nfail\nfail\n")
    assert "so all 2 take about" in shell("extract", path, *whole[2:]).fine.out


def test_an_export_has_a_row_for_each_document_and_a_review_begins_with_the_most_expected_errors(
    shell: Shell, documents: Path, schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secl.cli.run.EVERY", 0.0)
    run, out = tmp_path / "run", tmp_path / "x.csv"
    ended = shell("extract", documents, "--schema", schema, "--text", "body", "--accept", 0.5, "--out", run)
    assert "skipped: document 'invoices-0003': the model did not close the object." in ended.err
    assert "4 of 40 fields, 0:00:0" in ended.err
    assert "36 fields extracted, 1 document left out." in ended.out
    assert shell("export", run, "--out", out).code == 0
    rows = read(out.read_text())
    assert [row["document"][-2:] for row in rows] == ["01", "02", "04", "05", "06", "07", "08", "09", "10", "03"]
    first, second, third, *_, last = rows
    assert (first["given_Number"], first["number"], first["total"], first["paid"]) == ("A-1", "A-1", "12.5", "True")
    assert (first["city"], json.loads(first["lines"]), first["correct"]) == ("Lima", ["Bolt", "Nut"], "True")
    assert (second["total"], second["accepted"], second["correct"]) == ("", "False", "False")
    confidences = [float(second[f"{name}_confidence"]) for name in ("number", "total", "paid", "lines")]
    assert confidences[0] < 0.5 < confidences[1]
    product = confidences[0] * confidences[1] * confidences[2] * confidences[3]
    assert float(second["confidence"]) == pytest.approx(product)
    assert (float(second["expected_errors"]), second["least_certain"]) == (0, "")  # references grade all its fields
    confidences = [float(third[f"{name}_confidence"]) for name in ("number", "total", "paid", "lines")]
    assert float(third["expected_errors"]) == pytest.approx(4 - sum(confidences))
    assert third["least_certain"].startswith("lines | ")
    assert (last["body"], last["failed"], last["number"]) == ("fail", "the model did not close the object.", "")
    reviewed = read(shell("export", run, "--format", "csv", "--review", "--out", "-").out)
    assert [row["document"][-2:] for row in reviewed[:2]] == ["03", "04"]
    by_field = [json.loads(line) for line in shell("export", run, "--review", "--out", "-").out.splitlines()]
    assert (len(by_field), by_field[0]["question"]["id"]) == (36, "invoices-0004/lines")
    full = read(shell("export", run, "--format", "csv", "--full", "--out", "-").out)
    assert [(row["document"][-2:], row["field"]) for row in full[:2]] == [("01", "number"), ("01", "total")]
    assert (len(full), full[-1]["body"], full[-1]["failed"]) == (37, "fail", "the model did not close the object.")


def test_fields_are_labelled_reported_and_get_thresholds(
    shell: Shell, refused: Any, documents: Path, schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shell("extract", documents, "--schema", schema, "--text", "body", "--out", run)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n" + "y\n" * 40))
    said = shell("label", run).out
    assert "1 of 36" in said
    assert "An invoice" in said
    assert "What is the value of 'number' (Number of the invoice)?" in said
    assert "36 labels: 35 right, 1 wrong." in said
    said = shell("report", run, "--full").out
    assert ": What is the value of" in said.partition("Most confident wrong answers")[2]
    assert "Stated" not in said.partition("By domain")[2].partition("Most confident")[0]
    assert f"--schema {schema}" in said
    assert "at most 30% wrong, 90% certainty" in shell("threshold", run, "--risk", 0.3).out
    assert "leave --grader out" in shell("report", run, "--grader", "exact").err
    values = json.loads(shell("threshold", run, "--risk", 0.3, "--json").out)["threshold"]
    assert set(values["domains"]) == set(SCHEMA["properties"])  # each field has labels, so a map of its own
    promised = shell("export", run, "--risk", 0.3, "--format", "csv", "--out", "-")
    assert "The promise is about values (columns ending in _accepted), not about whole documents." in promised.err
    accepting = shell("export", run, "--accept", values["value"], "--format", "csv", "--out", "-")
    for out in (promised.out, accepting.out):
        rows = [row for row in read(out) if not row["failed"]]
        for name, value in values["domains"].items():
            reached = [str(float(row[f"{name}_confidence"]) >= value) for row in rows]
            assert [row[f"{name}_accepted"] for row in rows] == reached
    assert "accepted" not in read(promised.out)[0]
    reached = [str(float(row["confidence"]) >= float(row["accept"])) for row in rows]
    assert [row["accepted"] for row in rows] == reached
    table = ("export", run, "--format", "csv", "--out", "-", "--only", "rejected")
    documents_left = read(shell(*table, "--accept", values["value"]).out)
    assert len(documents_left) == reached.count("False") + 1  # secl accepts no document without an object
    refused((*table, "--risk", 0.3), "--risk is about values, not about documents", "add --full")
    fields = read(shell(*table, "--risk", 0.3, "--full").out)
    assert {row["accepted"] for row in fields if not row["failed"]} <= {"False"}


def test_sheets_of_documents_and_of_fields_become_labels_of_fields(
    shell: Shell, refused: Any, documents: Path, schema: Path, tmp_path: Path
) -> None:
    run, file = tmp_path / "run", tmp_path / "sheet.csv"
    records = extracted(shell, documents, "--schema", schema, "--text", "body", "--out", run)

    def filled(rows: list[dict[str, str]]) -> dict[tuple[int, int], bool | None]:
        """Label the run from rows; return the labels by document and field."""
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        assert shell("label", run, "--from", file).code == 0
        with Store(run) as store:
            return {divmod(each.position, 4): each.correct for each in valid(store.label_log())}

    names = [record.question.domain for record in records[:4]]
    rows = read(shell("export", run, "--review", "--format", "csv", "--out", "-").out)
    document = {rows[-1]["record_id"]: None, rows[-2]["record_id"]: None}
    first, second = (int(name.split("_")[1]) // 4 for name in document)
    rows[-1] |= {"label": "right"}
    rows[-2] |= {"wrong_fields": "Total, lines"}
    labels = filled(rows)
    assert labels == {
        **{(first, n): True for n in range(4)},
        **{(second, n): names[n] not in ("total", "lines") for n in range(4)},
    }
    for cells, *words in (
        ({"label": "wrong", "wrong_fields": ""}, "whole object", "wrong_fields"),
        ({"label": "right", "wrong_fields": "total"}, "whole object"),
        ({"label": "", "wrong_fields": "sum"}, "'sum' in 'wrong_fields'", "number, total, paid, lines"),
    ):
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0].keys())
            writer.writeheader()
            writer.writerow(rows[-1] | cells)
        refused(("label", run, "--from", file), "line 2", *words)
    # A sample has a row for each field; a right answer is a value as people write it.
    out = shell("export", run, "--sample", 100, "--format", "csv", "--out", "-").out
    rows = read(out)
    assert {row["field"] for row in rows} == {*names}
    with Store(run) as store:
        by_id = {row_id(record): record for record in store.records()}
    for row in rows:
        row["correct_answer"] = by_id[row["record_id"]].text or ""
    assert {*filled(rows).values()} == {True}  # the sample has the fields of the two documents, too
    others = {"number": "Z-9", "total": "null", "paid": "null", "lines": "[]"}
    again = [row | {"correct_answer": others[row["field"]]} for row in rows]
    labels = filled(again)
    answers = [by_id[row["record_id"]] for row in rows]
    right = [others[each.question.domain] == each.text for each in answers]
    assert [labels[divmod(each.position, 4)] for each in answers] == right
    assert sum(right) < 3


@pytest.mark.parametrize("count", [1, 10, 31])
def test_the_same_command_continues_a_stopped_run_with_the_same_records(
    shell: Shell, documents: Path, schema: Path, tmp_path: Path, interrupt_at: Interrupt, count: int
) -> None:
    arguments = (documents, "--schema", schema, "--text", "body", "--out")
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    expected = extracted(shell, *arguments, whole)
    interrupt_at(count)
    ended = shell("extract", *arguments, stopped)
    assert ended.code == 2
    assert f"stopped after {count - 1} of 40 fields" in ended.err
    # Numbers that do not exist are equal in JSON.
    assert [*map(to_body, extracted(shell, *arguments, stopped))] == [*map(to_body, expected)]
    tables = [shell("export", run, "--format", "csv", "--out", "-").out for run in (stopped, whole)]
    assert tables[0] == tables[1]
    assert "every row has its hash" in shell("verify", stopped).fine.out
    with closing(sqlite3.connect(stopped / FILE)) as db, db:
        db.execute("UPDATE failures SET reason = 'no reason'")
    ended = shell("verify", stopped)
    assert (ended.code, "the row 'invoices-0003' of the table failures was changed" in ended.out) == (1, True)


def test_a_folder_of_texts_a_single_text_and_names_with_descriptions_are_enough(shell: Shell, tmp_path: Path) -> None:
    folder, schema = tmp_path / "letters", tmp_path / "fields.json"
    schema.write_text('{"city": "Where it was written"}')
    (folder / "may").mkdir(parents=True)
    (folder / "may" / "b.txt").write_text('A letter => {"city": "Lima"}')
    (folder / "a.md").write_text('A letter => {"city": null}')
    (folder / "c.pdf").write_bytes(b"%PDF")
    said = shell("extract", folder, "--schema", schema)
    assert (said.code, said.err) == (0, f"warning: {TOO_WEAK}\n")  # no model is named
    lines = [line.split()[:3] for line in said.out.splitlines()[2:]]
    assert lines == [["a.md", "city", "null"], ["may/b.txt", "city", "Lima"]]
    one = shell("extract", folder / "may" / "b.txt", "--schema", schema, "--json")
    (document,) = json.loads(one.out)["documents"]
    assert (document["document"], document["city"]) == ("b.txt", "Lima")
    assert document["confidence"] == document["city_confidence"]


REFERENCES = (
    ("total", "1.234,50|0,19", "1234.5|0.19"),
    ("total", "1.234|0,19", "1234|0.19"),
    ("total", "3,0|€ 1 234", "3|1234"),
    ("total", "(1,234)|12.5 %", "-1234|12.5"),
    ("paid", "yes|0.0", "true|false"),
    ("paid", "1|WAHR", "true|true"),
    ("paid", "1.0|null", "true|null"),
    ("day", "2026-04-02|null", "2026-04-02|null"),
    ("state", "1.0|2", "1|2"),
)


@pytest.mark.parametrize(("column", "cells", "written"), REFERENCES)
def test_references_of_fields_are_read_as_people_write_them(
    column: str, cells: str, written: str, tmp_path: Path
) -> None:
    values = {"total": ["number", "null"], "paid": ["boolean", "null"], "day": ["string", "null"], "state": None}
    kind: Any = {"type": values[column]} if values[column] else {"enum": [1, 2]}
    kind |= {"format": "date"} if column == "day" else {}
    (tmp_path / "s.json").write_text(json.dumps({"type": "object", "properties": {column: kind}}))
    lines = [f"A letter {number}.;{cell}" for number, cell in enumerate(cells.split("|"))]
    (tmp_path / "d.csv").write_text("\n".join([f"text;{column}", *lines]))
    settings = {"stream.questions": str(tmp_path / "d.csv"), "extract.schema_file": str(tmp_path / "s.json")}
    questions = read_document_stream(RunSettings.of(settings)).questions
    assert [grade(question, answer) for question, answer in zip(questions, written.split("|"), strict=True)] == [
        True
    ] * 2
    wrong = {"true": "false", "false": "true", "null": "x"}
    answers = [wrong.get(answer, f"{answer}1") for answer in written.split("|")]
    assert [grade(question, answer) for question, answer in zip(questions, answers, strict=True)] == [False] * 2


def test_bad_input_is_refused(refused: Any, shell: Shell, documents: Path, schema: Path, tmp_path: Path) -> None:
    broken, text, empty = tmp_path / "broken.json", tmp_path / "text.json", tmp_path / "empty.csv"
    broken.write_text('{"type": ')
    text.write_text('{"allOf": [{"$ref": "#"}]}')
    empty.write_text("body,city\n")
    wrong, twice, folder = tmp_path / "wrong.csv", tmp_path / "twice.csv", tmp_path / "folder"
    wrong.write_text("text,total\nA letter.,much\n")
    perhaps, span = tmp_path / "perhaps.csv", tmp_path / "span.csv"
    perhaps.write_text("text,paid\nA letter.,perhaps\n")
    span.write_text("text,total\nA letter.,3\nA note.,3 to 5\n")
    twice.write_text("id,text\na,A letter.\na,A note.\n")
    folder.mkdir()
    usual = ("--schema", schema, "--out", tmp_path / "run")
    for arguments, *words in (
        ((documents,), "name a file with --schema"),
        ((documents, "--json", *usual), "drop --json or --out"),
        ((documents, "--schema", tmp_path / "none.json"), "none.json", "does not exist; check the path"),
        ((documents, "--schema", broken), broken, "is broken JSON (Expecting value"),
        ((documents, "--schema", text), text, "the root of the schema refers only to itself (#)"),
        ((documents, "--schema", documents), documents, "is broken JSON"),
        ((documents, *usual), "has no column 'text', only 'body', 'Number'"),
        ((empty, "--text", "body", *usual), empty, "holds no document"),
        ((folder, *usual), folder, "holds no file that ends in .txt or .md"),
        ((tmp_path / "none.csv", *usual), "none.csv does not exist"),
        ((wrong, *usual), "wrong.csv, line 2 has 'much' in the column of the number 'total'", "--skip-bad"),
        ((span, *usual), "span.csv, line 3 has '3 to 5' in the column of the number 'total'"),
        ((perhaps, *usual), "perhaps.csv, line 2 has 'perhaps' in the column of the boolean 'paid'"),
        ((twice, *usual), "twice.csv, line 3 repeats the id 'a'"),
        ((documents, "--text", "city", *usual), "invoices.csv, line 3 has a column 'city' that is empty"),
    ):
        refused(("extract", *arguments), *words)
    assert shell("extract", wrong, *usual, "--skip-bad").code == 2
    for name, value in (("method", "secl"), ("stream.template", "{body}")):
        with pytest.raises(ParameterError, match=f"leave (the method 'secl'|{name}) out"):
            RunSettings.of({"extract.schema_file": "a.json", "stream.questions": "a.csv", name: value}).check()


def test_a_missing_extra_is_named_before_a_model_is_loaded(
    refused: Any, use: Use, documents: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "find_spec", lambda _name: None)
    use(AssertionError("a model was loaded"))
    refused(("extract", documents, "--schema", schema, "--text", "body"), "extract needs llguidance", "[fields]")


def test_a_run_whose_schema_has_changed_is_refused_and_one_without_an_object_has_nothing_to_report(
    shell: Shell, documents: Path, schema: Path, tmp_path: Path
) -> None:
    arguments = (documents, "--schema", schema, "--text", "body", "--out", tmp_path / "run")
    extracted(shell, *arguments)
    schema.write_text(schema.read_text().replace('"boolean"', '"boolean", "default": true'))
    assert " have changed (" in shell("extract", *arguments).err
    failing = tmp_path / "failing.txt"
    failing.write_text("fail")
    assert "the model wrote no object for any document" in shell("extract", failing, "--schema", schema).err
