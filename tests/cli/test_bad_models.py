"""Models that cannot be used: exit code 2, one sentence that names them, and no run folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

pytestmark = pytest.mark.heavy

STREAM = ("--benchmarks", "capitals:2")


def nonsense_gguf(path: Path) -> Path:
    """A sound GGUF file of an architecture that nobody knows."""
    writer = gguf.GGUFWriter(str(path), "nonsense")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_model_that_is_none_is_refused_by_name(refused: Any, run_of: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.gguf").write_text("once upon a time")
    (tmp_path / "model.bin").write_text("x")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    nonsense_gguf(tmp_path / "nonsense.gguf")
    for name, words in (
        ("missing", "there is no model"),
        ("folder", "no config.json"),
        ("text.gguf", "not a GGUF file"),
        ("model.bin", "neither a model folder nor a .gguf file"),
        ("broken", "cannot be loaded"),
        ("nonsense.gguf", "architecture nonsense is not supported"),
        ("missing.gguf", "there is no model"),
    ):
        refused(run_of(tmp_path / name, *STREAM), tmp_path / name, words)
        refused(("ask", "Why?", "--model", tmp_path / name), tmp_path / name, words)
    refused(run_of("gpt5", *STREAM), "there is no model 'gpt5'", "smollm2")


def test_a_damaged_model_folder_and_a_cache_that_cannot_be_written_are_refused(
    refused: Any, run_of: Any, tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file, content in (
        ("cut short", "model.safetensors", (tiny_llama / "model.safetensors").read_bytes()[:5000]),
        ("refusing", "chat_template.jinja", b"{{ raise_exception('only on Sundays') }}"),
    ):
        shutil.copytree(tiny_llama, tmp_path / name)
        (tmp_path / name / file).write_bytes(content)
        refused(run_of(tmp_path / name, *STREAM), tmp_path / name)
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "file"))
    refused(run_of(nonsense_gguf(tmp_path / "a.gguf"), *STREAM), tmp_path / "file")


def test_an_unknown_hub_id_is_refused_without_a_network(tmp_path: Path) -> None:
    code = "import sys; from secl.cli import main; sys.argv[0] = 'secl'; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "ask", "Why?", "--model", "nobody/nothing"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "secl: the model 'nobody/nothing' cannot be loaded" in ended.stderr
