"""How far numbers that are computed again may lie from those that are stored, and how far they do.

Double arithmetic differs where another processor adds in another order, a network by the rounding of its layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass

from secl.evidence import CandidateEvidence
from secl.records import Record, Reply

ARITHMETIC = 1e-9
"""Largest difference that double arithmetic may make in a replay, of numbers around 1.

A step rounds by 2^-53 (1.1e-16). Sums over some thousand numbers, and fits whose equations lose three digits more, stay
below 1e-9. Changes by hand lie above it, and so do those of a bit of an exponent or of the leading half.
"""

ROUNDING = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.05}
"""Largest difference of a probability that rounding in a network's body may make, by its precision.

A logit of ten or so goes through dozens of layers, each of which rounds by 2^-24 in float32 (2^-11 in float16, 2^-8 in
bfloat16); added up that is 10 * 100 * 2^-24 = 6e-5 at worst. In 16 bits the worst would be useless; errors that are
independent come to 10 * sqrt(100) * 2^-9 = 0.2 of a logit, and a probability moves by at most a quarter of its logit.
"""

NATS = 20.0
"""How much farther logarithms, by token, and entropies may lie apart than probabilities, which saturate."""


def rounding(dtype: str | None) -> float:
    """How much another shape of the pass, or another processor, may change a probability; if unknown, 16 bits."""
    return ROUNDING.get(dtype or "", ROUNDING["bfloat16"])


def furthest(now: object, then: object) -> float:
    """The largest difference of two numbers in two values of the same shape; infinity where anything else differs.

    Numbers above 1 are compared relative to their size; whole numbers, texts and what is not finite must be equal.

    >>> furthest({"p": (0.25, 0.5)}, {"p": [0.25, 0.75]}), furthest([1, "a"], [2, "a"]), furthest(None, 0.1)
    (0.25, inf, inf)
    """
    now, then = (asdict(each) if is_dataclass(each) and not isinstance(each, type) else each for each in (now, then))
    if isinstance(now, float) and isinstance(then, float):
        if math.isfinite(now) and math.isfinite(then):
            return abs(now - then) / max(1.0, abs(now), abs(then))
        return 0.0 if now == then or (math.isnan(now) and math.isnan(then)) else math.inf
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        if now.keys() != then.keys():
            return math.inf
        return max((furthest(now[key], then[key]) for key in now), default=0.0)
    if isinstance(now, (list, tuple)) and isinstance(then, (list, tuple)):
        if len(now) != len(then):
            return math.inf
        return max((furthest(a, b) for a, b in zip(now, then, strict=True)), default=0.0)
    return 0.0 if type(now) is type(then) and now == then else math.inf


def distance(now: Record, then: Record) -> float:
    """Largest difference of a probability; logarithms and entropies count by `NATS`; infinity where a word differs."""
    one, other = (
        (_of_reply(each.reply), _of_reply(each.frozen), _of_candidates(each.evidence.candidates))
        for each in (now, then)
    )
    return furthest(one, other)


def _of_reply(reply: Reply) -> tuple[object, ...]:
    log_p = _by_token(reply.log_probability, reply.text)
    options = tuple(map(math.exp, reply.option_log_p))
    said = (reply.text, reply.answer, reply.version)
    return (*said, reply.stated, reply.bins, reply.digit_mass, reply.entropy / NATS, log_p, options)


def _of_candidates(evidence: CandidateEvidence | None) -> tuple[object, ...] | None:
    if evidence is None:
        return None
    letters = [(order.order, tuple(map(math.exp, order.log_p))) for order in evidence.letters]
    likely = [
        None if each is None else (each.given / (NATS * each.tokens), each.alone / (NATS * each.tokens), each.tokens)
        for each in evidence.likelihoods
    ]
    drawn = [(each.text, each.candidate, _by_token(each.log_p, each.text)) for each in evidence.samples]
    return (evidence.candidates, evidence.source, letters, likely, drawn)


def _by_token(log_p: float | None, text: str | None) -> float | None:
    """The log-probability of a token of a text, at four bytes a token."""
    return None if log_p is None else log_p / (NATS * max(1, len((text or "").encode()) // 4))
