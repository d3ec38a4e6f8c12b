"""API keys: made, found, removed, and never kept in clear."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from secl.errors import ParameterError
from secl.server.folder import KEYS as FILE
from secl.server.http.api_keys import Keys


def test_a_token_is_found_with_its_role_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "state")
    token = keys.add("ops", "admin")
    key = keys.find(token)
    assert key is not None
    assert (key.name, key.role) == ("ops", "admin")
    text = (tmp_path / "state" / FILE).read_text()
    assert token not in text
    assert json.loads(text)[0]["sha256"] == hashlib.sha256(token.encode()).hexdigest()


@pytest.mark.parametrize("wrong", ["", "x", "secl_", "\ud800", "é" * 50])
def test_a_wrong_token_finds_nothing(tmp_path: Path, wrong: str) -> None:
    keys = Keys(tmp_path)
    token = keys.add("a", "read")
    assert keys.find(wrong) is None
    assert keys.find(token[:-1]) is None
    assert keys.find(token + "x") is None


def test_another_process_sees_new_and_removed_keys_at_once(tmp_path: Path) -> None:
    server, shell = Keys(tmp_path), Keys(tmp_path)
    assert server.all() == ()
    first, second = shell.add("a", "read"), shell.add("b", "admin")
    assert server.find(first) is not None
    shell.remove("a")
    assert server.find(first) is None
    assert server.find(second) is not None


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 65, "\x1b[31m"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match="no name for a key"):
        Keys(tmp_path).add(name, "read")
    assert not (tmp_path / FILE).exists()


def test_a_name_counts_once_and_an_unknown_one_or_role_is_refused(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.add("a", "read")
    with pytest.raises(ParameterError, match="'a' already"):
        keys.add("a", "admin")
    with pytest.raises(ParameterError, match="no role 'root'"):
        keys.add("b", "root")
    with pytest.raises(ParameterError, match="no key 'c'; there are a"):
        keys.remove("c")


@pytest.mark.parametrize(
    "text", ["", "{}x", "[1]", '[{"name": "a"}]', '[{"name": "a", "role": "root", "sha256": "0"}]', '{"a": 1}', "5"]
)
def test_a_file_that_holds_something_else_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ParameterError, match="holds no list of keys"):
        Keys(tmp_path).find("x")


def test_keys_that_are_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda number: Keys(tmp_path).add(f"key {number}", "read"), range(16)))
    assert len(Keys(tmp_path).all()) == 16
    assert all(Keys(tmp_path).find(token) for token in tokens)
