"""Adapter versions as folders that PEFT loads, written without PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

from secl.errors import ParameterError, RunError, StorageError
from secl.runs.folder import check_outside
from secl.runs.store import Store

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def write_version(store: Store, version: int, out: Path | None = None) -> Path:
    """Write a kept adapter version of a run.

    Args:
        store: an open run.
        version: its number.
        out: the folder; None for `adapter-VERSION` in the run folder.

    Returns:
        the folder, for `peft.PeftModel.from_pretrained`.

    Raises:
        RunError: that version was not kept, or the folder is a run's.
        StorageError: the folder cannot be written.
        ParameterError: standard output, which is no folder.
    """
    if out is not None and str(out) == "-":
        raise ParameterError("an adapter is a folder and no text; name a folder with --out.")
    folder = out or store.folder / f"adapter-{version}"
    check_outside(folder, store.folder)
    try:
        write_folder(folder, store, version)
    except OSError as problem:
        raise StorageError(f"cannot write {folder}: {problem.strerror or problem}.") from problem
    return folder


def write_folder(folder: Path, store: Store, version: int) -> None:
    """The same, letting the errors of the disk through."""
    weights, config = store.weights(version), store.manifest.get("adapter")
    if config is None:
        raise RunError(f"{store.folder} does not hold the configuration of its adapter; an older secl began it.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / WEIGHTS).write_bytes(weights)
