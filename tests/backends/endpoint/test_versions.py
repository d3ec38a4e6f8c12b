"""What is published: folders that PEFT reads, under names that never stand for other weights."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from secl.backends.endpoint.versions import CONFIG, WEIGHTS, Versions
from secl.errors import ParameterError, StorageError


def folders(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_a_version_is_a_folder_for_peft(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {"r": 8, "target_modules": {"v_proj", "q_proj"}})
    name = versions.publish(3, b"weights")
    assert re.fullmatch("secl-3-[0-9a-f]{12}", name)
    assert json.loads((tmp_path / name / CONFIG).read_text()) == {"r": 8, "target_modules": ["q_proj", "v_proj"]}
    assert (tmp_path / name / WEIGHTS).read_bytes() == b"weights"
    assert folders(tmp_path) == {name}


def test_a_name_stands_for_number_weights_and_configuration(tmp_path: Path) -> None:
    one, other = Versions(tmp_path, {"r": 8}), Versions(tmp_path, {"r": 4})
    names = {one.publish(1, b"a"), one.publish(2, b"a"), one.publish(1, b"b"), other.publish(1, b"a")}
    assert len(names) == len(folders(tmp_path)) == 4
    assert Versions(tmp_path, {"r": 8}).publish(1, b"a") in names


def test_the_same_version_is_written_once_though_many_publish_it(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {})
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(lambda i: versions.publish(i % 4, b"x" * 100_000), range(64)))
    assert folders(tmp_path) == names
    assert len(names) == 4


def test_versions_that_were_used_last_stay(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {}, kept=3)
    others = Versions(tmp_path, {}, name="other").publish(1, b"")
    names = [versions.publish(number, b"w") for number in range(4)]
    versions.publish(1, b"w")
    names.append(versions.publish(4, b"w"))
    assert folders(tmp_path) == {names[1], names[3], names[4], others}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="version 1 cannot be written to"):
        Versions(tmp_path / "file" / "versions", {}).publish(1, b"a")


def test_a_name_that_would_not_fit_is_refused(tmp_path: Path) -> None:
    for name in ("", "a/b", "../x", "a b"):
        with pytest.raises(ParameterError, match="name"):
            Versions(tmp_path, {}, name)
