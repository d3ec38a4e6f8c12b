"""The benchmarks on a tiny model and on scripted data: their results are complete and sane, whatever the seconds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import by_hand, evidence, growth, overhead, streams, timing, writing
from benchmarks.__main__ import PARTS, main
from benchmarks.setting import Setting
from examples.secl_by_hand import secl
from secl.errors import ParameterError
from secl.gates import Always

pytestmark = pytest.mark.heavy

PAGE = f"# Before\n\n{writing.BEGIN}\nold\n{writing.END}\n\nAfter.\n"


@pytest.fixture
def tiny(tiny_llama: Path) -> Setting:
    return Setting(str(tiny_llama), dtype="fp32", questions=4, rounds=1, stream_questions=12, growth_questions=40)


def hush(line: str) -> None:
    """Nobody needs to know."""


def numbers(results: dict[str, Any]) -> dict[str, float]:
    return dict(writing.rows(results))


def test_what_is_compared_takes_turns_and_every_other_round_goes_backwards() -> None:
    done: list[str] = []
    timings = timing.alternate(3, {name: lambda name=name: done.append(name) for name in "abc"})  # type: ignore[misc]
    assert "".join(done) == "abccbaabc"
    assert {name: len(rounds) for name, rounds in timings.items()} == {"a": 3, "b": 3, "c": 3}


def test_every_part_of_a_question_is_timed_against_the_method_by_hand(tiny: Setting) -> None:
    results = by_hand.measure(tiny, hush)
    parts = {f"{part}_vs_by_hand" for part in (*by_hand.PARTS, "training_part")}
    assert set(results["ratios"]) == parts
    each = results["seconds"]["a_question"]
    for part in by_hand.PARTS:
        assert results["ratios"][f"{part}_vs_by_hand"] == each[part]["by_hand"] / each[part]["library"] > 0


def test_the_stream_by_hand_is_that_of_the_example(tiny: Setting) -> None:
    questions, recipe = tiny.choices(8), tiny.recipe(3, gate="always")
    expected = list(secl(tiny.by_hand(), [{"question": q.text, "options": q.options} for q in questions], tau=0.7))
    results = list(streams.by_hand(tiny.by_hand(), questions, Always(), recipe, 0.7))
    assert [(row.answer, row.confidence, row.target) for row in results] == [
        (row["answer"], row["confidence"], row["target"]) for row in expected
    ]
    assert any(row.target is not None for row in results)


@pytest.mark.slow
def test_whole_streams_are_timed_three_ways_and_say_the_same(tiny: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PIECE", 16)
    setting = replace(tiny, stream_questions=21)
    results = streams.measure(setting, hush)
    assert set(results["ratios"]) == {
        f"stream_{gate}{stored}_vs_by_hand" for gate in ("default", "always") for stored in ("", "_stored")
    }
    assert set(results["fwd_equivalents"]) == {"trained", "stream_default", "stream_always"}
    assert results["fwd_equivalents"]["trained"] > 1
    for gate in streams.GATES:
        part = results["agreement"][f"{gate}, float32"]
        assert part["questions"] == 21
        assert part["records_changed_by_store"] == part["answers_differ"] == part["updates_differ"] == 0
        assert part["trained_by_library"] == part["trained_by_hand"] > 0
        assert part["largest_confidence_difference"] < 1e-4


@pytest.mark.slow
def test_a_confidence_is_compared_with_plain_generation_of_the_same_answers(tiny: Setting, brief: None) -> None:
    results = overhead.measure(tiny, hush)
    assert set(results["overhead"]) == {"choice", "short", "sentence", "number"}
    choice = results["overhead"]["choice"]
    assert set(choice["over"]) == {"untouched", "adapted", "adapted_frozen_answers", "generated_confidence"}
    seconds = choice["seconds"]
    assert results["ratios"]["overhead_vs_generation"] == seconds["adapted"] / seconds["plain_generation"] - 1
    for model in ("untouched", "adapted", "adapted_frozen_answers"):
        over = [results["overhead"][form]["over"][model] for form in ("short", "sentence", "number")]
        assert results["ratios"][f"open_overhead_{model}"] == max(over)
    for form in ("short", "sentence"):
        assert results["overhead"][form]["same_answers"] == results["overhead"][form]["same_by_halves"] == 4


def test_plain_generation_writes_exactly_as_many_tokens_as_asked(tiny: Setting) -> None:
    plain, questions = overhead.Plain(tiny.loaded()), tiny.choices(3)
    count = plain.length_of_reply(questions[0])
    assert count > 3
    lengths = []
    plain.tokenizer.batch_decode = lambda ids, **_: lengths.append(ids.shape) or [""] * len(ids)  # type: ignore[func-returns-value]
    plain.write(questions, count, {1}, exactly=True)
    assert lengths == [(3, count)]


@pytest.mark.slow
def test_evidence_is_timed_and_its_passes_are_counted(tiny: Setting) -> None:
    results = evidence.measure(replace(tiny, questions=3, stream_questions=6), hush)
    passes = results["evidence"]["passes"]
    assert passes["answered"] < passes["posterior"] < passes["both"]
    assert results["fwd_equivalents"]["posterior"] == passes["posterior"]
    stream = results["seconds"]["stream_posterior"]
    assert results["ratios"]["posterior_vs_answering"] == stream["posterior"] / stream["answered"] > 0
    assert results["ratios"]["posterior_vs_by_hand"] == stream["by_hand"] / stream["posterior"] > 0
    assert results["evidence"]["largest_difference_from_by_hand"] < 1e-4


def test_a_long_stream_is_run_resumed_and_reported(tmp_path: Path, sketched: None, few_draws: None) -> None:
    results = growth.grow(40, tmp_path / "run")
    assert results["questions"] == 40
    assert results["updates"] > 0
    assert all(value > 0 for name, value in results.items() if name.startswith(("seconds", "store", "last")))
    assert (tmp_path / "run" / "report" / "report.html").is_file()


def test_results_of_other_models_have_a_key_of_their_own_and_parts_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    writing.keep(file, "usual", "usual", {"ratios": {"a": 1.0}})
    writing.keep(file, "large", "usual", {"ratios": {"a": math.nan}})
    writing.keep(file, "usual", "usual", {"ratios": {"b": 2.0}})
    assert json.loads(file.read_text()) == {
        "model": "usual",
        "ratios": {"a": 1.0, "b": 2.0},
        "others": {"large": {"model": "large", "ratios": {"a": None}}},
    }


def test_a_page_keeps_its_prose_around_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for value in (1.0, 2.5):
        writing.write_page(page, {"model": "usual", "ratios": {"a_b": value}})
    text = page.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith("\nAfter.\n")
    assert "old" not in text
    assert text.count("| a b | 2.5 |") == 1


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n")
    with pytest.raises(ParameterError, match="no markers"):
        writing.write_page(page, {})
    with pytest.raises(SystemExit):  # before anything is measured
        main(["--only", "by-hand", "--model", "nowhere", "--page", str(page), "--out", str(tmp_path / "results.json")])
    assert not (tmp_path / "results.json").exists()


def test_one_command_writes_results_and_page(tiny: Setting, tmp_path: Path) -> None:
    page, out = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text(PAGE)
    options = ["--model", tiny.model, "--dtype", "fp32", "--questions", "2", "--rounds", "1", "--only", "by-hand"]
    main([*options, "--out", str(out), "--page", str(page)])
    results = json.loads(out.read_text())["others"]["tiny-llama in fp32"]
    assert results["ratios"]["answered_vs_by_hand"] > 0
    part = results["measured"]["by-hand"]
    assert part["setting"]["questions"] == 2
    assert part["machine"]["dtype"] == "float32"
    assert "| answered vs by hand |" in page.read_text()


def test_every_part_is_explained_and_the_page_of_results_has_markers_for_the_tables() -> None:
    root = Path(__file__).parent.parent
    results = (root / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert results.count(writing.BEGIN) == results.count(writing.END) == 1
    explained = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in explained for name in PARTS)


def test_the_quiz_gives_what_it_has_where_a_stream_asks_for_more() -> None:
    assert Setting().domains(600) == ("science:200", "capitals:176", "misconceptions:98")
    assert Setting(data="there").domains(600) == ("mmlu:200", "arc:200", "truthfulqa:200")
