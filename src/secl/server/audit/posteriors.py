"""Posteriors in a state folder: what is stored beside a record, and how many there are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from secl.posterior.views import Views, read_views
from secl.records import Record
from secl.settings import ViewName

if TYPE_CHECKING:
    from secl.server.audit.store import ServerStore

Row = tuple[int, str, float, bool]


def posterior_row(record: Record) -> Row | None:
    """The row of a record; None without a posterior."""
    posterior, views = record.posterior, weighed_views(record)
    if posterior is None or views is None:
        return None
    return record.position, json.dumps(views.names), record.confidence, posterior.best != posterior.own


def weighed_views(record: Record) -> Views | None:
    """The views that a record's posterior was made of."""
    if record.posterior is None:
        return None
    names = [cast(ViewName, name) for name, _ in record.posterior.weights]
    return read_views(names, record.question, record.reply, record.frozen, record.evidence)


@dataclass(frozen=True, slots=True)
class PosteriorCounts:
    """How many answers have a posterior.

    Attributes:
        answers: all of them.
        differs: those where the most probable candidate is not the model's own answer.
    """

    answers: int
    differs: int


def posterior_counts(state: ServerStore) -> PosteriorCounts:
    """How many answers of a state folder ever had a posterior."""
    counts = state.counts("posterior")
    return PosteriorCounts(counts.get("answers", 0), counts.get("differs", 0))
