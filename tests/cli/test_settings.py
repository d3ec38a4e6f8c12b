"""Settings of a run that are felt from outside: methods, signals, temperature, and where one stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reference.settings import with_all_settings
from secl.runs.settings import RunSettings
from secl.settings.names import SETTINGS, with_set
from tests.cli.conftest import Shell
from tests.conftest import ROOT


def test_every_setting_can_be_set_and_stands_in_the_table_of_the_docs() -> None:
    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    assert page == with_all_settings(page), "make the table anew: python -m reference.settings"
    for name in SETTINGS:
        assert f"<code>{name}</code>" in page


def test_a_setting_is_checked_like_one_of_a_recipe_and_wins_over_it(tmp_path: Path) -> None:
    recipe = RunSettings.of({"stream.benchmarks": ["capitals"], "method": "secl", "evidence.tau": 1.0, "gate.burst": 9})
    pairs = ("evidence.tau=0.7", "loop.bin_gate=off", "stream.skip_bad=true", "adapter.modules=q_proj,v_proj")
    found = with_set(None, pairs)
    assert found == {
        "evidence.tau": 0.7,
        "loop.bin_gate": None,
        "stream.skip_bad": True,
        "adapter.modules": ("q_proj", "v_proj"),
    }
    settings = RunSettings.of({**recipe.dotted(), **with_set(None, pairs[:2])})
    assert (settings.evidence.tau, settings.loop.bin_gate, settings.gate.burst) == (0.7, None, 9)


def test_what_cannot_be_set_is_refused_in_one_sentence_and_help_fits_two_screens(
    shell: Shell, refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, *words in (
        (("--set", "evidence.tau"), "gives no value", "--set group.key=value"),
        (("--set", "evidence.tao=1"), "--set evidence.tao=1", "the nearest is evidence.tau"),
        (("--set", "evidence.tau=hot"), "evidence.tau is 'hot'", "a finite number above 0"),
        (("--set", "stream.skip_bad=perhaps"), "stream.skip_bad is 'perhaps'", "true or false"),
        (("--tau=1",), "--tau", "--set evidence.tau=VALUE"),
    ):
        refused(("run", "--benchmarks", "capitals:2", "--out", tmp_path / "run", *arguments), *words)
    monkeypatch.setenv("COLUMNS", "80")
    for command, most, lines in (("run", 30, 48), ("serve", 34, 52)):
        said = shell(command, "--help").out
        assert len(re.findall(r"^\W+--[a-z-]+", said, re.MULTILINE)) <= most
        assert len(said.splitlines()) <= lines
