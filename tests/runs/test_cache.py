"""The cache of readings: a second run asks the model only what is new, and its records are equal."""

import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from inspect import getattr_static
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import secl
from secl.backends.local.model import LocalModel
from secl.errors import ParameterError, StorageError
from secl.evidence import EvidenceKind
from secl.fields.calls import WritesCalls
from secl.fields.extraction import WritesObjects
from secl.model import ModelAnswer, Rating, SearchesBeams
from secl.question import GivenAnswer, Question
from secl.runs import cache as cache_module
from secl.runs.cache import CachedModel, ReadingCache, maximum_size
from secl.runs.encoding import to_body
from secl.runs.loading import load_local
from secl.runs.runner import resume_run, start_run
from secl.runs.settings import Recipe, RunSettings
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
    lines += [
        ",".join((row.split("is")[-1], row, *(each[n] for each in columns.values()))) for n, row in enumerate(rows)
    ]
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


def test_the_same_questions_in_another_table_ask_nothing(tmp_path: Path, kept: ReadingCache) -> None:
    one, other = tmp_path / "january.csv", tmp_path / "all.csv"
    one.write_text("\n".join(["question", *QUESTIONS]))
    other.write_text("\n".join(["id,question", *(f"Z{n},{each}" for n, each in enumerate(QUESTIONS))]))
    assert len(run(tmp_path, one, kept)[1].asked) == 40
    assert run(tmp_path, other, kept)[1].asked == []


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


def on_server(url: str, *trial: str) -> Counted:
    """Return a model that looks like one on a server; every server calls its model "scripted"."""
    model = Counted()
    model.upstream = SimpleNamespace(endpoint=SimpleNamespace(url=url))  # type: ignore[attr-defined]
    model.abilities = SimpleNamespace(trial=trial)  # type: ignore[attr-defined]
    return model


@pytest.mark.parametrize("other", [on_server("http://b/v1", "8", "9"), on_server("http://a/v1", "9", "8")])
def test_another_server_and_another_model_of_the_same_name_are_asked_anew(
    tmp_path: Path, kept: ReadingCache, other: Counted
) -> None:
    for model, asked in (
        (on_server("http://a/v1", "8", "9"), 40),
        (on_server("http://a/v1", "8", "9"), 0),
        (other, 40),
    ):
        assert len(run(tmp_path, table(tmp_path), kept, model)[1].asked) == asked


@pytest.mark.parametrize("name", ["model", "model/model.safetensors"])
def test_an_edited_model_file_is_asked_anew(tmp_path: Path, kept: ReadingCache, name: str) -> None:
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    (weights.parent / "dangling").symlink_to("nowhere")
    for content, asked in ((b"ab", 40), (None, 0), (b"ac", 40)):
        if content is not None:
            weights.write_bytes(content)
        model = run(tmp_path, table(tmp_path), kept, **{"model.name": str(tmp_path / name)})[1]
        assert len(model.asked) == asked


@pytest.mark.parametrize("settings", [{"adapter.layers": "last:1"}, {"model.chat_template": "plain"}])
def test_settings_that_change_rounding_or_prompts_ask_anew(
    tmp_path: Path, kept: ReadingCache, settings: dict[str, Any]
) -> None:
    run(tmp_path, table(tmp_path), kept)
    assert len(run(tmp_path, table(tmp_path), kept, **settings)[1].asked) == 40


def test_an_edited_library_asks_anew(tmp_path: Path, kept: ReadingCache, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, table(tmp_path), kept)
    monkeypatch.setattr(cache_module, "__file__", str(tmp_path / "runs" / "cache.py"))
    (tmp_path / "prompts.py").write_text("edited")
    cache_module._library.cache_clear()
    assert len(run(tmp_path, table(tmp_path), kept)[1].asked) == 40
    cache_module._library.cache_clear()


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
    small = ReadingCache(tmp_path / "small.sqlite", 100_000)
    for number in range(100):
        small.put(str(number), "x" * 2000)
        assert small.get("0")
    assert small.bytes <= 100_000
    assert small.get("1") is None
    assert small.get("99")


def test_many_small_runs_stay_within_the_size_and_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "readings.sqlite"
    for turn in range(20):
        cache = ReadingCache(path, 100_000)
        for number in range(20):
            cache.put(f"{turn}-{number}", "x" * 2000)
        assert cache.get(f"{turn}-19")
    assert ReadingCache(path, 100_000).bytes <= 100_000
    ReadingCache(path, 100_000)._db.close()  # type: ignore[union-attr]
    assert path.stat().st_size <= 100_000 + 2**16


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


@pytest.mark.parametrize("change", ["substr(body, 1, 20)", "replace(body, '0.', '0.1')", "'{}'", "'null'", "x'00ff'"])
def test_a_damaged_value_is_read_anew(tmp_path: Path, kept: ReadingCache, change: str) -> None:
    first, _ = run(tmp_path, table(tmp_path), kept)
    with sqlite3.connect(kept.path) as db:
        db.execute(f"UPDATE readings SET body = {change}")
    db.close()
    second, model = run(tmp_path, table(tmp_path), kept)
    assert second == first
    assert len(model.asked) == 40
    assert run(tmp_path, table(tmp_path), kept)[1].asked == []


def test_a_full_disk_stops_no_run(tmp_path: Path, kept: ReadingCache) -> None:
    assert kept._db is not None
    kept._db.execute("PRAGMA max_page_count = 8")
    with pytest.warns(UserWarning, match=r"disk is full.*secl goes on without it"):
        records, model = run(tmp_path, table(tmp_path), kept)
    assert len(model.asked) == 40
    assert records == run(tmp_path, table(tmp_path), None)[0]


def test_a_cache_that_cannot_be_emptied_says_why(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be emptied .* name another folder with SECL_CACHE"):
        ReadingCache.clear(tmp_path)


@pytest.mark.parametrize("size", [0, 100, 5000, 20_000])
def test_a_cut_file_stops_no_run_and_can_be_emptied(tmp_path: Path, kept: ReadingCache, size: int) -> None:
    first, _ = run(tmp_path, table(tmp_path), kept)
    assert kept._db is not None
    kept._db.close()
    with kept.path.open("r+b") as file:
        file.truncate(size)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert run(tmp_path, table(tmp_path), ReadingCache(kept.path, 10**8))[0] == first
    assert len(said) <= 1
    ReadingCache.clear(kept.path)
    assert len(ReadingCache(kept.path, 10**8)) == 0


def test_a_cache_emptied_by_another_process_goes_on(tmp_path: Path, kept: ReadingCache) -> None:
    run(tmp_path, table(tmp_path), kept)
    ReadingCache.clear(kept.path)
    assert len(kept) == 0
    assert len(run(tmp_path, table(tmp_path), kept)[1].asked) == 40
    assert run(tmp_path, table(tmp_path), ReadingCache(kept.path, 10**8))[1].asked == []


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


ROWS = [f"What is {n} plus {n}{' please tell me' * (n % 5)}?" for n in range(36)]


@pytest.mark.parametrize("method", ["posterior", "baselines"])
def test_rows_in_other_windows_have_the_records_of_a_run_without_a_cache(
    tmp_path: Path, tiny_llama: Path, kept: ReadingCache, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bodies(rows: Sequence[str], cache: ReadingCache | None, *options: str) -> list[str]:
        settings = {"stream.options": options or ("2", "4", "8"), "model.name": str(tiny_llama), "method": method}
        network = load_local(Recipe.of({"model.name": str(tiny_llama), "method": method}))
        records: list[str] = run(tmp_path, table(tmp_path, rows), cache, network, **settings)[0]
        return records

    assert bodies(ROWS[:20], kept) == bodies(ROWS[:20], None)
    found = kept.hits
    whole = bodies(ROWS, None)
    assert bodies(ROWS, kept) == whole
    assert kept.hits > found  # the first window was asked before
    with monkeypatch.context() as patch:
        patch.setattr(LocalModel, "prefetch", lambda *_, **__: pytest.fail("a window was answered again"))
        patch.setattr(LocalModel, "dinco", lambda *_: pytest.fail("beams were searched again"))
        assert bodies(ROWS, kept) == whole
    if method == "posterior":
        for rows in (ROWS[::-1], ROWS[30:] + ROWS[:30], ROWS[3:], [*ROWS[:4], "Another question?", *ROWS[4:]]):
            assert bodies(rows, kept) == bodies(rows, None)
        assert bodies(ROWS, kept, "2", "four or five", "8") == bodies(ROWS, None, "2", "four or five", "8")


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


@pytest.mark.parametrize("shares", [True, False])
def test_documents_are_read_once(tmp_path: Path, kept: ReadingCache, shares: bool) -> None:
    (tmp_path / "schema.json").write_text('{"properties": {"total": {"type": "number"}, "name": {"type": "string"}}}')
    path = tmp_path / "documents.csv"
    settings = {"extract.schema_file": str(tmp_path / "schema.json"), "extract.text": "text"}

    def read(cache: ReadingCache | None, *texts: str, **more: object) -> tuple[list[Any], int]:
        path.write_text("\n".join(["text,total", *(f"{text},7" for text in texts)]))
        clerk = Scribe(replace(written('{"total": 7}', "7"), gaps={("name",): (11, 12)}), '{"total": 8}', None)
        clerk.shares_passes = shares
        return run(tmp_path, path, cache, clerk, **settings, **more)[0], len(clerk.asked)

    texts = [f"Invoice {n}" for n in range(3)]
    first, asked = read(kept, *texts)
    assert asked == 3
    assert len(first) == 6
    assert read(kept, *texts) == (first, 0)
    accepted, asked = read(kept, *texts, **{"loop.accept": 0.9})
    assert (asked, accepted) == (0, read(None, *texts, **{"loop.accept": 0.9})[0])
    assert read(kept, *texts, "Invoice 4")[1] == (4 if shares else 1)
    for _ in range(2):
        assert read(kept, "fail")[1] == 1  # an error is no value
