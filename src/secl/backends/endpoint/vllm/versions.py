"""Adapter versions as folders that vLLM servers load by name."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from secl.errors import ParameterError, StorageError
from secl.machine import publish_folder

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")

KEPT = 100
"""Number of latest used versions to keep, more than any reply needs. vLLM 0.32 exits if a request names a loaded
adapter whose folder is missing."""


class Versions:
    """Folders for vLLM's `lora_filesystem_resolver`, named NAME-<version>-<digest of the weights>.

    Servers cache results by an adapter's name, and read its weights once. After a rollback, version numbers repeat. The
    digest makes the name unique to the weights.

    Args:
        folder: the servers' VLLM_LORA_RESOLVER_CACHE_DIR.
        config: PEFT configuration of the adapter (`LoraConfig.to_dict()`), with the servers' name of the base model.
        name: beginning of the folders' names. Learners that share a folder need different names.

    Raises ParameterError: a name that does not fit into a URL or a path.
    """

    def __init__(self, folder: Path, config: Mapping[str, object], name: str = "secl") -> None:
        if not NAME.fullmatch(name):
            raise ParameterError(f"the name {name!r} of published versions may have only letters, digits, _ and dots.")
        self.folder = folder.absolute()
        self.prefix = name
        self._config = json.dumps(dict(config), default=sorted, indent=2, sort_keys=True) + "\n"

    def publish(self, version: int, weights: bytes) -> str:
        """Write a version, remove the oldest ones, and return the version's name. Raises StorageError.

        `weights`: safetensors bytes with PEFT's names.
        """
        digest = hashlib.sha256(self._config.encode() + weights).hexdigest()[:12]
        name = f"{self.prefix}-{version}-{digest}"
        try:
            if not (self.folder / name).is_dir():
                self._write(name, weights)
            os.utime(self.folder / name)
        except OSError as problem:
            raise StorageError(
                f"version {version} cannot be written to {self.folder}: {problem.strerror}."
            ) from problem
        self._remove_old()
        return name

    def _write(self, name: str, weights: bytes) -> None:
        """Write a folder under a temporary name, and rename the complete folder."""
        draft = self.folder / f".{name}-{uuid.uuid4().hex}"
        try:
            draft.mkdir(parents=True)
            (draft / CONFIG).write_text(self._config, encoding="utf-8")
            (draft / WEIGHTS).write_bytes(weights)
            publish_folder(draft, self.folder / name)
        except OSError:
            if not (self.folder / name).is_dir():  # else another process published the same weights meanwhile
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _remove_old(self) -> None:
        ours = re.compile(re.escape(self.prefix) + r"-\d+-[0-9a-f]{12}")
        with suppress(FileNotFoundError):  # another learner removes them, too
            folders = [path for path in self.folder.iterdir() if ours.fullmatch(path.name)]
            for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[:-KEPT]:
                shutil.rmtree(folder, ignore_errors=True)
