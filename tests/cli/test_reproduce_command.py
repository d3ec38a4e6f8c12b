"""The command `reproduce`, end to end on a tiny model and the built-in quiz."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secl.runs import runner
from secl.runs.folder import FILE
from secl.runs.store import Store
from secl_paper.tables import TABLES
from tests.cli.conftest import Shell

QUIZ = ("--benchmarks", "capitals,science", "--per-domain", 3, "--gate", "always")


def test_a_table_is_run_printed_and_written_and_a_second_time_only_printed(
    shell: Shell, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "main", "tau", "--model", tiny_llama, *QUIZ, "--against", "llama-3.2-3b", "--out", out)
    first = shell(*command)
    assert (first.code, first.err) == (0, "")
    assert "main: SECL and the label-free baselines, with their cost" in first.out
    for row in ("Verbalized", "P(True) Norm", "DINCO", "SECL"):
        assert re.search(rf"^{re.escape(row)} +\d+\.\d +\d+\.\d +[+-]\d+\.\d +0\.\d{{3}} +0\.\d{{3}}", first.out, re.M)
    assert "not the paper's, with its own in brackets: gate always (page-hinkley), tau 1 (0.7)." in first.out
    assert re.search(r"The network computed in (float32|bfloat16) on cpu; the paper does not say in what", first.out)
    assert first.out.splitlines()[-1] == f"tables: {out / 'README.md'}"
    assert len(list((out / "runs" / "tiny-llama").glob(f"*/{FILE}"))) == 2
    written = {f"{key}.{suffix}" for key in ("main", "tau") for suffix in ("md", "csv", "tex")}
    assert {path.name for path in (out / "tables" / "tiny-llama").iterdir()} == written

    def no_model(*_: object) -> None:
        raise AssertionError("a finished run was done again")

    monkeypatch.setattr(runner, "load_model", no_model)
    again = shell(*command)
    assert (again.code, again.err) == (0, "")
    assert again.out == first.out


def test_a_dry_run_says_what_would_run_and_beside_which_column(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = shell("reproduce", "main", "kl", "--model", "phi-3.5-mini", *QUIZ[:4], "--dry-run", "--out", out)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line.split()[1] for line in lines[2:6]] == ["waiting"] * 4
    assert lines[-2:] == [
        "4 runs for 2 tables, 0 finished; 24 questions to ask",
        "beside the paper's Phi 3.5-Mini: the model is this preset",
    ]
    assert not out.exists()


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(
    shell: Shell, tiny_llama: Path, tmp_path: Path, interrupt_at: Callable[[int], None]
) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "gap", "--model", tiny_llama, *QUIZ, "--out", out)
    interrupt_at(4)
    stopped = shell(*command)
    assert (stopped.code, stopped.err) == (
        2,
        f"secl: stopped; what is done is kept in {out}, and the same command goes on from there.\n",
    )
    (folder,) = (out / "runs" / "tiny-llama").iterdir()
    with Store(folder) as store:
        assert len(store) == 3
    assert not (out / "tables").exists()
    assert shell(*command).code == 0
    with Store(folder) as store:
        assert len(store) == 6
    assert list((out / "tables").glob("*/gap.png"))


def test_a_mistake_is_refused_in_one_sentence_before_anything_is_written(refused: Any, tmp_path: Path) -> None:
    for arguments, *words in (
        (("mian",), "no table 'mian'", *(table.key for table in TABLES)),
        (("main", "--against", "gpt-2"), "'gpt-2'", "llama-3.2-3b"),
        (("hyperparameters", "--gate", "always"), "'burst 20'", "has no burst"),
        (("hyperparameters", "--gate", "mine.py:No", "--dry-run"), "'mine.py:No'", "there is no file mine.py"),
        (("kl", "--gate", "sometimes", "--dry-run"), "no gate 'sometimes'", "FILE.py:CLASS"),
        (("main", "--method", "secl-paper"), "--method"),
        (("main", "--questions", "mine.csv"), "--questions"),
        (("main", "--on", "moon"), "--on is 'moon'", "ray://HOST:PORT"),
        (("main", "--benchmarks", "nonsense"), "'nonsense'", "capitals"),
    ):
        refused(("reproduce", *arguments, "--out", tmp_path / "out"), *words)
