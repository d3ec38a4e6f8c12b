"""Export of a run: records as tables or JSON, and adapter versions as folders for PEFT."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from secl.data.cells import harmless, joined
from secl.data.columns import plain
from secl.data.tables import pandas_for
from secl.display import amount, counted
from secl.errors import ParameterError, RunError
from secl.evaluation.json_values import defined, json_value
from secl.grading.rules import reported_correct
from secl.question import Question, References
from secl.records import Record, answers_in
from secl.runs.encoding import to_export
from secl.runs.extracting import by_document, document_of, expected_errors, failures, object_results, parts_results
from secl.runs.folder import ELSEWHERE, check_outside, storage_errors
from secl.runs.labelling import OBJECT_VERDICTS, READ, VERDICTS, calibration_of, current_records, draw, ids_of, row_id
from secl.runs.manifest import Manifest
from secl.runs.store import Store

Selection = Literal["accepted", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What an export holds.

    Attributes:
        full: every number of a record. The table of an extraction then has a row for each field.
        facts: a row for each fact in place of each text with facts.
        review: the rows with the most expected errors first, and graded answers last; each fact has a row.
        threshold: lowest accepted label-free confidence; None for the threshold of the run.
        objects: whether the threshold applies to whole objects, too. The promise of `secl threshold` is about fields.
        only: only the accepted rows, or only the others.
        sample: only this number of answers, drawn at random, as a table to label without confidences.
    """

    full: bool = False
    facts: bool = False
    review: bool = False
    threshold: float | None = None
    objects: bool = True
    only: Selection | None = None
    sample: int | None = None


FORMATS = ("jsonl", "csv", "parquet", "xlsx")

PREFIX = "given_"
"""Prefix for a column of the user's table if a column of results has the same name."""

PROBABILITIES = ("confidence", "low", "high")
"""Columns that a workbook shows with three decimals. The cells hold all digits."""

LONGEST_CELL = 32_767
"""Maximum number of characters in a cell of a workbook."""

NARROWEST, WIDEST = 8, 60
"""Limits of the width of a column of a workbook, in characters. Sheets to fill in show longer texts on more lines."""

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def to_frame(records: Iterable[Record], *, full: bool = False) -> Any:
    """Return the table of `to_table` as a pandas data frame."""
    pandas = pandas_for("a data frame")
    columns, rows = to_table(records, full=full)
    return pandas.DataFrame(rows, columns=columns)


def to_table(records: Iterable[Record], *, full: bool = False) -> tuple[list[str], list[list[object]]]:
    """Return the columns and rows of a table of records.

    A row starts with the cells of the question's row in the input (a file or table). A question without such a row
    gives cells such as id, domain, question, options and reference. The results follow: answer, confidence and grade,
    and with `full` every number of the record. Columns of results without any value are left out. If a column of the
    input has the name of a column of results, or of a sheet (`secl.runs.labelling`), the former gets `PREFIX`.
    """
    return _rows([(record, record) for record in records], lambda _, record: _results(record, full))


def _rows(
    pairs: Iterable[tuple[Record, Record]],
    results: Callable[[Record, Record], dict[str, object]],
    kept: Collection[str] = (),
) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows for pairs: a record, and what its row is about (the record, or one of its facts)."""
    return _merge(
        [(dict(each.question.row) or _cells_of(each.question), results(each, part)) for each, part in pairs], kept
    )


def _with_facts(records: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Return pairs for `_rows`: each fact of a text with the text, and any other record with itself."""
    return [(record, answer) for record in records for answer in answers_in([record])]


def _place(answer: Record) -> dict[str, object]:
    """Return the columns that tell a fact from other facts of its text; empty for other answers."""
    if answer.span is None:
        return {}
    (start, end), question = answer.span, answer.question
    place = {"fact": answer.fact, "kind": question.domain, "sentence": question.text, "start": start, "end": end}
    return place | {"in_passage": answer.in_passage, "support": defined(answer.support)}


def _to_object_table(store: Store, content: Content) -> tuple[list[str], list[list[object]]]:
    """Return the table of an extraction: a row for each document, or with `full` for each field.

    Documents without an object come last. With `review`, these documents come first, and the rows with the most
    expected errors follow.
    """
    full, review = content.full, content.review
    if content.only and not (full or content.objects):
        raise ParameterError(
            "the promise of --risk is about values, not about documents, so --only needs rows of values; add --full."
        )
    records = _order(store, content, review=review and full)
    columns = dict.fromkeys(record.question.domain for record in records)
    rows: list[tuple[str, Any, dict[str, object]]] = []  # id of the document, cells of its row, results
    if full:
        of_field = ((record, {"record_id": row_id(record), "field": record.question.domain}) for record in records)
        rows = [(document_of(each.question), each.question.row, name | _results(each, full)) for each, name in of_field]
    else:
        documents = by_document(records)
        if review:
            documents = dict(sorted(documents.items(), key=lambda pair: -expected_errors(pair[1])))
        threshold = records[0].threshold if records and content.objects else None
        accept = None if threshold is None else calibration_of(store).accept(threshold)
        asked: dict[str, object] = dict.fromkeys(OBJECT_VERDICTS if review else ())
        for name, fields in documents.items():
            results = {"record_id": row_id(*fields, prefix="doc"), **asked, **object_results(fields, accept)}
            rows.append((name, fields[0].question.row, results))
    nothing: dict[str, object] = dict.fromkeys(name for *_, results in rows for name in results)
    nothing |= {"accepted": None} if content.only else {}
    failed = [(each.document, each.row, {**nothing, "failed": each.reason}) for each in failures(store)]
    rows = [*failed, *rows] if review else [*rows, *failed]
    named = [({} if name in dict(row).values() else {"document": name}, dict(row), each) for name, row, each in rows]
    kept = {*VERDICTS} if full and review else {*columns, *OBJECT_VERDICTS}
    kept |= {"accepted"} if content.only else set()
    return _merge([(name | row, results) for name, row, results in named], kept)


def _merge(
    pairs: Sequence[tuple[Mapping[str, object], Mapping[str, object]]], kept: Collection[str] = ()
) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows from pairs (cells of the user's row, results), without empty columns of results.

    `kept` names columns of results that stay even if they are empty.
    """
    filled = {name for _, results in pairs for name, value in results.items() if value is not None or name in kept}
    names = [name for name in dict.fromkeys(name for _, results in pairs for name in results) if name in filled]
    columns, taken = dict[str, str](), {*map(plain, names), *READ}
    for name in dict.fromkeys(name for own, _ in pairs for name in own):
        column = name
        while plain(column) in taken:
            column = PREFIX + column
        taken.add(plain(column))
        columns[name] = column
    rows = [[*map(own.get, columns), *(_make_encodable(results.get(name)) for name in names)] for own, results in pairs]
    return [*columns.values(), *names], rows


def _cells_of(question: Question) -> dict[str, object]:
    several = question.reference if isinstance(question.reference, References) else None
    values: dict[str, object] = {
        "id": question.id,
        "domain": question.domain,
        "question": question.text,
        "options": joined(question.options) if question.options else None,
        "reference": None if several else question.reference,
        "references": several and json.dumps(dataclasses.asdict(several), ensure_ascii=False),
        "context": question.context,
        "system": question.system,
    }
    return {name: value for name, value in values.items() if value}


def _results(record: Record, full: bool) -> dict[str, object]:
    """Return answer, confidence and grade by the name of their column; with `full`, also every number of the record."""
    results: dict[str, object] = {
        "answer": record.text,
        "confidence": defined(record.confidence),
        "low": defined(record.low),
        "high": defined(record.high),
        "accept": record.accept,
        "accepted": record.accepted,
        "correct": reported_correct(record),
        "label": record.label,
        "correct_answer": record.correct_answer,
    }
    if record.parts is not None:
        results |= parts_results(record.parts)
    if full:
        # The table leaves out columns without a value. So the next line sets three fields to None: they would repeat
        # the question of the user's row, the column "answer", and the candidates of `posterior`.
        known = dict.fromkeys(("question", "text", "candidates"))
        results = results | _numbers(json_value(to_export(record)) | known) | results
    return results


def _numbers(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the fields of a record by the name of their column, such as "reply.entropy"."""
    columns: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            columns |= _numbers(value, f"{prefix}{name}.")
        else:
            simple = not (isinstance(value, list) and any(isinstance(item, dict | list) for item in value))
            columns[prefix + name] = value if simple else json.dumps(value)
    return columns


def _make_encodable(value: object) -> object:
    """Escape unpaired surrogates, which the answers of servers may hold."""
    if isinstance(value, list):
        return [_make_encodable(item) for item in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


class ExportedFile(NamedTuple):
    """A file of `write`, and its columns and rows.

    `path` is None for standard output. `columns` is empty for "jsonl".
    """

    path: Path | None
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


def describe_sheet(written: ExportedFile, folder: Path) -> str | None:
    """Return what people have to fill in, and the command that reads a sheet; None if the file is no sheet."""
    columns, rows, path = written.columns, written.rows, written.path
    verdicts = [name for name in READ[1:4] if name in columns]
    if path is None or not verdicts or not rows:
        return None
    grades = [row[columns.index("correct")] for row in rows] if "correct" in columns else []
    graded = sum(grade is not None for grade in grades)
    known = (
        f", {amount(graded)} of them graded already (the last {'one' if graded == 1 else amount(graded)})"
        if graded
        else ""
    )
    return (
        f"{counted(len(rows), 'row')}{known}. Fill in {' or '.join(verdicts)}, then: secl label "
        f"{shlex.quote(str(folder))} --from {shlex.quote(str(path))}"
    )


def write(
    store: Store, format: str | None = None, out: Path | None = None, content: Content | None = None
) -> ExportedFile:
    """Write the records of a run, and return the file with its table.

    Args:
        format: "jsonl" for complete records; or "csv", "parquet" or "xlsx" for a table (`to_table`). None means the
            suffix of `out`, or else "jsonl". The table of an extraction has a row for each document.
        out: the file. None means `records.FORMAT` in the run folder. "-" means standard output.
        content: what the file holds; by default all records in order, with their main results.

    Raises:
        ParameterError: the format is unknown, a package is missing, `out` is a folder, or a text is too long for a
            workbook. Or `full` is given with "jsonl", or standard output with a binary format.
        RunError: the file belongs to a run, or `content.only` needs a threshold that the records lack.
        StorageError: writing fails.
    """
    ending = "" if out is None else out.suffix.lower().removeprefix(".")
    content = content or Content()
    format = format or (ending if ending in FORMATS else "jsonl" if content.sample is None else "csv")
    if content.sample is not None and content != Content(sample=content.sample):
        raise ParameterError(
            "--sample writes no confidences, which would bias labels; leave --full, --facts, --review, --only, "
            "--accept and --risk out."
        )
    if content.sample is not None and format == "jsonl":
        raise ParameterError("--sample writes a table for people; name a file that ends in .csv, .xlsx or .parquet.")
    if content.full and format == "jsonl":
        raise ParameterError("jsonl always has every number of a record; leave --full out, or export a table.")
    if format not in FORMATS:
        raise ParameterError(f"format {format!r} is not one of {', '.join(FORMATS)}.")
    if out is not None and str(out) == "-":
        if format in ("parquet", "xlsx"):
            raise ParameterError(f"{format} is a binary format; name a file with --out.")
        return ExportedFile(None, *_write_text(sys.stdout, store, format, content))
    path = out or store.folder / f"{'records' if content.sample is None else 'sample'}.{format}"
    check_outside(path, store.folder)
    if not path.name:
        raise ParameterError(f"{str(out)!r} is a folder; name a file with --out.")
    unfinished = path.with_name(f"{path.name}.new")
    try:
        with storage_errors(path, ELSEWHERE):
            if format in ("parquet", "xlsx"):
                table = _table(store, content)
                choices = _choices(store) if content.review or content.sample is not None else None
                unfinished.write_bytes(_parquet(*table) if format == "parquet" else _workbook(*table, choices))
            else:
                with unfinished.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
                    table = _write_text(stream, store, format, content)
            unfinished.rename(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return ExportedFile(path, *table)


def _choices(store: Store) -> Mapping[object, Sequence[str]]:
    """Return the options of each question with options, by the id of its row."""
    id_of = ids_of(store)
    return {id_of(record): record.question.options for record in store.records() if record.question.options}


def _order(store: Store, content: Content, *, review: bool) -> Sequence[Record]:
    """Return the records in the order of the run; for a review, ungraded ones first, the least certain at the top."""
    records = list(current_records(store, threshold=content.threshold))
    if content.only and records and all(record.threshold is None for record in records):
        raise RunError(
            f"the answers of {store.folder} have no threshold, so none is accepted or rejected; give --accept or "
            "--risk, too."
        )
    if not review:
        return records

    def key(record: Record) -> tuple[bool, float]:
        answers = answers_in([record])
        graded = all(reported_correct(answer) is not None for answer in answers)
        return graded, -math.fsum(1 - answer.confidences.expected_grade for answer in answers)

    return sorted(records, key=key)


def _table(store: Store, content: Content) -> tuple[list[str], list[list[object]]]:
    """Return the columns and rows of a table. A selection of rows changes no column."""
    columns, rows = _all_rows(store, content)
    if content.only and rows:
        place = len(columns) - 1 - columns[::-1].index("accepted")  # a column of results, after the user's own
        rows = [row for row in rows if bool(row[place]) == (content.only == "accepted")]
    return columns, rows


def _all_rows(store: Store, content: Content) -> tuple[list[str], list[list[object]]]:
    id_of, extracted = ids_of(store), Manifest.of(store).mode == "extract"
    if content.sample is not None:
        drawn, cell = draw(store, content.sample)
        empty = dict.fromkeys(VERDICTS)

        def asked(record: Record, answer: Record) -> dict[str, object]:  # without confidences, which would bias labels
            place = {"field": record.question.domain} if extracted else _place(answer)
            return {"record_id": id_of(record), **place, "answer": answer.text, **empty, "sample": cell}

        return _rows(_with_facts(drawn), asked, VERDICTS)
    if extracted:
        return _to_object_table(store, content)
    records = _order(store, content, review=content.review)
    kept = (*(VERDICTS if content.review else ()), *(["accepted"] if content.only else []))
    facts = content.facts or content.review
    pairs = _with_facts(records) if facts else [(record, record) for record in records]
    return _rows(
        pairs,
        lambda record, answer: {"record_id": id_of(record)} | _place(answer) | _results(answer, content.full),
        kept,
    )


def _write_text(stream: IO[str], store: Store, format: str, content: Content) -> tuple[list[str], list[list[object]]]:
    """Write records or a table, and return the columns and rows of the table."""
    if format == "jsonl":
        id_of = ids_of(store)
        records = _order(store, content, review=content.review)
        for record, answer in _with_facts(records) if content.facts else zip(records, records, strict=True):
            if content.only and bool(answer.accepted) != (content.only == "accepted"):
                continue
            line = {"record_id": id_of(record)} | json_value(to_export(answer))
            stream.write(json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n")
        return [], []
    columns, rows = _table(store, content)
    writer = csv.writer(stream)
    if columns:
        writer.writerow(map(harmless, columns))
    writer.writerows(map(_cell, row) for row in rows)
    return columns, rows


def _cell(value: object) -> object:
    """Convert a value for a spreadsheet: join a list to a text, and escape formulas (`harmless`)."""
    if isinstance(value, list):
        value = joined([item if isinstance(item, str) else repr(item) for item in value])
    return harmless(value)


def _parquet(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    pandas = pandas_for("parquet", "pyarrow")
    frame = pandas.DataFrame(rows, columns=columns)
    for column, *cells in zip(columns, *rows, strict=True):
        kinds = {type(cell) for cell in cells if cell is not None}
        if len(kinds) > 1 and kinds != {int, float}:  # all cells of a Parquet column have the same type
            frame[column] = [None if cell is None else str(cell) for cell in cells]
    stream = io.BytesIO()
    frame.to_parquet(stream, engine="pyarrow", index=False)
    return stream.getvalue()


def _workbook(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    choices: Mapping[object, Sequence[str]] | None = None,
) -> bytes:
    """Return a workbook. With `choices` (`_choices`), it is a sheet that people fill in from lists."""
    pandas = pandas_for("xlsx", "openpyxl")
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Alignment, Font

    def cell(value: object) -> object:
        value = _cell(value)
        if isinstance(value, str) and len(value) > LONGEST_CELL:
            raise ParameterError(
                f"a text of {len(value):,} characters does not fit into a cell of a workbook (at most "
                f"{LONGEST_CELL:,} characters); export as csv or parquet."
            )
        return ILLEGAL_CHARACTERS_RE.sub("\ufffd", value) if isinstance(value, str) else value

    frame = pandas.DataFrame([[*map(cell, row)] for row in rows], columns=[*map(cell, columns)], dtype=object)
    stream = io.BytesIO()
    with pandas.ExcelWriter(stream, engine="openpyxl") as book:
        frame.to_excel(book, sheet_name="records", index=False)
        sheet = book.sheets["records"]
        sheet.freeze_panes = "A2"
        for heading, *cells in sheet.columns:
            heading.font = Font(bold=True)
            widest = max((len(str(each.value)) for each in (heading, *cells) if each.value is not None), default=0)
            sheet.column_dimensions[heading.column_letter].width = min(max(widest, NARROWEST), WIDEST) + 2
            for each in cells:
                if heading.value in PROBABILITIES:
                    each.number_format = "0.000"
                elif choices is not None and widest > WIDEST:
                    each.alignment = Alignment(wrap_text=True, vertical="top")
        if choices is not None and rows:
            offered = [choices.get(row[columns.index("record_id")], ()) for row in rows]
            _offer(book.book, columns, [[*map(cell, texts)] for texts in offered])
    return stream.getvalue()


def _offer(book: Any, columns: Sequence[str], options: Sequence[Sequence[object]]) -> None:
    """Let people choose y or n in the column "label" of a workbook, and an option in "correct_answer".

    People may also type other texts. A hidden sheet has a row for each distinct list of options, because a list in a
    rule itself has at most 255 characters and no commas.

    Args:
        options: of the question of each row; empty for a question without options.
    """
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    rows_of: dict[tuple[object, ...], list[int]] = {}
    for number, texts in enumerate(options, start=2):
        rows_of.setdefault(tuple(texts), []).append(number)
    rows_of.pop((), None)
    rules: list[tuple[str, str, Sequence[int]]] = [("label", '"y,n"', range(2, len(options) + 2))]
    if rows_of:
        lists = book.create_sheet("options")
        lists.sheet_state = "hidden"
    for number, (offered, places) in enumerate(rows_of.items(), start=1):
        lists.append(offered)
        rules.append(("correct_answer", f"options!$A${number}:${get_column_letter(len(offered))}${number}", places))
    for name, formula, rows in rules:
        if name in columns:
            letter = get_column_letter(columns.index(name) + 1)
            cells = " ".join(f"{letter}{first}:{letter}{last}" for first, last in _runs(rows))
            rule = DataValidation(type="list", formula1=formula, allow_blank=True, showErrorMessage=False, sqref=cells)
            book.worksheets[0].add_data_validation(rule)


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of consecutive numbers.

    >>> _runs([2, 3, 4, 9])
    [(2, 4), (9, 9)]
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        follows = bool(runs) and runs[-1][1] == number - 1
        runs[-1:] = [(runs[-1][0], number)] if follows else [*runs[-1:], (number, number)]
    return runs


def write_version(store: Store, version: int, folder: Path) -> Path:
    """Write a kept adapter version of a run as a folder for `peft.PeftModel.from_pretrained`, and return the folder.

    Raises:
        RunError: the run does not keep the version, or does not hold the configuration of its adapter.
        StorageError: writing fails.
    """
    weights, config = store.weights(version), store.manifest.get("adapter")
    if config is None:
        raise RunError(f"{store.folder} does not hold the configuration of its adapter.")
    with storage_errors(folder, ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        (folder / WEIGHTS).write_bytes(weights)
    return folder
