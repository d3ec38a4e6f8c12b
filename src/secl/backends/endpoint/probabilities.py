"""Checks of the log-probabilities that a server reports, and entropies from the few tokens that it lists.

Every probability of a server enters secl here.

A report that fails a check raises DamagedError with a phrase that says what the server reports. Callers name the
server, and leave the number out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

MIN_LOG_P = -100.0
"""Log-probability that stands for a probability of zero."""

MIN_OTHER_MASS = 1e-6
"""Minimum total probability of the other tokens; smaller totals are rounding errors of float32 log-probabilities."""

ROUNDING = 1e-3
"""Maximum rounding error of a log-probability."""

EXCESS = 5e-3
"""Maximum rounding error of a sum of probabilities."""

HIGHEST_ZERO = -50.0
"""Log-probability that no second token of a model has before temperature, however certain the model is."""

LEAST_BEST = math.log(1e-6)
"""Lower bound of the log-probability of the most probable token, because vocabularies have fewer than 1e6 tokens."""

MISSING = "no log-probabilities"
NO_NUMBER = "log-probabilities that are missing or no numbers"
POSITIVE = "log-probabilities above 0, which may be logits or probabilities"
TOO_HIGH = "log-probabilities whose probabilities add up to more than 1"
TOO_LOW = "log-probabilities that are too low for the most probable tokens"
ZERO = "a probability of 0 for a written token"
TOO_FEW = "log-probabilities of too few other tokens"
ALL_CERTAIN = "a probability of 1 for each written token and 0 for all others, as after a temperature of 0"
TEMPERED = "log-probabilities after the temperature that the request sets"
UNREADABLE = "log-probabilities of tokens without their texts"
PART = "the log-probability of only a part of a character"
OTHER_TEXT = "log-probabilities of tokens that do not spell the reply"

OF_ALL = frozenset({POSITIVE, TOO_HIGH, TOO_LOW, ALL_CERTAIN})
"""Damages of one list that make all numbers of a reply unusable."""

FIELDS = ("token", "logprob", "top_logprobs")
"""Fields of an entry."""

Key = TypeVar("Key", bound=Hashable)


class DamagedError(ValueError):
    """A report of log-probabilities that cannot be right; the message says what the server reports."""


def log_p_of(reported: object) -> float:
    """Return a reported log-probability as a number from `MIN_LOG_P` to 0. Raises DamagedError.

    Servers write a probability of zero as -Infinity, -9999, or -3.4e38.

    >>> log_p_of(-0.5), log_p_of(1e-5), log_p_of(-math.inf)
    (-0.5, 0.0, -100.0)
    """
    if not isinstance(reported, int | float) or isinstance(reported, bool) or reported != reported:
        raise DamagedError(NO_NUMBER)
    if reported > ROUNDING:
        raise DamagedError(POSITIVE)
    return float(min(0.0, max(MIN_LOG_P, reported)))


def distribution(written: tuple[Key, float], listed: Iterable[tuple[Key, float]]) -> tuple[tuple[Key, float], ...]:
    """Return the listed tokens and the written token with their log-probabilities, the most probable first.

    Two entries with equal texts and equal probabilities are one token. Different tokens may have equal texts.
    Raises DamagedError: the probabilities add up to more than 1.

    >>> distribution(("B", -0.5), [("A", -2.0), ("B", -0.5), ("B", -2.5)])
    (('B', -0.5), ('A', -2.0), ('B', -2.5))
    """
    several: dict[Key, list[float]] = {}
    for key, log_p in (*listed, written):
        same = several.setdefault(key, [])
        if all(abs(log_p - other) > ROUNDING for other in same):
            same.append(log_p)
    pairs = [(key, log_p) for key, same in several.items() for log_p in same]
    if math.fsum(math.exp(log_p) for _, log_p in pairs) > 1 + EXCESS:
        raise DamagedError(TOO_HIGH)
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def fault_of(top: Sequence[tuple[object, float]], least: int = 2) -> str:
    """Return what is wrong with a list of the most probable tokens, the most probable first; "" if nothing is.

    `least`: minimum number of tokens, at least 2.
    """
    if len(top) < least:
        return TOO_FEW
    (_, best), *others = top
    if best < LEAST_BEST:
        return TOO_LOW
    log_p = [each for _, each in others]
    # A model that is certain gives other tokens small but different probabilities.
    zero = log_p[0] < HIGHEST_ZERO or (len(log_p) > 2 and log_p[0] == log_p[-1])
    return ALL_CERTAIN if zero and math.exp(best) > 1 - ROUNDING else ""


def positions(logprobs: object) -> list[Mapping[str, Any]]:
    """Return the entry of each written token, with "token", "logprob" and "top_logprobs", in a choice's `logprobs`.

    Chats have a list of entries under "content". Completions, and the chats of some servers, have a list for each
    field; `top_logprobs` then maps tokens to log-probabilities. Raises DamagedError: another form.
    """
    if logprobs is None:
        return []
    if not isinstance(logprobs, Mapping):
        raise DamagedError(NO_NUMBER)
    listed = logprobs.get("content") or logprobs.get("refusal") or []
    if not listed and isinstance(tokens := logprobs.get("tokens"), list):
        unknown = [None] * len(tokens)
        columns = [tokens, logprobs.get("token_logprobs") or unknown, logprobs.get("top_logprobs") or unknown]
        if not all(isinstance(column, list) and len(column) == len(tokens) for column in columns):
            raise DamagedError(NO_NUMBER)
        listed = [dict(zip(FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise DamagedError(NO_NUMBER)
    return listed


def alternatives(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of the most probable tokens at a position. Raises DamagedError: another form."""
    listed = entry.get("top_logprobs") or []
    if isinstance(listed, Mapping):
        listed = [{"token": token, "logprob": log_p} for token, log_p in listed.items()]
    if not isinstance(listed, list) or not all(isinstance(other, Mapping) for other in listed):
        raise DamagedError(NO_NUMBER)
    return listed


def entropy_of(log_p: Iterable[float], vocabulary: int) -> float:
    """Return the entropy in nats from the log-probabilities of the most probable tokens.

    These tokens are the head of the distribution, and the other tokens are its tail. The estimate assumes that the
    tail's probabilities fall as a power of the rank (Zipf), starting from the smallest probability of the head. The
    estimate lies between the entropies for two other tails: a tail of few tokens that all have the head's smallest
    probability, and a tail of all other tokens with equal probabilities.

    >>> round(entropy_of([math.log(0.5), math.log(0.25)], 1000), 3), round(entropy_of([math.log(0.5)] * 2, 1000), 3)
    (1.415, 0.693)
    """
    head = sorted((value for value in log_p if value > MIN_LOG_P), reverse=True)
    partial = -sum(math.exp(value) * value for value in head)
    rest, others = 1.0 - sum(map(math.exp, head)), vocabulary - len(head)
    if not head or others <= 0 or rest < MIN_OTHER_MASS:
        return partial
    low = partial - rest * min(head[-1], math.log(rest))
    high = max(low, partial + rest * math.log(others / rest))
    return min(max(partial + _tail(rest, head[-1], len(head), others), low), high)


def _tail(rest: float, smallest: float, count: int, others: int) -> float:
    """Return the entropy that a tail of mass `rest` adds: p(i) = p(count) (i / count)^-s for a fitted s.

    `count` tokens precede the tail, and `smallest` is ln p(count). Integrals over u = i / count from 1 to R replace
    sums over ranks i. With a = 1 - s the mass is p(count) count (R^a - 1) / a.
    """
    ratio = rest / (math.exp(smallest) * count)
    span = math.log1p(others / count)
    high = min(1.0, 600.0 / span)
    low = -1.0 - 1.0 / ratio  # a lower bound of a, because (R^a - 1) / a < 1 / -a for a < 0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _mass(middle, span) < ratio else (low, middle)
    a = (low + high) / 2
    b = a * span
    moment = span * span / 2 if abs(b) < 1e-4 else (math.exp(b) * (b - 1) + 1) / (a * a)
    return rest * ((1 - a) * moment / ratio - smallest)


def _mass(a: float, span: float) -> float:
    return span if abs(a * span) < 1e-9 else math.expm1(a * span) / a
