"""Whatever a user gets wrong: exit code 2, one sentence that names it, and nothing half written."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

STREAM = ("--benchmarks", "capitals:2")


def test_a_setting_or_flag_is_refused_before_the_model_is_looked_for(refused: Any, run_of: Any) -> None:
    for arguments, *words in (
        (("--benchmarks", "nonsense"), "'nonsense'", "capitals"),
        (("--benchmarks", "capitals,capitals"), "'capitals'", "twice"),
        (("--benchmarks", "capitals:x"), "'capitals:x'"),
        (("--benchmarks", "capitals:100000"), "capitals has 176 questions", "100000"),
        (("--benchmarks", ""), "either a stream"),
        ((), "either a stream"),
        (("--benchmarks", "capitals", "--questions", "x.jsonl"), "not both"),
        ((*STREAM, "--method", "magic"), "'magic'", "secl-paper"),
        ((*STREAM, "--seed", 2**64), "seed", str(2**64)),
        ((*STREAM, "--dtype", "int8"), "dtype is 'int8'", "bf16"),
        ((*STREAM, "--device", "cuda:one"), "device is 'cuda:one'", "a GPU such as cuda:1"),
        ((*STREAM, "--quantize", "2bit"), "quantize is '2bit'", "one of 8bit, 4bit"),
        ((*STREAM, "--device", "mps", "--device-map", "auto"), "device is 'mps'", "leave one of them out"),
        ((*STREAM, "--foo"), "foo"),
        ((*STREAM, "--seed", "x"), "seed"),
        ((*STREAM, "--accept", "warm"), "accept"),
        (("a.toml", "b.toml"), "b.toml"),
    ):
        refused(run_of("no such model", *arguments), *words)


def test_a_data_folder_without_the_benchmark_and_a_broken_recipe_are_refused(
    refused: Any, run_of: Any, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    file, recipe, out = tmp_path / "file", tmp_path / "my.toml", ("--out", tmp_path / "out")
    file.write_text("x")
    mmlu = run_of("no such model", "--benchmarks", "mmlu:2", "--data")
    refused((*mmlu, tmp_path / "nowhere"), tmp_path / "nowhere", "does not exist")
    refused((*mmlu, file), file, "does not exist")
    refused((*mmlu, tmp_path / "data"), tmp_path / "data" / "mmlu" / "test", "unpack the MMLU archive there")
    refused(("run", *STREAM), "--out")
    refused(("run", recipe, *out), recipe, "No such file")
    for text, *words in (
        ('stream.benchmarks = ["capitals"]\nmetod = "secl"\n', "'metod'"),
        ("benchmarks = [", str(recipe), "TOML"),
        *((f"seed = {value}", str(recipe), "TOML") for value in ("9" * 5000, "[" * 5000)),
    ):
        recipe.write_text(text)
        refused(("run", recipe, *out), *words)


def test_a_device_map_that_does_not_fit_is_refused(refused: Any, tmp_path: Path, tiny_llama: Path) -> None:
    path = tmp_path / "map.json"
    for text, *words in (
        ("", "cannot be read", "No such file"),
        ('{"model.layers.0": ', "is not JSON"),
        ('{"model.layers.0": ["cpu"]}', "is not a table of modules and devices"),
        ('{"": "cpu", "model.layers.9": "cpu"}', "names 'model.layers.9'", "it has model, model.embed_tokens"),
    ):
        if text:
            path.write_text(text)
        refused(("ask", "Why?", "--model", tiny_llama, "--device-map", path), *words)


def test_a_question_asked_by_hand_and_a_folder_that_holds_no_run_are_refused_by_name(
    refused: Any, tmp_path: Path
) -> None:
    refused(("ask", "Why?", "--option", "so"), "'Why?'", "single option")
    refused(("ask", " "), "no text")
    refused(("ask", "Why?", "--option", "so", "--option", " "), "'Why?'", "empty option")
    refused(("ask", "Why?", *[part for i in range(27) for part in ("--option", f"o{i}")]), "27 options")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("dear")
    for command, name in product((("export",), ("run", "--resume")), ("missing", "foreign", "foreign/letter.txt")):
        refused((*command, tmp_path / name), tmp_path / name, "not a run folder")
    refused(("verify", "9" * 400), "999...: File name too long; give another path.")
