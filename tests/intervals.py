"""Intervals from few draws, for tests that look at everything else of a summary."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


def few_draws(put: Callable[[object, str, object], None] = setattr) -> None:
    """Make the intervals of summaries rough: with all their draws they take longer than a run of a tiny model."""
    from secl.evaluation import measures, summary

    for name in ("ece_interval", "ada_ece_interval"):
        put(measures, name, partial(getattr(measures, name), draws=10))
    put(summary, "RESAMPLES", 40)
