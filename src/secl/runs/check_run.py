"""Runs for `secl check`: every answer of the untouched model with P(True), asked anew, asked on, or reused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secl.data.streams import fingerprint
from secl.errors import DataError, RunError
from secl.methods import method
from secl.records import Record
from secl.runs.runner import Progress, load_questions, resume, start
from secl.runs.settings import RunSettings, anchored
from secl.runs.store import FILE, Store, check_free
from secl.settings import Formula

METHOD = "norm_p_true"
"""The method of a new run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a check is computed from.

    Attributes:
        records: of the whole run.
        model: as the run names it.
        tau: the temperature of the run, the model's own unless it was changed.
        formula: of normalised P(True).
        seed: of the run.
    """

    records: Sequence[Record]
    model: str
    tau: float
    formula: Formula
    seed: int


def ask(settings: dict[str, Any], folder: Path, progress: Progress | None = None) -> Asked:
    """Records with P(True) of every answer: of a new run, of an unfinished one that goes on, or of a finished one.

    A finished run is reused without its model, so that another tau costs nothing.

    Args:
        settings: fields of a `RunSettings` as given; those of an existing run must be the ones that it began with.
        folder: of the run.
        progress: called before the first question and after every one.

    Raises:
        DataError: no question has a reference, which is found before the model is loaded.
        RunError: the folder holds a run with other settings or questions, or one without P(True) of every answer.
    """
    if (folder / FILE).exists():
        with Store(folder) as store:
            begun = _fitting(store, settings)
            if len(store) == store.manifest["total"]:
                _check_questions(store, begun, settings)
                return _asked(store, list(store.records()))
        opened = resume(folder, settings)
    else:
        check_free(folder)
        recipe = RunSettings.from_json({**settings, "method": METHOD})
        questions = load_questions(recipe)
        if all(question.reference is None for question in questions):
            raise DataError(f"none of the {len(questions)} questions has a reference; add right answers to check by.")
        opened = start(recipe, folder)
    with opened.store:
        opened.proceed(progress)
        opened.finish()
        return _asked(opened.store, opened.records)


def _asked(store: Store, records: Sequence[Record]) -> Asked:
    recipe = RunSettings.from_json(store.manifest["recipe"])
    return Asked(records, recipe.model, recipe.tau or store.manifest["tau"], recipe.formula, recipe.seed)


def _fitting(store: Store, settings: dict[str, Any]) -> RunSettings:
    """The recipe of a run that has what a check needs and was begun with these settings."""
    plain = store.manifest["recipe"]
    begun = RunSettings.from_json(plain)
    named = method(begun.method)
    if named.learns or "p_true" not in named.evidence or (begun.evidence_on or named.evidence_on) != "always":
        raise RunError(
            f"{store.folder} is a run of the method {begun.method!r}, without P(True) of every answer of the untouched "
            f"model; name another folder with --out, or a run of the method {METHOD}."
        )
    differences = begun.differences(RunSettings.from_json({**plain, **anchored(settings)}))
    if differences:
        raise RunError(f"{store.folder} was begun with other settings ({'; '.join(differences)}); name another folder.")
    return begun


def _check_questions(store: Store, begun: RunSettings, settings: dict[str, Any]) -> None:
    """Refuse to answer for questions that are not those of the run; without any named, those of the run are meant."""
    if "stream" not in settings and "questions" not in settings:
        return
    data = {"data": settings["data"]} if "data" in settings else {}
    questions = load_questions(RunSettings.from_json({**begun.to_json(), **anchored(data)}))
    if fingerprint(questions) != store.manifest["stream"]:
        raise RunError(
            f"the questions have changed since {store.folder} was made; bring them back or name another folder."
        )
