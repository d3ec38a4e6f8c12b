"""How far numbers that are computed again may lie from those that are stored, and how far they do.

What is copied or counted must be equal. What double arithmetic makes of stored numbers may differ where another
processor adds in another order or rounds a logarithm otherwise. What a network says may differ by the rounding of its
layers, in its own precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace

from secl.evidence import CandidateEvidence, Sample
from secl.records import Reply

ARITHMETIC = 1e-9
"""Largest difference that double arithmetic may make in a replay, of numbers around 1.

A step rounds by 2^-53 (1.1e-16). Sums over some thousand numbers, and fits whose equations lose three digits more, stay
below 1e-9; whatever anybody changes by hand, or a disk by a bit of an exponent or of the leading half, lies above it.
"""

ROUNDING = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.05}
"""Largest difference of a probability that rounding in a network's body may make, by its precision.

A logit of ten or so goes through dozens of layers, each of which rounds by 2^-24 in float32 (2^-11 in float16, 2^-8 in
bfloat16); added up that is 10 * 100 * 2^-24 = 6e-5 at worst. In 16 bits the worst would be useless; errors that are
independent come to 10 * sqrt(100) * 2^-9 = 0.2 of a logit, and a probability moves by at most a quarter of its logit.
"""

NATS = 20.0
"""How much farther logarithms and entropies may lie apart than probabilities, for each token.

A probability moves by at most a quarter of its logit, and the logarithm of an improbable one by several times that.
"""

BYTES = 4
"""Bytes of a token of text, where nobody counted the tokens."""


def rounding(dtype: str | None) -> float:
    """How much another shape of the pass, or another processor, may change a probability; that of 16 bits if unknown.

    >>> rounding("float32"), rounding("bfloat16"), rounding(None)
    (0.0001, 0.05, 0.05)
    """
    return ROUNDING.get(dtype or "", ROUNDING["bfloat16"])


def furthest(now: object, then: object) -> float:
    """The largest difference of two numbers in two values of the same shape; infinity where anything else differs.

    Numbers above 1 are compared relative to their size. Whole numbers, texts, truth values and None must be equal, and
    so must what is not finite.

    >>> furthest({"p": (0.25, 0.5)}, {"p": [0.25, 0.75]}), furthest([1, "a"], [2, "a"]), furthest(None, 0.1)
    (0.25, inf, inf)
    """
    if is_dataclass(now) and not isinstance(now, type):
        now = asdict(now)
    if is_dataclass(then) and not isinstance(then, type):
        then = asdict(then)
    if isinstance(now, float) and isinstance(then, float):
        if math.isfinite(now) and math.isfinite(then):
            return abs(now - then) / max(1.0, abs(now), abs(then))
        return 0.0 if now == then or (math.isnan(now) and math.isnan(then)) else math.inf
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        if now.keys() != then.keys():
            return math.inf
        return max((furthest(now[key], then[key]) for key in now), default=0.0)
    if _listed(now) and _listed(then):
        if len(now) != len(then):  # type: ignore[arg-type]
            return math.inf
        return max((furthest(a, b) for a, b in zip(now, then, strict=True)), default=0.0)  # type: ignore[call-overload]
    return 0.0 if type(now) is type(then) and now == then else math.inf


def _listed(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def uncounted(reply: Reply) -> Reply:
    """A reply without its numbers of tokens: a text that is read again was not written."""
    return replace(reply, prompt_tokens=None, answer_tokens=None)


def measured(reply: Reply, stored: Reply) -> tuple[object, ...]:
    """What a reply says, with its numbers on the scale of probabilities; the stored one says how many tokens it has."""
    tokens = stored.answer_tokens or max(1, len(stored.text.encode()) // BYTES)
    return (
        reply.text,
        reply.answer,
        reply.version,
        reply.stated,
        reply.bins,
        reply.digit_mass,
        reply.entropy / NATS,
        reply.log_probability / (NATS * tokens),
        tuple(map(math.exp, reply.option_log_p)),
    )


def compared(evidence: CandidateEvidence) -> tuple[object, ...]:
    """The same of the evidence about candidates."""
    letters = [(order.order, tuple(map(math.exp, order.log_p))) for order in evidence.letters]
    likely = [
        None if each is None else (each.given / (NATS * each.tokens), each.alone / (NATS * each.tokens), each.tokens)
        for each in evidence.likelihoods
    ]
    drawn = [(each.text, each.candidate, _per_token(each)) for each in evidence.samples]
    return (evidence.candidates, evidence.source, letters, likely, drawn)


def _per_token(sample: Sample) -> float | None:
    tokens = max(1, len((sample.text or "").encode()) // BYTES)
    return None if sample.log_p is None else sample.log_p / (NATS * tokens)
