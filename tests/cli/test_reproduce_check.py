"""The stored numbers of the paper against its LaTeX source."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from secl_paper import check
from secl_paper.check import disagreements
from secl_paper.paper import read_paper
from tests.cli.conftest import Shell
from tests.conftest import ROOT

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


def test_a_number_of_a_source_that_differs_is_named_with_its_place_and_the_code_is_1(
    shell: Shell, made_up: Path
) -> None:
    command, right = ("reproduce", "seeds", "triggers", "--check", made_up), made_up.read_text(encoding="utf-8")
    assert disagreements(made_up, ["seeds", "triggers"]) == (36, [])
    ended = shell(*command)
    assert (ended.code, ended.err) == (0, "")
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
            f"{number} is not in its place in tab:{place}.",
            f"35 of 36 stored numbers of the paper's tables agree with {made_up}",
        ]
    made_up.write_text(right.replace(".0496 & .0502", ".0502 & .0496"), encoding="utf-8")  # swapped
    total, wrong = disagreements(made_up, ["seeds"])
    assert (total, len(wrong)) == (20, 1)


def test_a_source_that_cannot_be_compared_is_refused(refused: Any, made_up: Path, tmp_path: Path) -> None:
    refused(("reproduce", "--check", tmp_path / "no.tex"), "no.tex", "No such file")
    refused(("reproduce", "kl", "--check", made_up), "has no table tab:ablation_kl", "secl.tex of the paper")
    refused(("reproduce", "gap", "--check", made_up), "no cells with numbers", "name others")
    (tmp_path / "binary.tex").write_bytes(b"\xff\xfe\x00")
    refused(("reproduce", "--check", tmp_path / "binary.tex"), "binary.tex", "not UTF-8")


def test_all_1035_stored_numbers_are_those_of_the_paper_and_a_typo_in_any_table_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One number of each table is changed, another one each time."""
    source = Path(os.environ.get("SECL_PAPER") or ROOT.parent / "shared" / "paper" / "secl.tex")
    if not source.is_file():
        pytest.skip("needs the paper's source (set SECL_PAPER)")
    assert disagreements(source, read_paper().tables) == (1035, [])
    for step, (key, table) in enumerate(read_paper().tables.items()):
        if table.label.startswith("fig:"):
            continue
        spoiled = copy.deepcopy(read_paper())
        places = [(model, row, column) for model, rows in table.numbers.items() for row in rows for column in rows[row]]
        model, row, column = places[7 * step % len(places)]
        numbers: Any = spoiled.tables[key].numbers[model][row]
        numbers[column] += 0.0007
        monkeypatch.setattr(check, "read_paper", lambda spoiled=spoiled: spoiled)
        total, wrong = disagreements(source, [key])
        assert total == len(places)
        assert 1 <= len(wrong) <= 2  # a neighbour that another row repeats may be named, too
        assert f"{key}, {model}, {row}, {column}" in [sentence.split(":")[0] for sentence in wrong]
        monkeypatch.undo()
