"""The standard measures of confidences with their grades, by the names in reports and tables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc, auroc_within
from secl.metrics.graded import graded

MEASURES = {
    "brier": "Brier",
    "ece": "ECE",
    "ada_ece": "AdaECE",
    "auroc": "AUROC",
    "auroc_within": "AUROC within domains",
    "accuracy": "Accuracy",
    "mean_confidence": "Mean confidence",
}
"""Titles of the standard measures, in the order of reports."""

OF_BOTH_KINDS = ("auroc", "auroc_within")
"""Measures that compare right answers with wrong ones."""

OF_BINS = ("ece", "ada_ece")
"""Calibration errors, which compare the answers of a bin."""


def standard_measures(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, domains: Sequence[Hashable] | None = None
) -> dict[str, float]:
    """Return the standard measures of n answers, in the order of `MEASURES`; nan where undefined.

    `domains` has the domain of each answer; None stands for a single domain.
    """
    confidences, grades = graded(confidence, correct)
    area = auroc(confidences, grades)
    return {
        "brier": brier(confidences, grades),
        "ece": ece(confidences, grades),
        "ada_ece": ada_ece(confidences, grades),
        "auroc": area,
        "auroc_within": area if domains is None else auroc_within(confidences, grades, domains),
        "accuracy": float(np.mean(grades)) if grades.size else math.nan,
        "mean_confidence": float(np.mean(confidences)) if confidences.size else math.nan,
    }


def rarer_kind(correct: npt.ArrayLike) -> int:
    """Return the number of right or of wrong answers, whichever is smaller."""
    grades = np.asarray(correct, dtype=np.float64)
    return int(min(grades.sum(), grades.size - grades.sum()))
