"""What an examination of the tables finds, and what it lets pass: a changed cell, and what another processor rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from secl.server.closeness import ARITHMETIC, furthest
from secl.server.store import ServerStore
from secl.server.verify import examine
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.folders import spoiled
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import ask_all, close, examined


@dataclass(frozen=True)
class Pair:
    number: float
    texts: tuple[str, ...]


def test_values_of_one_shape_are_as_far_apart_as_their_farthest_numbers() -> None:
    assert furthest(Pair(0.5, ("a",)), Pair(0.25, ("a",))) == 0.25
    assert furthest([1000.0, None, True], [1001.0, None, True]) == pytest.approx(1 / 1001)
    assert furthest(math.nan, math.nan) == 0.0
    for now, then in [(1, 2), (True, 1), ("a", "b"), (None, 0.0), ([1.0], [1.0, 2.0]), ({"a": 1}, {"b": 1})]:
        assert furthest(now, then) == math.inf
    assert furthest(math.inf, 1.0) == furthest(math.nan, 1.0) == math.inf


@pytest.fixture(scope="module")
def learned(share_service: MakeService) -> Path:
    """The folder of a server with 40 answers that has learned from ten of them, and heard of one."""
    service = share_service()
    ask_all(service, toy_stream(21))
    service.state.add_feedback(3, False, 1.0)
    ask_all(service, toy_stream(40)[21:])
    return close(service)


@pytest.fixture(scope="module")
def weighed(share_service: MakeService) -> Path:
    """The folder of a server that reports posteriors."""
    service = share_service("weighed", model=Mixed(), settings={"method": "posterior"})
    ask_all(service, mixed_stream(15))
    return close(service)


def cell(column: str, table: str, position: int) -> str:
    return f"UPDATE {table} SET {column} = {column} + {{}} WHERE position = {position}"


def changed(body: str, position: int) -> str:
    return f"UPDATE records SET body = {body} WHERE position = {position}"


def inside(path: str, position: int) -> str:
    """A number inside the JSON of a record."""
    return changed(f"json_set(body, '$.{path}', json_extract(body, '$.{path}') + {{}})", position)


CELLS = [
    cell("reported", "served", 12),
    cell("frozen", "served", 12),
    cell("confidence", "labels", 3),
    cell("reported", "labels", 3),
    *(
        inside(path, position)
        for path, position in (
            ("reply.bins[8]", 12), ("frozen.bins[8]", 12), ("reply.entropy", 12), ("labelled.confidence", 21),
            ("labelled.low", 21), ("signal", 4), ("decision.statistic", 20),
        )
    ),
]  # fmt: skip

OF_POSTERIORS = [
    inside("posterior.questions", 9),
    inside("posterior.probabilities[0]", 9),
    inside("evidence.candidates.likelihoods[0].given", 9),
    cell("reported", "served", 9),
    "UPDATE records SET body = json_set(body, '$.posterior', NULL) WHERE position = 9",
    "DELETE FROM served WHERE position = 9",
    "INSERT INTO served (position, id, time, batch, domain, outcome) VALUES (99, 'x', 0, 1, '', 'idle')",
]


def test_a_cell_that_was_changed_by_a_thousandth_is_found(learned: Path, weighed: Path, tmp_path: Path) -> None:
    changes = [(learned, statement) for statement in CELLS] + [(weighed, statement) for statement in OF_POSTERIORS]
    for number, (folder, statement) in enumerate(changes):
        with ServerStore(spoiled(folder, tmp_path / str(number), statement.format(1e-3))) as state:
            findings = examine(state).findings
        assert findings, statement
        assert folder == learned or findings[0].position in (9, 99)


SPOILS = {
    changed("json_set(body, '$.decision.alarm', json('true'), '$.decision.in_burst', json('true'))", 30): (
        "gate",
        "stored is alarm",
    ),
    changed("json_set(body, '$.position', 99)", 39): ("integrity", "jump from 38 to 99"),
    "DELETE FROM served WHERE position = 20": ("integrity", "the table served does not follow"),
    "DELETE FROM records WHERE position = 20": ("integrity", "jump from 19 to 21"),
    "DELETE FROM records WHERE position = 39": ("integrity", "the table served does not follow"),
    "UPDATE records SET body = json_set(body, '$.update', NULL) WHERE learned = 5": (
        "integrity",
        "no update of it is stored",
    ),
    "UPDATE records SET body = json_set(body, '$.update.version', 50) WHERE learned = 5": (
        "integrity",
        "no newer version",
    ),
    "DELETE FROM versions WHERE version = 10": ("integrity", "the version that answered is not kept"),
    changed("json_set(body, '$.reply.version', 3)", 1): ("integrity", "made by no earlier question"),
    changed("json_set(body, '$.outcome', 'trained')", 20): ("integrity", "no update of it is stored"),
    changed("json_remove(body, '$.reply.text')", 20): ("integrity", "cannot be read"),
    changed("json_set(body, '$.position', 2)", 20): ("integrity", "jump"),
    "UPDATE labels SET correct = 1 - correct": ("labels", "the labels until then give"),
    "DELETE FROM labels": ("labels", "the labels until then give"),
    "UPDATE labels SET position = 99": ("integrity", "no such record"),
}


def test_whatever_is_changed_in_the_tables_is_found(learned: Path, tmp_path: Path) -> None:
    for number, (statement, (check, words)) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(learned, tmp_path / str(number), statement)) as state:
            _, findings = examined(state)
        assert any(finding.check == check and words in finding.detail for finding in findings), (statement, findings)


@pytest.mark.parametrize(("by", "found"), [(1e-12, False), (1e-6, True)])
def test_posteriors_and_labels_may_be_rounded_as_another_processor_does(
    weighed: Path, learned: Path, tmp_path: Path, by: float, found: bool
) -> None:
    # What is reported is copied beside the record, and stays equal; so a candidate that is not reported is changed.
    for folder, statement, check in (
        (weighed, inside("posterior.probabilities[2]", 12), "posterior"),
        (learned, inside("labelled.low", 21), "labels"),
        (learned, inside("decision.statistic", 20), "gate"),
    ):
        with ServerStore(spoiled(folder, tmp_path / check, statement.format(by))) as state:
            found_now = examine(state)
        assert any(finding.check == check for finding in found_now.findings) == found
        if not found:
            assert found_now.findings == []
            assert 0 < found_now.largest[check] < ARITHMETIC
