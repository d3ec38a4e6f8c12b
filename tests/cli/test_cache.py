"""Before and after a long run: a trial of its time, a part of its questions, and the cache of what the model read."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell

ASKED = ("run", "--benchmarks", "capitals:20", "--model", "scripted")


@pytest.fixture(autouse=True)
def _scripted(scripted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECL_CACHE_SIZE", "1M")


def readings(shell: Shell) -> int:
    return int(json.loads(shell("cache", "--json").fine.out)["readings"])


def test_a_second_run_adds_nothing_to_the_cache_and_clear_empties_it(shell: Shell, tmp_path: Path) -> None:
    assert shell(*ASKED, "--out", tmp_path / "one", "--no-cache").fine
    assert readings(shell) == 0
    assert "from the cache" not in shell(*ASKED, "--out", tmp_path / "two").fine.out
    count = readings(shell)
    assert count >= 20
    assert "from the cache: 20 answers;" in shell(*ASKED, "--out", tmp_path / "three", "--accept", 0.5).fine.out
    assert readings(shell) == count
    assert ": 0 readings, 16.4 kB of 1.0 MB" in shell("cache", "--clear").fine.out


def test_a_dry_run_says_how_long_the_run_takes_and_keeps_nothing(shell: Shell, tmp_path: Path) -> None:
    ended = shell(*ASKED, "--dry-run").fine
    assert "the first 16 questions took" in ended.out
    assert "so all 20 take about 0:00:0" in ended.out
    assert readings(shell) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_a_dry_run_of_ratings_estimates_the_time_of_all(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("question,answer\n" + "".join(f"{n} + 0?,{n}\n" for n in range(20)))
    said = shell("score", path, "--model", "scripted", "--dry-run").fine.out
    assert "the first 16 answers took" in said
    assert "so all 20 take about 0:00:0" in said
    assert readings(shell) == 0


def test_a_limit_takes_the_first_questions_or_a_random_sample(shell: Shell, tmp_path: Path) -> None:
    ids = []
    for order in ("forward", "shuffled"):
        out = tmp_path / order
        assert shell(*ASKED, "--limit", 5, "--order", order, "--out", out).fine
        lines = shell("export", out, "--out", "-").fine.out.splitlines()
        ids.append([json.loads(line)["question"]["id"] for line in lines])
    assert ids[0] == [f"quiz-capitals-00{n}" for n in range(5)]
    assert len({*ids[1]}) == 5
    assert ids[1] != ids[0]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((*ASKED, "--limit", 0, "--dry-run"), "stream.limit is 0"),
        (("run", "--resume", "run", "--dry-run"), "--dry-run is for a new run"),
        (ASKED, "name it with --out"),
        ((*ASKED, "--dry-run", "--out", "."), "exists and is not empty"),
        (("extract", ".", "--schema", "s", "--benchmarks", "quiz"), "Did you mean --schema?"),
    ],
)
def test_bad_limits_and_trials_are_refused(refused: Any, arguments: tuple[object, ...], word: str) -> None:
    refused(arguments, word)


def test_a_size_that_is_none_is_refused(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECL_CACHE_SIZE", "much")
    refused(("cache",), "SECL_CACHE_SIZE is 'much'", "500M")
