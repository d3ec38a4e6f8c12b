"""The loop over a stream of questions: `secl.Calibrator`, and what it is made of.

Read `calibrator`, the loop; `lesson`, what is gathered and learned; `scoring`, rating answers from elsewhere; and
`lookahead`, which only makes it faster.
"""

from secl.calibrator.calibrator import Calibrator
from secl.calibrator.lookahead import WINDOW, StreamState
from secl.calibrator.scoring import given_by

__all__ = ["WINDOW", "Calibrator", "StreamState", "given_by"]
