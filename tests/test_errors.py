"""Sentences of errors that several places share."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secl.errors import needs
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (
            {"url": "file:///home/my%20files/secl", "dir_info": {"editable": True}},
            "pip install -e '/home/my files/secl[tables]'",
        ),
        ({"url": "file:///src/secl", "dir_info": {}}, "pip install 'secl[tables] @ file:///src/secl'"),
        (
            {"url": "https://host/secl.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
            "pip install 'secl[tables] @ git+https://host/secl.git'",
        ),
        (None, "pip install 'secl[tables]'"),
    ],
    ids=["checkout", "folder", "repository", "index"],
)
def test_a_missing_package_comes_with_a_command_for_this_installation(
    monkeypatch: pytest.MonkeyPatch, origin: Any, command: str
) -> None:
    files = {"direct_url.json": None if origin is None else json.dumps(origin)}
    monkeypatch.setattr("secl.errors.distribution", lambda _name: SimpleNamespace(read_text=files.get))
    assert needs("xlsx", "openpyxl", "tables") == f"xlsx needs openpyxl; run: {command}"


def test_no_message_names_a_package_that_an_index_may_not_have() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in Path(ROOT, "src").rglob("*.py")}
    assert [name for name, text in texts.items() if re.search(r"pip install [\"'\\]*secl", text)] == []
