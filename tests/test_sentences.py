"""Sentences about confidences are said about as rarely where they are false as docs/findings.md has it."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.sentences import WORLDS, said


@pytest.mark.parametrize(
    ("world", "sentence", "least", "most"),
    [
        ("calibrated, AUROC .72", "overconfident", 0.0, 0.1),
        ("calibrated, AUROC .72", "underconfident", 0.0, 0.1),
        ("calibrated, AUROC .72", "miscalibrated", 0.0, 0.15),
        ("calibrated, AUROC .72", "do not act", 0.0, 0.05),
        ("20 points too high", "overconfident", 0.85, 1.0),
        ("20 points too low", "underconfident", 0.85, 1.0),
        ("AUROC .50, mean right", "separate", 0.0, 0.1),
    ],
)
def test_a_hundred_graded_answers_show_what_is_there_and_seldom_what_is_not(
    world: str, sentence: str, least: float, most: float
) -> None:
    counts = Counter(each for seed in range(40) for each in said(WORLDS[world], 100, seed))
    assert least <= counts[sentence] / 40 <= most
