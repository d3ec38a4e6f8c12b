"""Reasons of a verdict on confidences (`secl.evaluation.trust`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from secl.evaluation.json_values import HIDDEN
from secl.metrics.bootstrap import Interval

Severity = Literal["note", "doubt", "stop"]
"""A note does not change the verdict, a doubt excludes "fine", a stop means "do not act on it"."""

Code = Literal[
    "same_letter",
    "digit_mass",
    "letter_mass",
    "constant",
    "unreadable",
    "answers_changed",
    "unlabelled",
    "few_labels",
    "chance",
    "inverted",
    "weak",
    "overconfident",
    "underconfident",
    "miscalibrated",
    "tested",
]
"""Short names of reasons, for programs."""

FEWEST = 20
"""Fewest questions, or graded answers, for a conclusion."""

UNLIKELY, RARE = 0.05, 1e-3
"""Significance levels of a doubt (as for the floor of the ECE in tables) and of a stop."""

_WORDED = {HIDDEN: True}
"""Metadata of fields for the sentence alone."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a verdict, with the numbers of its sentence (`secl.reports.verdict.sentence_of`).

    Attributes:
        count: number of answers with the symptom, or of graded answers.
        total: number of examined answers; 0 for a reason about one answer.
        value: the measured number: AUROC, ECE, a mean confidence, or a probability.
        beside: number to compare with: the accuracy for a mean confidence, the 95% quantile of the floor for an ECE.
        chance: p-value of the difference for calibrated confidences.
        interval: of the AUROC.
        more: number of missing graded answers.
        left: number of answers without a label; None if further answers are expected.
        won, lost: wrong answers made right by learning, and right answers made wrong.
        answer: the letter of all answers, or the option chosen in another order.
        best: whether the returned answers are the most probable candidates.
        stated: whether the confidences are stated ones.
        chosen: whether volunteers chose the answers to label.
    """

    code: Code
    severity: Severity
    count: int = field(default=0, metadata=_WORDED)
    total: int = field(default=0, metadata=_WORDED)
    value: float | None = field(default=None, metadata=_WORDED)
    beside: float | None = field(default=None, metadata=_WORDED)
    chance: float | None = field(default=None, metadata=_WORDED)
    interval: Interval | None = field(default=None, metadata=_WORDED)
    more: int = field(default=0, metadata=_WORDED)
    left: int | None = field(default=None, metadata=_WORDED)
    won: int = field(default=0, metadata=_WORDED)
    lost: int = field(default=0, metadata=_WORDED)
    answer: str = field(default="", metadata=_WORDED)
    best: bool = field(default=False, metadata=_WORDED)
    stated: bool = field(default=False, metadata=_WORDED)
    chosen: bool = field(default=False, metadata=_WORDED)
