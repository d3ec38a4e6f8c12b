"""secl: stated confidence that means what it says, learned without labels while the model works.

Everything public is here. Names that need a network (`LocalModel`) load PyTorch when they are first used.

>>> import secl
>>> model = secl.ScriptedModel()        # a stand-in for secl.LocalModel.load("smollm2")
>>> calibrator = secl.Calibrator(model)
>>> record = calibrator.ask(secl.Question("What is 1 plus 1?", options=("3", "2"), reference="B"))
>>> 0.05 <= record.reply.confidence <= 0.95
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel
    from secl.calibrator import Calibrator
    from secl.cost import Meter
    from secl.data.benchmarks import load as load_benchmark
    from secl.data.question_files import (
        QuestionFile,
        QuestionRow,
        questions_from,
        read_questions,
        read_rows,
        rows_from,
    )
    from secl.data.streams import load_stream
    from secl.errors import ModelError, QuestionError, SeclError
    from secl.evaluation.measures import measure
    from secl.evaluation.summary import summarise
    from secl.evaluation.trust import Verdict, assess
    from secl.evidence import CandidateEvidence, Evidence, Labelled, LetterOrder, Likelihood, Posterior, PTrue
    from secl.gates import Always, EntropyShift, Never, PageHinkley, replay
    from secl.given import GivenAnswer
    from secl.grading import grade, regrade
    from secl.labels import Label, LabelRule
    from secl.model import Model, ModelAnswer, Rating
    from secl.notebook import Records, ask_all
    from secl.posterior.rule import PosteriorRule
    from secl.question import Question, References, Turn
    from secl.records import Decision, Ledger, Record, Reply, Update
    from secl.runs.runner import resume as resume_run
    from secl.runs.runner import start as start_run
    from secl.runs.settings import RunSettings
    from secl.runs.store import Store
    from secl.server.online.factory import open_service, serving_settings
    from secl.settings import AdapterSettings, LabelSettings, LoopSettings, PosteriorSettings
    from secl.signals import NormalisedPTrue, RawPTrue
    from secl.testing import ScriptedModel
    from secl.writing import Piece, Token, Writing, Written

_HOMES = {
    "AdapterSettings": "secl.settings",
    "Always": "secl.gates",
    "Calibrator": "secl.calibrator",
    "CandidateEvidence": "secl.evidence",
    "Decision": "secl.records",
    "EntropyShift": "secl.gates",
    "Evidence": "secl.evidence",
    "GivenAnswer": "secl.given",
    "Label": "secl.labels",
    "LabelRule": "secl.labels",
    "LabelSettings": "secl.settings",
    "Labelled": "secl.evidence",
    "Ledger": "secl.records",
    "LetterOrder": "secl.evidence",
    "Likelihood": "secl.evidence",
    "LocalModel": "secl.backends.local.model",
    "LoopSettings": "secl.settings",
    "Meter": "secl.cost",
    "Model": "secl.model",
    "ModelAnswer": "secl.model",
    "ModelError": "secl.errors",
    "Never": "secl.gates",
    "NormalisedPTrue": "secl.signals",
    "PTrue": "secl.evidence",
    "PageHinkley": "secl.gates",
    "Piece": "secl.writing",
    "Posterior": "secl.evidence",
    "PosteriorRule": "secl.posterior.rule",
    "PosteriorSettings": "secl.settings",
    "Question": "secl.question",
    "QuestionError": "secl.errors",
    "QuestionFile": "secl.data.question_files",
    "QuestionRow": "secl.data.question_files",
    "Rating": "secl.model",
    "RawPTrue": "secl.signals",
    "Record": "secl.records",
    "Records": "secl.notebook",
    "References": "secl.question",
    "Reply": "secl.records",
    "RunSettings": "secl.runs.settings",
    "ScriptedModel": "secl.testing",
    "SeclError": "secl.errors",
    "Store": "secl.runs.store",
    "Token": "secl.writing",
    "Turn": "secl.question",
    "Update": "secl.records",
    "Verdict": "secl.evaluation.trust",
    "Writing": "secl.writing",
    "Written": "secl.writing",
    "ask_all": "secl.notebook",
    "assess": "secl.evaluation.trust",
    "grade": "secl.grading",
    "load_benchmark": "secl.data.benchmarks:load",
    "load_stream": "secl.data.streams",
    "measure": "secl.evaluation.measures",
    "open_service": "secl.server.online.factory",
    "questions_from": "secl.data.question_files",
    "read_questions": "secl.data.question_files",
    "read_rows": "secl.data.question_files",
    "regrade": "secl.grading",
    "replay": "secl.gates",
    "resume_run": "secl.runs.runner:resume",
    "rows_from": "secl.data.question_files",
    "serving_settings": "secl.server.online.factory",
    "start_run": "secl.runs.runner:start",
    "summarise": "secl.evaluation.summary",
}

__version__ = "0.1.0"
__all__ = [
    "AdapterSettings",
    "Always",
    "Calibrator",
    "CandidateEvidence",
    "Decision",
    "EntropyShift",
    "Evidence",
    "GivenAnswer",
    "Label",
    "LabelRule",
    "LabelSettings",
    "Labelled",
    "Ledger",
    "LetterOrder",
    "Likelihood",
    "LocalModel",
    "LoopSettings",
    "Meter",
    "Model",
    "ModelAnswer",
    "ModelError",
    "Never",
    "NormalisedPTrue",
    "PTrue",
    "PageHinkley",
    "Piece",
    "Posterior",
    "PosteriorRule",
    "PosteriorSettings",
    "Question",
    "QuestionError",
    "QuestionFile",
    "QuestionRow",
    "Rating",
    "RawPTrue",
    "Record",
    "Records",
    "References",
    "Reply",
    "RunSettings",
    "ScriptedModel",
    "SeclError",
    "Store",
    "Token",
    "Turn",
    "Update",
    "Verdict",
    "Writing",
    "Written",
    "ask_all",
    "assess",
    "grade",
    "load_benchmark",
    "load_stream",
    "measure",
    "open_service",
    "questions_from",
    "read_questions",
    "read_rows",
    "regrade",
    "replay",
    "resume_run",
    "rows_from",
    "serving_settings",
    "start_run",
    "summarise",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'secl' has no attribute {name!r}")
    home, _, inside = _HOMES[name].partition(":")
    return getattr(import_module(home), inside or name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__version__"])
