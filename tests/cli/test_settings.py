"""Settings of a run that are felt from outside: methods, signals, temperature, and where one stands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reference.settings import with_all_settings
from secl.backends.local.model import LocalModel
from secl.metrics.probability import normalised_p_true
from secl.records import Record
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.setting_groups import FLAT_NAMES, merged, place_of, with_set
from tests.cli.conftest import Shell
from tests.conftest import ROOT

ALWAYS = ("--gate", "always", "--set", "loop.bin_gate=off")


@pytest.fixture
def done(shell: Shell, tiny_llama: Path, tmp_path: Path) -> Any:
    """Run four questions with settings: the records, the summary, and the table that was printed."""

    def run(*settings: object) -> tuple[list[Record], dict[str, Any], str]:
        folder = tmp_path / "out"
        ended = shell("run", "--model", tiny_llama, "--benchmarks", "capitals:4", "--out", folder, "--full", *settings)
        assert (ended.code, ended.err) == (0, "")
        with Store(folder) as store:
            return list(store.records()), json.loads((folder / "summary.json").read_text()), ended.out

    return run


def test_asking_with_an_adapter_uses_the_temperature_and_the_formula_of_its_run(
    done: Any, shell: Shell, tmp_path: Path
) -> None:
    records = done(*ALWAYS, "--set", "evidence.tau=0.3", "--set", "evidence.formula=exp")[0]
    question = records[0].question
    options = [part for option in question.options for part in ("--option", option)]
    said = shell("ask", question.text, *options, "--adapter", tmp_path / "out", "--full").out
    verdicts = said[said.index("P(True)  candidate") : said.index("posterior  candidate")]
    p_true = [float(value) for value in re.findall(r"^(0\.\d{4}) +\S", verdicts, re.MULTILINE)]
    assert len(p_true) == len(question.options)
    found = re.search(r"normalised P\(True\) (0\.\d{3})  \(tau 0\.3, formula exp\)", said)
    assert found
    assert float(found[1]) == pytest.approx(normalised_p_true(p_true, 0.3, "exp"), abs=5e-3)


def test_a_run_is_resumed_from_any_working_directory(
    shell: Shell, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "tiny").symlink_to(tiny_llama)
    (here / "mine.jsonl").write_text("\n".join(json.dumps({"question": f"{k}?", "options": ["a", "b"]}) for k in "xyz"))
    settings = ("--model", "tiny", "--questions", "mine.jsonl", "--data", ".")
    monkeypatch.chdir(here)
    plain = LocalModel.answer
    monkeypatch.setattr(LocalModel, "answer", interrupted)
    assert shell("run", *settings, "--out", "run").code == 2
    monkeypatch.setattr(LocalModel, "answer", plain)
    with Store(here / "run") as store:
        begun = RunSettings.of(store.manifest["settings"])
    assert (begun.model.name, begun.stream.questions) == (str(here / "tiny"), str(here / "mine.jsonl"))
    monkeypatch.chdir(there)
    for arguments in (("--resume", here / "run"), ("--resume", here / "run", "--questions", "../here/mine.jsonl")):
        ended = shell("run", *arguments)
        assert (ended.code, ended.err) == (0, "")
    ended = shell("run", "--resume", here / "run", *settings)
    assert ended.code == 2
    assert f"questions: {here / 'mine.jsonl'} there, {there / 'mine.jsonl'} here" in ended.err


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_every_setting_can_be_set_and_stands_in_the_table_of_the_docs() -> None:
    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    assert page == with_all_settings(page), "make the table anew: python -m reference.settings"
    for name in FLAT_NAMES:
        assert f"<code>{place_of(name)}</code>" in page


def test_a_setting_is_checked_like_one_of_a_recipe_and_wins_over_it(tmp_path: Path) -> None:
    recipe = RunSettings.of({"benchmarks": ["capitals"], "tau": 1.0, "burst": 9}).to_json()
    pairs = ("evidence.tau=0.7", "loop.bin_gate=off", "stream.sampled=mmlu,arc", "gate.opening=false")
    found = with_set(None, pairs)
    assert found == {
        "evidence": {"tau": 0.7},
        "loop": {"bin_gate": None},
        "stream": {"sampled": ("mmlu", "arc")},
        "gate": {"opening": False},
    }
    settings = RunSettings.of(merged(recipe, with_set(None, pairs[:2])))
    assert (settings.evidence.tau, settings.loop.bin_gate, settings.gate.burst) == (0.7, None, 9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "evidence.tau"), ("gives no value", "--set group.key=value")),
        (("--set", "evidence.tao=1"), ("--set evidence.tao=1", "the nearest is evidence.tau")),
        (("--set", "evidence.tau=hot"), ("tau is 'hot'", "a finite number above 0")),
        (("--set", "gate.opening=perhaps"), ("opening is 'perhaps'", "true or false")),
        (("--tau=1",), ("--tau", "--set evidence.tau=VALUE")),
    ],
)
def test_what_cannot_be_set_is_refused_in_one_sentence(
    refused: Any, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(("run", "--benchmarks", "capitals:2", "--out", tmp_path / "run", *arguments), *words)


@pytest.mark.parametrize(("command", "most", "lines"), [("run", 30, 48), ("serve", 34, 52)])
def test_the_help_of_a_command_fits_two_screens(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str, most: int, lines: int
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = shell(command, "--help").out
    assert len(re.findall(r"^\W+--[a-z-]+", said, re.MULTILINE)) <= most
    assert len(said.splitlines()) <= lines
