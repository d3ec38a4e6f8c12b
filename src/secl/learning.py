"""Learning from a stream of questions: the loop, its gates and the settings of both.

`secl.load(..., method="secl")` puts them together; use them directly to change a part.
"""

from secl.calibrator import Calibrator
from secl.gates import EntropyShift, PageHinkley
from secl.settings.groups import AdapterSettings, LoopSettings

__all__ = ["AdapterSettings", "Calibrator", "EntropyShift", "LoopSettings", "PageHinkley"]
