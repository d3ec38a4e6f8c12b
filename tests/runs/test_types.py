"""The types on the way of one question, from its row in a table to its record in the store."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from secl import RunSettings, ScriptedModel, start_run

CARRIERS = (
    "Table Row QuestionFile Question ModelAnswer Reply Decision Evidence CandidateEvidence LetterOrder "
    "Likelihood Sample Views LetterSums Posterior Labelled Ledger Record StreamState LabelState Scaling"
)
"""What holds values of the question, or what the stream has learned from it: at most 21."""

WORKERS = (
    "RunSettings StreamSettings Manifest Store Run Calibrator Plan PosteriorRule Never NormalisedPTrue ScriptedModel "
    "Meter Amount"
)


def answer(questions: Path, folder: Path) -> None:
    run = start_run(RunSettings.of({"stream.questions": str(questions)}), folder, lambda _: ScriptedModel())
    with run.store:
        run.proceed()


def test_a_question_passes_few_types_from_its_row_to_its_record(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text("question,options,reference\nWhat is 1 plus 1?,2 | 3,2\nWhat is 2 plus 2?,,4\n")
    made: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in ("__init__", "__new__") and frame.f_code.co_varnames:
            first = frame.f_locals.get(frame.f_code.co_varnames[0])
            kind = first if isinstance(first, type) else type(first)
            if kind.__module__.startswith("secl."):
                made.add(kind.__name__)

    answer(path, tmp_path / "first")  # imports what is slow to import
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        answer(path, tmp_path / "run")
    finally:
        sys.setprofile(before)
    assert {"Row", "Question", "Record"} <= made
    assert made - {*CARRIERS.split(), *WORKERS.split()} == set(), "merge it with one of these, or explain it here"
    assert len(CARRIERS.split()) <= 21
