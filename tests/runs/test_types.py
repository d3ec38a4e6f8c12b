"""The types on the way of one question, from the command line to the printed report."""

import io
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console

from secl.reports.folder import write_report
from secl.reports.run_report import RunReport
from secl.reports.sections import print_sections, sections_of
from secl.runs import RunSettings, start_run
from secl.testing import ScriptedModel

CARRIERS = (
    "RunSettings Manifest Row QuestionFile Question ModelAnswer Reply Decision Evidence CandidateEvidence Views "
    "LetterSums Posterior CalibratedConfidence Ledger Record Series Measures Summary RunReport Section Table"
)
"""Carriers of settings, question, evidence, record or numbers from one step to the next: at most 22."""

PARTS = "StreamSettings Confidences Source LetterOrder Likelihood Sample Interval Picture Column Cell"
"""Parts of one carrier, which do not travel alone."""

MEMORY = "StreamState PosteriorState SharedSums LabelState Scaling"
"""What the stream has learned so far."""

SIDES = "Verdict Reason Check Answers LabelledSample RiskCoverage Threshold EceFloor Bin"
"""Numbers of single sections of the report: verdict, recommended method, thresholds and reliability."""

WORKERS = "Store Run Calibrator Plan PosteriorRule Never ScriptedModel Meter Amount Word Score"
KNOWN = {name for names in (CARRIERS, PARTS, MEMORY, SIDES, WORKERS) for name in names.split()}


def answer_and_report(questions: Path, folder: Path) -> None:
    run = start_run(RunSettings.of({"stream.questions": str(questions)}), folder, lambda _: ScriptedModel())
    with run.store:
        run.proceed()
        report = RunReport.of(run.store)
        print_sections(list(sections_of(report)), Console(file=io.StringIO()))
        write_report(folder, report, of_run=True)


def test_a_question_passes_few_types_from_the_command_line_to_the_report(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text("question,options,reference\nWhat is 1 plus 1?,2 | 3,2\nWhat is 2 plus 2?,,4\n")
    made: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in ("__init__", "__new__") and frame.f_code.co_varnames:
            first = frame.f_locals.get(frame.f_code.co_varnames[0])
            kind = first if isinstance(first, type) else type(first)
            if kind.__module__.startswith("secl."):
                made.add(kind.__name__)

    answer_and_report(path, tmp_path / "first")  # imports what is slow to import
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        answer_and_report(path, tmp_path / "run")
    finally:
        sys.setprofile(before)
    assert {"Row", "Question", "Record", "Measures", "Section"} <= made
    assert made - KNOWN == set(), "merge it with one of these, or explain it here"
    assert len(CARRIERS.split()) <= 22
