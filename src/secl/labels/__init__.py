"""A few labels on top of a confidence: people say of some answers whether they are right, and all confidences move."""

from secl.labels.label import Label, LabelSource, label_of, standing
from secl.labels.state import LabelState

__all__ = ["Label", "LabelSource", "LabelState", "label_of", "standing"]
