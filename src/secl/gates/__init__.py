"""When to learn: a gate watches the replies and opens for a burst of questions when something shifts."""

from secl.gates.detectors import Always, EntropyShift, Gate, Never, PageHinkley, replay
from secl.gates.named import GATES, gate_class, is_own_gate

__all__ = ["GATES", "Always", "EntropyShift", "Gate", "Never", "PageHinkley", "gate_class", "is_own_gate", "replay"]
