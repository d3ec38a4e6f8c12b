"""When a domain's own shift pays, and the bias of measures on labelled answers: in simulations and on recorded runs.

    python -m benchmarks.label_maps [--draws 30]

Domains: Brier score minus that of the true chances (times 10,000): of the confidences before labels, under one map
for all, and with shifts for domains with at least 1, 3 or 10 labels. If the domains do not differ (spread 0), shifts
can only cost.

Bias: the measure on the labelled answers minus that of fresh answers under the map of all labels. Labelled answers
are rated by a map for each label, by maps of 5 folds, or by the map of all labels. AUROC: minus that of the
label-free confidences.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit

from benchmarks.labels import Rated, review_label
from benchmarks.study import heading, row
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.metrics.calibration import brier, ece
from secl.metrics.discrimination import auroc

FEWEST = (1, 3, 10)


def maps(labels: Sequence[Label]) -> list[tuple[LabelState, frozenset[str]]]:
    """Return the map without shifts, and the maps with shifts for domains with so many labels."""
    counts, made = Counter(label.domain for label in labels), []
    for fewest in (len(labels) + 1, *FEWEST):
        own = frozenset(name for name, count in counts.items() if count >= fewest)
        kept = [label if label.domain in own else replace(label, domain="") for label in labels]
        made.append((LabelState.start().add(kept), own))
    return made


def rated_by(
    state: LabelState, own: frozenset[str], answers: Sequence[Rated]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the confidences of answers under a map."""
    return np.array([state.confidence(each.domain if each.domain in own else "", each.confidence) for each in answers])


def domain_rows(draws: int) -> Iterator[str]:
    """Yield a line for each number of domains, number of labels for each domain, and spread of the domains' shifts
    (logits)."""
    generator = np.random.default_rng(0)
    for domains, each in ((3, 5), (3, 20), (10, 2), (10, 10), (40, 2), (40, 5)):
        for spread in (0.0, 0.5, 1.0):
            lost = []
            for _ in range(draws):
                level, own = generator.normal(0, 0.5), generator.normal(0, spread, domains)
                logits, domain = (
                    generator.normal(0.5, 1.2, domains * each + 400),
                    generator.integers(domains, size=domains * each + 400),
                )
                chance = expit(logits + level + own[domain])
                right = generator.random(len(logits)) < chance
                answers = [
                    Rated(float(c), bool(r), f"domain {d}")
                    for c, r, d in zip(expit(logits), right, domain, strict=True)
                ]
                fresh, truth = answers[domains * each :], chance[domains * each :]
                labels = [review_label(place, answer) for place, answer in enumerate(answers[: domains * each])]
                values = [np.array([answer.confidence for answer in fresh])]
                values += [rated_by(state, own_shift, fresh) for state, own_shift in maps(labels)]
                lost.append([float(((value - truth) ** 2).mean()) for value in values])
            yield row(domains, each, spread, *(f"{value:.0f}" for value in 1e4 * np.mean(lost, axis=0)))


def bias_rows(draws: int) -> Iterator[str]:
    """Yield a line for each number of labels, spread of the confidences (logits), and way to rate labelled answers."""
    generator = np.random.default_rng(1)
    for count in (25, 60, 150):
        for spread in (0.0, 0.3, 1.0):
            for way, folds in (("a map for each label", count), ("5 folds", 5), ("the map of all", 1)):
                if folds == 150:
                    continue
                biases = [_bias(count, spread, folds, generator) for _ in range(draws)]
                yield row(count, spread, way, *(f"{value:+.3f}" for value in np.mean(biases, axis=0)))


def _bias(count: int, spread: float, folds: int, generator: np.random.Generator) -> tuple[float, float, float, float]:
    """Return the bias of Brier score, mean confidence and ECE, and the change of AUROC."""
    confidence = expit(generator.normal(0.7, spread, count + 2000))
    chance = expit(np.log(confidence / (1 - confidence)) - 0.5)
    right = generator.random(count + 2000) < chance
    answers = [Rated(float(c), bool(r), "") for c, r in zip(confidence, right, strict=True)]
    labels = [review_label(place, answer) for place, answer in enumerate(answers[:count])]
    state, fold = LabelState.start().add(labels), generator.permutation(count) % folds
    held = [state if folds == 1 else state.without(set(np.flatnonzero(fold == k).tolist())) for k in range(folds)]
    seen = np.array([held[fold[place]].confidence("", each.confidence) for place, each in enumerate(answers[:count])])
    fresh = np.array([state.confidence("", each.confidence) for each in answers[count:]])
    truth, grades, part = chance[count:], right[:count], slice(count, 2 * count)
    return (
        brier(seen, grades) - float(((fresh - truth) ** 2 + truth * (1 - truth)).mean()),
        float(seen.mean() - grades.mean() - (fresh - truth).mean()),
        ece(seen, grades) - ece(fresh[:count], right[part]),
        0.0 if grades.all() or not grades.any() else auroc(seen, grades) - auroc(confidence[:count], grades),
    )


def main() -> None:
    """All tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    draws = parser.parse_args().draws
    ways = ("as they are", "one map", *(f"shifts from {fewest}" for fewest in FEWEST))
    print(heading("domains", "labels each", "spread", *ways))
    print(*domain_rows(draws), "", sep="\n", flush=True)
    print(heading("labels", "spread", "labelled answers rated by", "Brier", "mean", "ECE", "AUROC"))
    print(*bias_rows(draws), sep="\n", flush=True)


if __name__ == "__main__":
    main()
