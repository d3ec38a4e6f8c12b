"""The loop over a stream of questions: `secl.learning.Calibrator` and its parts.

Read `calibrator` (the loop), `stream` (the state of a stream) and `secl.methods.Plan` (evidence and updates).
"""

from secl.calibrator.calibrator import Calibrator
from secl.calibrator.stream import WINDOW_SIZE, StreamState

__all__ = ["WINDOW_SIZE", "Calibrator", "StreamState"]
