"""The methods by name. A method is a choice of gate, of evidence and of whether to learn; the rest are arguments."""

from __future__ import annotations

from dataclasses import dataclass

from secl.calibrator import EvidenceOn
from secl.errors import ParameterError
from secl.records import EvidenceKind


@dataclass(frozen=True, slots=True)
class Method:
    """A named composition of the loop.

    Attributes:
        gate: name of its gate in `secl.gates.GATES`; "never" watches nothing.
        judge: where evidence is gathered ("burst" or "always").
        reports: the confidences of `secl.reports.estimators.READINGS` that it is for, the foremost last; empty for
            all.
        note: one line for people.
        learns: whether bursts change the weights.
        evidence: gathered beyond what is learned from.
    """

    gate: str
    evidence_on: EvidenceOn
    reports: tuple[str, ...]
    note: str
    learns: bool = False
    evidence: tuple[EvidenceKind, ...] = ()


_LEARNED = ("stated", "p_true", "norm_p_true", "secl")

METHODS: dict[str, Method] = {
    "secl": Method("entropy-shift", "burst", _LEARNED, "learn in bursts when the entropy shifts (the default)", True),
    "secl-paper": Method("page-hinkley", "burst", _LEARNED, "SECL with the paper's own gate", True),
    "stated": Method("never", "burst", ("stated_hard", "stated"), "the stated confidence (Verbalized)"),
    "p_true": Method("never", "always", ("stated", "p_true"), "raw P(True)", evidence=("p_true",)),
    "norm_p_true": Method(
        "never", "always", ("stated", "p_true", "norm_p_true"), "normalised P(True)", evidence=("p_true",)
    ),
    "self_consistency": Method(
        "never", "always", ("stated", "self_consistency"), "agreement of ten samples", evidence=("samples",)
    ),
    "dinco": Method(
        "never",
        "always",
        ("stated", "self_consistency", "dinco_greedy", "dinco"),
        "distractors from beams, NLI weights and self-consistency",
        evidence=("samples", "dinco"),
    ),
    "label_free": Method(
        "entropy-shift",
        "burst",
        ("stated", "norm_p_true", "label_free_temperature", "label_free_platt"),
        "two numbers fitted to normalised P(True) in bursts, no weights changed",
        evidence=("p_true",),
    ),
    "baselines": Method(
        "never",
        "always",
        (),
        "every confidence that needs no learning, over one set of answers",
        evidence=("p_true", "samples", "dinco"),
    ),
}


def method(name: str) -> Method:
    """The method called `name`.

    Raises:
        ParameterError: there is none; the message lists them.
    """
    if name not in METHODS:
        raise ParameterError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}.")
    return METHODS[name]
