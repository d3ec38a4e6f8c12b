"""`secl reproduce` on a tiny model and the quiz, and the stored numbers of the paper against its LaTeX source."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from secl.runs.folder import FILE
from secl_paper.paper import disagreements, read_paper
from secl_paper.tables import TABLES
from tests.answers import stored
from tests.cli.conftest import Interrupt, Shell, Use
from tests.conftest import ROOT

QUIZ = ("--benchmarks", "capitals,science", "--per-domain", 3, "--gate", "always")


def test_a_table_is_run_and_written_once_and_printed(shell: Shell, use: Use, tiny_llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "main", "tau", "--model", tiny_llama, *QUIZ, "--against", "llama-3.2-3b", "--out", out)
    first = shell(*command).fine
    assert "main: SECL and the label-free baselines, with their cost" in first.out
    for row in ("Verbalized", "P(True) Norm", "DINCO", "SECL"):
        assert re.search(rf"^{re.escape(row)} +\d+\.\d +\d+\.\d +[+-]\d+\.\d +0\.\d{{3}} +0\.\d{{3}}", first.out, re.M)
    assert (
        "differ from the paper's (the paper's values in brackets): gate always (page-hinkley), tau 1 (0.7)."
        in first.out
    )
    assert re.search(r"one token each; together they have a median probability of \d\.\d\d, and", first.out)
    assert "DINCO's beams are the option letters" in first.out
    assert re.search(r"The network computed in (float32|bfloat16) on cpu; the paper names no precision", first.out)
    assert first.out.splitlines()[-1] == f"tables: {out / 'README.md'}"
    assert len(list((out / "runs" / "tiny-llama").glob(f"*/{FILE}"))) == 2
    written = {f"{key}.{suffix}" for key in ("main", "tau") for suffix in ("md", "csv", "tex")}
    assert {path.name for path in (out / "tables" / "tiny-llama").iterdir()} == written
    use(AssertionError("a finished run was done again"))
    assert shell(*command).fine.out == first.out


def test_a_dry_run_says_what_would_run_and_beside_which_column(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = shell("reproduce", "main", "kl", "--model", "phi-3.5-mini", *QUIZ[:4], "--dry-run", "--out", out).fine
    lines = ended.out.splitlines()
    assert [line.split()[1] for line in lines[2:6]] == ["waiting"] * 4
    assert lines[-2:] == [
        "4 runs for 2 tables, 0 finished; 24 questions left to ask",
        "compared with the paper's Phi 3.5-Mini: --model names its preset",
    ]
    assert not out.exists()
    assert [line.split("waiting")[1].strip() for line in lines[2:6]] == [
        "method secl, gate.name page-hinkley",
        "method baselines, gate.name default",
        "adapter.beta 0.01",
        "adapter.beta 0.1",
    ]


def test_ctrl_c_keeps_what_is_done(shell: Shell, tiny_llama: Path, tmp_path: Path, interrupt_at: Interrupt) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "gap", "--model", tiny_llama, *QUIZ, "--out", out)
    interrupt_at(4)
    stopped = shell(*command)
    kept = f"secl: stopped; finished work is kept in {out}, and the same command continues.\n"
    assert (stopped.code, stopped.err) == (2, kept)
    (folder,) = (out / "runs" / "tiny-llama").iterdir()
    assert len(stored(folder)) == 3
    assert not (out / "tables").exists()
    assert shell(*command).code == 0
    assert len(stored(folder)) == 6
    assert list((out / "tables").glob("*/gap.png"))


def test_a_mistake_is_refused_in_one_sentence_before_anything_is_written(refused: Any, tmp_path: Path) -> None:
    for arguments, *words in (
        (("mian",), "no table 'mian'", *(table.key for table in TABLES)),
        (("main", "--against", "gpt-2"), "'gpt-2'", "llama-3.2-3b"),
        (("main", "--model", "llama-3.2-3b,gemma-2-2b", "--dry-run"), "no model 'llama-3.2-3b,gemma-2-2b'", "phi-3.5"),
        (("hyperparameters", "--gate", "always"), "'burst 20'", "has no burst"),
        (("hyperparameters", "--gate", "mine.py:No", "--dry-run"), "'mine.py:No'", "there is no file mine.py"),
        (("kl", "--gate", "sometimes", "--dry-run"), "no gate 'sometimes'", "FILE.py:CLASS"),
        (("main", "--method", "secl-paper"), "--method"),
        (("main", "--questions", "mine.csv"), "--questions"),
        (("main", "--on", "moon"), "--on is 'moon'", "ray://HOST:PORT"),
        (("main", "--benchmarks", "nonsense"), "'nonsense'", "capitals"),
    ):
        refused(("reproduce", *arguments, "--out", tmp_path / "out"), *words)


SEEDS = r"""
\begin{table}[t]
\begin{tabular}{lcccc}
\textbf{Metric} & Seed 42 & Seed 43 & Seed 44 & Mean$\pm$Std \\
\midrule
Verbalized ECE & .1695 & .1757 & .1757 & .1736$\pm$.0029 \\
SECL ECE & .0496 & .0502 & .0392 & \textbf{.0464$\pm$.0051} \\
\midrule
Verbalized AUROC & .5095 & .5119 & .5119 & .5111$\pm$.0011 \\
SECL AUROC & .5870 & .6005 & .5920 & \textbf{.5932$\pm$.0056} \\
\end{tabular}
\label{tab:llama_multiseed}
\end{table}
"""
COUNTS = r"""
\begin{table*}
\begin{tabular}{lccc}
\multirow{4}{*}{\textbf{Model}} & \textbf{Total} & \textbf{Trained (\%)} & \textbf{Skipped (\%)} \\
\cmidrule(l){2-4}
Llama 3.2-3B & 2{,}000 & 512 (25.6\%) & 1{,}488 (74.4\%) \\
Gemma 2-2B   & 2{,}000 & 119 ~~(5.9\%) & 1{,}881 (94.1\%) \\
Phi 3.5-Mini (3.8B) & 2{,}000 & 160 ~~(8.0\%) & 1{,}840 (92.0\%) \\
Llama 3.1-8B & 2{,}000 & 251 (12.6\%) & 1{,}749 (87.4\%) \\
\end{tabular}
\label{tab:ph_triggers}
\end{table*}
"""


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    path = tmp_path / "made-up.tex"
    path.write_text(SEEDS + COUNTS, encoding="utf-8")
    return path


def test_a_number_that_differs_from_the_source_is_named_with_its_place(shell: Shell, made_up: Path) -> None:
    command, right = ("reproduce", "seeds", "triggers", "--check", made_up), made_up.read_text(encoding="utf-8")
    assert disagreements(made_up, ["seeds", "triggers"]) == (36, [])
    ended = shell(*command).fine
    assert ended.out == f"36 of 36 stored numbers of the paper's tables agree with {made_up}\n"
    for before, after, number, place in (
        (".0502", ".0520", "seeds, llama-3.2-3b, SECL, ece_43: 0.0502", "llama_multiseed"),
        ("(12.6", "(12.5", "triggers, llama-3.1-8b, SECL, trained_share: 0.126", "ph_triggers"),
        ("& 119", "& 120", "triggers, gemma-2-2b, SECL, trained: 119", "ph_triggers"),
    ):
        made_up.write_text(right.replace(before, after), encoding="utf-8")
        ended = shell(*command)
        assert (ended.code, ended.err) == (1, "")
        assert ended.out.splitlines() == [
            f"{number} is not at this place in tab:{place}.",
            f"35 of 36 stored numbers of the paper's tables agree with {made_up}",
        ]
    made_up.write_text(right.replace(".0496 & .0502", ".0502 & .0496"), encoding="utf-8")  # swapped
    total, wrong = disagreements(made_up, ["seeds"])
    assert (total, len(wrong)) == (20, 1)


def test_a_source_that_cannot_be_compared_is_refused(refused: Any, made_up: Path, tmp_path: Path) -> None:
    refused(("reproduce", "--check", tmp_path / "no.tex"), "no.tex", "No such file")
    refused(("reproduce", "kl", "--check", made_up), "has no table tab:ablation_kl", "secl.tex of the paper")
    refused(("reproduce", "gap", "--check", made_up), "no numbers in these tables", "name other tables")
    (tmp_path / "binary.tex").write_bytes(b"\xff\xfe\x00")
    refused(("reproduce", "--check", tmp_path / "binary.tex"), "binary.tex", "not UTF-8")


def test_all_1035_numbers_are_those_of_the_paper() -> None:
    source = Path(os.environ.get("SECL_PAPER") or ROOT.parent / "shared" / "paper" / "secl.tex")
    if not source.is_file():
        pytest.skip("needs the paper's source (set SECL_PAPER)")
    assert disagreements(source, read_paper().tables) == (1035, [])
