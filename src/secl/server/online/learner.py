"""Lessons in the background: a second copy of the model learns from the questions of bursts, one at a time."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from secl.calibrator import Calibrator
from secl.errors import GivenUpError, RunError, StorageError, UnavailableError
from secl.model import Learner, learner_of, version_of
from secl.records import LearningOutcome, Record
from secl.runs.store import Version
from secl.server.entries import EventKind
from secl.server.online.queue import Scheduler
from secl.server.settings import BACKLOG, MAX_DRIFT
from secl.server.store import ServerStore

log = logging.getLogger("secl.server")

LESSON, DISK = "the latest lesson failed", "lessons wait: writing to disk fails"

RETRY = 1.0
"""Seconds after which the learner repeats a lesson that it could not store."""


class LessonThread:
    """Trains its model in its own thread. The service loads each new version from `newest`.

    If the model cannot learn, no lesson ever waits.

    A lesson is `Calibrator.learn` on the record of an earlier answer. After an exception, the learner restores the
    weights, marks the lesson as failed, and continues with the next lesson.

    Attributes:
        paused: reason for a pause; None without a pause.
        problems: current problems; the keys are sentences, the values are the latest error messages.
        newest: weights that the service should load; None before the first version.
        failures: number of failed lessons since the start.
        relative_norm: norm of the learned change over the norm of the weights, cached because its computation is slow.
    """

    def __init__(self, calibrator: Calibrator, state: ServerStore, scheduler: Scheduler) -> None:
        self.calibrator, self.state, self.scheduler = calibrator, state, scheduler
        self.paused, learner = state.paused(), calibrator.model.learner
        self.relative_norm = 0.0 if learner is None else learner.relative_norm
        self.problems: dict[str, str] = {}
        self.failures, self._stopping = 0, False
        self.newest: Version | None = None
        self._waiting: deque[Record] = deque()
        self._changed, self._model_free = threading.Condition(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="secl-lessons", daemon=True)

    @property
    def trained(self) -> Learner:
        """The weights of the model. Raises ParameterError if the model cannot learn."""
        return learner_of(self.calibrator.model)

    @property
    def version(self) -> int:
        return version_of(self.calibrator.model)

    def restore_state(self) -> None:
        """Restore the latest weights and the pending lessons from the state folder."""
        snapshot = self.state.snapshot()
        if snapshot is not None:
            self.trained.restore(snapshot)
            self._note_newest()
        waiting = list(self.state.records("r.outcome = 'waiting'"))
        if self.state.keep_text == "full" and self.paused is None:
            self._waiting.extend(waiting)
        else:
            self._finish(waiting, "dropped")  # learning is paused, or no texts of the questions are stored

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the next start repeats an interrupted lesson."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self.scheduler.interrupt()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def active(self) -> bool:
        """Whether new questions in bursts get lessons: not if learning is off or paused, nor after a disk error."""
        return self.paused is None and DISK not in self.problems and self.calibrator.learns

    @property
    def waiting(self) -> int:
        """Number of pending lessons."""
        return len(self._waiting)

    def admit(self, records: Sequence[Record]) -> list[Record]:
        """Return the records. If a record's lesson exceeds the backlog, the record gets the outcome "dropped"."""
        room = BACKLOG - len(self._waiting)
        beyond = [number for number, record in enumerate(records) if record.outcome == "waiting"][room:]
        return [with_outcome(each, "dropped") if i in beyond else each for i, each in enumerate(records)]

    def enqueue(self, records: Sequence[Record]) -> None:
        """Queue the lessons of stored records, or drop these lessons if learning is paused."""
        with self._changed:
            if self.paused is None:
                self._waiting.extend(records)
                self._changed.notify_all()
                return
        self._finish(records, "dropped")

    def rollback(self, version: int) -> int:
        """Go back to a stored version (0 for the frozen model), and return the number of dropped lessons.

        Raises RunError: the version is not stored; ParameterError: the model cannot learn; StorageError: writing fails,
        and the learner changes nothing.
        """
        trained = self.trained
        with self._no_lesson():
            before = trained.snapshot()
            self.state.load_version(trained, version)
            snapshot = trained.snapshot()
            try:
                self.state.add_event("rollback", version, f"back to version {version}", snapshot=snapshot)
            except StorageError:
                trained.restore(before)
                raise
            self._note_newest()
            return self._stop_lessons(None)

    def pause(self, reason: str) -> int:
        """Pause learning until `resume`; return the number of dropped lessons. Raises StorageError."""
        with self._no_lesson():
            self.state.add_event("pause", self.version, reason)
            return self._stop_lessons(reason)

    def _pause_itself(self, reason: str) -> None:
        """Pause learning from inside a lesson."""
        log.warning("learning is paused: %s", reason)
        self._add_event("pause", reason)
        self._stop_lessons(reason)

    def _stop_lessons(self, reason: str | None) -> int:
        """Drop pending lessons, and pause learning if there is a reason; return the number of dropped lessons."""
        with self._changed:
            self.paused = self.paused if reason is None else reason
            dropped = list(self._waiting)
            self._waiting.clear()
        self._finish(dropped, "dropped")
        return len(dropped)

    def resume(self) -> None:
        """End a pause. Raises StorageError."""
        with self._no_lesson():
            snapshot = self.state.snapshot()  # if restoring failed after a lesson, the model has wrong weights
            if snapshot is not None:
                self.trained.restore(snapshot)
            elif self.calibrator.model.learner is not None:
                self.trained.reset()
            self.state.add_event("resume", self.version, "learning goes on")
            self.paused = None

    @contextmanager
    def _no_lesson(self) -> Iterator[None]:
        """Keep lessons from running within the block. Interrupt a running lesson, which runs again later."""
        # After an interrupt, the next lesson may begin at once, so the loop interrupts until it gets the lock.
        while not self._model_free.acquire(timeout=0.01):
            self.scheduler.interrupt()
        try:
            yield
        finally:
            self._model_free.release()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._waiting)
                if self._stopping:
                    return
            with self._model_free:
                if self._waiting:  # a rollback or a pause may have emptied the queue
                    self._train(self._waiting[0])
            if DISK in self.problems:
                with self._changed:
                    self._changed.wait(RETRY)

    def _train(self, record: Record) -> None:
        """Run one lesson; any error leaves the weights unchanged."""
        before, version, failed = None, self.version, record
        try:
            before = self.trained.snapshot()
            with self.scheduler.training():
                learned = self.calibrator.learn(record)
            failed = with_outcome(learned, "failed")  # if the lesson fails, the record still has its evidence
            reason = rejection_reason(learned)
            if reason is None:
                self._store(learned)
                self.problems.pop(LESSON, None)
        except (GivenUpError, UnavailableError, StorageError) as problem:  # the thread repeats this lesson
            if isinstance(problem, StorageError) and DISK not in self.problems:
                log.warning("%s: %s", DISK, problem)
            if not isinstance(problem, GivenUpError):  # an interruption is not a failure
                self.problems[DISK if isinstance(problem, StorageError) else LESSON] = str(problem)
            self._restore_weights(before)
            return
        except Exception as problem:  # its message may quote the question
            reason = f"the lesson of record {record.position} ended with {type(problem).__name__}"
        if reason is not None:
            self._note_failure(reason)
            self._restore_weights(before)
            self._add_event("failed_update", reason)
            self._finish([failed], "failed")
        with self._changed:
            if self._waiting and self._waiting[0] is record:
                self._waiting.popleft()
        if self.version != version:
            self._publish()

    def _store(self, record: Record) -> None:
        self.state.add_lesson(record, snapshot=None if record.update is None else self.trained.snapshot())
        if self.problems.pop(DISK, None):
            log.warning("writing to disk works again")

    def _add_event(self, kind: EventKind, reason: str) -> None:
        """Record an event of a lesson; a disk error only goes into `problems`."""
        try:
            self.state.add_event(kind, self.state.learned_version(), reason)
        except (StorageError, RunError) as problem:
            self.problems[LESSON] = str(problem)

    def _publish(self) -> None:
        """Publish the new version, and pause learning if the weights have drifted too far."""
        try:
            self._note_newest()
            if self.relative_norm > MAX_DRIFT:
                self._pause_itself(f"the adapter's drift is {self.relative_norm:.3f}, more than {MAX_DRIFT:g}")
        except Exception as problem:
            self._note_failure(f"an error followed the update to version {self.version} ({type(problem).__name__})")

    def _note_newest(self) -> None:
        trained = self.trained
        self.newest, self.relative_norm = Version(trained.version, trained.weights()), trained.relative_norm

    def _restore_weights(self, snapshot: bytes | None) -> None:
        """Restore the weights from before a lesson; if that fails, pause learning."""
        try:
            if snapshot is not None:
                self.trained.restore(snapshot)
        except Exception as problem:
            reason = f"the weights could not be restored after a failed lesson ({type(problem).__name__})"
            self._note_failure(reason)
            self._pause_itself(reason)
            self.problems[LESSON] = reason

    def _note_failure(self, reason: str) -> None:
        log.warning("%s", reason)
        self.failures += 1
        self.problems[LESSON] = reason

    def _finish(self, records: Sequence[Record], outcome: LearningOutcome) -> None:
        """Store `outcome` in each record; stop at the first error."""
        for record in records:
            try:
                self._store(with_outcome(record, outcome))
            except (StorageError, RunError) as problem:  # the next start queues the unfinished lessons again
                self.problems[LESSON] = str(problem)
                return


def with_outcome(record: Record, outcome: LearningOutcome) -> Record:
    """Return a record whose lesson ended with this outcome, without an update."""
    return replace(record, learning=record.learning and replace(record.learning, outcome=outcome, update=None))


def rejection_reason(learned: Record) -> str | None:
    """Return why a lesson's update must be undone, in one sentence; None if the update is valid."""
    update = learned.update
    if learned.outcome == "failed":
        return f"the lesson of record {learned.position} computed numbers that are not finite"
    if update is not None and not all(map(math.isfinite, (*update.losses, update.after))):
        return f"update {update.version} has numbers that are not finite"
    return None
