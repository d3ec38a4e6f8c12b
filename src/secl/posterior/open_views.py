"""Views of the candidates of open questions: samples, texts, and values of fields."""

from __future__ import annotations

import math
from collections import Counter

from secl.evidence import CandidateEvidence, Evidence
from secl.metrics.probability import log_sum
from secl.records import Reply

Values = tuple[float | None, ...]
"""One number for each candidate; None if unknown."""

SMOOTHING = 0.5
"""Pseudo-count of every candidate among the samples."""

VOTE = 2.6
"""Nats that each solution adds to its number, before multiplication by the weight of the view."""

DOUBT = 0.2
"""Weight of the uniform distribution in the mixture with probabilities after thoughts."""

LEAST_REST = 0.05
"""Minimum probability of an answer outside the candidates."""

VALUE_COEFFICIENTS = (0.6, -1.4, 0.02, -0.7)
"""a, b, c, d in a field's log-odds: a + b ln(H + c), plus d for a fixed form. H: entropy in nats (`value`)."""

VALUE_SLOPE = 0.6
"""Ratio of a value's log-odds to the log-odds of its text, if the entropy is unknown."""

TOOL_SLOPE = 2.0
"""Ratio of the log-odds of a choice of a tool to the log-odds of its first tokens. The ratio is above 1, because most
other first tokens lead to the same choice."""

ALONE_SLOPE = 0.8
"""Ratio of a value's log-odds to the log-odds of its text in the reply to a request for this field alone."""

LEAST_WRONG = 0.01
"""Minimum probability that the value of a field is wrong, before log-odds are multiplied by a slope."""


def samples(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values | None:
    """Return ln of the number of samples for each candidate of an open question, with a pseudo-count.

    The model's own answer counts as one sample, and every candidate gets a pseudo-count (`SMOOTHING`). Samples that
    equal no candidate count for the last candidate. For numbers, the view is linear: every solution adds `VOTE` nats to
    its number, because independent solutions rarely agree on a wrong number. The view `value` replaces this view for
    fields, because both views estimate the same probability.
    """
    if not candidates.samples or value(candidates, reply, evidence) is not None:
        return None
    last = len(candidates.candidates) - 1
    programs = any(sample.program for sample in candidates.samples)
    # A program without a result does not count. Reasoning without a result counts for "None of these".
    ways = [sample.candidate for sample in candidates.samples if not sample.program or sample.text is not None]
    counts = Counter([0, *(last if number is None else number for number in ways)])
    return tuple(
        VOTE * counts[number] if programs else math.log(counts[number] + SMOOTHING) for number in range(last + 1)
    )


def text(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values | None:  # noqa: ARG001
    """Return the log-probability of each candidate's text, divided by the square root of its word count.

    The square root is a compromise: a sum makes every sentence improbable, a mean makes every sentence probable. The
    last candidate has the remaining probability. Numbers do not have this view, because their texts are the reasoning.
    Fields have the view `value` instead.
    """
    log_p = _log_p_of_texts(candidates, reply)
    if not log_p or candidates.source.of_field:
        return None
    words = candidates.words or [len(candidate.split()) for candidate in candidates.candidates]
    scores = [log_p[n] / math.sqrt(max(1, words[n])) if n in log_p else None for n in range(len(words) - 1)]
    rest = 1 - math.fsum(math.exp(score) for score in scores if score is not None)
    return (*scores, math.log(max(rest, LEAST_REST)))


def value(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values | None:  # noqa: ARG001
    """Return ln of the probability of each value of a field.

    The model's own value has the probability sigmoid(L). L = a + b ln(H + c), plus d for a fixed form. H is the entropy
    of the value's tokens under the schema; `VALUE_COEFFICIENTS` holds a to d. If a server does not report H,
    L = `VALUE_SLOPE` logit P. P is the probability of the value's text, clipped at 1 - `LEAST_WRONG`. For the choice of
    a tool, L = min(`TOOL_SLOPE` logit P, -ln `LEAST_WRONG`). If secl also asked for this field alone, and the
    value has the probability P' in that reply, L becomes the mean of L and `ALONE_SLOPE` logit P'. The other values
    share the remaining probability in proportion to the probabilities of their texts.

    If the model thinks, the probability of a value is the mean over several thoughts, mixed with the uniform
    distribution (`DOUBT`).
    """
    log_p = _log_p_of_texts(candidates, reply)
    if not log_p or not candidates.source.of_field:
        return None
    if reply.thought is not None:
        return _behind_thoughts(candidates, reply)
    own = min(log_p[0], math.log1p(-LEAST_WRONG))
    count = len(candidates.candidates)
    others = [max(math.exp(log_p.get(n, -math.inf)), LEAST_WRONG / 100) for n in range(1, count - 1)]
    others.append(max(1 - math.exp(own) - math.fsum(others), LEAST_WRONG))
    odds = own - math.log1p(-math.exp(own))
    if candidates.source.kind == "tools":
        log_odds = min(TOOL_SLOPE * odds, -math.log(LEAST_WRONG))
    elif math.isnan(reply.entropy):
        log_odds = VALUE_SLOPE * odds
    else:
        a, b, c, d = VALUE_COEFFICIENTS
        log_odds = a + b * math.log(reply.entropy + c) + (d if candidates.source.kind == "fixed_values" else 0.0)
    alone = candidates.likelihoods[0]
    if alone is not None:
        asked = min(max(math.exp(alone.given), LEAST_WRONG), 1 - LEAST_WRONG)
        log_odds = (log_odds + ALONE_SLOPE * math.log(asked / (1 - asked))) / 2
    right, wrong = -log_sum((0.0, -log_odds)), -log_sum((0.0, log_odds))
    return (right, *(wrong + math.log(other / math.fsum(others)) for other in others))


def _behind_thoughts(candidates: CandidateEvidence, reply: Reply) -> Values:
    """Return ln of each value's mean probability over thoughts; the last candidate has the remaining probability."""
    count, thoughts = len(candidates.candidates), 1 + len(candidates.samples)
    shares = [0.0] * count
    for number, log_p in [(0, reply.log_probability), *((each.candidate, each.log_p) for each in candidates.samples)]:
        if number is not None and log_p is not None:
            shares[number] += math.exp(log_p) / thoughts
    shares[-1] = max(0.0, 1 - math.fsum(shares[:-1]))
    return tuple(math.log((1 - DOUBT) * share + DOUBT / count) for share in shares)


def _log_p_of_texts(candidates: CandidateEvidence, reply: Reply) -> dict[int | None, float]:
    """Return {candidate: ln P of one text with this meaning}; empty without samples and for numbers."""
    drawn = candidates.samples
    if not drawn or any(sample.program for sample in drawn) or math.isnan(reply.log_probability):
        return {}
    log_p: dict[int | None, float] = {0: reply.log_probability}
    for sample in drawn:
        if sample.log_p is not None and sample.text is not None:
            log_p.setdefault(sample.candidate, sample.log_p)
    return log_p
