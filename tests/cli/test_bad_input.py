"""Whatever a user gets wrong: exit code 2, one sentence that names it, and nothing half written."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from secl.calibrator import Calibrator
from secl.runs.folder import FILE
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel, toy_stream
from tests.cli.conftest import Shell

STREAM = ("--benchmarks", "capitals:2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--benchmarks", "nonsense"), ("'nonsense'", "capitals")),
        (("--benchmarks", "capitals,capitals"), ("'capitals'", "twice")),
        (("--benchmarks", "capitals:x"), ("'capitals:x'",)),
        (("--benchmarks", "capitals:100000"), ("capitals has 176 questions", "100000")),
        (("--benchmarks", ""), ("either a stream",)),
        ((), ("either a stream",)),
        (("--benchmarks", "capitals", "--questions", "x.jsonl"), ("not both",)),
        ((*STREAM, "--method", "magic"), ("'magic'", "secl-paper")),
        ((*STREAM, "--seed", 2**64), ("seed", str(2**64))),
        ((*STREAM, "--dtype", "int8"), ("dtype is 'int8'", "bf16")),
        ((*STREAM, "--device", "cuda:one"), ("device is 'cuda:one'", "a GPU such as cuda:1")),
        ((*STREAM, "--quantize", "2bit"), ("quantize is '2bit'", "one of 8bit, 4bit")),
        ((*STREAM, "--device", "mps", "--device-map", "auto"), ("device is 'mps'", "leave one of them out")),
    ],
    ids=lambda value: "_".join(map(str, value)),
)
def test_a_setting_is_refused_before_the_model_is_looked_for(
    refused: Any, run_of: Any, arguments: tuple[object, ...], words: tuple[str, ...]
) -> None:
    refused(run_of("no such model", *arguments), *words)


QUESTION_FILES = {
    "missing.jsonl": (None, "does not exist"),
    "key.jsonl": ('{"qestion": "b?"}', "line 1", "qestion", "--columns question=NAME"),
    "latin.jsonl": (b'{"question": "caf\xe9?"}', "line 1"),
}


@pytest.mark.parametrize("name", QUESTION_FILES)
def test_a_question_file_is_refused_with_its_line(refused: Any, run_of: Any, tmp_path: Path, name: str) -> None:
    content, *words = QUESTION_FILES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    if name == "latin.jsonl":
        words = ["UTF-8"]
    refused(run_of("no such model", "--questions", tmp_path / name), tmp_path / name, *words)


def test_a_data_folder_without_the_benchmark_is_refused(refused: Any, run_of: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "file").write_text("x")
    mmlu = run_of("no such model", "--benchmarks", "mmlu:2", "--data")
    refused((*mmlu, tmp_path / "nowhere"), tmp_path / "nowhere", "does not exist")
    refused((*mmlu, tmp_path / "file"), tmp_path / "file", "does not exist")
    refused((*mmlu, tmp_path / "data"), tmp_path / "data" / "mmlu" / "test", "does not exist")


def test_a_recipe_is_refused_by_name(refused: Any, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    refused(("run", tmp_path / "no.toml", *out), tmp_path / "no.toml", "No such file")
    (tmp_path / "my.toml").write_text('benchmarks = ["capitals"]\nmetod = "secl"\n')
    refused(("run", tmp_path / "my.toml", *out), "'metod'")
    (tmp_path / "my.toml").write_text("benchmarks = [")
    refused(("run", tmp_path / "my.toml", *out), tmp_path / "my.toml", "TOML")
    refused(("run", *STREAM), "--out")


@pytest.mark.parametrize("arguments", [("--foo",), ("--seed", "x"), ("--accept", "warm"), ("a.toml", "b.toml")])
def test_usage_errors_end_with_the_same_code(shell: Shell, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = shell("run", "--out", tmp_path / "out", *STREAM, *arguments)
    assert ended.code == 2
    assert arguments[0].lstrip("-") in ended.err or "b.toml" in ended.err
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ("cannot be read", "No such file")),
        ('{"model.layers.0": ', ("is not JSON",)),
        ('{"model.layers.0": ["cpu"]}', ("is not a table of modules and devices",)),
        ('{"": "cpu", "model.layers.9": "cpu"}', ("names 'model.layers.9'", "it has model, model.embed_tokens")),
    ],
    ids=["missing", "broken", "no table", "unknown layer"],
)
def test_a_device_map_that_does_not_fit_is_refused(
    refused: Any, tmp_path: Path, tiny_llama: Path, text: str | None, words: tuple[str, ...]
) -> None:
    path = tmp_path / "map.json"
    if text is not None:
        path.write_text(text)
    refused(("ask", "Why?", "--model", tiny_llama, "--device-map", path), *words)


def test_a_question_asked_by_hand_is_refused_by_name(refused: Any) -> None:
    refused(("ask", "Why?", "--option", "so"), "'Why?'", "single option")
    refused(("ask", " "), "no text")
    refused(("ask", "Why?", "--option", "so", "--option", " "), "'Why?'", "empty option")
    many = [part for i in range(27) for part in ("--option", f"o{i}")]
    refused(("ask", "Why?", *many), "27 options")


def test_a_question_that_is_too_long_is_found_before_the_run_begins(
    refused: Any, run_of: Any, tmp_path: Path, tiny_llama: Path
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "a?"}) + "\n" + json.dumps({"question": "why " * 3000}))
    refused(run_of(tiny_llama, "--questions", path), "tokens", "2048")


def test_a_place_that_is_taken_is_refused(refused: Any, tmp_path: Path, tiny_llama: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    for folder in (tmp_path / "out", tmp_path / "out" / "letter.txt"):
        arguments = ("run", *STREAM, "--model", tiny_llama, "--out", folder)
        refused(arguments, folder, "is not empty", "name another folder")
    inside = tmp_path / "out" / "letter.txt" / "run"
    refused(("run", *STREAM, "--model", tiny_llama, "--out", inside), inside, "cannot write")


COMMANDS: tuple[tuple[str, ...], ...] = (("export",), ("run", "--resume"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_holds_no_run_is_refused(refused: Any, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("dear")
    for name in ("missing", "foreign", "foreign/letter.txt"):
        refused((*command, tmp_path / name), tmp_path / name, "not a run folder")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_run_that_is_damaged_is_refused(refused: Any, tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    recipe = {"benchmarks": ["capitals"], "model": "no such model"}
    with Store.create(folder, {"total": 3, "settings": RunSettings.of(recipe).to_json()}) as store:
        for record in Calibrator(ScriptedModel()).run(toy_stream(3)):
            store.add(record, 0.1)
    path = folder / FILE
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])
    refused((*command, folder), path, "damaged")
    path.write_bytes(b"garbage" * 1000)
    refused((*command, folder), path, "damaged")
    path.write_bytes(content)
    if command[0] in ("report", "export"):
        db = sqlite3.connect(path)
        with db:
            db.execute("UPDATE records SET body = '{' WHERE position = 1")
        db.close()
        refused((*command, folder), path, "damaged")
