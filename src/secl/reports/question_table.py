"""Tables of questions and answers: data for the page's script, its rows without the script, and plain tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from secl.question import Question
from secl.reports.answers import NO_SIGN, SIGNS, AnswerRow, named, neediest
from secl.reports.formatting import number, one_line, xml_text
from secl.reports.table import Cell, Column, Table

FIRST = 50
"""Rows that the page holds without its script, and rows of one page of the table with it."""

MOST = 10_000
"""Rows that the page holds with its script, some megabytes; of more questions, those that most need a person."""

LONGEST = 2000
"""Characters of a question, an option or an answer in the page; an export has all."""

MOST_WRONG, EXCERPT = 10, 300
"""Wrong answers that are shown, and characters of their texts."""

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
        prefix: of the table's id on the page, where there are several.
    """
    listed = rows if len(rows) <= MOST else sorted(neediest(rows, MOST), key=lambda row: row.record.position)
    shown = page_rows(listed)
    common = {"signs": list(SIGNS.values()), "first": FIRST}
    has = {"g": any(row["g"] for row in shown), "s": len({row.source for row in listed}) > 1}
    has["b"] = any(row["b"] for row in shown)
    data = {"rows": [_compact(row) for row in shown], **common}
    return {"rows": shown, **common, "questions": len(rows), "prefix": prefix, "has": has, "data": data}


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
    graded = any(row.correct is not None for row in rows)
    thresholds = any(row.record.abstained is not None for row in rows)
    columns = [Column("Question", text=True, wraps=True), Column("Answer", text=True, wraps=True), Column("Confidence")]
    columns += [Column("Grade", text=True)] if graded else []
    columns += [Column("Accepted", text=True)] if thresholds else []
    columns += [Column("Domain", text=True, wraps=True)] if domains else []
    columns += [Column("Why", text=True, wraps=True)] if signs else []

    def cells(row: AnswerRow) -> list[Cell]:
        texts = (one_line(row.question.text), one_line(row.answer) or NOTHING)
        shown = [*(Cell(_cut(text, longest or len(text))) for text in texts), Cell(number(row.confidence, 3))]
        shown += [Cell(GRADES[row.correct], "labelled" if row.labelled else "")] if graded else []
        shown += [Cell(ACCEPTED[row.record.abstained])] if thresholds else []
        shown += [Cell(row.question.domain)] if domains else []
        return [*shown, *([Cell(", ".join(SIGNS[sign] for sign in row.signs) or NO_SIGN)] if signs else [])]

    return Table(columns, {"": [cells(row) for row in rows]})


def wrong_table(rows: Sequence[AnswerRow]) -> Table | None:
    """The wrong answers with the highest confidence, the highest first; None without any."""
    wrong = sorted((row for row in rows if row.correct is False), key=lambda row: -row.confidence)[:MOST_WRONG]
    if not wrong:
        return None
    columns = [Column(each, text=True, wraps=True) for each in ("Question", "Answered", "Right")]
    columns += [Column("Confidence"), Column("Stated (frozen)")]
    return Table(columns, {"": [_wrong(row) for row in wrong]})


def _wrong(row: AnswerRow) -> list[Cell]:
    question, another = row.question, f"other: {_cut(row.another, EXCERPT)}" if row.another else ""
    options = "; ".join(named(question, letter) for letter in question.letters)
    answer = one_line(row.answer) or f"{NOTHING}: {row.record.reply.text.strip()!r}"
    return [
        Cell(_cut(one_line(question.text), EXCERPT), _cut(one_line(options), EXCERPT)),
        Cell(_cut(answer, EXCERPT), another),
        Cell(_cut(row.reference, EXCERPT)),
        Cell(number(row.confidence, 3)),
        Cell(number(row.record.frozen.confidence, 3)),
    ]


def _named(question: Question, answer: object) -> str:
    """An answer for people, its text cut; the same for the same option wherever it stands."""
    if isinstance(answer, str) and answer in question.letters:
        return f"{answer}. {_cut(question.option(answer))}"
    return _cut(answer) if isinstance(answer, str) else ""


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest].rstrip()} …"
