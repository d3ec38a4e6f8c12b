"""History, explanation and verification of folders: hashes, recomputed confidences, pruning, flipped bits."""

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl.errors import SeclError
from secl.evaluation.acceptance import advise, answers_of
from secl.methods import METHODS
from secl.runs import RunSettings, Store, chain, resume_run, start_run
from secl.runs.folder import FILE
from secl.runs.labelling import current_records
from secl.runs.manifest import Manifest, Mode
from secl.runs.settings import score_settings
from secl.server import retention
from secl.server.records import history
from secl.server.retention import Retention
from secl.server.store import ServerStore, open_folder
from secl.server.verify import ARITHMETIC, examine
from secl.testing import ScriptedModel, toy_stream
from tests.runs.conftest import stop_after
from tests.server.conftest import Make, Patch
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import ask_all, close, examined, explained, prune, spoiled


@pytest.fixture(scope="module")
def learned(share_service: Make) -> Path:
    """The folder of a server with 40 answers, ten lessons and one label."""
    service = share_service()
    ask_all(service, toy_stream(21))
    service.state.add_feedback(3, False, 1.0)
    ask_all(service, toy_stream(40)[21:])
    return close(service)


@pytest.fixture(scope="module")
def weighed(share_service: Make) -> Path:
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


SPOILS = {
    cell("reported", "served", 12).format(1e-3): ("integrity", "missing or contradicts the record"),
    cell("confidence", "labels", 3).format(1e-3): ("labels", "have different confidences or domains"),
    inside("signal", 4).format(1e-3): ("integrity", "its signal does not follow from its evidence"),
    changed("json_set(body, '$.learning.decision.alarm', json('true'))", 30): ("gate", "the record has alarm"),
    changed("json_set(body, '$.position', 99)", 39): ("integrity", "should be 39, but is 99"),
    "DELETE FROM served WHERE position = 20": ("integrity", 'the table "served" is missing'),
    "DELETE FROM records WHERE position = 20": ("integrity", "should be 20, but is 21"),
    changed("json_remove(body, '$.reply.text')", 20): ("integrity", "cannot be read"),
    changed("json_set(body, '$.position', 2)", 20): ("integrity", "should be 20, but is 2."),
    "UPDATE labels SET correct = 1 - correct": ("labels", "the labels known at this answer give"),
    "DELETE FROM labels": ("labels", "the labels known at this answer give"),
}


def test_changes_of_the_tables_are_found(learned: Path, tmp_path: Path) -> None:
    for number, (statement, (check, words)) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(learned, tmp_path / str(number), statement)) as state:
            _, findings = examined(state)
        assert any(finding.check == check and words in finding.detail for finding in findings), (statement, findings)


@pytest.mark.parametrize(("by", "found"), [(1e-12, False), (1e-6, True)])
def test_rounding_is_no_change(weighed: Path, learned: Path, tmp_path: Path, by: float, found: bool) -> None:
    # A reported number also has a copy in another table, so the changed candidate is not the reported one.
    for folder, statement, check in (
        (weighed, inside("posterior.probabilities[2]", 12), "posterior"),
        (learned, inside("labelled.low", 21), "labels"),
        (learned, inside("learning.decision.statistic", 20), "gate"),
    ):
        with ServerStore(spoiled(folder, tmp_path / check, statement.format(by))) as state:
            found_now = examine(state)
        assert {finding.check for finding in found_now.findings} - {"integrity"} == {"chain", *[check] * found}
        if not found:
            assert 0 < found_now.largest[check] < ARITHMETIC


def test_history_tells_what_the_records_tell(learned: Path) -> None:
    with ServerStore(learned) as state:
        past = history(state)
        records = list(state.records())
    assert (past["answers"], past["labelled"], past["version"], past["paused"]) == (40, 1, 10, None)
    assert past["lessons"] == Counter(record.outcome for record in records) == {"trained": 10, "idle": 30}
    assert [version["version"] for version in past["versions"]] == list(range(10, 0, -1))
    for version in past["versions"]:
        mine = [record for record in records if record.reply.version == version["version"]]
        assert version["position"] == mine[0].position
        assert version["drift"] > 0.0
    assert 0 <= past["ended"] - past["began"] < 60
    json.dumps(past, allow_nan=False)


def test_an_answer_is_explained_from_its_prompt_to_its_lesson(learned: Path) -> None:
    with ServerStore(learned) as state:
        served, found, quiet = state.served(3), explained(state, 3), explained(state, 30)["why"]
    record: Any
    record, (asked, replied) = served.record, found["prompt"] or []
    assert (found["record_id"], found["label"]) == (served.id, False)
    assert (asked["role"], replied["role"]) == ("user", "assistant")
    assert asked["content"].startswith("Question: What is 3 plus 4?\nA. 7\nB. 6\n")
    assert replied["content"] == f"Answer: {record.reply.answer}\nConfidence: "
    why = " ".join(found["why"])
    assert f"(bin {int(record.update.before * 10)}) against the signal {record.signal:.3f}" in why
    assert "against the threshold 8" in " ".join(quiet)
    assert "the update made version 4" in why
    assert "Lesson: idle, because the question is outside a burst." in quiet
    plain = json.loads(json.dumps(found, allow_nan=False))
    assert plain["record"]["reply"]["stated"] == record.reply.stated


def test_a_question_of_a_burst_without_a_lesson_is_told_why(make_service: Make) -> None:
    service = make_service()
    questions = toy_stream(6)
    ask_all(service, questions[:2])
    service.learner.pause("maintenance")
    service.ask(questions[2], 10)
    service.learner.resume()
    ask_all(service, questions[3:4])
    assert "Lesson: idle, because learning was paused: maintenance." in explained(service.state, 2)["why"]
    assert "made version" in " ".join(explained(service.state, 3)["why"])


LEARNING: dict[str, object] = {
    "method": "secl",
    "gate.burst": 4,
    "loop.bin_gate": None,
    "stream.benchmarks": ("capitals:9",),
}


MODES: dict[str, Mode] = {"rated": "score"}

FLIPS = int(os.environ.get("SECL_FLIPS", "100"))
"""Number of flipped bits in the whole file, and in its beginning."""


def resumed(folder: Path) -> Any:
    return resume_run(folder, load=lambda _: ScriptedModel())


@pytest.fixture(scope="module")
def folders(share_service: Make, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run that was stopped, labelled and resumed, and the state of a server, without files beside the database."""
    run = tmp_path_factory.mktemp("runs") / "run"
    started = start_run(RunSettings.of(LEARNING), run, lambda _: ScriptedModel())
    with started.store, pytest.raises(KeyboardInterrupt):
        started.proceed(stop_after(5))
    with Store(run, writable=True) as store:
        store.add_feedback(3, False, drawn=True)
    finished = resumed(run)
    with finished.store:
        finished.proceed()
        finished.finish()
    service = share_service()
    ask_all(service, toy_stream(8))
    service.state.add_feedback(3, False, 1.0)
    ask_all(service, toy_stream(12)[8:])
    service.learner.pause("too hot")
    with service.state.writing():
        service.state.write_checkpoint(service.calibrator.state)
    found = {"run": run, "state": close(service)}
    for folder in found.values():
        with closing(sqlite3.connect(folder / FILE)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for beside in folder.glob(f"{FILE}-*"):
            beside.unlink()
    return found


def findings(folder: Path, noted: str | None = None) -> list[tuple[str, int | None, str]]:
    with open_folder(folder) as store:
        return [(each.check, each.position, each.detail) for each in examine(store, noted=noted).findings]


def columns(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Each table of the chain with each of its stored columns, and a value of the column."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        for table in chain.ROW_KEYS:
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]  # without computed columns
            row = db.execute(f"SELECT {', '.join(names) or 1} FROM {table}").fetchone() if names else ()
            pairs = zip(names, row, strict=True)
            yield from ((table, name, value) for name, value in pairs if (table, name) != ("learner", "id"))  # always 0


def test_a_change_of_any_column_of_any_table_is_found(folders: dict[str, Path], tmp_path: Path) -> None:
    seen = Counter[str]()
    for kind, folder in folders.items():
        assert findings(folder) == []
        for number, (table, column, value) in enumerate(columns(folder)):
            key = chain.ROW_KEYS[table]
            new = f"{column} || ' '" if isinstance(value, str | bytes) else f"coalesce({column}, 0) * 1.0000001 + 1e-9"
            new = f"{column} + 100" if column == key and isinstance(value, int) else new
            where = f"WHERE {key} = (SELECT max({key}) FROM {table})"
            changed = spoiled(folder, tmp_path / kind / str(number), f"UPDATE {table} SET {column} = {new} {where}")
            found = [
                detail for check, _, detail in findings(changed) if check == "chain" and f"table {table} " in detail
            ]
            assert found, (kind, table, column)
            seen[table] += 1
    assert seen.keys() == {*chain.ROW_KEYS} - {"failures"}  # an extraction has failures, and is a run


@pytest.mark.parametrize("method", [*METHODS, "calibrated", "rated"])
def test_a_run_of_any_method_is_recomputed_exactly(tmp_path: Path, method: str) -> None:
    rows = [{"question": f"Is {n} even?", "options": ["yes", "no"], "answer": "yes"} for n in range(12)]
    file = tmp_path / "q.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    values = {"stream.questions": str(file), "method": method if method in METHODS else "posterior"}

    def made(name: str, settings: RunSettings, mode: Mode = "ask") -> Path:
        run = start_run(settings, tmp_path / name, lambda _: ScriptedModel(), mode=mode)
        with run.store:
            run.proceed()
            for position in range(0, 12, 3):
                run.store.add_feedback(position, position % 2 == 0, drawn=True)
        return tmp_path / name

    folder = made(
        "run", score_settings(file, {}) if method == "rated" else RunSettings.of(values), MODES.get(method, "ask")
    )
    if method == "calibrated":
        folder = made("later", RunSettings.of({**values, "model.calibration": str(folder)}))
    with open_folder(folder) as store:
        found = examine(store)
        assert len(Manifest.of(store).calibration) == 4 * (method == "calibrated")
    assert (found.findings, found.examined, {*found.largest.values()}) == ([], 12, {0.0})


def test_missing_and_added_rows_and_changed_entries_are_found(folders: dict[str, Path], tmp_path: Path) -> None:
    statements = {
        "DELETE FROM labels": "the row 1 of the table labels is missing",
        "DELETE FROM records WHERE position = 0": "the row 0 of the table records is missing",
        "DELETE FROM records WHERE position = (SELECT max(position) FROM records)": "of the table records is missing",
        "DELETE FROM chain WHERE number = 3": "has an entry that does not follow the entry before",
        "DELETE FROM chain WHERE number < 3": "has an entry that does not follow the entry before",
        "UPDATE chain SET hash = zeroblob(32) WHERE number = 12": "has an entry that does not follow the entry before",
        "UPDATE chain SET content = 'x' WHERE number = 12": "has an entry that does not follow the entry before",
        "INSERT INTO manifest VALUES ('more', '1')": "the row 'more' of the table manifest was not written by secl",
        "INSERT INTO versions VALUES (99, 0, 0, 'x')": "the row 99 of the table versions was not written by secl",
        "CREATE TRIGGER calm AFTER INSERT ON labels BEGIN DELETE FROM labels; END":
            "the trigger calm of the database is missing, or secl did not define it",
    }  # fmt: skip
    for kind, folder in folders.items():
        for number, (statement, words) in enumerate(statements.items()):
            place = shutil.copytree(folder, tmp_path / kind / str(number))
            with closing(sqlite3.connect(place / FILE)) as db, db:
                db.execute(statement)
            assert any(words in detail for _, _, detail in findings(place)), (kind, statement, findings(place))


def test_pruned_states_keep_a_short_chain_that_still_finds_changes(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 7)
    monkeypatch.setattr(retention, "REST", 0.0)
    monkeypatch.setattr(retention, "KEPT_VERSIONS", 2)
    service = make_service()
    state = service.state
    sizes = []
    for _ in range(4):
        ask_all(service, toy_stream(20))
        state.add_feedback(len(state) - 3, True)
        noted = chain.head(state.db)
        prune(state, Retention(records=10))
        sizes.append(state.rows("SELECT count(*) FROM chain")[0][0])
        assert (examine(state, noted=noted).findings, chain.head(state.db) != noted) == ([], True)
    assert sizes[-1] <= sizes[0] + 3 * 30  # some entries for each label, event and lesson, and none for each answer
    assert sizes[-1] < 150
    folder = close(service)
    for number, statement in enumerate(
        (
            "UPDATE labels SET time = 1 WHERE number = 1",  # about a pruned record
            "DELETE FROM labels WHERE number = 1",
            "UPDATE manifest SET value = '1' WHERE key = 'total'",
            f"DELETE FROM records WHERE position = {80 - 10}",  # the oldest that pruning kept
            f"UPDATE served SET time = 1 WHERE position = {80 - 10}",
            "DELETE FROM versions WHERE version = (SELECT max(version) FROM versions)",
            "DELETE FROM checkpoints",
        )
    ):
        assert any(check == "chain" for check, _, _ in findings(spoiled(folder, folder / str(number), statement)))


@pytest.mark.parametrize("kind", ["run", "state"])
def test_no_flipped_bit_gives_a_traceback_or_another_record_in_silence(
    folders: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / kind)
    whole = (folder / FILE).read_bytes()

    def read() -> str:
        with Store(folder) as store:
            records = list(current_records(store))
            advice = advise(answers_of(records, store.label_log()), 0.1, 0.9)
            return repr((Manifest.of(store), records, store.label_log(), advice.labels))

    expected, outcomes, draw = read(), Counter[str](), random.Random(5)
    places = [draw.randrange(len(whole)) for _ in range(FLIPS)]
    places += [draw.randrange(6000) for _ in range(FLIPS)]  # here are the definitions of the tables
    for place in (4067, *places):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << draw.randrange(8) if place != 4067 else 128
        (folder / FILE).write_bytes(flipped)
        for beside in folder.glob(f"{FILE}-*"):
            beside.unlink()
        try:
            found = findings(folder)
        except SeclError:
            found = [("refused", None, "")]
        try:
            same = read() == expected
        except SeclError:
            same = False
        assert same or found, place
        outcomes["same" if same else "found"] += 1
    assert min(outcomes["same"], outcomes["found"]) > FLIPS / 20
