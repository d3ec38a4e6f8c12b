"""Labels of a run: order of a review, writing a label, and records with labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from secl.errors import RunError
from secl.labels.label import Label, label_of, random_order, standing, valid
from secl.labels.state import relabelled
from secl.records import Record
from secl.runs.manifest import Manifest
from secl.runs.store import Store

SEED = 42
"""Seed of the order of a review."""


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


def queue(store: Store) -> list[int]:
    """Return the positions of answers without a review label, in a random order that is the same in every review.

    Skipped answers come last. The queue includes answers that volunteers labelled. Without these answers, the accuracy
    of the reviewed answers would be too high, because volunteers report wrong answers more often.
    """
    skipped = {entry.position: entry.skipped for entry in valid(store.label_log()) if entry.chance is not None}
    waiting = [each for each in random_order(range(store.first, len(store)), SEED) if skipped.get(each) is not False]
    return sorted(waiting, key=lambda position: position in skipped)


def add_label(store: Store, record: Record, correct: bool | None, *, skipped: bool = False) -> None:
    """Add a review's label, or skip, of the answer of a record; None withdraws the answer's earlier entries.

    Raises:
        RunError: the answer has no label to withdraw.
        StorageError: writing fails.
    """
    log = store.label_log()
    if correct is None and not skipped and all(entry.position != record.position for entry in valid(log)):
        raise RunError(f"the answer at position {record.position} has no label to withdraw.")
    number = log[-1].number + 1 if log else 1
    store.add_label(label_of(record, correct, number=number, chance=1.0, skipped=skipped))
