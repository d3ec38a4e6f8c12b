"""Graders compared on the answers of a run."""

from __future__ import annotations

from dataclasses import replace

from secl.calibrator import Calibrator
from secl.question import Question, References
from secl.records import Record
from secl.reports.sections import graders_line
from secl.testing import ScriptedModel


def answered(question: Question, answer: str) -> Record:
    record = Calibrator(ScriptedModel(), method="secl").ask(question)
    reply = replace(record.reply, text=answer, answer=answer)
    return replace(record, reply=reply, frozen=reply)


RECORDS = [
    replace(answered(Question("7 * 8?", reference="56"), "7 * 8 = 56"), position=0),  # exact alone says wrong
    replace(answered(Question("Who?", reference="Goethe"), "not Goethe"), position=1),  # contains alone says right
    replace(answered(Question("Who?", reference="Goethe"), "Goethe"), position=2),
    replace(answered(Question("Who?", reference="Goethe"), "Schiller"), position=3),
]


def test_shares_and_disputes_are_counted_by_hand() -> None:
    assert graders_line(RECORDS) == (
        "3 graders disagree on 2 of 4 answers (right by exact 25%, contains 75%, auto 50%); used here: auto."
    )
    assert graders_line(RECORDS[2:]) is None


def test_official_rules_patterns_and_labels_are_not_disputed() -> None:
    official = [
        answered(Question("2 + 2?", reference="4", form="number"), "4"),
        answered(Question("?", reference=References(("yes",), ("no",)), form="sentence"), "yes"),
        answered(Question("Which?", options=("x", "y"), reference="A"), "A"),
        answered(Question("Who?", reference="Goethe", grader="regex"), "Goethe"),
        answered(Question("Who?"), "Goethe"),
        RECORDS[0].with_label(True),
    ]
    assert graders_line(official) is None
