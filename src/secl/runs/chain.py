"""A chain of hashes over the rows of a run or of a server's state. It shows which row was changed from outside.

secl adds an entry to the table `chain` in the transaction that writes or removes a row. An entry has a hash of the row,
and a hash of this hash and of all earlier entries. The latest entry of a row must fit the row. The hash of the last
entry, the head, stands for all rows: a copy of the head on another machine also shows a chain that somebody rewrote.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

from secl.runs.folder import DAMAGE

TABLE = """
CREATE TABLE chain (number INTEGER PRIMARY KEY, name TEXT NOT NULL, key, content BLOB NOT NULL, hash BLOB NOT NULL);
CREATE INDEX chained ON chain (name, key);
"""
"""An entry is about the row of the table `name` whose primary key is `key`. `content` is the hash of the row."""

ROW_KEYS = {
    "manifest": "key",
    "records": "position",
    "versions": "version",
    "learner": "id",
    "labels": "number",
    "failures": "document",
    "served": "position",
    "events": "id",
    "checkpoints": "position",
}
"""The primary key of each table in the chain."""

BY_POSITION = ("records", "served", "checkpoints")
"""Tables from which a server prunes rows of old positions."""

PRUNED = "pruned"
"""In the place of a table: an entry whose key is the first position that a pruning kept."""


def extend(db: sqlite3.Connection, name: str, key: object, content: bytes | None = None) -> None:
    """Add the entry of a row that was written or removed, inside a transaction of the caller.

    `content`: hash of the row; by default, the hash of the row as it is now.
    """
    content = content or content_of(db, name, key)
    values = (name, key, content, _hash_of(bytes.fromhex(head(db)), content))
    db.execute("INSERT INTO chain (name, key, content, hash) VALUES (?, ?, ?, ?)", values)


def content_of(db: sqlite3.Connection, name: str, key: object) -> bytes:
    """Return the hash of all columns of a row, or the hash that stands for a missing row."""
    query = f"SELECT * FROM {name} WHERE {ROW_KEYS[name]} = ?"
    return _hash_of(name, key, *(db.execute(query, (key,)).fetchone() or ()))


def _hash_of(*values: object) -> bytes:
    hasher = hashlib.sha256()
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        hasher.update(f"{type(value).__name__} {len(data)} ".encode())
        hasher.update(data)
    return hasher.digest()


def fold(db: sqlite3.Connection, first: int) -> None:
    """Remove the entries before record `first`, whose older rows were pruned, inside a transaction of the caller.

    Entries about other rows, such as labels, move to the end. The last removed entry stays as the beginning of the
    chain.
    """
    extend(db, PRUNED, first, _hash_of(PRUNED, first))
    (number,) = db.execute("SELECT min(number) FROM chain WHERE name = 'records' AND key = ?", (first,)).fetchone()
    if number is None:
        return
    for name, key, content in db.execute(f"{_LATEST} WHERE number < ? ORDER BY number", (number,)).fetchall():
        kept = name in ROW_KEYS and (name not in BY_POSITION or key >= first)
        if kept and content != _hash_of(name, key):
            extend(db, name, key, content)
    db.execute("DELETE FROM chain WHERE number < ?", (number - 1,))


_LATEST = """
    SELECT name, key, content FROM
    (SELECT * FROM chain c WHERE number = (SELECT max(number) FROM chain WHERE name = c.name AND key = c.key))"""


def head(db: sqlite3.Connection) -> str:
    """Return the hash of the last entry, in hexadecimal digits."""
    row = db.execute("SELECT hash FROM chain ORDER BY number DESC LIMIT 1").fetchone()
    return "" if row is None else bytes(row[0]).hex()


def holds(db: sqlite3.Connection, noted: str) -> bool:
    """Return whether the chain has an entry with this hash, as `head` returned it earlier."""
    return db.execute("SELECT 1 FROM chain WHERE hash = ?", (bytes.fromhex(noted),)).fetchone() is not None


Contradiction = tuple[str, object, str]
"""A contradiction: table, key, and a sentence without its subject."""


def changes(db: sqlite3.Connection) -> Iterator[Contradiction]:
    """Yield each row that differs from its entry, is missing or was added, and each entry that breaks the chain."""
    (first,) = db.execute("SELECT max(key) FROM chain WHERE name = ?", (PRUNED,)).fetchone()
    before, expected = b"", 1
    query = "SELECT coalesce(number, 0), name, key, content, hash FROM chain ORDER BY number"
    for number, name, key, content, own in db.execute(query):
        begins = not before and first is not None
        if not begins and (number != expected or own != _hash_of(before, content)):
            yield name, key, "has an entry that does not follow the entry before"
        before, expected = own, number + 1
    present = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name in [name for name in ROW_KEYS if name in present]:
        for (key,) in db.execute(f"SELECT {ROW_KEYS[name]} FROM {name} ORDER BY 1"):
            if problem := _difference(db, name, key):
                yield name, key, problem
        query = f"{_LATEST} WHERE name = ? AND key NOT IN (SELECT {ROW_KEYS[name]} FROM {name})"
        for _, key, content in db.execute(query, (name,)):
            pruned = name in BY_POSITION and first is not None and key < first
            if not pruned and content != _hash_of(name, key):
                yield name, key, "is missing"


def _difference(db: sqlite3.Connection, name: str, key: object) -> str:
    query = "SELECT content FROM chain WHERE name = ? AND key = ? ORDER BY number DESC LIMIT 1"
    entry = db.execute(query, (name, key)).fetchone()
    if entry is None:
        return "was not written by secl"
    try:
        return "" if entry[0] == content_of(db, name, key) else "was changed"
    except DAMAGE as problem:
        return f"cannot be read ({problem})"
