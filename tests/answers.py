"""Records with given confidences and given grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from secl.calibrator import Calibrator
from secl.gates import Never
from secl.question import Question
from secl.records import Record
from secl.runs.store import Store
from secl.testing import ScriptedModel


def answered(
    confidence: Sequence[float], correct: Sequence[bool | None], domains: Sequence[str] | None = None
) -> list[Record]:
    """A record for each confidence (in [0.05, 0.95]) and grade; without a grade there is no reference."""
    records = []
    for position, (stated, right) in enumerate(zip(confidence, correct, strict=True)):
        question = Question(
            f"Question {position}?",
            options=("yes", "no"),
            reference=None if right is None else "A" if right else "B",
            domain="toy" if domains is None else domains[position],
            id=f"q{position}",
        )
        calibrator = Calibrator(ScriptedModel(stated=stated), method="secl", gate=Never(), learns=False)
        record = replace(calibrator.answer(question), position=position)
        replies = [replace(reply, text="A", answer="A") for reply in (record.reply, record.frozen)]
        records.append(replace(record, reply=replies[0], frozen=replies[1], correct=right, frozen_correct=right))
    return records


def run_folder(
    folder: Path, records: Sequence[Record], *, total: int | None = None, settings: object = None, **manifest: object
) -> Path:
    """A run folder with these records; what is not named of its manifest is that of a finished run of toy questions."""
    settings = {"stream": {"benchmarks": ["toy"]}, "method": "stated"} if settings is None else settings
    values = {"total": len(records) if total is None else total, "settings": settings, **manifest}
    with Store.create(folder, values) as store:
        for record in records:
            store.add(record, 0.1)
    return folder
