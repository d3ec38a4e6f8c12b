"""Runs for `secl check`: a new one of the method posterior that records P(True), too, or any that recorded as much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from secl.errors import RunError
from secl.records import Record
from secl.runs.folder import FILE
from secl.runs.labelling import current_records
from secl.runs.manifest import Manifest
from secl.runs.runner import Progress, start_run
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.settings.tree import merged

OF_NEW_RUN: Mapping[str, object] = {"method": "posterior", "extra_evidence": ("p_true",)}
"""What a new run gathers: what every method that can be recommended needs, and what learning would need."""


def ask(settings: Mapping[str, object], folder: Path, progress: Progress | None = None) -> None:
    """Ask all questions in a new run, which `secl run --resume` continues like any other.

    Raises:
        RunError: the folder is not free.
    """
    if (folder / FILE).exists():
        raise RunError(f"{folder} holds a run; read it with secl check {folder}, or name another folder.")
    run = start_run(RunSettings.of(merged(settings, OF_NEW_RUN)), folder)
    with run.store:
        run.proceed(progress)
        run.finish()


def read(folder: Path) -> tuple[Sequence[Record], Manifest]:
    """The records of a run so far, with what people said of them; nothing is asked.

    Raises:
        RunError: it is no run whose untouched model compared the candidates of every question, or has no record yet.
    """
    with Store(folder) as store:
        manifest = Manifest.of(store)
        compared = "candidates" in manifest.settings.plan.weighed(in_burst=False)
        if store.is_server or manifest.mode == "score" or manifest.method.learns or not compared:
            raise RunError(
                f"{folder} has no posterior for every answer of the untouched model; secl check reads runs of the "
                "methods posterior and baselines."
            )
        records = list(current_records(store))
    if not records:
        raise RunError(f"{folder} has no questions answered yet; continue it with secl run --resume {folder}.")
    return records, manifest
