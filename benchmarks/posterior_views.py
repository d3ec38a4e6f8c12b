"""What the views of recorded questions have in common with each other and with right answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from secl.posterior.fit import prior_fit

from secl.evaluation.measures import measure
from secl.evaluation.view_check import check_views
from secl.metrics.probability import softmax
from secl.posterior.letters import place_effects
from secl.posterior.views import read_views
from secl.records import Record
from secl.settings import ViewName

VIEWS_WITH_LABELS: tuple[tuple[ViewName, ...], ...] = (
    ("letters",),
    ("letters", "likelihood"),
    ("letters", "likelihood", "pmi", "p_true"),
)
"""Sets of views whose weights are fitted to right answers."""


def print_header(*titles: str) -> None:
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")


def print_domains(records: Sequence[Record]) -> None:
    """What the views of each domain have in common with right answers and with each other."""
    print("### domains\n")
    print_header("domain", "questions", "accuracy of the letters", "reliability", "agreement with likelihoods", "slope")
    domains = dict.fromkeys(record.question.domain.split("/")[0] for record in records)
    for domain in domains:
        some = [record for record in records if record.question.domain.startswith(domain)]
        checks = check_views(some)
        right = np.mean([bool(record.correct) for record in some])
        reliability = next((view.reliability for view in checks.views if view.name == "letters"), math.nan)
        print(
            f"| {domain} | {len(some)} | {right:.2f} | {reliability:.2f} | {checks.agreement:.2f} (chance "
            f"{checks.chance:.2f}) | {slope(some):.2f} |"
        )
    print()


def slope(records: Sequence[Record]) -> float:
    """Regression of log-likelihoods per token with the question on those without, inside questions."""
    given: list[Any] = []
    alone: list[Any] = []
    for record in records:
        candidates = record.evidence.candidates
        texts = [each for each in candidates.likelihoods if each is not None] if candidates is not None else []
        for values, part in ((given, "given"), (alone, "alone")):
            each = np.array([getattr(text, part) / text.tokens for text in texts])
            values.append(each - each.mean())
    x, y = np.concatenate(alone), np.concatenate(given)
    return float(x @ y / (x @ x))


def print_with_labels(records: Sequence[Record]) -> None:
    """The best that the same views can do: weights fitted to right answers, in five folds."""
    print("### weights fitted to right answers, five folds\n")
    print_header("views", "weights", "own: Brier", "ECE", "AUROC", "best: accuracy")
    for views in VIEWS_WITH_LABELS:
        read = [read_views(views, r.question, r.reply, r.frozen, r.evidence) for r in records]
        known = [(r, v) for r, v in zip(records, read, strict=True) if v is not None and len(v.names) == len(views)]
        if not known:
            continue
        some, found = [r for r, _ in known], [v for _, v in known]
        plain = replace(prior_fit(found[0]), places=place_effects(found))
        matrices = [plain.matrix(each) for each in found]
        right = [v.rows[r.question.letters.index(str(r.question.reference))] for r, v in known]
        weights = [
            _fitted([(m, z) for i, (m, z) in enumerate(zip(matrices, right, strict=True)) if i % 5 != fold])
            for fold in range(5)
        ]
        shares = [softmax(list(m @ weights[i % 5])) for i, m in enumerate(matrices)]
        own = [p[v.rows[v.own or 0]] for p, v in zip(shares, found, strict=True)]
        m = measure(own, [bool(r.correct) for r in some], resamples=0)
        best = np.mean([p.index(max(p)) == z for p, z in zip(shares, right, strict=True)])
        told = ", ".join(f"{w:.2f}" for w in np.mean(weights, axis=0))
        print(f"| {', '.join(views)} | {told} | {m.brier:.3f} | {m.ece:.3f} | {m.auroc:.3f} | {best:.3f} |")
    print()


def _fitted(taught: Sequence[tuple[Any, int]]) -> Any:
    """Weights of least cross-entropy to the right candidates."""
    from scipy.optimize import minimize

    def loss(weights: Any) -> float:
        return float(
            np.mean([-math.log(softmax(list(x @ weights))[z] + 1e-12) for x, z in taught]) + 5e-4 * weights @ weights
        )

    return minimize(loss, np.full(taught[0][0].shape[1], 0.2)).x
