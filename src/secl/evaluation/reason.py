"""Reasons of a verdict (`secl.evaluation.trust`): why one may or may not act on a confidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from secl.evaluation.json_values import HIDDEN
from secl.metrics.bootstrap import Interval

Severity = Literal["note", "doubt", "stop"]
"""A note changes nothing, a doubt keeps a verdict from being fine, a stop means: do not act on it."""

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
"""Questions, or graded answers, below which nothing is concluded from them."""

UNLIKELY, RARE = 0.05, 1e-3
"""Probabilities below which chance is a bad explanation (as for the floor of the ECE in tables), and none."""


_WORDED = {HIDDEN: True}
"""Metadata of fields that serve the sentence alone."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a verdict, with the numbers of its sentence (`secl.reports.verdict.sentence_of`).

    Attributes:
        count: answers that show it; graded answers where right answers tell.
        total: answers that were looked at; 0 if it is about one answer alone.
        value: the measured number: AUROC, ECE, a mean confidence, or a probability.
        beside: a number to compare with: the accuracy for a mean confidence, the floor's 95% quantile for an ECE.
        chance: probability of so large a difference if the confidences are calibrated.
        interval: of the AUROC.
        more: graded answers that are missing.
        left: answers that could be labelled; None if further ones are to come.
        won, lost: wrong answers that learning made right, right ones that it made wrong.
        answer: the letter of all answers, or the option chosen in another order.
        best: whether the most probable candidates were the answers.
        stated: whether the confidences are the stated ones.
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
