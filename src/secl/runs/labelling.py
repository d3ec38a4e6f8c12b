"""Labels of a run: order of a review, writing a label, and records with labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from secl.evaluation.acceptance import Advice, Answers, advise, answers_of
from secl.labels.label import Label, moment_of, random_order, standing
from secl.labels.state import LabelState, held_out
from secl.records import Record
from secl.runs.manifest import Manifest
from secl.runs.store import Store

SEED = 42
"""Seed of the order of a review."""

RECENT = 1000
"""Number of latest answers from which a review of a server draws, so that labels describe recent answers."""


def calibration_of(store: Store, log: Sequence[Label] | None = None) -> LabelState:
    """Return the present calibration of a run or server, by all its labels. `log` replaces the stored labels."""
    return LabelState.start(Manifest.of(store).calibration).add(store.label_log() if log is None else log)


def current_records(
    store: Store, log: Sequence[Label] | None = None, *, threshold: float | None = None
) -> Iterator[Record]:
    """Yield all records in order as people see them: with labels, and with confidences by the present calibration.

    Tables, pages and exports read records through this function, so all confidences and thresholds of a run or server
    have the same scale. A server's own pages and replies keep the confidence of their time.

    Args:
        log: replaces the stored labels.
        threshold: lowest accepted label-free confidence; replaces the threshold of the records.
    """
    log, records = store.label_log() if log is None else log, store.records()
    if threshold is not None:
        records = (replace(record, threshold=threshold) for record in records)
    if log or threshold is not None:  # without labels, the stored confidences are those of the present calibration
        records = map(calibration_of(store, log).apply, records)
    return _graded(records, log)


def advice_of(
    store: Store, risk: float, certainty: float = 0.9, *, since: str | None = None, anytime: bool = False
) -> tuple[Answers, Advice]:
    """Return the answers of a run or server, and the advice for a risk (`secl.evaluation.acceptance.advise`).

    `since`: age or date of the oldest label that counts (`secl.labels.label.moment_of`).
    """
    log = store.label_log()
    moment = None if since is None else moment_of(since, log)
    answers = answers_of(store.records(), log, calibration_of(store), since=moment)
    return answers, advise(answers, risk, certainty, anytime=anytime)


def held_out_records(store: Store) -> Iterator[Record]:
    """Yield all records in order, with labels, for measures of calibration: no label moves its own answer's confidence.

    A server computed each confidence before the answer had a label, so its records keep this confidence.
    """
    log, records = store.label_log(), store.records()
    if log and not store.is_server:
        records = held_out(records, log, Manifest.of(store).calibration)
    return _graded(records, log)


def _graded(records: Iterable[Record], log: Sequence[Label]) -> Iterator[Record]:
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
    within = _reviewed(store, len(store))
    order, skipped = random_order(within, SEED), store.sample(within.start)
    ranks = {position: (skipped.get(position, False), rank) for rank, position in enumerate(order)}
    waiting = sorted((each for each in order if skipped.get(each) is not False), key=ranks.__getitem__)
    if after in ranks:
        waiting = [each for each in waiting if ranks[each] > ranks[after] or ranks[after][0] > ranks[each][0]]
    return Queue(tuple(waiting), store.label_count(within.start), len(order))


def drawn_until(store: Store, last: int, count: int) -> frozenset[int]:
    """Return the positions of the sample that ends with answer `last`, drawn when the store had `count` answers."""
    within = _reviewed(store, count)
    order = random_order({*within, last}, SEED)
    return frozenset(order[: order.index(last) + 1]) & {*within}


def _reviewed(store: Store, count: int) -> range:
    """Return the positions from which a review draws if the store has `count` answers."""
    return range(max(store.first, count - RECENT) if store.is_server else store.first, count)
