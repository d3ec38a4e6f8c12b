"""The methods by name. A method chooses a gate, evidence and whether to learn; settings determine the rest."""

from __future__ import annotations

from dataclasses import dataclass

from secl.errors import ParameterError
from secl.evidence import EvidenceKind
from secl.settings.groups import EvidenceOn


@dataclass(frozen=True, slots=True)
class Method:
    """A named composition of the loop.

    Attributes:
        gate: name of its gate in `secl.gates.GATES`.
        reports: names of the estimators that its report shows, the most important last; empty for all.
        evidence: kinds of evidence gathered beyond the one that the training signal needs.
        paper: whether the setting `paper` is on unless given.
    """

    gate: str
    evidence_on: EvidenceOn
    reports: tuple[str, ...]
    note: str
    learns: bool = False
    evidence: tuple[EvidenceKind, ...] = ()
    paper: bool = False


_FREE = (
    *("stated", "constant", "constant_labelled", "letter_probability", "stated_temperature", "stated_platt"),
    *("stated_with_labels", "posterior_with_labels"),
)
"""Estimators that cost nothing besides the answers: baselines, and reported confidences calibrated by labels."""

_SCORED = (*_FREE, "label_free_platt", "p_true", "norm_p_true")

METHODS: dict[str, Method] = {
    "secl": Method("entropy-shift", "burst", (*_SCORED, "secl"), "learn in bursts when the entropy shifts", True),
    "secl-paper": Method(
        "page-hinkley",
        "burst",
        (*_SCORED, "secl"),
        "SECL to the letter of the paper: its gate, its question for P(True), its bins, its loss",
        True,
        paper=True,
    ),
    "posterior": Method(
        "never",
        "always",
        (*_FREE, "order_averaged", "likelihood", "posterior_best", "posterior"),
        "a probability for every candidate, without learning or labels (the default)",
        evidence=("candidates",),
    ),
    "stated": Method("never", "burst", (*_FREE[1:], "stated_hard", "stated"), "the stated confidence (Verbalized)"),
    "p_true": Method("never", "always", (*_SCORED[:-1],), "raw P(True)", evidence=("p_true",)),
    "norm_p_true": Method("never", "always", _SCORED, "normalised P(True)", evidence=("p_true",)),
    "self_consistency": Method(
        "never", "always", (*_FREE, "self_consistency"), "agreement of samples", evidence=("samples",)
    ),
    "dinco": Method(
        "never",
        "always",
        (*_FREE, "self_consistency", "dinco_greedy", "dinco"),
        "distractors from beams, NLI weights and self-consistency",
        evidence=("samples", "dinco"),
    ),
    "label_free": Method(
        "entropy-shift",
        "burst",
        (*_FREE, "norm_p_true", "label_free_temperature", "label_free_platt"),
        "two numbers fitted to normalised P(True) in bursts, no weights changed",
        evidence=("p_true",),
    ),
    "baselines": Method(
        "never",
        "always",
        (),
        "every confidence that needs no learning, over one set of answers",
        evidence=("candidates", "p_true", "samples", "dinco"),
    ),
}


def method(name: str) -> Method:
    """Return a method by its name."""
    if name not in METHODS:
        raise ParameterError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}.")
    return METHODS[name]


def method_to_follow(name: str) -> Method:
    """Return a method for a calibrator; a ParameterError if the method also determines how runs ask the model."""
    chosen = method(name)
    if chosen.paper:
        raise ParameterError(
            f"the method {name!r} also determines how the model is asked and trained, which a calibrator cannot set; "
            f"take secl run --method {name}."
        )
    return chosen
