"""Adapter versions as folders that vLLM loads; no folder is ever used for other weights."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secl.errors import ParameterError, StorageError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")


class Versions:
    """Writes every version once, and knows which ones are still needed.

    Args:
        folder: where the versions go; every endpoint must see it under the same path.
        config: PEFT configuration of the adapter (`LoraConfig.to_dict()`).
        name: what the adapters are called on the endpoints: version 3 is "NAME-3". Learners that share endpoints need
            different names.

    Attributes:
        newest: number of the latest published version; 0 before the first.

    Raises:
        ParameterError: a name that would not fit into a web address or a path.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], name: str = "secl") -> None:
        if not NAME.fullmatch(name):
            raise ParameterError(f"the name {name!r} of a fleet's adapters is not made of letters, digits, _ and dots.")
        self.folder = folder.absolute()
        self.prefix = name
        self.newest = 0
        self._config = json.dumps(dict(config), default=sorted, indent=2, sort_keys=True) + "\n"
        self._folders: dict[int, Path] = {}
        self._digest = b""
        self._held: Counter[int] = Counter()
        self._lock = threading.Lock()

    def write(self, version: int, weights: bytes) -> bool:
        """Make `version` the newest one.

        Args:
            version: its number; a number that was used for other weights before (a rollback) gets a new folder.
            weights: safetensors bytes with PEFT's names.

        Returns:
            False if these weights are the newest version already.

        Raises:
            StorageError: the folder cannot be written.
        """
        digest = hashlib.sha256(weights).digest()
        if version == self.newest and digest == self._digest:
            return False
        folder = self.folder / f"version-{version}-{uuid.uuid4().hex}"
        try:
            folder.mkdir(parents=True)
            (folder / CONFIG).write_text(self._config, encoding="utf-8")
            (folder / WEIGHTS).write_bytes(weights)
        except OSError as problem:
            shutil.rmtree(folder, ignore_errors=True)
            raise StorageError(f"version {version} cannot be written to {folder}: {problem.strerror}.") from problem
        with self._lock:
            replaced = self._folders.get(version)
            self._folders[version] = folder
            self.newest, self._digest = version, digest
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)
        return True

    def retire(self) -> None:
        """Go back to the untouched model: no version is the newest one."""
        with self._lock:
            self.newest, self._digest = 0, b""

    @contextmanager
    def holding(self) -> Iterator[int]:
        """The newest version, which stays loadable within the block, however many come after it."""
        with self._lock:
            version = self.newest
            self._held[version] += 1
        try:
            yield version
        finally:
            with self._lock:
                self._held[version] -= 1

    def called(self, version: int) -> str:
        """The name of a version on the endpoints."""
        return f"{self.prefix}-{version}"

    def folder_of(self, version: int) -> str:
        """Where the weights of a needed version are."""
        return str(self._folders[version])

    def needed(self) -> set[int]:
        """The newest version and those that replies under way are using."""
        with self._lock:
            return {version for version in (self.newest, *(+self._held)) if version in self._folders}

    def surplus(self, loaded: Mapping[str, str]) -> list[str]:
        """Which of the adapters that an endpoint has loaded are ours and needed no more."""
        needed = {self.called(version) for version in self.needed()}
        ours = re.compile(re.escape(self.prefix) + r"-\d+")
        return [name for name in loaded if ours.fullmatch(name) and name not in needed]

    def clean(self) -> None:
        """Delete the folders of versions that are needed no more."""
        needed = self.needed()
        with self._lock:
            old = [self._folders.pop(version) for version in list(self._folders) if version not in needed]
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
