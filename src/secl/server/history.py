"""What a server has done so far, read from its state folder; nothing here needs the model or changes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from secl.runs.manifest import Manifest
from secl.server.entries import Event, Values
from secl.server.store import OWN, ServerStore


@dataclass(frozen=True, slots=True)
class Burst:
    """Neighbouring questions that were meant for learning.

    Attributes:
        first, last: positions, answered at `began` and `ended`, in seconds since 1970.
        alarm: whether an alarm of the gate opened it.
        statistic: of the gate at its first question; None where the gate tested nothing.
        remaining: questions of the burst still to come.
        lessons: how many of its questions have each outcome.
        versions: the first and the last adapter version made from it; None while there is none.
    """

    first: int
    last: int
    began: float
    ended: float
    alarm: bool
    statistic: float | None
    remaining: int
    lessons: dict[str, int]
    versions: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class VersionUsed:
    """A kept adapter version, or the untouched model.

    Attributes:
        number: 0 is the untouched model.
        position: of the first answer under it; None for the untouched model.
        began: when that was, in seconds since 1970; None likewise.
        answers: how many answers it gave.
        shift: mean of stated less frozen confidence over them; None without any.
        drift: norm of what it adds to the weights over that of the weights; None if unknown.
        current: whether learning stands there now.
    """

    number: int
    position: int | None
    began: float | None
    answers: int
    shift: float | None
    drift: float | None
    current: bool


@dataclass(frozen=True, slots=True)
class History:
    """What a server has done so far.

    Attributes:
        answers: how many records there ever were.
        first: position of the first that is kept; those before it were pruned, and bursts and versions are of the rest.
        began, ended: when the first and the last that are kept were given, in seconds since 1970; None without any.
        version: at which learning stands.
        learns: whether this server's method learns at all.
        paused: why learning is paused; None while it is not.
        lessons: how many records have each outcome.
        labelled: how many answers people said something about.
    """

    model: str
    answers: int
    first: int
    began: float | None
    ended: float | None
    version: int
    learns: bool
    paused: str | None
    lessons: dict[str, int]
    labelled: int
    bursts: tuple[Burst, ...]
    versions: tuple[VersionUsed, ...]
    events: tuple[Event, ...]

    def to_json(self) -> Values:
        """As plain JSON values."""
        return asdict(self)


def history(state: ServerStore) -> History:
    """Everything that happened in a state folder.

    Raises:
        RunError: the file or a kept version is damaged.
    """
    ends = [state.rows(f"SELECT time FROM served ORDER BY position {order} LIMIT 1") for order in ("ASC", "DESC")]
    began, ended = (rows[0][0] if rows else None for rows in ends)
    version, settings = version_now(state), Manifest.of(state.store).settings
    return History(
        model=settings.model.name,
        answers=len(state),
        first=state.first,
        began=began,
        ended=ended,
        version=version,
        learns=settings.named_method.learns,
        paused=state.paused,
        lessons=state.counts(),
        labelled=state.label_count,
        bursts=tuple(bursts(state)),
        versions=tuple(versions(state, version)),
        events=tuple(state.events()),
    )


_BURSTS = """
    SELECT d.position, d.alarm, d.statistic, d.remaining, r.outcome, u.version, s.time
    FROM decisions d JOIN records r USING (position) JOIN served s USING (position) LEFT JOIN updates u USING (position)
    WHERE d.in_burst ORDER BY d.position"""

_BETWEEN = f"SELECT 1 FROM records WHERE {OWN} AND position > ? AND position < ? LIMIT 1"


def bursts(state: ServerStore) -> list[Burst]:
    """All bursts in order; an alarm right after a burst opens another one."""
    groups: list[list[tuple[Any, ...]]] = []
    with state.lock:
        for row in state.rows(_BURSTS):
            if not groups or row[1] or _apart(state, groups[-1][-1][0], row[0]):
                groups.append([])
            groups[-1].append(row)
    return [_burst(group) for group in groups]


def _apart(state: ServerStore, before: int, after: int) -> bool:
    """Whether an answer outside bursts lies between two questions; one that the gate did not see is none."""
    return after - before > 1 and bool(state.rows(_BETWEEN, before, after))


def _burst(rows: Sequence[tuple[Any, ...]]) -> Burst:
    (first, alarm, statistic, *_, began), (last, _, _, remaining, *_, ended) = rows[0], rows[-1]
    numbers = [row[5] for row in rows if row[5] is not None]
    lessons = Counter(row[4] for row in rows)
    return Burst(
        first=first,
        last=last,
        began=began,
        ended=ended,
        alarm=bool(alarm),
        statistic=statistic,
        remaining=remaining,
        lessons=dict(sorted(lessons.items())),
        versions=(min(numbers), max(numbers)) if numbers else None,
    )


_ANSWERS = f"SELECT version, count(*), avg(confidence - frozen_confidence) FROM records WHERE {OWN} GROUP BY version"
_KEPT = """
    SELECT v.version, v.position, s.time, v.drift FROM versions v LEFT JOIN served s USING (position)
    ORDER BY v.version DESC LIMIT ?"""


def kept_versions(state: ServerStore, count: int = -1) -> list[tuple[int, int, float | None, float | None]]:
    """The newest kept versions, the newest first: number, position and time of the first answer, drift."""
    return state.rows(_KEPT, count)


def versions(state: ServerStore, current: int | None = None) -> list[VersionUsed]:
    """The untouched model and all kept versions, in the order of their numbers."""
    current = version_now(state) if current is None else current
    usage = {number: (count, shift) for number, count, shift in state.rows(_ANSWERS)}
    return [
        VersionUsed(number, position, began, *usage.get(number, (0, None)), drift, current=number == current)
        for number, position, began, drift in [(0, None, None, 0.0), *reversed(kept_versions(state))]
    ]


def version_now(state: ServerStore) -> int:
    """The adapter version at which learning stands: of the latest update, or of a rollback after it.

    A rollback drops the lessons that wait, so an update after it belongs to a later question than any before it.
    """
    rows = state.rows("SELECT version, position FROM updates ORDER BY version DESC LIMIT 1")
    version, position = rows[0] if rows else (0, -1)
    back = state.latest_event("rollback")
    if back is not None and (back.position is None or back.position >= position):
        return back.version
    return int(version)
