"""Start, resume and finish a run in its folder."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from secl.calibrator import Calibrator
from secl.data.question_files import QuestionFile
from secl.errors import RunError
from secl.evaluation.json_values import json_value
from secl.evaluation.summary import Summary, summarise
from secl.evaluation.trust import Verdict, assess
from secl.gates import Always
from secl.model import Learner, Model, learner_of
from secl.question import Question
from secl.records import Record
from secl.runs.cache import ReadingCache, with_cache
from secl.runs.export import write_version
from secl.runs.extracting import FAILURES, DocumentFile, extract_fields
from secl.runs.folder import ELSEWHERE, check_free, storage_errors
from secl.runs.labelling import held_out_records
from secl.runs.loading import Load, askable, build_calibrator, calibration, load_model, named, read_stream
from secl.runs.manifest import Manifest, Mode, environment, stream_fingerprint
from secl.runs.settings import RunSettings, check_scored, with_absolute_paths
from secl.runs.store import KEEP_EVERY, Store, Version
from secl.scores import Score, make_scores

SUMMARY, ADAPTER = "summary.json", "adapter"

EMBEDDED = "smollm2"
"""The model that comes with the package."""

TOO_WEAK = (
    "smollm2 is a model of 135M parameters for trying secl out, too weak to classify texts or to extract fields; name "
    "a larger one with --model."
)

ProgressHook = Callable[[int, int, Record | None], None]
"""Function called with the number of answered questions, the number of all questions, and the latest record."""


@dataclass
class Run:
    """A run that is open for writing.

    Attributes:
        asked: the questions, with the answers to rate or with their documents.
        notes: warnings about the questions and the model.
    """

    store: Store
    calibrator: Calibrator
    asked: QuestionFile
    records: list[Record]
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> Sequence[Question]:
        """All questions, answered and unanswered."""
        return self.asked.questions

    @functools.cached_property
    def manifest(self) -> Manifest:
        return Manifest.of(self.store)

    @property
    def _learner(self) -> Learner | None:
        return self.calibrator.model.learner

    def proceed(self, progress: ProgressHook | None = None) -> None:
        """Ask the remaining questions, or rate the remaining answers. An interruption loses no finished record."""
        if progress is not None:
            progress(len(self.records), len(self.questions), None)
        for record in self.steps():
            if progress is not None:
                progress(len(self.records), len(self.questions), record)

    def steps(self) -> Iterator[Record]:
        """Store and yield the record of each remaining question."""
        if isinstance(self.asked, DocumentFile):
            upcoming = extract_fields(self.calibrator, self.asked, self.records, self.store)
        elif self.asked.given is None:
            upcoming = self.calibrator.run(self.questions, self.records)
        else:
            upcoming = self.calibrator.rate_stream(self.asked.given, self.records)
        while True:
            if self._at_end_of_burst():
                self._keep_version()  # now, because the next question may change the weights
            started = time.perf_counter()
            record = next(upcoming, None)
            if record is None:
                return
            self._add(record, time.perf_counter() - started)
            yield record

    def _add(self, record: Record, seconds: float) -> None:
        """Write a record, and the state of learning if the question changed this state."""
        learner, snapshot, kept = self._learner, None, None
        if learner is not None:
            resets = record.decision.in_burst and self.calibrator.plan.loop.accumulate != "stream"
            if record.update is not None or resets:
                snapshot = learner.snapshot()
            if record.update is not None and learner.version and learner.version % KEEP_EVERY == 0:
                kept = Version(learner.version, learner.weights())
        self.store.add(record, seconds, snapshot=snapshot, kept=kept)
        self.records.append(record)

    def _at_end_of_burst(self) -> bool:
        """Return whether the latest question was the last of its burst. Bursts of `Always` never end."""
        decision = self.records[-1].decision if self.records else None
        ended = decision is not None and decision.in_burst and decision.remaining == 0
        return ended and not isinstance(self.calibrator.gate, Always)

    def _keep_version(self) -> None:
        """Store the current adapter version, unless it is version 0 or already stored."""
        learner = self._learner
        if learner is not None and learner.version and learner.version not in self.store.versions():
            self.store.keep(Version(learner.version, learner.weights()))

    def keep(self) -> None:
        """Store the last adapter version. If the adapter has a configuration, also write a folder for PEFT."""
        self._keep_version()
        if self._learner is not None and self._learner.version and self.manifest.adapter:
            write_version(self.store, self._learner.version, self.store.folder / ADAPTER)

    def finish(self) -> dict[str, object]:
        """Store the last adapter version, and write and return the summary."""
        self.keep()
        records = list(held_out_records(self.store))
        return write_summary(self.store, summary_of(self.manifest, records), assess(records), self.store.folder)


def start_run(
    settings: RunSettings,
    folder: Path,
    load: Load | None = None,
    *,
    mode: Mode = "ask",
    cache: ReadingCache | None = None,
) -> Run:
    """Load questions and model, then open a new run folder.

    Args:
        folder: new or empty.
        load: returns a model that satisfies `secl.model.Model`; by default the model of the settings.
        mode: "ask" or "score" (rate the answers in the file of questions). With a schema file, the mode is "extract".
        cache: what the model answered in earlier runs (`secl.runs.cache`); None to ask the model everything.

    Raises:
        SeclError: the settings, questions, model or folder cannot be used. The folder is unchanged.
    """
    folder = Path(folder)
    check_free(folder)
    if mode == "score":
        check_scored(settings)
    settings.check()
    values = settings.dotted()
    placed = with_absolute_paths(values)
    settings = named(settings if placed == values else RunSettings.of(placed))
    mode = "extract" if settings.extract.schema_file is not None else mode
    asked = read_stream(settings, mode)
    settings.build_gate()  # check the gate before loading the model
    model = with_cache((load or load_model)(settings), cache, settings)
    asked, unanswerable = askable(asked, model, settings.stream.skip_bad)
    earlier = calibration(settings, model, mode)
    calibrator = build_calibrator(settings, model, earlier)
    manifest = Manifest.new(settings, model, asked, unanswerable, earlier)
    store = Store.create(folder, manifest.to_json(), FAILURES if mode == "extract" else "")
    hard = settings.stream.options or settings.extract.schema_file
    notes = (TOO_WEAK,) if hard and settings.model.name == EMBEDDED else ()
    return Run(store, calibrator, asked, [], asked.notes + notes)


def resume_run(
    folder: str | Path,
    changes: Mapping[str, object] | None = None,
    load: Load | None = None,
    *,
    cache: ReadingCache | None = None,
) -> Run:
    """Open an unfinished run where it stopped.

    Args:
        changes: settings; only `CHANGEABLE_SETTINGS` may differ from the run's.
        load, cache: as for `start_run`.

    Raises:
        RunError: a setting, the model, the questions or the version of secl differ from the run's. The message names
            the difference.
    """
    folder = Path(folder)
    store = Store(folder, writable=True)
    try:
        manifest = Manifest.of(store)
        given = with_absolute_paths(changes or {})
        settings = RunSettings.of({**manifest.settings.dotted(), **given})
        differences = manifest.settings.differences(settings)
        if differences:
            raise RunError(f"{folder} was begun with other settings ({'; '.join(differences)}); start a new run.")
        manifest.gate(None if given.get("gate.name") is None else str(given["gate.name"]))
        asked = read_stream(settings, manifest.mode).without(manifest.unanswerable)
        records = list(store.records())
        graders = {question.id: question.grader for question in asked.questions}
        regraded = any(record.question.grader != graders.get(record.question.id) for record in records)
        if stream_fingerprint(asked) != manifest.stream or regraded:
            changed = _describe_change(records, manifest, asked.questions)
            raise RunError(f"the questions of {folder} have changed ({changed}); restore them or start a new run.")
        model = with_cache((load or load_model)(manifest.to_load(settings)), cache, settings)
        notes = _check_same(manifest, model, folder)
        calibrator = build_calibrator(settings, model, manifest.earlier)
        snapshot = store.snapshot()
        if snapshot is not None:
            learner_of(model).restore(snapshot)
        run = Run(store, calibrator, asked, records, notes)
        calibrator.take_labels(store.label_log())
        if "loop.accept" in (changes or {}):  # typed now, on the scale of all present labels
            calibrator.accept = settings.loop.accept
    except BaseException:
        store.close()
        raise
    return run


def _check_same(manifest: Manifest, model: Model, folder: Path) -> tuple[str, ...]:
    """Check that the model and the version of secl are those of the run.

    Return a warning if the machine, the device or another library differs.
    """
    if model.fingerprint != manifest.model:
        prints = f"fingerprint {manifest.model[:12]} then, {model.fingerprint[:12]} now"
        raise RunError(
            f"the model {manifest.settings.model.name!r} has changed since {folder} was begun ({prints}); start a new "
            "run."
        )
    now, then = environment(model), manifest.environment
    differences = [f"{key}: {then.get(key)} there, {now[key]} here" for key in now if then.get(key) != now[key]]
    if now.get("secl") != then.get("secl"):
        raise RunError(f"{folder} was begun with another version of secl ({'; '.join(differences)}); start a new run.")
    if not differences:
        return ()
    return (
        f"{folder} was begun in another environment ({'; '.join(differences)}), so the last digits of later records "
        "may differ.",
    )


def _describe_change(records: Sequence[Record], manifest: Manifest, questions: Sequence[Question]) -> str:
    """Return in words how the present questions differ from the questions of a run."""
    for record, question in zip(records, questions, strict=False):
        if record.question != question:
            ids = f"{record.question.id!r} then, {question.id!r} now"
            same = f"the question {question.id!r} has changed"
            where = (
                f"first difference at position {record.position}: {same if question.id == record.question.id else ids}"
            )
            break
    else:
        where = "the questions asked so far are the same"
    return f"{manifest.total} then, {len(questions)} now; {where}"


def scores_of(manifest: Manifest) -> dict[str, Score]:
    """Return the scores that reports of a run show, by name. Only a run that learns has adapted confidences."""
    settings, method = manifest.settings, manifest.settings.named_method
    shown = {
        name: score
        for name, score in make_scores(manifest.tau, settings.evidence.formula).items()
        if method.shows(score, settings.evidence.extra_evidence) or (name == "p_true" and manifest.mode == "score")
    }
    return {name: score for name, score in shown.items() if settings.learns or not score.learned}


def summary_of(manifest: Manifest, records: Sequence[Record], own: Sequence[Score] = ()) -> Summary:
    """Summarise the records of a run, with scores of the user's `own`.

    By domain, only scores in the report's domain table get intervals.
    """
    scores = (*scores_of(manifest).values(), *own)
    return summarise(records, scores, in_domains=("stated", *manifest.settings.named_method.main))


def write_summary(store: Store, summary: Summary, verdict: Verdict, folder: Path) -> dict[str, object]:
    """Write the summary and the verdict of a run into a folder, and return both as JSON values."""
    plain, unfinished = summary_json(store, summary, verdict), folder / f"{SUMMARY}.new"
    with storage_errors(folder, ELSEWHERE):
        text = json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=2)
        unfinished.write_text(f"{text}\n", encoding="utf-8")
        unfinished.rename(folder / SUMMARY)
    return plain


def summary_json(store: Store, summary: Summary, verdict: Verdict) -> dict[str, object]:
    """Return the summary and the verdict of a run as JSON values."""
    manifest = Manifest.of(store)
    return {
        "model": manifest.settings.model.name,
        "method": manifest.settings.method,
        "seed": manifest.settings.seed,
        "complete": summary.questions == manifest.total,
        "skipped": len(manifest.skipped),
        "seconds": store.seconds,
        "verdict": json_value(verdict),
        **json_value(summary),
    }
