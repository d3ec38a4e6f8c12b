"""The benchmarks on a tiny model and on scripted data: their results are complete and sane, whatever the seconds."""

from __future__ import annotations

import doctest
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks import (
    busy,
    by_hand,
    evidence,
    growth,
    limit,
    lookahead,
    memory,
    overhead,
    start_up,
    streams,
    timing,
    writing,
)
from benchmarks.__main__ import PARTS, main
from benchmarks.peers.__main__ import WAYS, compare, rows
from benchmarks.peers.ours import timed
from benchmarks.setting import Setting
from examples.secl_by_hand import secl
from secl.errors import ParameterError
from secl.gates import Always
from tests.tiny import SIZES

pytestmark = pytest.mark.heavy

PAGE = f"# Before\n\n{writing.BEGIN}\nold\n{writing.END}\n\nAfter.\n"


@pytest.fixture
def tiny(tiny_llama: Path) -> Setting:
    return Setting(str(tiny_llama), dtype="fp32", questions=4, rounds=1, stream_questions=12, growth_questions=40)


def hush(line: str) -> None:
    """Nobody needs to know."""


def numbers(results: dict[str, Any]) -> dict[str, float]:
    return dict(writing.rows(results))


@pytest.mark.parametrize("module", [timing, by_hand, writing])
def test_the_examples_in_docstrings_hold(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_what_is_compared_takes_turns_and_every_other_round_goes_backwards() -> None:
    done: list[str] = []
    timings = timing.alternate(3, {name: lambda name=name: done.append(name) for name in "abc"})  # type: ignore[misc]
    assert "".join(done) == "abccbaabc"
    assert {name: len(rounds) for name, rounds in timings.items()} == {"a": 3, "b": 3, "c": 3}


def test_the_machine_is_described_with_processor_cores_load_and_versions() -> None:
    results = timing.machine(threads=1)
    assert results["processor"]
    assert results["cores"] >= 1
    assert results["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert results["threads"] == 1


def test_the_peak_of_memory_is_at_least_what_is_resident() -> None:
    assert 10_000_000 < timing.resident() <= timing.peak()


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


def test_disagreements_of_a_stream_are_counted(tiny: Setting) -> None:
    race = streams.run(tiny, tiny.recipe(6, gate="always"), hush)
    row = race.by_hand[0]
    other = streams.Row("Z", row.confidence, row.frozen_answer, row.frozen_confidence + 0.1, False, None)
    part = streams.agreement(
        streams.Race(
            race.dtype, race.seconds, race.library, race.stored[1:] + race.stored[:1], [other, *race.by_hand[1:]]
        )
    )
    assert part["answers_differ"] == part["burst_decisions_differ"] == 1
    assert part["records_changed_by_store"] == 6
    assert part["largest_frozen_difference"] == pytest.approx(0.1, abs=1e-4)


@pytest.mark.slow
def test_streams_in_float32_are_shorter_and_agree(tiny_llama: Path) -> None:
    setting = Setting(str(tiny_llama), dtype="bf16", stream_questions=60)
    results = streams.measure_in_float32(setting, hush)["agreement"]
    assert {name: part["questions"] for name, part in results.items()} == {
        "stream_default, float32": 6,
        "stream_always, float32": 6,
    }
    assert all(part["largest_confidence_difference"] < 1e-4 for part in results.values())


def test_equivalents_of_no_records_are_undefined() -> None:
    assert math.isnan(streams.equivalents([]))


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


@pytest.mark.slow
def test_a_busy_machine_is_compared_with_a_quiet_one(tiny: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {name: busy.WAYS[name] for name in ("as_secl_starts", "one_thread")}  # each starts torch twice
    monkeypatch.setattr(busy, "WAYS", ways)
    monkeypatch.setattr(busy, "SETTLING", 0.0)
    results = busy.measure(replace(tiny, questions=2), hush)
    own = results["busy"]
    assert results["ratios"]["busy_vs_quiet"] == own["busy_over_quiet"]["as_secl_starts"] > 0
    assert set(own["quiet"]) == set(own["busy"]) == set(ways)


@pytest.mark.slow
def test_looking_ahead_gives_the_same_records(tiny: Setting, brief: None) -> None:
    results = lookahead.measure(replace(tiny, questions=2), hush)
    assert set(results["lookahead"]) == {"answered", "default"}
    answered = results["lookahead"]["answered"]
    assert results["ratios"]["gsm8k_lookahead_vs_sequential"] == answered["ratio"] > 0
    assert answered["questions"] == 2
    assert answered["texts_differ"] == answered["answers_differ"] == 0
    assert answered["largest_confidence_difference"] < 1e-4


def test_the_bare_products_count_every_weight_of_the_layers_twice(tiny: Setting) -> None:
    size, inner, heads = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["num_attention_heads"]
    narrow = size * SIZES["num_key_value_heads"] // heads
    layer = 2 * size * size + 2 * size * narrow + 3 * size * inner
    assert limit.Products(tiny).flop == 2 * SIZES["num_hidden_layers"] * layer


def test_the_limits_are_complete_and_no_tokens_are_fewer_than_the_least(tiny: Setting) -> None:
    results = limit.measure(tiny, hush)["limit"]
    assert all(value > 0 for value in results["rate"].values())
    assert sum(kind["questions"] for kind in results["tokens"].values()) == 4
    assert all(kind["spent"] >= kind["least"] for kind in results["tokens"].values())


def test_the_least_tokens_of_a_question_are_those_of_its_parts(tiny: Setting) -> None:
    model, question = tiny.library(), tiny.choices(1)[0]
    answer = len(limit.branch(model, question, "A"))
    alone = limit.least_tokens(model, question, "A", adapted=False, judged=False)
    share = 1 / 4  # one adapted layer of four
    assert alone == answer
    assert limit.least_tokens(model, question, "A", adapted=True, judged=False, steps=3) == answer * (1 + 10 * share)
    judged = limit.least_tokens(model, question, "A", adapted=False, judged=True)
    apart = sum(map(len, model.prompting.verdicts(question, question.options)))
    assert answer < judged < answer + apart


def test_a_long_stream_is_run_resumed_and_reported(tmp_path: Path, sketched: None, few_draws: None) -> None:
    results = growth.grow(40, tmp_path / "run")
    assert results["questions"] == 40
    assert results["updates"] > 0
    assert all(value > 0 for name, value in results.items() if name.startswith(("seconds", "store", "last")))
    assert (tmp_path / "run" / "report" / "report.html").is_file()


def test_the_memory_of_a_run_is_more_than_its_weights(tiny: Setting) -> None:
    results = memory.fill("run", tiny)
    assert results["weights_bytes"] > 4 * 20_000
    assert results["peak_bytes"] >= results["imports_bytes"] > results["weights_bytes"]


def test_the_memory_of_loading_and_converting_is_that_of_processes_of_their_own(tiny: Setting) -> None:
    said: list[str] = []
    results = memory.measure(tiny, said.append)["memory"]
    assert results["load"]["weights_bytes"] > 4 * 20_000
    assert "convert" not in results  # a folder needs none
    assert [line.split(":")[0] for line in said] == ["run", "load"]


def test_processes_are_started_and_timed() -> None:
    results = start_up.start({"bare": ["-c", "pass"], "library": start_up.LIGHT["import_secl"]}, 1)
    assert 0 < results["bare"] < 60
    assert 0 < results["library"] < 60


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
        main(["--only", "limit", "--model", "nowhere", "--page", str(page), "--out", str(tmp_path / "results.json")])
    assert not (tmp_path / "results.json").exists()


def test_a_page_that_is_not_there_yet_is_made_and_written_again(tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.md"
    for value in (1.0, 2.5):
        writing.write_page(page, {"model": "usual", "ratios": {"a_b": value}})
    assert page.read_text().count("| a b | 2.5 |") == 1
    assert "| a b | 1.0 |" not in page.read_text()


def test_one_command_writes_results_and_page(tiny: Setting, tmp_path: Path) -> None:
    page, out = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text(PAGE)
    options = ["--model", tiny.model, "--dtype", "fp32", "--questions", "2", "--rounds", "1", "--only", "limit"]
    main([*options, "--out", str(out), "--page", str(page)])
    results = json.loads(out.read_text())["others"]["tiny-llama in fp32"]
    assert results["limit"]["rate"]["share_of_pass"] > 0
    part = results["measured"]["limit"]
    assert part["setting"]["questions"] == 2
    assert part["machine"]["dtype"] == "float32"
    assert "| rate, share of pass |" in page.read_text()


def test_every_part_is_explained_and_the_page_of_results_has_markers_for_the_tables() -> None:
    root = Path(__file__).parent.parent
    results = (root / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert results.count(writing.BEGIN) == results.count(writing.END) == 1
    explained = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in explained for name in PARTS)


def test_the_quiz_gives_what_it_has_where_a_stream_asks_for_more() -> None:
    assert Setting().domains(600) == ("science:200", "capitals:176", "misconceptions:98")
    assert Setting(data="there").domains(600) == ("mmlu:200", "arc:200", "truthfulqa:200")


def test_our_side_of_the_comparison_with_peers_scores_every_option(tiny: Setting) -> None:
    questions = tiny.choices(3)
    results = timed(tiny.library(), questions)
    assert set(results) == {"answered", "scored", "sequence_probability", "prefetched"}
    assert all(way["scores"] == 12 and way["seconds"] > 0 for way in results.values())
    assert rows(questions)[0]["options"] == questions[0].options


def test_peers_are_compared_by_the_seconds_that_they_tell() -> None:
    def says(took: float) -> list[str]:
        part = {way: {"seconds": took} for way in WAYS}
        return [sys.executable, "-c", f"print('loading'); print('{json.dumps(part)}')"]

    results = compare({"library": says(0.5), "lm_polygraph": says(1.0)}, 1)
    assert results["ratio"] == dict.fromkeys(WAYS, 2.0)
