"""The loop over a stream of questions: `secl.Calibrator`, and what it is made of.

Read `calibrator`, the loop; `lesson`, what is gathered and learned; and `stream`, where a stream stands.
"""

from secl.calibrator.calibrator import Calibrator
from secl.calibrator.stream import WINDOW, StreamState

__all__ = ["WINDOW", "Calibrator", "StreamState"]
