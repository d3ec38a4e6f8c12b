"""secl gives every answer of a chat model the probability that it is correct, without labels.

Begin with `load`. Most programs need only the names in this package; docs/extending.md lists further modules.
`import secl` does not import PyTorch; loading a local model does.

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
    from secl.calibrated_model import CalibratedModel as CalibratedModel
    from secl.calibrator import Calibrator as Calibrator
    from secl.conversation import Turn as Turn
    from secl.data.question_files import read_rows as read_rows
    from secl.data.streams import load_stream as load_stream
    from secl.entry import load as load
    from secl.errors import QuestionError as QuestionError
    from secl.errors import SeclError as SeclError
    from secl.evaluation.summary import summarise as summarise
    from secl.evaluation.trust import assess as assess
    from secl.fields.calls import Calls as Calls
    from secl.fields.extraction import Extraction as Extraction
    from secl.gates import EntropyShift as EntropyShift
    from secl.gates import PageHinkley as PageHinkley
    from secl.model import Model as Model
    from secl.question import GivenAnswer as GivenAnswer
    from secl.question import Question as Question
    from secl.question import References as References
    from secl.records import Record as Record
    from secl.runs.export import to_frame as to_frame
    from secl.runs.labelling import current_records as current_records
    from secl.runs.runner import resume_run as resume_run
    from secl.runs.runner import start_run as start_run
    from secl.runs.settings import RunSettings as RunSettings
    from secl.runs.store import Store as Store
    from secl.settings.groups import AdapterSettings as AdapterSettings
    from secl.settings.groups import LoopSettings as LoopSettings
    from secl.testing import ScriptedModel as ScriptedModel

_HOMES = {
    name: home
    for home, names in {
        "secl.backends.local.model": "LocalModel",
        "secl.calibrated_model": "CalibratedModel",
        "secl.calibrator": "Calibrator",
        "secl.conversation": "Turn",
        "secl.data.question_files": "read_rows",
        "secl.data.streams": "load_stream",
        "secl.entry": "load",
        "secl.errors": "QuestionError SeclError",
        "secl.evaluation.summary": "summarise",
        "secl.evaluation.trust": "assess",
        "secl.fields.calls": "Calls",
        "secl.fields.extraction": "Extraction",
        "secl.gates": "EntropyShift PageHinkley",
        "secl.model": "Model",
        "secl.question": "GivenAnswer Question References",
        "secl.records": "Record",
        "secl.runs.export": "to_frame",
        "secl.runs.labelling": "current_records",
        "secl.runs.runner": "resume_run start_run",
        "secl.runs.settings": "RunSettings",
        "secl.runs.store": "Store",
        "secl.settings.groups": "AdapterSettings LoopSettings",
        "secl.testing": "ScriptedModel",
    }.items()
    for name in names.split()
}
"""Module of each public name."""

__version__ = "0.1.0"
__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'secl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__version__"])
