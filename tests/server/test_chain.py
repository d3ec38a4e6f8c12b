"""The chains of hashes: a row that was changed, removed, moved or added by another program is found."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from secl.errors import ParameterError
from secl.runs.folder import FILE
from secl.server.audit import chain
from secl.server.audit.integrity import examine
from secl.server.audit.replay import verify
from secl.server.audit.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.waiting import settled


@pytest.fixture
def folder(make_service: MakeService) -> Path:
    """Twelve answers, ten lessons, two labels, a pause and a resume."""
    service = make_service()
    for question in toy_stream(12):
        service.ask(question, 10)
        settled(service)
    service.state.add_feedback(3, True)
    service.state.add_feedback(4, False)
    service.learner.pause("for lunch")
    service.learner.resume()
    service.stop()
    service.state.close()
    return service.state.folder


def spoil(folder: Path, *statements: str) -> None:
    db = sqlite3.connect(folder / FILE)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def said(folder: Path, *kept: chain.Head) -> list[str]:
    """What the chains say."""
    with ServerStore(folder) as state:
        return [finding.detail for finding in examine(state, kept)[1] if finding.check == "chain"]


def test_every_answer_lesson_label_event_and_version_is_in_a_chain(folder: Path) -> None:
    with ServerStore(folder) as state:
        kinds = dict(state.read("SELECT kind, count(*) FROM chain GROUP BY kind"))
        versions = len(state.versions())
        assert examine(state) == (12, [])
        numbers = {head.log: head.number for head in chain.heads(state.db)}
    assert numbers == {"records": 22, "journal": 4 + versions}
    assert kinds == {"answer": 12, "lesson": 10, "label": 2, "event": 2, "version": versions}


CHANGED = "was changed: the chain has another hash of it"
REMOVED = "was removed: the chain still has its hash"
ADDED = "is in no chain: another program put it there"

TABLES = ("records", "decisions", "served", "posteriors")

SPOILS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "text": (("UPDATE records SET body = replace(body, 'plus', 'minus') WHERE position = 6",), [f"record 6 {CHANGED}"]),
    "time": (("UPDATE served SET time = time - 1 WHERE position = 11",), [f"record 11 {CHANGED}"]),
    "losses": (("UPDATE updates SET losses = '[]' WHERE position = 2",), [f"record 2 {CHANGED}"]),
    "label": (("UPDATE labels SET correct = 0 WHERE number = 1",), [f"label 1 {CHANGED}"]),
    "event": (("UPDATE events SET detail = 'for ever' WHERE id = 1",), [f"event 1 {CHANGED}"]),
    "weights": (("UPDATE versions SET weights = x'00' WHERE version = 3",), [f"adapter version 3 {CHANGED}"]),
    "record gone": (tuple(f"DELETE FROM {t} WHERE position = 11" for t in TABLES), [f"record 11 {REMOVED}"]),
    "label gone": (("DELETE FROM labels WHERE number = 2",), [f"label 2 {REMOVED}"]),
    "event gone": (("DELETE FROM events WHERE id = 2",), [f"event 2 {REMOVED}"]),
    "version gone": (("DELETE FROM versions WHERE version = 1",), [f"adapter version 1 {REMOVED}"]),
    "moved": (
        (
            "UPDATE records SET position = -1 WHERE position = 10",
            "UPDATE records SET position = 10 WHERE position = 11",
            "UPDATE records SET position = 11 WHERE position = -1",
        ),
        [f"record 10 {CHANGED}", f"record 11 {CHANGED}"],
    ),
    "event added": (("INSERT INTO events VALUES (9, 1.0, 'pause', 3, 1, 'never was')",), [f"event 9 {ADDED}"]),
    "entry changed": (
        ("UPDATE chain SET digest = x'00' WHERE log = 'records' AND number = 5",),
        ["entry 5 of the chain records (answer 2) does not follow from the one before it", ""],
    ),
    "entry gone": (
        ("DELETE FROM chain WHERE log = 'journal' AND number = 2",),
        ["entry 3 of the chain journal follows on entry 1", ""],
    ),
}


@pytest.mark.parametrize("name", list(SPOILS))
def test_what_another_program_has_done_is_found(folder: Path, name: str) -> None:
    statements, found = SPOILS[name]
    spoil(folder, *statements)
    details = said(folder)
    assert details[: len(found)] == found if "" not in found else details[0] == found[0]


def test_a_head_that_was_kept_finds_that_the_whole_chain_was_made_anew(folder: Path) -> None:
    with ServerStore(folder) as state:
        kept = verify(state).heads
    assert said(folder, *kept) == []
    db = sqlite3.connect(folder / FILE)
    with db:  # somebody who knows how chains are made changes a label and all that follows from it
        db.execute("UPDATE labels SET correct = 0 WHERE number = 1")
        entries = db.execute("SELECT kind, key FROM chain WHERE log = 'journal' ORDER BY number").fetchall()
        db.execute("DELETE FROM chain WHERE log = 'journal'")
        for kind, key in entries:
            chain.append(db, kind, [key])
    db.close()
    assert said(folder) == []
    (problem,) = said(folder, *kept)
    assert problem == f"entry {kept[1].number} of the chain journal has another hash than the one that was kept"
    later = chain.Head("records", 99, "0" * 64)
    (problem,) = said(folder, later)
    assert problem == "entry 99 of the chain records, whose hash was kept, is not there; the chain has 22 entries"


def test_a_head_is_read_as_it_is_printed() -> None:
    head = chain.Head("journal", 7, "ab" * 32)
    assert chain.Head.parse(str(head)) == head
    for text in ("", "records@7", "records@-1:" + "0" * 64, "other@1:" + "0" * 64, str(head).upper()):
        with pytest.raises(ParameterError, match="is no head of a chain; give one as secl verify prints it"):
            chain.Head.parse(text)
