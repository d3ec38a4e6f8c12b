"""The list of what a release installs: sizes, versions and licences of this very environment."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from tools import release_check


def test_everything_that_is_installed_has_a_size_and_most_a_licence() -> None:
    done = subprocess.run([sys.executable, "-c", release_check.LISTED], check=True, capture_output=True, text=True)
    rows = {name.lower(): (number, size, licence) for name, number, size, licence in json.loads(done.stdout)}
    assert rows["torch"][0] == version("torch")
    assert rows["torch"][1] > 100e6
    assert "BSD" in rows["numpy"][2]
    assert "Apache" in rows["transformers"][2]
    assert sum(licence == "not said" for _, _, licence in rows.values()) < len(rows) / 10


def test_without_any_python_nothing_is_fit_for_a_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "PYTHONS", ("python0.0",))
    assert release_check.main([]) == 1
    assert "python0.0" in capsys.readouterr().out
