"""Hashes over all that is stored, each made from the one before: a row that was changed, removed or moved is found.

There are two chains. `records` has an entry for each answer, and one more when its lesson changes the record. `journal`
has one for each label, event and kept adapter version, and for each version that is pruned.

    digest_n = sha256(the row that entry n is about, as stored)
    head_n   = sha256(head_{n-1}, n, kind, key, digest_n)

Of a row that was changed on purpose the latest entry counts. When records are pruned their entries go, too; the last of
them stays as a checkpoint, kind `pruned`, whose head the entries behind it follow from.

Whoever can write to the file can compute all hashes anew. So a chain proves something to those who keep one of its
heads elsewhere: that everything before it, as far as it is still stored, is as it was then.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, get_args

from secl.errors import ParameterError

ChainLog = Literal["records", "journal"]
EntryKind = Literal["answer", "lesson", "label", "event", "version", "version pruned"]

START = bytes(32)
"""The head before the first entry."""

PRUNED = "pruned"
"""Kind of the entry that stands for all pruned ones before it and for itself."""

_RECORD = """
    SELECT r.position, r.id, r.domain, r.confidence, r.frozen_confidence, r.signal, r.correct, r.version, r.outcome,
           r.seconds, r.body, d.alarm, d.in_burst, d.remaining, d.statistic, d.entropy, s.time, s.batch,
           u.version, u.before, u.target, u.after, u.losses
    FROM records r LEFT JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN updates u USING (position)"""
_LABEL = "SELECT number, position, correct, confidence, domain, reported, time, source, chance FROM labels"
_EVENT = "SELECT id, time, kind, position, version, detail FROM events"
_VERSION = "SELECT weights FROM versions"

_ROW = {
    "answer": f"{_RECORD} WHERE r.position = ?",
    "lesson": f"{_RECORD} WHERE r.position = ?",
    "label": f"{_LABEL} WHERE number = ?",
    "event": f"{_EVENT} WHERE id = ?",
    "version": f"{_VERSION} WHERE version = ?",
}

_LOG: dict[EntryKind, ChainLog] = {"answer": "records", "lesson": "records"}
"""Chain of each kind of entry; the journal where it is not listed."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends, or ended: `records@12:ab...`.

    Attributes:
        log: which chain.
        number: of its latest entry; 0 before the first.
        hash: of all its entries, in hexadecimal digits.
    """

    log: ChainLog
    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.log}@{self.number}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """A head as `secl verify` prints it.

        Raises:
            ParameterError: it does not look like one.

        >>> Head.parse("journal@3:" + "0f" * 32).number
        3
        """
        found = re.fullmatch(r"(records|journal)@(\d{1,18}):([0-9a-f]{64})", text)
        if found is None:
            raise ParameterError(
                f"{text[:100]!r} is no head of a chain; give one as secl verify prints it, like records@12:ab12..., "
                "with 64 hexadecimal digits."
            )
        return cls("records" if found[1] == "records" else "journal", int(found[2]), found[3])


def append(db: sqlite3.Connection, kind: EntryKind, keys: Iterable[int]) -> None:
    """Add entries about rows that the same transaction has just written.

    Args:
        db: in a transaction.
        kind: of the entries.
        keys: position of a record, number of a label or version, or id of an event.
    """
    log = _LOG.get(kind, "journal")
    number, head = _latest(db, log)
    for key in keys:
        number, digest = number + 1, _digest_now(db, kind, key)
        head = _next(head, number, kind, key, digest)
        db.execute("INSERT INTO chain VALUES (?, ?, ?, ?, ?, ?)", (log, number, kind, key, digest, head))


def fold(db: sqlite3.Connection, first: int) -> None:
    """Drop the entries about records before a position, as far as no entry about a later record lies between them."""
    kept = "SELECT number FROM chain WHERE log = 'records' AND kind != ? AND key >= ? ORDER BY number LIMIT 1"
    found = db.execute(kept, (PRUNED, first)).fetchone()
    until = _latest(db, "records")[0] if found is None else found[0] - 1
    db.execute("DELETE FROM chain WHERE log = 'records' AND number < ?", (until,))
    db.execute(
        "UPDATE chain SET kind = ?, key = ?, digest = ? WHERE log = 'records' AND number = ?",
        (PRUNED, first - 1, b"", until),
    )


def heads(db: sqlite3.Connection) -> tuple[Head, ...]:
    """Where both chains end now."""
    return tuple(Head(log, number, head.hex()) for log in get_args(ChainLog) for number, head in [_latest(db, log)])


def broken_links(db: sqlite3.Connection, kept: Iterable[Head] = ()) -> Iterator[str]:
    """Where entries do not follow from those before them, or from heads that were kept elsewhere."""
    expected: dict[tuple[str, int], str] = {(each.log, each.number): each.hash for each in kept}
    for log in get_args(ChainLog):
        latest, head, began = 0, START, 0
        if (zero := expected.pop((log, 0), None)) is not None and zero != START.hex():
            yield f"{log}@0 has another hash than the one that was kept"
        rows = db.execute("SELECT number, kind, key, digest, head FROM chain WHERE log = ? ORDER BY number", (log,))
        for number, kind, key, digest, stored in rows:
            if kind == PRUNED and not latest:
                began = number
            elif number != latest + 1:
                yield f"entry {number} of the chain {log} follows on entry {latest}"
            elif stored != _next(head, number, kind, key, digest):
                yield f"entry {number} of the chain {log} ({kind} {key}) does not follow from the one before it"
            if expected.pop((log, number), stored.hex()) != stored.hex():
                yield f"entry {number} of the chain {log} has another hash than the one that was kept"
            latest, head = number, stored
        for _, number in [each for each in expected if each[0] == log]:
            where = "was pruned" if number < began else f"is not there; the chain has {latest} entries"
            yield f"entry {number} of the chain {log}, whose hash was kept, {where}"


def changed_rows(db: sqlite3.Connection, first: int) -> Iterator[tuple[int | None, str]]:
    """Rows that are not as the chain says: position of a record or None, and a sentence.

    Args:
        db: the open file.
        first: position of the first record that is kept.
    """
    records = "log = 'records' AND kind != 'pruned' AND key >= ?"
    for key, problem in _unlike(_digests(db.execute(f"{_RECORD} ORDER BY r.position")), _said(db, records, first)):
        yield key, f"record {key} {problem}"
    for kind, table in (("label", _LABEL), ("event", _EVENT)):
        rows = _digests(db.execute(f"{table} ORDER BY {'number' if kind == 'label' else 'id'}"))
        for key, problem in _unlike(rows, _said(db, "log = 'journal' AND kind = ?", kind)):
            yield None, f"{kind} {key} {problem}"
    versions = db.execute("SELECT version, weights FROM versions ORDER BY version")
    weights = ((number, hashlib.sha256(stored).digest()) for number, stored in versions)
    kept = "log = 'journal' AND kind LIKE 'version%'"
    said = ((key, digest) for key, digest in _said(db, kept) if digest)  # without one it was pruned
    for key, problem in _unlike(weights, said):
        yield None, f"adapter version {key} {problem}"


def _said(db: sqlite3.Connection, where: str, *values: object) -> Iterator[tuple[int, bytes]]:
    """Key and digest of the latest entry about each row, in the order of the keys."""
    # SQLite takes the other columns from the row with the maximum.
    query = f"SELECT key, digest, max(number) FROM chain WHERE {where} GROUP BY key ORDER BY key"
    return ((key, digest) for key, digest, _ in db.execute(query, values))


def _digests(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, bytes]]:
    return ((row[0], _digest(row)) for row in rows)


def _unlike(rows: Iterator[tuple[int, bytes]], said: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    """Walks rows and entries side by side, both in the order of their keys."""
    for key, both in groupby(merge(_marked(rows, "row"), _marked(said, "entry")), itemgetter(0)):
        digests = {where: digest for _, where, digest in both}
        if "entry" not in digests:
            yield key, "is in no chain: another program put it there"
        elif "row" not in digests:
            yield key, "was removed: the chain still has its hash"
        elif digests["row"] != digests["entry"]:
            yield key, "was changed: the chain has another hash of it"


def _marked(pairs: Iterator[tuple[int, bytes]], where: str) -> Iterator[tuple[int, str, bytes]]:
    return ((key, where, digest) for key, digest in pairs)


def _latest(db: sqlite3.Connection, log: str) -> tuple[int, bytes]:
    query = "SELECT number, head FROM chain WHERE log = ? ORDER BY number DESC LIMIT 1"
    number, head = db.execute(query, (log,)).fetchone() or (0, START)
    return int(number), bytes(head)


def _digest_now(db: sqlite3.Connection, kind: EntryKind, key: int) -> bytes:
    """Of the row that an entry is about; empty for one that is gone on purpose."""
    if kind == "version pruned":
        return b""
    (row,) = db.execute(_ROW[kind], (key,))
    return hashlib.sha256(row[0]).digest() if kind == "version" else _digest(row)


def _digest(row: tuple[Any, ...]) -> bytes:
    """Of a row: JSON writes every number with all its digits."""
    return hashlib.sha256(json.dumps(row, separators=(",", ":"), default=bytes.hex).encode()).digest()


def _next(head: bytes, number: int, kind: str, key: int, digest: bytes) -> bytes:
    link = json.dumps([head.hex(), number, kind, key, digest.hex()], separators=(",", ":"))
    return hashlib.sha256(link.encode()).digest()
