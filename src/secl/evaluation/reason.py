"""Why a confidence may or may not be acted on: what a verdict (`secl.evaluation.trust`) is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a verdict is what it is; the sentence for people ends with what to do where something can be done."""

    code: Code
    severity: Severity
    sentence: str
