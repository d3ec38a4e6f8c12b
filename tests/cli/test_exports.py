"""Records and adapter versions for other tools."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from secl.records import Record
from secl.runs.encoding import from_plain
from secl.runs.export import to_table
from secl.runs.store import Store, Version
from tests.cli.conftest import Shell

FILES = ("adapter_config.json", "adapter_model.safetensors")


def test_an_export_holds_complete_records_or_a_flat_row_for_each(
    shell: Shell, run: Path, records: list[Record], tmp_path: Path
) -> None:
    ended = shell("export", run, "--out", tmp_path / "all.jsonl")
    assert (ended.code, ended.out.strip()) == (0, str(tmp_path / "all.jsonl"))
    text = (tmp_path / "all.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for line, record in zip(lines, records, strict=True):
        for key, reply in (("reply", record.reply), ("frozen", record.frozen)):
            assert (line[key]["stated"], line[key]["stated_hard"]) == (reply.stated, reply.stated_hard)
    assert [from_plain(line) for line in lines] == records
    assert shell("export", run, "--out", "-").out == text
    assert shell("export", run).out.strip() == str(run / "records.jsonl")
    assert (run / "records.jsonl").read_text(encoding="utf-8") == text
    (run / "records.jsonl").unlink()
    for full in ([], ["--full"]):
        columns, rows = to_table(records, full=bool(full))
        said = shell("export", run, "--format", "csv", "--out", "-", *full).out
        assert next(csv.reader(io.StringIO(said))) == columns
        shell("export", run, "--format", "parquet", "--out", tmp_path / "all.parquet", *full)
        found = pyarrow.parquet.read_table(tmp_path / "all.parquet").to_pylist()
        assert found == [dict(zip(columns, row, strict=True)) for row in rows]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl", "all.parquet"]


def test_the_last_version_of_a_run_and_every_kept_one_can_be_written(shell: Shell, run: Path, tmp_path: Path) -> None:
    copy, folder = tmp_path / "run", tmp_path / "deep" / "adapter"
    shutil.copytree(run, copy)
    with Store(copy, writable=True) as store:
        store.keep(Version(1, b"earlier weights"))
        last = store.versions()[-1]
    for version in (1, last):
        ended = shell("export", copy, "--version", version, "--out", folder)
        assert (ended.code, ended.out.strip()) == (0, str(folder))
        assert ((folder / FILES[1]).read_bytes() == b"earlier weights") == (version == 1)
    for file in FILES:
        assert (folder / file).read_bytes() == (run / "adapter" / file).read_bytes()


def test_what_cannot_be_exported_is_refused_and_no_run_is_spoiled(refused: Any, run: Path, tmp_path: Path) -> None:
    with Store(run) as store:
        *_, last = versions = store.versions()
    kept = f"kept are {', '.join(map(str, versions))}"
    for version in (0, 99):
        refused(("export", run, "--version", version), f"does not keep adapter version {version}", kept)
    refused(("export", run, "--version", 1, "--format", "csv"), "leave --format or --version out")
    refused(("export", run, "--version", 1, "--out", "-"), "name a folder with --out")
    (tmp_path / "file").write_text("x")
    refused(("export", run, "--version", last, "--out", tmp_path / "file"), tmp_path / "file", "cannot write")
    other = shutil.copytree(run, tmp_path / "other")
    files = [path for folder in (run, other) for path in folder.rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}
    for target in (run / "run.sqlite", run / "summary.json", run / "lock", other / "records.csv"):
        refused(("export", run, "--format", "csv", "--out", target), "belongs to a run")
    for target in (run, other, run / "adapter", other / "adapter"):
        refused(("export", run, "--version", last, "--out", target), "belongs to a run")
    assert {path: path.read_bytes() for path in contents} == contents


def test_ctrl_c_in_any_command_ends_in_one_sentence(shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "__enter__", interrupted)
    ended = shell("export", run)
    assert (ended.code, ended.out, ended.err) == (2, "", "secl: stopped.\n")
