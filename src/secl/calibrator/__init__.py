"""The loop over a stream of questions: `secl.Calibrator` and its parts.

Read `calibrator`, the loop; `lesson`, evidence and update; and `stream`, the state of a stream.
"""

from secl.calibrator.calibrator import Calibrator
from secl.calibrator.stream import WINDOW, StreamState

__all__ = ["WINDOW", "Calibrator", "StreamState"]
