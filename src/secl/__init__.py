"""secl gives every answer of a chat model the probability that it is correct, without labels.

`load` is the front door. What most programs need is here, the rest in the modules (docs/extending.md). Names that need
a network load PyTorch when they are first used.

>>> import secl
>>> model = secl.load(secl.ScriptedModel())        # a stand-in for secl.load("smollm2")
>>> answer = model.ask("What is 1 plus 1?", options=["3", "2"])
>>> answer.text in ("3", "2"), 0 <= answer.confidence <= 1
(True, True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel as LocalModel
    from secl.calibrator import Calibrator as Calibrator
    from secl.data.question_files import read_questions as read_questions
    from secl.data.question_files import read_rows as read_rows
    from secl.data.streams import load_stream as load_stream
    from secl.entry import CalibratedModel as CalibratedModel
    from secl.entry import load as load
    from secl.errors import QuestionError as QuestionError
    from secl.errors import SeclError as SeclError
    from secl.evaluation.summary import summarise as summarise
    from secl.evaluation.trust import assess as assess
    from secl.fields.extraction import Extraction as Extraction
    from secl.gates import EntropyShift as EntropyShift
    from secl.gates import PageHinkley as PageHinkley
    from secl.model import Model as Model
    from secl.question import GivenAnswer as GivenAnswer
    from secl.question import Question as Question
    from secl.question import References as References
    from secl.question import Turn as Turn
    from secl.records import Record as Record
    from secl.runs.export import to_frame as to_frame
    from secl.runs.runner import resume_run as resume_run
    from secl.runs.runner import start_run as start_run
    from secl.runs.settings import RunSettings as RunSettings
    from secl.runs.store import Store as Store
    from secl.settings.groups import AdapterSettings as AdapterSettings
    from secl.settings.groups import LoopSettings as LoopSettings
    from secl.testing import ScriptedModel as ScriptedModel

_HOMES = {
    "AdapterSettings": "secl.settings.groups",
    "CalibratedModel": "secl.entry",
    "Calibrator": "secl.calibrator",
    "EntropyShift": "secl.gates",
    "Extraction": "secl.fields.extraction",
    "GivenAnswer": "secl.question",
    "LocalModel": "secl.backends.local.model",
    "LoopSettings": "secl.settings.groups",
    "Model": "secl.model",
    "PageHinkley": "secl.gates",
    "Question": "secl.question",
    "QuestionError": "secl.errors",
    "Record": "secl.records",
    "References": "secl.question",
    "RunSettings": "secl.runs.settings",
    "ScriptedModel": "secl.testing",
    "SeclError": "secl.errors",
    "Store": "secl.runs.store",
    "Turn": "secl.question",
    "assess": "secl.evaluation.trust",
    "load": "secl.entry",
    "load_stream": "secl.data.streams",
    "read_questions": "secl.data.question_files",
    "read_rows": "secl.data.question_files",
    "resume_run": "secl.runs.runner",
    "start_run": "secl.runs.runner",
    "summarise": "secl.evaluation.summary",
    "to_frame": "secl.runs.export",
}
"""Where each public name lives; what is not here is imported from its module."""

__version__ = "0.1.0"
__all__ = [*_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'secl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__version__"])
