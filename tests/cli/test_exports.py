"""Records and adapter versions for other tools."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import peft
import pyarrow.parquet
import pytest
import transformers

from secl.records import Record
from secl.runs.encoding import from_plain, to_row
from secl.runs.store import Store, Version
from tests.cli.conftest import Shell

FILES = ("adapter_config.json", "adapter_model.safetensors")


def test_jsonl_holds_complete_records_and_their_confidences(
    shell: Shell, run: Path, records: list[Record], tmp_path: Path
) -> None:
    ended = shell("export", run, "--out", tmp_path / "all.jsonl")
    assert (ended.code, ended.out.strip()) == (0, str(tmp_path / "all.jsonl"))
    text = (tmp_path / "all.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for line, record in zip(lines, records, strict=True):
        for key, reply in (("reply", record.reply), ("frozen", record.frozen)):
            assert line[key]["confidence"] == reply.confidence
            assert line[key]["hard_confidence"] == reply.hard_confidence
    assert [from_plain(line) for line in lines] == records
    assert shell("export", run, "--out", "-").out == text
    assert shell("export", run).out.strip() == str(run / "records.jsonl")
    assert (run / "records.jsonl").read_text(encoding="utf-8") == text
    (run / "records.jsonl").unlink()


def in_csv(value: object) -> str:
    if isinstance(value, list):
        return " | ".join(map(str, value))
    return "" if value is None else str(value)


def test_csv_and_parquet_hold_one_flat_row_for_each_question(
    shell: Shell, run: Path, records: list[Record], tmp_path: Path
) -> None:
    shell("export", run, "--format", "csv", "--out", tmp_path / "all.csv")
    text = (tmp_path / "all.csv").read_text(encoding="utf-8")
    rows = [to_row(record) for record in records]
    plain = [{key: in_csv(value) for key, value in row.items()} for row in rows]
    assert list(csv.DictReader(io.StringIO(text))) == plain
    said = shell("export", run, "--format", "csv", "--out", "-").out
    assert list(csv.DictReader(io.StringIO(said))) == plain
    shell("export", run, "--format", "parquet", "--out", tmp_path / "all.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "all.parquet").to_pylist() == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.csv", "all.parquet"]


def test_the_adapter_of_a_run_is_its_last_version_and_every_kept_one_can_be_written(
    shell: Shell, run: Path, tmp_path: Path
) -> None:
    copy, folder = tmp_path / "run", tmp_path / "deep" / "adapter"
    shutil.copytree(run, copy)
    with Store(copy, writable=True) as store:
        store.keep(Version(1, b"earlier weights"))
        last = store.versions()[-1]
    for version in (1, last):
        ended = shell("export", copy, "--adapter", version, "--out", folder)
        assert (ended.code, ended.out.strip()) == (0, str(folder))
        assert ((folder / FILES[1]).read_bytes() == b"earlier weights") == (version == 1)
    for file in FILES:
        assert (folder / file).read_bytes() == (run / "adapter" / file).read_bytes()


def test_peft_loads_an_exported_version_with_the_configuration_of_the_run(
    shell: Shell, run: Path, tiny_llama: Path, tmp_path: Path
) -> None:
    with Store(run) as store:
        first = store.versions()[0]
    assert shell("export", run, "--adapter", first).out.strip() == str(run / f"adapter-{first}")
    folder = (run / f"adapter-{first}").rename(tmp_path / "adapter")
    base = transformers.AutoModelForCausalLM.from_pretrained(tiny_llama)
    wrapped: Any = peft.PeftModel.from_pretrained(base, str(folder))
    config = wrapped.peft_config["default"]
    assert (config.r, config.lora_alpha, config.layers_to_transform) == (8, 16.0, [3])
    assert config.target_modules == {"q_proj", "v_proj"}
    learned = [value for name, value in wrapped.named_parameters() if "lora_B" in name]
    assert len(learned) == 2
    assert all(value.abs().max() > 0 for value in learned)


def test_an_adapter_is_exported_without_loading_torch(run: Path, tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from secl.runs.adapters import write_version
from secl.runs.store import Store
with Store(Path(sys.argv[1])) as store:
    write_version(store, store.versions()[0], Path(sys.argv[2]))
assert not {"torch", "peft", "safetensors"} & set(sys.modules)
"""
    command = [sys.executable, "-c", code, str(run), str(tmp_path / "adapter")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "adapter").iterdir()) == sorted(FILES)


def test_an_adapter_that_cannot_be_exported_is_refused_by_name(refused: Any, run: Path, tmp_path: Path) -> None:
    with Store(run) as store:
        kept = ", ".join(map(str, store.versions()))
    refused(("export", run, "--adapter", 0), "does not keep adapter version 0", f"kept are {kept}")
    refused(("export", run, "--adapter", 99), "does not keep adapter version 99", f"kept are {kept}")
    refused(("export", run, "--adapter", 1, "--format", "csv"), "leave --format or --adapter away")
    refused(("export", run, "--adapter", 1, "--out", "-"), "name a folder with --out")
    (tmp_path / "file").write_text("x")
    last = kept.split(", ")[-1]
    refused(("export", run, "--adapter", last, "--out", tmp_path / "file"), tmp_path / "file", "cannot write")


@pytest.mark.parametrize("command", [("export",), ("report",), ("ask", "Why?", "--adapter")], ids=" ".join)
def test_ctrl_c_in_any_command_ends_in_one_sentence(
    shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "__enter__", interrupted)
    ended = shell(*command, run)
    assert (ended.code, ended.out, ended.err) == (2, "", "secl: stopped.\n")


def test_an_export_spoils_no_run(refused: Any, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    files = [path for folder in (run, other) for path in folder.rglob("*") if path.is_file()]
    kept = {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}
    for target in (run / "run.sqlite", run / "summary.json", run / "lock", other / "records.csv"):
        refused(("export", run, "--format", "csv", "--out", target), "belongs to a run")
    with Store(run) as store:
        version = store.versions()[-1]
    for target in (run, other, run / "adapter", other / "adapter"):
        refused(("export", run, "--adapter", version, "--out", target), "belongs to a run")
    assert {path: path.read_bytes() for path in kept} == kept
