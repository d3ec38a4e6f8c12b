"""From a recipe to a run folder: start, go on, finish."""

from __future__ import annotations

import functools
import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from secl.calibrator import Calibrator
from secl.data.question_files import read_questions
from secl.data.streams import arrange, fingerprint, load_stream
from secl.errors import RunError
from secl.evaluation.estimators import Estimator, make_estimators
from secl.evaluation.summary import Summary, summarise, summary_json
from secl.gates import Always
from secl.methods import method
from secl.records import Question, Record
from secl.runs.adapters import plain_config, write_folder
from secl.runs.settings import RunSettings, anchored
from secl.runs.store import KEEP_EVERY, Store, Version, check_free, storage_errors
from secl.signals import NormalisedPTrue, make_signal

if TYPE_CHECKING:
    from secl.backends.local.loading import ModelCache
    from secl.backends.local.model import LocalModel

SUMMARY, ADAPTER = "summary.json", "adapter"
Progress = Callable[[int, int, Record | None], None]
"""Called with questions done, questions in all, and the latest record."""


@dataclass
class Run:
    """A run that is open for writing."""

    store: Store
    calibrator: Calibrator
    model: LocalModel
    questions: Sequence[Question]
    records: list[Record]

    def proceed(self, progress: Progress | None = None) -> None:
        """Ask the questions that are left, each recorded before the next; safe to interrupt at any moment."""
        if progress is not None:
            progress(len(self.records), len(self.questions), None)
        coming = self.calibrator.stream(self.questions[len(self.records) :])
        for _ in range(len(self.records), len(self.questions)):
            if self._at_end_of_burst():
                self._keep_version()  # now, because the next question may learn: it can open another burst
            started = time.perf_counter()
            record = next(coming)
            changed = record.update is not None or (record.decision.in_burst and self.calibrator.accumulate != "stream")
            number = self.model.version
            due = record.update is not None and number > 0 and number % KEEP_EVERY == 0
            self.store.add(
                record,
                time.perf_counter() - started,
                snapshot=self.model.snapshot() if changed else None,
                kept=Version(number, self.model.weights()) if due else None,
            )
            self.records.append(record)
            if progress is not None:
                progress(len(self.records), len(self.questions), record)

    def _at_end_of_burst(self) -> bool:
        """Whether the latest question was the last of its burst; the bursts of `Always` have no end."""
        decision = self.records[-1].decision if self.records else None
        ended = decision is not None and decision.in_burst and decision.remaining == 0
        return ended and not isinstance(self.calibrator.gate, Always)

    def _keep_version(self) -> None:
        """Keep the adapter as it is now, unless it is untouched or kept already."""
        number = self.model.version
        if number and number not in self.store.versions():
            self.store.keep(Version(number, self.model.weights()))

    def keep(self) -> None:
        """Keep the last adapter, and write it in the PEFT format."""
        self._keep_version()
        if self.model.version:
            with storage_errors(self.store.folder):
                write_folder(self.store.folder / ADAPTER, self.store, self.model.version)

    def finish(self) -> dict[str, Any]:
        """Keep the last adapter, and write and return the summary."""
        self.keep()
        return write_summary(self.store, summarise(self.records, estimators_of(self.store)))


def start(recipe: RunSettings, folder: Path) -> Run:
    """Load questions and model, and open a new run folder; nothing is written before all of them are there."""
    check_free(folder)
    recipe = RunSettings.from_json(anchored(recipe.to_json()))
    questions = load_questions(recipe)
    model = load_model(recipe)
    for question in questions:
        model.check(question)
    calibrator = build_calibrator(recipe, model)
    store = Store.create(
        folder,
        {
            "recipe": recipe.to_json(),
            "model": model.fingerprint,
            "tau": model.tau,
            "stream": fingerprint(questions),
            "total": len(questions),
            "environment": environment(model),
            "adapter": plain_config(model.adapter.config.to_dict()),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )
    return Run(store, calibrator, model, questions, [])


def resume(folder: Path, changes: dict[str, Any] | None = None) -> Run:
    """Open an unfinished run where it stopped.

    Args:
        folder: of the run.
        changes: settings given again; only `data` and `device` may differ from those of the run.

    Raises:
        RunError: a setting, the model or the stream is not the one that the run began with; the message names it.
    """
    store = Store(folder, writable=True)
    try:
        manifest = store.manifest
        begun = RunSettings.from_json(manifest["recipe"])
        recipe = RunSettings.from_json({**manifest["recipe"], **anchored(changes or {})})
        differences = begun.differences(recipe)
        if differences:
            raise RunError(f"{folder} was begun with other settings ({'; '.join(differences)}); start a new run.")
        questions = load_questions(recipe)
        if fingerprint(questions) != manifest["stream"]:
            changed = _changed(store, questions)
            raise RunError(
                f"the questions have changed since {folder} was begun ({changed}); bring them back or start a new run."
            )
        model = load_model(recipe)
        if model.fingerprint != manifest["model"]:
            prints = f"fingerprint {manifest['model'][:12]} then, {model.fingerprint[:12]} now"
            raise RunError(
                f"the model {recipe.model!r} has changed since {folder} was begun ({prints}); start a new run."
            )
        now, then = environment(model), manifest["environment"]
        differences = [f"{key}: {then.get(key)} there, {now[key]} here" for key in now if then.get(key) != now[key]]
        if differences:
            raise RunError(f"{folder} was begun in another environment ({'; '.join(differences)}); start a new run.")
        calibrator = build_calibrator(recipe, model)
        records = list(store.records())
        calibrator.fast_forward(records)
        snapshot = store.snapshot()
        if snapshot is not None:
            model.restore(snapshot)
    except BaseException:
        store.close()
        raise
    return Run(store, calibrator, model, questions, records)


def _changed(store: Store, questions: Sequence[Question]) -> str:
    """What can be said about how the questions differ from those of a run, which holds the ones it has asked."""
    for record, question in zip(store.records(), questions, strict=False):
        if record.question != question:
            where = f"they part at position {record.position}, {record.question.id!r} then, {question.id!r} now"
            break
    else:
        where = "those asked so far are the same"
    return f"{store.manifest['total']} then, {len(questions)} now; {where}"


def load_questions(recipe: RunSettings) -> list[Question]:
    """The questions of a recipe, in the order in which they are asked."""
    if recipe.questions is not None:
        seen: Counter[str] = Counter()
        questions = []
        for question in read_questions(Path(recipe.questions)):
            seen[question.domain] += 1
            if recipe.per_domain is None or seen[question.domain] <= recipe.per_domain:
                questions.append(question)
        return arrange(questions, recipe.order, recipe.seed)
    data = Path(recipe.data) if recipe.data else None
    return load_stream(recipe.stream, recipe.per_domain, order=recipe.order, seed=recipe.seed, data=data)


def load_model(recipe: RunSettings) -> LocalModel:
    """The model of a recipe, with its adapter."""
    from secl.backends.local.model import LocalModel  # torch takes seconds to import

    return LocalModel.load(
        recipe.model,
        dtype=recipe.dtype,
        device=recipe.device,
        cache=_model_cache(),
        layers=recipe.layers,
        modules=recipe.modules or None,
        p_true=recipe.p_true,
        nli=recipe.nli,
        **recipe.training(),
    )


@functools.cache
def _model_cache() -> ModelCache:
    """Runs of one process that have a model in common load it once."""
    from secl.backends.local.loading import ModelCache

    return ModelCache()


def load_for_asking(
    model: str | None, run: Path | None, dtype: str | None, device: str | None
) -> tuple[LocalModel, NormalisedPTrue]:
    """A model to ask by hand, untouched or with what a run has learned, and how its P(True) is normalised."""
    given = {"model": model, "dtype": dtype, "device": device}
    given = {key: value for key, value in given.items() if value is not None}
    if run is None:
        recipe = RunSettings.from_json({"stream": ["capitals"], **given})
        local = load_model(recipe)
        return local, _normalise(recipe, local)
    with Store(run) as store:
        recipe = RunSettings.from_json({**store.manifest["recipe"], **given})
        local = load_model(recipe)
        if local.fingerprint != store.manifest["model"]:
            raise RunError(f"{run} was made with another model ({store.manifest['recipe']['model']}).")
        snapshot = store.snapshot()
    if snapshot is None:
        raise RunError(f"{run} has learned nothing, so it has no adapter to ask with; leave --adapter out.")
    local.restore(snapshot)
    return local, _normalise(recipe, local)


def _normalise(recipe: RunSettings, model: LocalModel) -> NormalisedPTrue:
    return NormalisedPTrue(recipe.tau or model.tau, recipe.formula)


def build_calibrator(recipe: RunSettings, model: LocalModel) -> Calibrator:
    """The loop of a recipe around a model."""
    return Calibrator(
        model,
        gate=recipe.build_gate(),
        signal=make_signal(recipe.signal, recipe.tau or model.tau, recipe.formula),
        evidence=method(recipe.method).evidence,
        learns=method(recipe.method).learns,
        **recipe.loop(),
    )


class Placed(Protocol):
    """A model that says where and how it computes."""

    @property
    def precision(self) -> dict[str, str | int]: ...


def environment(model: Placed) -> dict[str, Any]:
    """What else the last digit of a record depends on."""
    return {
        "secl": version("secl"),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "peft": version("peft"),
        "machine": platform.machine(),
        **model.precision,
    }


def estimators_of(store: Store) -> dict[str, Estimator]:
    """The estimators that the method of a run is for; without learning there is no SECL to estimate."""
    recipe = RunSettings.from_json(store.manifest["recipe"])
    estimators = make_estimators(recipe.tau or store.manifest["tau"], recipe.formula)
    names = method(recipe.method).reports or tuple(estimators)
    learns = method(recipe.method).learns and recipe.gate != "never"
    return {name: each for name, each in estimators.items() if name in names and (learns or not each.learned)}


def write_summary(store: Store, summary: Summary) -> dict[str, Any]:
    """Write the summary of the records so far into the run folder; returns what was written."""
    manifest = store.manifest
    recipe = RunSettings.from_json(manifest["recipe"])
    plain = {
        "model": recipe.model,
        "method": recipe.method,
        "seed": recipe.seed,
        "complete": summary.questions == manifest["total"],
        "seconds": store.seconds,
        **summary.to_json(),
    }
    unfinished = store.folder / f"{SUMMARY}.new"
    with storage_errors(store.folder):
        unfinished.write_text(summary_json(plain), encoding="utf-8")
        unfinished.rename(store.folder / SUMMARY)
    return plain
