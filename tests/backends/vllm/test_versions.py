"""What is published: folders that PEFT reads, none of them ever used for other weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secl.backends.vllm.versions import CONFIG, WEIGHTS, Versions
from secl.errors import ParameterError, StorageError


def folders(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_a_version_is_a_folder_for_peft(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {"r": 8, "target_modules": {"v_proj", "q_proj"}})
    assert versions.write(3, b"weights")
    folder = Path(versions.folder_of(3))
    assert folder.name.startswith("version-3-")
    assert json.loads((folder / CONFIG).read_text()) == {"r": 8, "target_modules": ["q_proj", "v_proj"]}
    assert (folder / WEIGHTS).read_bytes() == b"weights"
    assert (versions.newest, versions.called(3)) == (3, "secl-3")


def test_no_folder_is_used_twice_though_a_number_is(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {})
    used = []
    for version, weights in ((1, b"a"), (2, b"b"), (1, b"c"), (1, b"d"), (2, b"b")):
        versions.write(version, weights)
        used.append(versions.folder_of(version))
        versions.clean()
    assert len(set(used)) == len(used)
    assert folders(tmp_path) == {Path(used[-1]).name}


def test_the_same_weights_are_not_published_again(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {})
    assert [versions.write(1, b"a"), versions.write(1, b"a"), versions.write(1, b"b")] == [True, False, True]


def test_a_version_that_a_reply_is_using_stays(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {})
    versions.write(1, b"a")
    with versions.holding() as version:
        versions.write(2, b"b")
        versions.write(3, b"c")
        versions.clean()
        assert version == 1
        assert versions.needed() == {1, 3}
        assert versions.surplus({"secl-1": "", "secl-2": "", "secl-3": "", "secl-x": "", "other-2": ""}) == ["secl-2"]
        assert Path(versions.folder_of(1)).is_dir()
    versions.clean()
    assert folders(tmp_path) == {Path(versions.folder_of(3)).name}


def test_the_untouched_model_needs_no_version(tmp_path: Path) -> None:
    versions = Versions(tmp_path, {})
    versions.write(1, b"a")
    versions.retire()
    versions.clean()
    assert (versions.newest, versions.needed(), folders(tmp_path)) == (0, set(), set())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="version 1 cannot be written to"):
        Versions(tmp_path / "file" / "versions", {}).write(1, b"a")


def test_a_name_that_would_not_fit_is_refused(tmp_path: Path) -> None:
    for name in ("", "a/b", "../x", "a b"):
        with pytest.raises(ParameterError, match="name"):
            Versions(tmp_path, {}, name)
