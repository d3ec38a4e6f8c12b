"""Runs for `secl check`: every answer of the untouched model with its evidence, asked anew, asked on, or reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from secl.data.streams import fingerprint
from secl.errors import RunError
from secl.records import Record
from secl.runs.folder import FILE, check_free
from secl.runs.loading import read_stream
from secl.runs.manifest import Manifest
from secl.runs.runner import Progress, resume_run, start_run
from secl.runs.settings import RunSettings, with_absolute_paths
from secl.runs.store import Store
from secl.setting_groups import merged, nested

METHOD = "norm_p_true"
"""The method of a new run."""

EVIDENCE = ("candidates",)
"""What it gathers beyond that, to recommend a method by."""


def ask(
    settings: Mapping[str, object], folder: Path, progress: Progress | None = None
) -> tuple[Sequence[Record], Manifest]:
    """Records with P(True) of every answer: of a new run, of an unfinished one that goes on, or of a finished one.

    A finished run is reused without its model, so that another tau costs nothing.

    Raises:
        RunError: the folder holds a run with other settings or questions, or one without P(True) of every answer.
    """
    if (folder / FILE).exists():
        with Store(folder) as store:
            manifest = Manifest.of(store)
            _check_fits(manifest, folder, settings)
            if len(store) == manifest.total:
                _check_questions(manifest, folder, settings)
                return list(store.records()), manifest
        run = resume_run(folder, settings)
    else:
        check_free(folder)
        run = start_run(RunSettings.of(merged(settings, {"method": METHOD, "extra_evidence": EVIDENCE})), folder)
    with run.store:
        run.proceed(progress)
        run.finish()
        return run.records, run.manifest


def _check_fits(manifest: Manifest, folder: Path, settings: Mapping[str, object]) -> None:
    """Check that a run has what a check needs and was begun with these settings."""
    begun, method = manifest.settings, manifest.method
    if method.learns or "p_true" not in method.evidence or begun.complete_loop.evidence_on != "always":
        raise RunError(
            f"{folder} is a run of the method {begun.method!r}, without P(True) of every answer of the untouched "
            f"model; name another folder with --out, or a run of the method {METHOD}."
        )
    differences = begun.differences(RunSettings.of(merged(begun.to_json(), with_absolute_paths(settings))))
    if differences:
        raise RunError(f"{folder} was begun with other settings ({'; '.join(differences)}); name another folder.")


def _check_questions(manifest: Manifest, folder: Path, settings: Mapping[str, object]) -> None:
    """Check that the questions are those of the run; without any named, those of the run are meant."""
    source = nested(settings).get("stream", {})
    if not {"benchmarks", "questions"} & set(source):
        return
    data = with_absolute_paths({key: source[key] for key in ("data",) if key in source})
    stream = read_stream(RunSettings.of(merged(manifest.settings.to_json(), data)))
    questions = stream.without(manifest.unanswerable).questions
    if fingerprint(questions) != manifest.stream:
        raise RunError(f"the questions have changed since {folder} was made; bring them back or name another folder.")
