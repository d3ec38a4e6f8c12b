"""Posteriors in a state folder: what is stored beside a record, and the state of the rule after a restart.

The rule's state depends on the number of questions in each group (`secl.posterior.views.Views.key`) and on the latest
of them. Both are looked up in a table of their own, so that a long history is not read at every start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from secl.posterior.rule import PosteriorRule, PosteriorState
from secl.posterior.views import Key, Views, read_views
from secl.records import Record
from secl.settings import ViewName

if TYPE_CHECKING:
    from secl.server.audit.store import ServerStore

TABLE = """
CREATE TABLE IF NOT EXISTS posteriors (
    position INTEGER PRIMARY KEY REFERENCES records, views TEXT NOT NULL, confidence REAL NOT NULL,
    informed INTEGER NOT NULL, differs INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS posterior_groups ON posteriors (views, position);
"""
"""One row for each record with a posterior: its group, the reported confidence, whether any view carried information,
and whether the best answer differs from the model's own."""

Row = tuple[int, str, float, bool, bool]


def posterior_row(record: Record) -> Row | None:
    """The row of a record; None without a posterior."""
    posterior, views = record.posterior, weighed_views(record)
    if posterior is None or views is None:
        return None
    group = json.dumps(views.key)
    return record.position, group, record.confidence, posterior.informed, posterior.best != posterior.own


def weighed_views(record: Record) -> Views | None:
    """The views that a record's posterior was made of."""
    if record.posterior is None:
        return None
    names = [cast(ViewName, name) for name, _ in record.posterior.weights]
    return read_views(names, record.question, record.reply, record.frozen, record.evidence)


_GROUP = "r.position IN (SELECT position FROM posteriors WHERE views = ? ORDER BY position DESC LIMIT ?)"


def resume_posterior(rule: PosteriorRule, state: ServerStore) -> PosteriorState:
    """The state of a rule after all records of a state folder, as if the server had never stopped.

    Raises:
        RunError: the file is damaged.
    """
    counts: dict[Key, int] = {}
    latest: list[Views] = []
    with state.lock:
        groups = list(state._read("SELECT views, count(*) FROM posteriors GROUP BY views"))
        for group, count in groups:
            counts[tuple(json.loads(group))] = count
            for record in state.records(_GROUP, group, rule.memory):
                views = rule.read(record.question, record.reply, record.frozen, record.evidence)
                latest += [] if views is None else [views]
    return rule.resume(counts, latest)


@dataclass(frozen=True, slots=True)
class PosteriorCounts:
    """How many answers have a posterior.

    Attributes:
        answers: all of them.
        uninformed: those where no view carried information.
        differs: those where the most probable candidate is not the model's own answer.
    """

    answers: int
    uninformed: int
    differs: int


def posterior_counts(state: ServerStore) -> PosteriorCounts:
    """How many answers of a state folder have a posterior."""
    if not state.has_posteriors:
        return PosteriorCounts(0, 0, 0)
    with state.lock:
        query = "SELECT count(*), total(NOT informed), total(differs) FROM posteriors"
        return PosteriorCounts(*map(int, next(state._read(query))))
