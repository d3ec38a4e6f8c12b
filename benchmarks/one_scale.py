"""How often a guarantee is false for a user who filters the confidences of an export at the printed threshold.

    python -m benchmarks.one_scale

Streams of 300 answers in two domains, 100 random labels, risk .1. For comparison, the user filters at the threshold
before labels, as `secl threshold` printed it up to commit cdecad16.
"""

from __future__ import annotations

import numpy as np

from secl.evaluation.acceptance import Judgement, advise, answers_of
from secl.labels.label import Label
from secl.metrics.probability import Vector

STREAMS, ANSWERS, LABELS, RISK = 200, 300, 100, 0.1


def simulate(shift: float) -> str:
    """Return the results for confidences whose logits are too low by `shift`."""
    generator, given = np.random.default_rng(1), 0
    outcomes: dict[str, list[tuple[bool, float]]] = {"before labels": [], "shown": []}
    for _ in range(STREAMS):
        truth: Vector = generator.beta(4, 1.2, ANSWERS)
        free: Vector = 1 / (1 + np.exp(shift) * (1 - truth) / truth)
        right, domain = generator.random(ANSWERS) < truth, generator.choice(["a", "b"], ANSWERS)
        drawn = enumerate(generator.choice(ANSWERS, LABELS, replace=False).tolist(), start=1)
        log = [_label(n, k, bool(right[k]), float(free[k]), str(domain[k])) for n, k in drawn]
        rows = zip(domain.tolist(), free.tolist(), strict=True)
        answers = answers_of([Judgement(n, name, c, None, None, n) for n, (name, c) in enumerate(rows)], log)
        advice = advise(answers, RISK)
        if advice.threshold is None:
            continue
        given += 1
        values = np.array([advice.domains.get(name, advice.value) for name in domain.tolist()])
        for scale, limit in (("before labels", advice.threshold.uncalibrated), ("shown", values)):
            taken = answers.probability >= limit
            risk = float(np.mean(1 - truth[taken])) if taken.any() else 0.0
            outcomes[scale].append((risk > RISK, float(taken.mean())))
    shares = [
        f"at the threshold {scale}: {sum(false for false, _ in each) / STREAMS:.1%} of streams false, "
        f"{np.mean([coverage for _, coverage in each]):.0%} accepted"
        for scale, each in outcomes.items()
    ]
    return f"logits too low by {shift:+}: given in {given / STREAMS:.0%}; {'; '.join(shares)}"


def _label(number: int, position: int, correct: bool, confidence: float, domain: str) -> Label:
    return Label(
        number=number,
        position=position,
        correct=correct,
        confidence=confidence,
        domain=domain,
        reported=confidence,
        time=float(number),
        source="review",
        chance=1.0,
    )


if __name__ == "__main__":
    for each in (1.5, 0.0, -1.5):
        print(simulate(each), flush=True)
