"""The table of all questions: as data for the page's script, as rows for a page without it, as CSV and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from secl.question import Question
from secl.reports.answers import NO_SIGN, SIGNS, AnswerRow, neediest
from secl.reports.formatting import markdown_text, number, one_line, xml_text
from secl.reports.table import Cell, Column, Table, to_csv

FIRST = 50
"""Rows that the page holds without its script, and rows of one page of the table with it."""

MOST = 10_000
"""Rows that the page holds with its script, some megabytes; of more questions, those that most need a person."""

LONGEST = 2000
"""Characters of a question, an option or an answer in the page; the CSV has all."""

FIELDS = (
    "position",
    "id",
    "domain",
    "question",
    "context",
    "options",
    "answer",
    "answer_text",
    "confidence",
    "low",
    "high",
    "source",
    "labels",
    "correct",
    "labelled",
    "abstained",
    "reference",
    "other_answer",
    "changed_by_adapting",
    "signs",
)
"""Columns of the CSV."""

NOTHING = "no readable answer"
"""What stands in the place of an answer that could not be read."""

ACCEPTED = {None: "", False: "yes", True: "no"}
"""Whether an answer was accepted, in words; nothing where no threshold was set."""

GRADES = {True: "right", False: "wrong", None: ""}
"""Grades in words; an answer without a reference has none."""


def questions_context(rows: Sequence[AnswerRow], prefix: str) -> dict[str, Any]:
    """What the template of the table needs.

    Args:
        rows: all answers.
        prefix: of the names of the files beside the page.
    """
    listed = rows if len(rows) <= MOST else sorted(neediest(rows, MOST), key=lambda row: row.record.position)
    shown = page_rows(listed)
    common = {"signs": list(SIGNS.values()), "first": FIRST}
    has = {"g": any(row["g"] for row in shown), "s": len({row.source for row in listed}) > 1}
    has["b"] = any(row["b"] for row in shown)
    data = {"rows": [_compact(row) for row in shown], **common}
    return {"rows": shown, **common, "questions": len(rows), "files": prefix, "has": has, "data": data}


def page_rows(rows: Sequence[AnswerRow]) -> list[dict[str, Any]]:
    """Rows as the page shows them, texts cut at `LONGEST` characters; the script reads the same keys as the template.

    Keys are short, because a page of 10,000 questions repeats them: p position, d domain, q question, k context,
    o options, a answer, x the other answer, r reference, c confidence, b its band, s source, g grade, j whether that is
    a label, v whether adapting changed the answer, z whether it is abstained from, n signs.
    """
    return [_page_row(row) for row in rows]


def _page_row(row: AnswerRow) -> dict[str, Any]:
    question = row.question
    return {
        "p": row.record.position,
        "d": _cut(question.domain),
        "q": _cut(question.text.strip()),
        "k": _cut(question.context.strip()),
        "o": [_named(question, letter) for letter in question.letters],
        "a": _named(question, row.record.answer),
        "r": _named(question, question.reference) if question.options else _cut(row.reference),
        "c": round(row.confidence, 4),
        "b": [round(end, 4) for end in row.band or ()],
        "s": row.source,
        "g": GRADES[row.correct],
        "j": int(row.labelled),
        "x": _cut(row.another),
        "v": int(row.changed),
        "z": int(bool(row.record.abstained)),
        "n": [list(SIGNS).index(sign) for sign in row.signs],
    }


def _compact(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what is empty."""
    return {key: value for key, value in row.items() if value or key in ("p", "q", "c")}


def script_json(value: Any) -> str:
    r"""JSON that may stand in a script element of HTML and of XML: no markup, no end of the element.

    >>> print(script_json(["</script>&"]))
    ["\u003c/script\u003e\u0026"]
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return xml_text(text)


def questions_csv(rows: Sequence[AnswerRow]) -> str:
    """Every question as a row of CSV, texts complete."""
    return to_csv(FIELDS, map(_csv_row, rows))


def _csv_row(row: AnswerRow) -> tuple[object, ...]:
    question, answer = row.question, row.record.answer
    options = zip(question.letters, question.options, strict=True)
    return (
        row.record.position,
        question.id,
        question.domain,
        question.text,
        question.context or None,
        "\n".join(f"{letter}. {option}" for letter, option in options),
        answer,
        question.option(answer) if answer is not None and answer in question.letters else answer,
        row.confidence,
        *(row.band or (None, None)),
        row.source,
        row.labels,
        None if row.correct is None else int(row.correct),
        int(row.labelled),
        None if row.record.abstained is None else int(row.record.abstained),
        row.reference or None,
        row.another or None,
        int(row.changed),
        "; ".join(SIGNS[sign] for sign in row.signs),
    )


def questions_markdown(rows: Sequence[AnswerRow]) -> str:
    """Every question as a row of a Markdown table, each on one line; not padded, as one long question would pad all."""
    columns, cells = _columns(rows, domains=len({row.question.domain for row in rows}) > 1)
    lines = [[column.heading for column in columns], ["---" if column.text else "---:" for column in columns]]
    texts = ([markdown_text(cell.text) for cell in cells(row)] for row in rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in chain(lines, texts))


def questions_table(
    rows: Sequence[AnswerRow], *, domains: bool = False, signs: bool = False, longest: int | None = None
) -> Table:
    """Question, answer, confidence and, where any is known, grade.

    Args:
        rows: the answers.
        domains: whether there is a column for the domain.
        signs: whether there is one for why a person should look.
        longest: characters of a question or an answer that are shown; None for all.
    """
    columns, cells = _columns(rows, domains=domains, signs=signs, longest=longest)
    return Table(columns, {"": [cells(row) for row in rows]})


def _columns(
    rows: Sequence[AnswerRow], *, domains: bool = False, signs: bool = False, longest: int | None = None
) -> tuple[list[Column], Callable[[AnswerRow], list[Cell]]]:
    """The columns of `questions_table`, and the cells of a row."""
    graded = any(row.correct is not None for row in rows)
    columns = [Column("Question", text=True, wraps=True), Column("Answer", text=True, wraps=True), Column("Confidence")]
    columns += [Column("Grade", text=True)] if graded else []
    thresholds = any(row.record.abstained is not None for row in rows)
    columns += [Column("Accepted", text=True)] if thresholds else []
    columns += [Column("Domain", text=True, wraps=True)] if domains else []
    columns += [Column("Why", text=True, wraps=True)] if signs else []

    def cells(row: AnswerRow) -> list[Cell]:
        texts = (one_line(row.question.text), one_line(row.answer) or NOTHING)
        found = [*(Cell(_cut(text, longest or len(text))) for text in texts), Cell(number(row.confidence, 3))]
        found += [Cell(GRADES[row.correct], "labelled" if row.labelled else "")] if graded else []
        found += [Cell(ACCEPTED[row.record.abstained])] if thresholds else []
        found += [Cell(row.question.domain)] if domains else []
        return [*found, *([Cell(", ".join(SIGNS[sign] for sign in row.signs) or NO_SIGN)] if signs else [])]

    return columns, cells


def _named(question: Question, answer: object) -> str:
    """An answer for people, its text cut; the same for the same option wherever it stands."""
    if isinstance(answer, str) and answer in question.letters:
        return f"{answer}. {_cut(question.option(answer))}"
    return _cut(answer) if isinstance(answer, str) else ""


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest].rstrip()} …"
