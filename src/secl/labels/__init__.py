"""Labels: people judge some answers, and the confidences of all answers are calibrated with that."""

from secl.labels.label import MIN_CHANCE, Label, LabelSource, label_of, random_order, random_rank, standing
from secl.labels.state import LabelState, relabelled

__all__ = [
    "MIN_CHANCE",
    "Label",
    "LabelSource",
    "LabelState",
    "label_of",
    "random_order",
    "random_rank",
    "relabelled",
    "standing",
]
