"""The cache of readings: a second run asks the model only what is new, and its records are equal."""

import sqlite3
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest

import secl
from secl.backends.local.model import LocalModel
from secl.errors import ParameterError
from secl.evidence import EvidenceKind
from secl.fields.calls import WritesCalls
from secl.fields.extraction import WritesObjects
from secl.model import ModelAnswer, Rating, SearchesBeams
from secl.question import GivenAnswer, Question
from secl.runs import cache as cache_module
from secl.runs.cache import CachedModel, ReadingCache, maximum_size
from secl.runs.encoding import to_body
from secl.runs.runner import resume_run, start_run
from secl.runs.settings import RunSettings
from secl.testing import ScriptedModel
from tests.fields.scribe import Scribe, written

QUESTIONS = [f"What is {n} plus {n}?" for n in range(40)]


class Counted(ScriptedModel):
    """A model that counts what it is asked, and may end after some answers."""

    def __init__(self, most: int = 1000, **settings: Any) -> None:
        super().__init__(**settings)
        self.asked, self.rated, self.most = list[str](), 0, most

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: Any = None
    ) -> ModelAnswer:
        if len(self.asked) == self.most:
            raise KeyboardInterrupt
        self.asked.append(question.text)
        return super().answer(question, evidence=evidence, written=written)

    def rate(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        self.rated += len(given)
        return super().rate(given, evidence)


@pytest.fixture
def kept(tmp_path: Path) -> ReadingCache:
    return ReadingCache(tmp_path / "readings.sqlite", 10**8)


def table(folder: Path, rows: Sequence[str] = QUESTIONS, **columns: Sequence[str]) -> Path:
    path = folder / "questions.csv"
    lines = [",".join(("id", "question", *columns))]
    lines += [",".join((f"row-{n}", row, *(values[n] for values in columns.values()))) for n, row in enumerate(rows)]
    path.write_text("\n".join(lines))
    return path


def run(folder: Path, path: Path, cache: ReadingCache | None, model: Any = None, **settings: object) -> tuple[Any, Any]:
    """Return the bodies of the records of a run, and its model."""
    model = model or Counted()
    begun = start_run(
        RunSettings.of({"stream.questions": str(path), "model.name": "scripted", **settings}),
        folder / f"run-{len(list(folder.iterdir()))}",
        lambda _: model,
        cache=cache,
    )
    with begun.store:
        begun.proceed()
    return [to_body(record) for record in begun.records], model


def test_a_second_run_asks_the_model_nothing_and_has_equal_records(tmp_path: Path, kept: ReadingCache) -> None:
    path = table(tmp_path)
    first, asked = run(tmp_path, path, kept)
    assert len(asked.asked) == 40
    second, model = run(tmp_path, path, kept)
    assert second == first
    assert model.asked == []
    uncached, _ = run(tmp_path, path, None)
    assert uncached == first


def test_a_reference_a_grader_or_a_threshold_asks_nothing_new_and_new_rows_only_themselves(
    tmp_path: Path, kept: ReadingCache
) -> None:
    run(tmp_path, table(tmp_path), kept)
    _, model = run(tmp_path, table(tmp_path, reference=[str(2 * n) for n in range(40)]), kept)
    assert model.asked == []
    _, model = run(tmp_path, table(tmp_path), kept, **{"loop.accept": 0.7, "stream.grader": "contains"})
    assert model.asked == []
    more = [*QUESTIONS, *(f"Who is number {n}?" for n in range(10))]
    records, model = run(tmp_path, table(tmp_path, more), kept)
    assert model.asked == more[40:]
    assert records == run(tmp_path, table(tmp_path, more), None)[0]


@pytest.mark.parametrize(
    "settings",
    [{"seed": 7}, {"evidence.extra_evidence": ("p_true",)}, {"method": "stated"}, {"evidence.distractors": 3}],
)
def test_other_settings_of_the_questions_ask_anew(tmp_path: Path, kept: ReadingCache, settings: dict[str, Any]) -> None:
    run(tmp_path, table(tmp_path), kept)
    records, model = run(tmp_path, table(tmp_path), kept, **settings)
    assert len(model.asked) == 40
    assert records == run(tmp_path, table(tmp_path), None, **settings)[0]


def test_other_weights_ask_anew_and_a_method_that_learns_always_asks(tmp_path: Path, kept: ReadingCache) -> None:
    run(tmp_path, table(tmp_path), kept)
    _, model = run(tmp_path, table(tmp_path), kept, Counted(stated=0.6))
    assert len(model.asked) == 40
    for _ in range(2):
        _, model = run(tmp_path, table(tmp_path), kept, method="secl")
        assert len(model.asked) >= 40


def test_given_answers_are_rated_once(tmp_path: Path, kept: ReadingCache) -> None:
    path = table(tmp_path, answer=[str(2 * n) for n in range(40)])
    bodies = []
    for count in (40, 0):
        model = Counted()
        settings = RunSettings.of({"stream.questions": str(path), "model.name": "scripted"})
        begun = start_run(settings, tmp_path / f"rated-{count}", lambda _, m=model: m, mode="score", cache=kept)  # type: ignore[misc]
        with begun.store:
            begun.proceed()
        assert model.rated == count
        bodies.append([to_body(record) for record in begun.records])
    assert bodies[0] == bodies[1]


def test_a_killed_run_resumes_to_the_records_of_a_whole_one(tmp_path: Path, kept: ReadingCache) -> None:
    path = table(tmp_path)
    whole, _ = run(tmp_path, path, None)
    settings = RunSettings.of({"stream.questions": str(path), "model.name": "scripted"})
    begun = start_run(settings, tmp_path / "cut", lambda _: Counted(21), cache=kept)
    with begun.store, pytest.raises(KeyboardInterrupt):
        begun.proceed()
    resumed = resume_run(tmp_path / "cut", load=lambda _: Counted(), cache=kept)
    with resumed.store:
        resumed.proceed()
    assert [to_body(record) for record in resumed.records] == whole


def test_least_recently_used_readings_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "BETWEEN", 1)
    small = ReadingCache(tmp_path / "small.sqlite", 1000)
    for number in range(9):
        small.put(str(number), "x" * 100)
        assert small.get("0")
    for number in range(9, 12):
        small.put(str(number), "x" * 100)
    assert small.bytes <= 1000
    assert small.get("0")
    assert small.get("1") is None
    assert small.get("11")


def used(path: Path) -> ReadingCache:
    cache = ReadingCache(path, 10**6)
    cache.get("x")
    return cache


@pytest.mark.parametrize("damage", ["no database", "another format", "another table", "no folder"])
def test_a_cache_that_cannot_be_used_stops_no_run(tmp_path: Path, damage: str) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    path = place / "readings.sqlite"
    if damage == "no database":
        path.write_bytes(b"nonsense" * 1000)
    elif damage == "no folder":
        place.rmdir()
        place.write_text("a file")
    else:
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE readings (other TEXT)")
            db.execute(f"PRAGMA user_version = {99 if damage == 'another format' else cache_module.FORMAT}")
        db.close()
    if damage == "another format":
        damaged = ReadingCache(path, 10**6)
    else:
        with pytest.warns(UserWarning, match="secl cache --clear"):
            damaged = used(path)
    records, model = run(tmp_path, table(tmp_path), damaged)
    assert len(model.asked) == 40
    assert records == run(tmp_path, table(tmp_path), None)[0]
    if damage == "no database":
        ReadingCache.clear(path)
        assert len(ReadingCache(path, 10**6)) == 0


def test_a_damaged_value_is_read_anew(tmp_path: Path, kept: ReadingCache) -> None:
    first, _ = run(tmp_path, table(tmp_path), kept)
    with sqlite3.connect(kept.path) as db:
        db.execute("UPDATE readings SET body = substr(body, 1, 20)")
    db.close()
    second, model = run(tmp_path, table(tmp_path), kept)
    assert second == first
    assert len(model.asked) == 40


def test_a_full_disk_stops_no_run(tmp_path: Path, kept: ReadingCache) -> None:
    assert kept._db is not None
    kept._db.execute("PRAGMA max_page_count = 8")
    with pytest.warns(UserWarning, match=r"disk is full.*secl goes on without it"):
        records, model = run(tmp_path, table(tmp_path), kept)
    assert len(model.asked) == 40
    assert records == run(tmp_path, table(tmp_path), None)[0]


WRITER = """
import sys
from pathlib import Path
from secl.runs.cache import ReadingCache
cache = ReadingCache(Path(sys.argv[1]), 10**6)
for number in range(200):
    cache.put(f"{sys.argv[2]}-{number}", str(number))
    cache.put("both", str(number))
"""


def test_two_processes_share_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "readings.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, str(path), name], stderr=subprocess.PIPE)
        for name in "ab"
    ]
    assert [writer.communicate(timeout=60)[1] for writer in writers] == [b"", b""]
    cache = ReadingCache(path, 10**6)
    assert len(cache) == 401
    assert [cache.get(key) for key in ("a-7", "b-199", "both")] == ["7", "199", "199"]


@pytest.mark.parametrize(("text", "size"), [("", 2**30), ("0", 0), ("500M", 500 * 2**20), ("2 GiB", 2**31), ("7", 7)])
def test_the_size_is_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("SECL_CACHE_SIZE", text)
    assert maximum_size() == size


def test_an_unreadable_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECL_CACHE_SIZE", "much")
    with pytest.raises(ParameterError, match="SECL_CACHE_SIZE is 'much'"):
        maximum_size()


@pytest.mark.parametrize("method", ["posterior", "baselines"])
def test_windows_of_a_local_model_are_computed_whole(
    tmp_path: Path, tiny_llama: Path, kept: ReadingCache, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bodies(count: int, cache: ReadingCache | None) -> list[str]:
        path = table(tmp_path, QUESTIONS[:count])
        settings = {"stream.options": ("2", "4", "8"), "model.name": str(tiny_llama), "model.dtype": "fp32"}
        settings |= {"method": method}
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        begun = start_run(RunSettings.of({"stream.questions": str(path), **settings}), folder, cache=cache)
        with begun.store:
            begun.proceed()
        begun.calibrator.model.close()
        return [to_body(record) for record in begun.records]

    assert bodies(20, kept) == bodies(20, None)
    found = kept.hits
    whole = bodies(36, None)
    assert bodies(36, kept) == whole
    assert kept.hits > found
    monkeypatch.setattr(LocalModel, "dinco", lambda *_: pytest.fail("beams were searched again"))
    assert bodies(36, kept) == whole


def test_a_cached_model_can_what_its_model_can(kept: ReadingCache) -> None:
    settings = RunSettings.of({"stream.benchmarks": ("capitals",), "model.name": "scripted"})
    for model in (Counted(), Scribe(written("{}"))):
        cached = CachedModel(model, kept, settings)
        for protocol, name in (
            (SearchesBeams, "dinco"),
            (WritesObjects, "write_objects"),
            (WritesCalls, "write_calls"),
        ):
            # Since Python 3.12, isinstance does not see what only __getattr__ has.
            assert (getattr_static(cached, name, None) is not None) == isinstance(model, protocol)


def test_python_takes_answers_from_the_cache_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECL_CACHE_SIZE", "1M")
    monkeypatch.setenv("SECL_CACHE", str(tmp_path))
    schema = {"properties": {"total": {"type": "number"}}}

    def confidences(network: Any, **options: Any) -> list[object]:
        model = secl.load(network, **options)
        records = [*model.ask_all(QUESTIONS[:4]), model.ask(QUESTIONS[4]), *model.score_all([(QUESTIONS[0], "7")])]
        return [
            *(record.confidence for record in records),
            *(model.extract("Invoice", schema).fields["total"].candidates),
        ]

    first, again = (Scribe(written('{"total": 7}', "7")) for _ in range(2))
    asked = confidences(first, cache=True)
    assert asked == confidences(Scribe(written('{"total": 7}', "7")))
    monkeypatch.setattr(ScriptedModel, "answer", lambda *_, **__: pytest.fail("the model answered again"))
    assert confidences(again, cache=True) == asked
    assert again.asked == []


@pytest.mark.parametrize(
    ("network", "options", "said"),
    [
        (ScriptedModel(), {"method": "secl"}, "the method 'secl' changes the model"),
        (type("Unnamed", (ScriptedModel,), {"__init__": lambda self: None, "fingerprint": ""})(), {}, "hub id, folder"),
    ],
)
def test_a_model_that_may_change_is_refused(network: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        secl.load(network, cache=True, **options)


def test_documents_are_read_once(tmp_path: Path, kept: ReadingCache) -> None:
    (tmp_path / "schema.json").write_text('{"properties": {"total": {"type": "number"}, "name": {"type": "string"}}}')
    path = tmp_path / "documents.csv"
    settings = {"extract.schema_file": str(tmp_path / "schema.json"), "extract.text": "text"}

    def read(cache: ReadingCache | None, *texts: str, **more: object) -> tuple[list[Any], int]:
        path.write_text("\n".join(["text,total", *(f"{text},7" for text in texts)]))
        clerk = Scribe(replace(written('{"total": 7}', "7"), gaps={("name",): (11, 12)}), '{"total": 8}', None)
        return run(tmp_path, path, cache, clerk, **settings, **more)[0], len(clerk.asked)

    texts = [f"Invoice {n}" for n in range(3)]
    first, asked = read(kept, *texts)
    assert asked == 3
    assert len(first) == 6
    assert read(kept, *texts) == (first, 0)
    accepted, asked = read(kept, *texts, **{"loop.accept": 0.9})
    assert (asked, accepted) == (0, read(None, *texts, **{"loop.accept": 0.9})[0])
    assert read(kept, *texts, "Invoice 4")[1] == 4  # texts of a window share passes
    for _ in range(2):
        assert read(kept, "fail")[1] == 1  # an error is no value
