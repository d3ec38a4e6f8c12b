"""Mistakes of users: exit code 2, one sentence that names the mistake, and no half-written file."""

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

STREAM = ("--benchmarks", "capitals:2")


def test_a_setting_or_flag_is_refused_before_the_model_is_looked_for(refused: Any, run_of: Any) -> None:
    for arguments, *words in (
        (("--benchmarks", "nonsense"), "'nonsense'", "capitals"),
        (("--benchmarks", "capitals,capitals"), "'capitals'", "twice"),
        (("--benchmarks", "capitals:x"), "'capitals:x'"),
        (("--benchmarks", "capitals:100000"), "capitals has 176 questions", "100000"),
        (("--benchmarks", ""), "name --benchmarks or a file"),
        ((*STREAM, "--questions", "x.jsonl"), "not both"),
        ((*STREAM, "--method", "magic"), "'magic'", "secl-paper"),
        ((*STREAM, "--seed", 2**64), "seed", str(2**64)),
        ((*STREAM, "--dtype", "int8"), "dtype is 'int8'", "bf16"),
        ((*STREAM, "--device", "cuda:one"), "device is 'cuda:one'", "a GPU such as cuda:1"),
        ((*STREAM, "--quantize", "2bit"), "quantize is '2bit'", "one of 8bit, 4bit"),
        ((*STREAM, "--device-map", "map.json"), "device_map is 'map.json'", "one of auto"),
        ((*STREAM, "--device", "mps", "--device-map", "auto"), "device is 'mps'", "leave one of them out"),
        ((*STREAM, "--foo"), "foo"),
        ((*STREAM, "--seed", "x"), "seed"),
        ((*STREAM, "--accept", "warm"), "accept"),
        (("a.toml", "b.toml"), "b.toml"),
        ((*STREAM, "--evidence.tau"), "--evidence.tau", "requires an argument"),
        ((*STREAM, "--evidence.tao=1"), "--evidence.tao", "Did you mean --evidence.tau?"),
        ((*STREAM, "--evidence.tau=hot"), "evidence.tau is 'hot'", "a finite number above 0"),
        ((*STREAM, "--paper=perhaps"), "--paper", "perhaps"),
        ((*STREAM, "--tau=1"), "--tau", "Did you mean --evidence.tau?"),
        ((*STREAM, "--tau", "1"), "--tau", "Did you mean --evidence.tau?"),
    ):
        refused(run_of("no such model", *arguments), *words)


def test_a_data_folder_without_the_benchmark_and_a_broken_recipe_are_refused(refused: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file, recipe, out = tmp_path / "file", tmp_path / "my.toml", ("--out", tmp_path / "out")
    file.write_text("x")
    for data, named, problem in (
        (tmp_path / "nowhere", tmp_path / "nowhere", "does not exist"),
        (file, file, "does not exist"),
        (tmp_path / "data", tmp_path / "data" / "mmlu" / "test", "unpack the MMLU archive there"),
    ):
        refused(("run", "--benchmarks", "mmlu:2", *out, "--data", data), named, problem)
    refused(("run", *STREAM), "--out")
    refused(("run", recipe, *out), recipe, "No such file")
    for text, *words in (
        ('stream.benchmarks = ["capitals"]\nmetod = "secl"\n', "'metod'"),
        ("benchmarks = [", str(recipe), "TOML"),
        *((f"seed = {value}", str(recipe), "TOML") for value in ("9" * 5000, "[" * 5000)),
    ):
        recipe.write_text(text)
        refused(("run", recipe, *out), *words)


def test_a_bad_question_and_a_folder_that_holds_no_run_are_refused_by_name(refused: Any, tmp_path: Path) -> None:
    refused(("ask", "Why?", "--option", "so"), "'Why?'", "single option")
    refused(("ask", " "), "no text")
    refused(("ask", "Why?", "--option", "so", "--option", " "), "'Why?'", "empty option")
    refused(("ask", "Why?", *[part for i in range(27) for part in ("--option", f"o{i}")]), "27 options")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("dear")
    commands = ["export", "report", "check", "label", "run --resume", "threshold --risk=0.1"]
    for command, name in product(commands, ("missing", "foreign", "foreign/letter.txt")):
        refused((*command.split(), tmp_path / name), tmp_path / name, "not a run folder")
    refused(("verify", "9" * 400), "999...: File name too long; give another path.")


def nonsense_gguf(path: Path) -> Path:
    """A sound GGUF file of an architecture that nobody knows."""
    writer = gguf.GGUFWriter(str(path), "nonsense")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


@pytest.mark.heavy
def test_a_model_that_is_none_or_damaged_is_refused_by_name(
    refused: Any, run_of: Any, tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").mkdir()
    for name, text in (("text.gguf", "once upon a time"), ("model.bin", "x"), ("broken/config.json", "{")):
        (tmp_path / name).write_text(text)
    nonsense = nonsense_gguf(tmp_path / "nonsense.gguf")
    for name, file, content in (
        ("cut short", "model.safetensors", (tiny_llama / "model.safetensors").read_bytes()[:5000]),
        ("refusing", "chat_template.jinja", b"{{ raise_exception('only on Sundays') }}"),
    ):
        shutil.copytree(tiny_llama, tmp_path / name)
        (tmp_path / name / file).write_bytes(content)
    for name, words in (
        ("missing", "there is no model"),
        ("folder", "no config.json"),
        ("text.gguf", "not a GGUF file"),
        ("model.bin", "neither a model folder nor a .gguf file"),
        ("broken", "holds no tokenizer"),
        ("nonsense.gguf", "GGUF files of its architecture; name a folder or hub id"),
        ("missing.gguf", "there is no model"),
        ("cut short", ""),
        ("refusing", ""),
    ):
        refused(run_of(tmp_path / name, *STREAM), tmp_path / name, words)
    refused(("ask", "Why?", "--model", tmp_path / "folder"), tmp_path / "folder", "no config.json")
    refused(run_of("gpt5", *STREAM), "there is no model 'gpt5'", "smollm2")
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "file"))  # which cannot be written
    refused(run_of(nonsense, *STREAM), tmp_path / "file")


@pytest.mark.heavy
def test_an_unknown_hub_id_is_refused_without_a_network(tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "secl", "ask", "Why?", "--model", "nobody/nothing"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "secl: the model 'nobody/nothing' cannot be loaded" in ended.stderr
