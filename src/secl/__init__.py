"""secl gives every answer of a chat model the probability that it is correct, without labels.

Begin with `load`. Most programs need only the names in this package. `secl.runs` records questions in folders,
`secl.learning` has the parts of a loop that learns, and `secl.testing` a model without weights. docs/extending.md lists
further modules.
`import secl` does not import PyTorch; loading a local model does.

>>> import secl
>>> model = secl.load(secl.testing.ScriptedModel())        # a stand-in for secl.load("smollm2")
>>> answer = model.ask("What is 1 plus 1?", options=["3", "2"])
>>> answer.text in ("3", "2"), 0 <= answer.confidence <= 1
(True, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from secl.lazy import lazy_names

if TYPE_CHECKING:
    from secl import learning as learning
    from secl import runs as runs
    from secl import testing as testing
    from secl.calibrated_model import CalibratedModel as CalibratedModel
    from secl.conversation import Message as Message
    from secl.data.benchmarks import load_stream as load_stream
    from secl.data.question_files import read_rows as read_rows
    from secl.entry import load as load
    from secl.errors import DataError as DataError
    from secl.errors import ModelError as ModelError
    from secl.errors import ParameterError as ParameterError
    from secl.errors import QuestionError as QuestionError
    from secl.errors import RunError as RunError
    from secl.errors import SeclError as SeclError
    from secl.errors import StorageError as StorageError
    from secl.errors import TooLongError as TooLongError
    from secl.errors import UnavailableError as UnavailableError
    from secl.errors import UnfinishedError as UnfinishedError
    from secl.evaluation.acceptance import Advice as Advice
    from secl.evidence import Source as Source
    from secl.fields.calls import Call as Call
    from secl.fields.calls import Calls as Calls
    from secl.fields.extraction import Extraction as Extraction
    from secl.labels.label import Label as Label
    from secl.model import Model as Model
    from secl.question import GivenAnswer as GivenAnswer
    from secl.question import Question as Question
    from secl.question import References as References
    from secl.records import Confidences as Confidences
    from secl.records import Record as Record

__version__ = "0.2.0"
__all__, __getattr__, __dir__ = lazy_names(
    "secl",
    {
        "secl.calibrated_model": "CalibratedModel",
        "secl.conversation": "Message",
        "secl.data.question_files": "read_rows",
        "secl.data.benchmarks": "load_stream",
        "secl.entry": "load",
        "secl.errors": "DataError ModelError ParameterError QuestionError RunError SeclError StorageError TooLongError "
        "UnavailableError UnfinishedError",
        "secl.evaluation.acceptance": "Advice",
        "secl.evidence": "Source",
        "secl.fields.calls": "Call Calls",
        "secl.fields.extraction": "Extraction",
        "secl.labels.label": "Label",
        "secl.model": "Model",
        "secl.question": "GivenAnswer Question References",
        "secl.records": "Confidences Record",
    },
    parts=("learning", "runs", "testing"),
)
