"""Answer requests in batches and in order, and learn in the background, independently of HTTP.

    submit -> queue -> one batch, one version -> gate, in order -> records on disk -> replies
                                                    \\-> backlog -> learner -> next version, between two batches

One thread answers. Another thread trains a second copy of the model with its own adapter, so answers never use a
half-finished update. If an answer raises an exception, only requests of its batch fail. If a lesson raises an
exception, only this lesson fails. Both threads continue.

`open_service` builds a service from settings, on a new state folder or on the state folder of a stopped server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from secl.calibrator import Calibrator
from secl.data.question_files import QuestionFile
from secl.errors import (
    REQUEST_ERRORS,
    ClosingError,
    ParameterError,
    RunError,
    SeclError,
    StorageError,
    UnavailableError,
    public_reason,
)
from secl.evaluation.json_values import defined
from secl.evaluation.symptoms import seen
from secl.evaluation.trust import Level, Verdict, conclude, from_grades
from secl.explain import caveat
from secl.machine import release_memory
from secl.model import Model, learner_of
from secl.question import GivenAnswer, Question
from secl.records import Record, answers_in
from secl.runs.folder import FILE, check_free
from secl.runs.loading import Load, build_calibrator, calibration, load_model, named
from secl.runs.manifest import Manifest, environment
from secl.runs.settings import Recipe, with_absolute_paths
from secl.runs.store import Version
from secl.server.entries import Keep, new_record_id
from secl.server.online.learner import LessonThread
from secl.server.online.queue import (
    Asked,
    QueuedRequest,
    RequestQueue,
    Scheduler,
    ServedAnswer,
    answer_together,
    records_of,
)
from secl.server.online.texts import TextWriters, WritingJob
from secl.server.records import LabelledAnswer, labelled_answers
from secl.server.retention import Pruner, Retention
from secl.server.settings import SHARE, TEXTS, TIDY, Limits
from secl.server.store import ServerStore
from secl.writing import Chunk

if TYPE_CHECKING:
    from secl.backends.endpoint.client import Upstream
log = logging.getLogger("secl.server")

ANSWER_ERRORS, VERSION = "errors occurred at the latest questions", "a new version cannot be loaded"
STORAGE = "the server does not store answers: writing to disk fails"
NEW_LABELS = "the server cannot use new labels"

VERDICT_ANSWERS = 200
"""Number of latest answers that the verdict examines."""

LABELS = 100
"""Number of latest labelled answers that the verdict examines; may be older than the latest `VERDICT_ANSWERS`."""


class Service:
    """A model with a request queue, a gate, a learner and a store.

    `calibrator` answers. `trainer` learns; it has the same settings and a second copy of the model.

    Attributes:
        problems: current problems; the keys are sentences, the values are the latest error messages.
        failures: number of requests that failed because of the server, not because of the request.
        unreadable: number of replies without a readable answer.
        unstored: latest record ids that have no record, because answering or storing failed.
        on_answer: callback for every answer; the answering thread calls this function.
    """

    def __init__(
        self,
        calibrator: Calibrator,
        trainer: Calibrator,
        state: ServerStore,
        limits: Limits | None = None,
        retention: Retention | None = None,
    ) -> None:
        calibrator.plan = replace(calibrator.plan, posterior=Manifest.of(state).plan.posterior)
        self.calibrator, self.model, self.state = calibrator, calibrator.model, state
        self.limits, self.scheduler = limits or Limits(), Scheduler(SHARE)
        self.started = time.time()
        self.upstream: Upstream | None = getattr(self.model, "upstream", None)
        self.problems: dict[str, str] = {}
        self.failures = self.unreadable = 0
        self.unstored: deque[str] = deque(maxlen=1000)
        self.on_answer: Callable[[ServedAnswer], None] = lambda _: None
        self._latest: deque[Record] = deque(maxlen=VERDICT_ANSWERS)
        self._labelled: Sequence[LabelledAnswer] = ()
        self._level: Level = "unproven"
        self._loaded: Version | None = None
        self._closing = False
        self.learner = LessonThread(trainer, state, self.scheduler)
        self.pruner = Pruner(state, retention or Retention(), calibrator.gate)
        self._queue = RequestQueue(self.limits.queue, self.limits.batch)
        self.texts = TextWriters(self.model, self.scheduler, self._queue, TEXTS, apart=self.upstream is not None)
        self._thread = threading.Thread(target=self._answer_all, name="secl-answers", daemon=True)

    def start(self) -> None:
        """Restore the state of the gate and of the posterior, and start the threads."""
        resumed = self.state.stream(self.calibrator.gate, self.calibrator.plan.posterior)
        self.calibrator.state = replace(resumed, labels=self.calibrator.state.labels)
        self._take_labels()
        self.calibrator.accept = self.calibrator.plan.loop.accept  # on the scale of all present labels
        self.refresh_labels()
        latest = (each.record for each in self.state.latest(VERDICT_ANSWERS) if each.record.kind != "given")
        self._latest.extend(answers_in(latest))
        self.learner.restore_state()
        self._load_newest()
        self._thread.start()
        self.learner.start()
        self.pruner.start()

    def submit(self, asked: Asked, *, written: str | Chunk | None = None, rate: bool = True) -> Future[Any]:
        """Queue a request, and return its future; see `QueuedRequest` for arguments, `RequestQueue.put` for errors."""
        self._check_open()
        return self._queue.put(QueuedRequest(asked=asked, written=written, rate=rate))

    def write(self, job: WritingJob) -> None:
        """Start writing and rating texts; each text gets its own record.

        Raises BusyError: the service already writes too many texts; ClosingError: the service is stopping.
        """
        self._check_open()
        self.texts.submit(job)

    def _check_open(self) -> None:
        if self._closing:
            raise ClosingError("the server is stopping; ask again when it is back.")
        if self._thread.ident is not None and not self.alive:
            raise ClosingError("the thread that answers has ended; restart the server.")

    def ask(self, asked: Question | GivenAnswer, timeout: float | None = None) -> ServedAnswer:
        """Answer a question, or rate a given answer, within `timeout` seconds. Raises TimeoutError."""
        answer: ServedAnswer = self.submit(asked).result(timeout)
        return answer

    def stop(self) -> None:
        """Answer queued requests, refuse new requests, and end; the next start repeats an interrupted lesson."""
        self._closing = True
        self.texts.stop()  # before the queue closes, because written texts still need their confidences
        self._queue.close()
        if self._thread.is_alive():
            self._thread.join()
        self.learner.stop()
        self.pruner.stop()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def ready(self) -> bool:
        """Whether the service accepts questions."""
        return self.alive and not self._closing

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._queue)

    @property
    def position(self) -> int:
        """Position of the next record."""
        return self.calibrator.state.position

    @property
    def verdict(self) -> Verdict:
        """The verdict on the latest confidences; answers from elsewhere do not count."""
        records, labelled = tuple(self._latest), self._labelled
        grades = from_grades(
            [(each.confidence, each.correct) for each in labelled],
            ranks=[each.uncalibrated for each in labelled],
            units=[each.position for each in labelled],
            chosen=True,
            review="the page /review",
        )
        return conclude(seen(records), grades, len(records))

    def _answer_all(self) -> None:
        tidied = time.monotonic()
        while self._queue.wait():
            requests = self._queue.take()
            try:
                with self.scheduler.answering():
                    self._load_newest()
                    self.calibrator.learns = self.learner.active
                    self._answer_batch([request for request in requests if self._answerable(request)])
            except Exception as problem:  # any exception: the thread must continue, and clients must get a reply
                for request in requests:
                    if not request.future.done():
                        self._fail(request, problem)
            if time.monotonic() - tidied > TIDY:
                self._tidy()
                tidied = time.monotonic()

    def _tidy(self) -> None:
        try:
            release_memory()
            verdict = self.verdict
            if verdict.level != self._level:
                self._level = verdict.level
                level = logging.WARNING if verdict.level == "do not act on it" else logging.INFO
                log.log(level, "confidences: %s", verdict.line)
        except Exception as problem:  # the thread must continue
            self.problems[ANSWER_ERRORS] = public_reason(problem, "judging the latest answers")

    def _answer_batch(self, batch: list[QueuedRequest]) -> None:
        """Answer requests together, and set their futures. If this fails, answer one request at a time."""
        if not batch:
            return
        before, began, rate = self.calibrator.state, time.perf_counter(), batch[0].rate
        try:
            self._take_labels()
            found = answer_together(self.calibrator, batch)
            made = [records_of(each, rate=rate) for each in found]
            records = self.learner.admit([record for parts in made for record in parts])
            ids = [
                request.record_id if record is parts[0] else new_record_id()
                for request, parts in zip(batch, made, strict=True)
                for record in parts
            ]
            stored = bool(records) and self._store(records, ids, time.perf_counter() - began)
        except Exception as problem:  # the thread must continue
            self.calibrator.state = before
            alone = len(batch) > 1 and not isinstance(problem, UnavailableError)
            for request in batch:
                if alone:
                    self._answer_batch([request])
                else:
                    self._fail(request, problem)
            return
        if not stored:
            self.calibrator.state = before
            self.unstored.extend(ids)
        answers = iter(self._answers(records, ids, stored))
        for request, each, parts in zip(batch, found, made, strict=True):
            own = (*islice(answers, len(parts)),)
            if isinstance(each, SeclError):
                self._fail(request, each)
            else:
                request.future.set_result(own[0] if isinstance(each, Record) else (each, own))

    def _take_labels(self) -> None:
        """Give new labels to the calibrator; after an error, the calibrator continues with the earlier labels."""
        try:
            self.calibrator.take_labels(self.state.label_log(self.calibrator.state.labels.until))
            self.problems.pop(NEW_LABELS, None)
        except Exception as problem:  # the thread must continue
            self.problems[NEW_LABELS] = public_reason(problem, "reading new labels")

    def _answers(self, records: list[Record], ids: list[str], stored: bool) -> list[ServedAnswer]:
        """Return the answers, and queue their lessons. If queueing fails, return the answers anyway."""
        try:
            if stored:
                own = [record for record in records if record.kind != "given"]
                self._latest.extend(answers_in(own))
                self.unreadable += sum(record.reply.answer is None for record in own)
                self.learner.enqueue([record for record in records if record.outcome == "waiting"])
        except Exception as problem:
            self.problems[ANSWER_ERRORS] = public_reason(problem, "queueing a lesson")
        answers = []
        for record, record_id in zip(records, ids, strict=True):
            said = caveat(record, self.calibrator.plan)
            answers.append(ServedAnswer(record=record, record_id=record_id, stored=stored, caveat=said))
            self.on_answer(answers[-1])
        return answers

    def _answerable(self, request: QueuedRequest) -> bool:
        """Return whether the model can answer or rate a request; if not, the request fails."""
        try:
            request.check(self.model)
        except Exception as problem:
            self._fail(request, problem)
            return False
        return True

    def _fail(self, request: QueuedRequest, problem: Exception) -> None:
        if not isinstance(problem, REQUEST_ERRORS):
            self.failures += 1
            self.problems[ANSWER_ERRORS] = public_reason(problem, "answering a question")
        self.unstored.append(request.record_id)
        request.future.set_exception(problem)

    def _store(self, records: list[Record], ids: list[str], seconds: float) -> bool:
        """Store a batch; return False if writing fails."""
        number = records[0].reply.version
        try:
            new = number and not self.state.keeps(number)
            self.state.add_answers(
                records,
                seconds,
                moment=time.time(),
                version=self._version(number) if new else None,
                stream=self.calibrator.state,
                ids=ids,
            )
        except StorageError as problem:
            if STORAGE not in self.problems:
                log.warning("the server answers without storing records until writing to disk works: %s", problem)
            self.problems[STORAGE] = str(problem)
            return False
        if self.problems.pop(STORAGE, None):
            log.warning("writing to disk works again, from record %d on", records[0].position)
        self.problems.pop(ANSWER_ERRORS, None)
        return True

    def _version(self, number: int) -> Version:
        learner = learner_of(self.model)
        return Version(number, learner.weights(), defined(learner.relative_norm))

    def refresh_labels(self) -> None:
        """Read the latest labels for the verdict."""
        self._labelled = labelled_answers(self.state, LABELS)

    def _load_newest(self) -> None:
        """Load the learner's newest version, between two batches."""
        newest = self.learner.newest
        if newest is None or newest is self._loaded:
            return
        try:
            learner_of(self.model).load_version(newest.weights, newest.number)
        except Exception as problem:  # the old version continues to answer, and the next batch tries again
            self.problems[VERSION] = public_reason(problem, "loading a new version")
        else:
            self._loaded = newest
            self.problems.pop(VERSION, None)


def serving_settings(values: Mapping[str, object] | None = None) -> Recipe:
    """Return a server's settings from dotted names or tables. Raises ParameterError: a setting is unusable."""
    settings = Recipe.of(with_absolute_paths(values or {}))
    if settings.loop.accumulate != "stream":
        raise ParameterError(
            f"loop.accumulate is {settings.loop.accumulate!r}, but a server keeps its updates; give 'stream'."
        )
    return settings


def open_service(
    folder: Path,
    settings: Recipe,
    *,
    keep_text: Keep = "full",
    limits: Limits | None = None,
    retention: Retention | None = None,
    load: Load = load_model,
) -> Service:
    """Load a model that answers and, if it can learn, a second copy (twin) that learns; open the state folder.

    Args:
        folder: new, or the state of a stopped server.

    Raises:
        RunError: the folder is not a server's state, is in use, or was created with another model or other settings.
        ModelError, ParameterError, StorageError: the model cannot be used, or the folder cannot be written.
    """
    if keep_text not in get_args(Keep):
        raise ParameterError(f"--keep-text is {keep_text!r}; it must be one of {', '.join(get_args(Keep))}.")
    settings = named(settings)
    with ExitStack() as failure:
        state = reopen(folder, settings, keep_text)  # checks settings before the model is loaded
        if state is not None:
            failure.callback(state.close)
        to_load = settings if state is None else Manifest.of(state).to_load(settings)
        model = load(to_load)
        failure.callback(model.close)
        twin = model if model.learner is None else load(to_load)
        settings.plan().check(twin)
        if state is None:
            state = create_state(folder, settings, keep_text, model)
            failure.callback(state.close)
        elif state.manifest["model"] != model.fingerprint:
            raise _settings_error(folder, f"model: {state.manifest['model']} there, {model.fingerprint} here")
        note_environment(state, environment(model))
        failure.pop_all()
    earlier = Manifest.of(state).earlier
    answering, learning = (build_calibrator(settings, each, earlier) for each in (model, twin))
    service = Service(answering, learning, state, limits, retention)
    if twin.learner is not None:
        twin.learner.set_pause_hook(service.scheduler.wait)
    return service


def reopen(folder: Path, settings: Recipe, keep_text: Keep) -> ServerStore | None:
    """Open the state of a stopped server for writing; return None for a new folder. Raises RunError."""
    if not (folder / FILE).exists():
        check_free(folder)
        return None
    with ExitStack() as failure:
        state = failure.enter_context(ServerStore(folder, writable=True))
        differences = Manifest.of(state).settings.differences(settings)
        if state.keep_text != keep_text:
            differences.append(f"keep_text: {state.keep_text} there, {keep_text} here")
        if differences:
            raise _settings_error(folder, "; ".join(differences))
        failure.pop_all()
    return state


def _settings_error(folder: Path, those: str) -> RunError:
    return RunError(f"{folder} was begun with other settings ({those}); give the same settings or another folder.")


def create_state(folder: Path, settings: Recipe, keep_text: Keep, model: Model) -> ServerStore:
    """Create the state folder of a new server. Raises the errors of `ServerStore.create`."""
    manifest = Manifest.new(settings, model, QuestionFile(()), earlier=calibration(settings, model))
    return ServerStore.create(folder, {**manifest.to_json(), "keep_text": keep_text})


def note_environment(state: ServerStore, now: dict[str, str | int]) -> None:
    """Add an event if machine or libraries have changed since the last start, which may change rounding."""
    starts = state.events(1, "start")
    latest = starts[0].detail if starts else _in_one_line(state.manifest["environment"])
    if _in_one_line(now) != latest:
        state.add_event("start", 0, _in_one_line(now))


def _in_one_line(values: dict[str, str | int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
