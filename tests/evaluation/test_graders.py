"""Graders compared on the answers of a run."""

from __future__ import annotations

from dataclasses import replace

from secl.calibrator import Calibrator
from secl.evaluation.graders import compare_graders
from secl.question import Question, References
from secl.records import Record
from secl.testing import ScriptedModel


def answered(question: Question, answer: str) -> Record:
    record = Calibrator(ScriptedModel()).ask(question)
    reply = replace(record.reply, text=answer, answer=answer)
    return replace(record, reply=reply, frozen=reply)


RECORDS = [
    replace(answered(Question("7 * 8?", reference="56"), "7 * 8 = 56"), position=0),  # exact alone says wrong
    replace(answered(Question("Who?", reference="Goethe"), "not Goethe"), position=1),  # contains alone says right
    replace(answered(Question("Who?", reference="Goethe"), "Goethe"), position=2),
    replace(answered(Question("Who?", reference="Goethe"), "Schiller"), position=3),
]


def test_shares_and_disputes_are_counted_by_hand() -> None:
    found = compare_graders(RECORDS)
    assert found is not None
    assert (found.answers, found.used, found.disputed) == (4, ("auto",), (0, 1))
    assert found.right == {"exact": 0.25, "contains": 0.75, "auto": 0.5}
    assert found.matters


def test_official_rules_patterns_and_labels_are_not_disputed() -> None:
    official = [
        answered(Question("2 + 2?", reference="4", form="number"), "4"),
        answered(Question("?", reference=References(("yes",), ("no",)), form="sentence"), "yes"),
        answered(Question("Which?", options=("x", "y"), reference="A"), "A"),
        answered(Question("Who?", reference="Goethe", grader="regex"), "Goethe"),
        answered(Question("Who?"), "Goethe"),
        RECORDS[0].with_label(True),
    ]
    assert compare_graders(official) is None
