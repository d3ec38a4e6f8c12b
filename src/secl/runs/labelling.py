"""Labels of a run: order of a review, writing a label, and records with labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from secl.labels.label import Label, random_order, standing
from secl.labels.state import relabelled
from secl.records import Record
from secl.runs.manifest import Manifest
from secl.runs.store import Store

SEED = 42
"""Seed of the order of a review."""

RECENT = 1000
"""Number of latest answers from which a review of a server draws, so that labels describe recent answers."""


def current_records(store: Store, log: Sequence[Label] | None = None) -> Iterator[Record]:
    """Yield all records in order, with labels and calibrated confidences.

    Every report, comparison and export reads records through this function. Records of a server keep the confidence
    that the server reported. `log` replaces the stored labels.
    """
    log = store.label_log() if log is None else log
    records = store.records()
    if log and not store.is_server:
        records = relabelled(records, log, Manifest.of(store).calibration)
    grades = {label.position: bool(label.correct) for label in standing(log)}
    for record in records:
        yield record.with_label(grades[record.position]) if record.position in grades else record


@dataclass(frozen=True, slots=True)
class Queue:
    """Positions of the answers to label, in random order. `rated` of the `answers` in the review have a label."""

    positions: tuple[int, ...]
    rated: int
    answers: int


def review_queue(store: Store, after: int | None = None) -> Queue:
    """Return the answers to label in a random order, from the record after record `after` in this order.

    A review of a server draws from the `RECENT` latest answers. Skipped answers come last. The queue includes answers
    that volunteers labelled. Without these answers, the accuracy of the sample would be too high, because volunteers
    report wrong answers more often. The order depends only on positions and skips, so all reviews, and a later review,
    have the same order.
    """
    first = max(store.first, len(store) - RECENT) if store.is_server else store.first
    order, skipped = random_order(range(first, len(store)), SEED), store.sample(first)
    ranks = {position: (position in skipped, rank) for rank, position in enumerate(order)}
    waiting = sorted((each for each in order if skipped.get(each) is not False), key=ranks.__getitem__)
    if after in ranks:
        waiting = [each for each in waiting if ranks[each] > ranks[after] or ranks[after][0] > ranks[each][0]]
    return Queue(tuple(waiting), store.label_count(first), len(order))
