"""Lessons behind the answers: a twin of the model learns from the questions of bursts, one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from secl.calibrator import Calibrator
from secl.errors import GivenUpError, StorageError
from secl.records import LearningOutcome, Record
from secl.server.audit.control import carry_out_rollback
from secl.server.audit.store import ServerStore
from secl.server.online.guardrails import ShiftMonitor, failure
from secl.server.online.scheduler import Scheduler

RETRY = 1.0
"""Seconds until a lesson that the disk refused is tried again."""


class Learner:
    """Trains its model in a thread of its own and hands out each version that comes of it.

    A lesson is `Calibrator.learn` on a record that was answered earlier: the newest weights answer the question again,
    the frozen model scores that answer, and an update follows where the two disagree by more than the bin gate allows.
    An exception fails the lesson and leaves the weights as they were; the thread lives on.

    Args:
        calibrator: its model learns; its gate is not asked, because the decision was made when the reply was given.
        state: where lessons are written.
        monitor: pauses learning that goes too far.
        scheduler: yields to answers.
        backlog: most questions that wait for their lesson.

    Attributes:
        paused: why learning is paused; None if it is not.
        last_error: why the latest lesson failed, in one sentence; None after a success.
        failures: lessons that failed.
        storage_fails: whether the disk refused the latest lesson, which is then repeated.
        relative_norm: of the model, kept because it is read often and takes a while to compute.
    """

    def __init__(
        self, calibrator: Calibrator, state: ServerStore, monitor: ShiftMonitor, scheduler: Scheduler, backlog: int
    ) -> None:
        self.calibrator, self.model = calibrator, calibrator.model
        self.state, self.monitor, self.scheduler, self.backlog = state, monitor, scheduler, backlog
        self.paused = state.paused
        self.last_error: str | None = None
        self.failures = 0
        self.relative_norm = self.model.relative_norm
        self.storage_fails = False
        self._waiting: deque[Record] = deque()
        self._changed = threading.Condition()
        self._model_free = threading.Lock()
        self._new_snapshot: bytes | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._train_all, name="secl-lessons", daemon=True)

    def restore_state(self) -> None:
        """Go back to where the state was left: the latest weights, and the lessons that were not held."""
        carry_out_rollback(self.state, self.model)
        snapshot = self.state.snapshot()
        if snapshot is not None:
            self.model.restore(snapshot)
            self._new_snapshot, self.relative_norm = snapshot, self.model.relative_norm
        waiting = self.state.waiting()
        if self.state.keep_text == "full" and self.paused is None:
            self._waiting.extend(waiting)
        else:
            self._drop(waiting)  # learning is paused, or the texts of the questions were not kept

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End; a lesson in the middle is abandoned and will be repeated after the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self.scheduler.interrupt()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def active(self) -> bool:
        """Whether questions of bursts get lessons."""
        return self.paused is None and not self.storage_fails and self.calibrator.learns

    @property
    def waiting(self) -> int:
        """How many questions wait for their lesson."""
        return len(self._waiting)

    def take(self, records: Sequence[Record]) -> None:
        """Queue records of a burst. Beyond the backlog the oldest are dropped; all are while learning is paused."""
        with self._changed:
            if self.paused is not None:  # since the gate decided
                dropped = list(records)
            else:
                self._waiting.extend(records)
                # The first one may be having its lesson now.
                dropped = list(self._waiting)[1 : 1 + max(0, len(self._waiting) - self.backlog)]
                for record in dropped:
                    self._waiting.remove(record)
            self._changed.notify_all()
        self._drop(dropped)

    def newest(self) -> bytes | None:
        """The model's snapshot if it has changed since the last call."""
        with self._changed:
            snapshot, self._new_snapshot = self._new_snapshot, None
            return snapshot

    def rollback(self, version: int) -> None:
        """Go back to a stored version, 0 for the untouched model, and drop the lessons that wait.

        Raises:
            RunError: that version is not stored.
            StorageError: the change cannot be written; nothing changes.
        """
        weights = self.state.weights(version) if version else b""
        with self._no_lesson():
            before = self.model.snapshot()
            if version:
                self.model.load_version(weights, version)
            else:
                self.model.reset()
            snapshot = self.model.snapshot()
            try:
                self.state.add_event("rollback", version, f"back to version {version}", snapshot=snapshot)
            except StorageError:
                self.model.restore(before)
                raise
            self.relative_norm = self.model.relative_norm
            with self._changed:
                dropped, self._new_snapshot = list(self._waiting), snapshot
                self._waiting.clear()
        self._drop(dropped)

    def pause(self, reason: str) -> None:
        """Hold no more lessons until `resume`, and drop those that wait.

        Raises:
            StorageError: the change cannot be written.
        """
        with self._no_lesson():
            self._pause(reason)

    def _pause(self, reason: str) -> None:
        self.state.add_event("pause", self.model.version, reason)
        with self._changed:
            self.paused, dropped = reason, list(self._waiting)
            self._waiting.clear()
        self._drop(dropped)

    def resume(self) -> None:
        """Hold lessons again.

        Raises:
            StorageError: the change cannot be written.
        """
        self.state.add_event("resume", self.model.version, "learning goes on")
        self.paused = None

    @contextmanager
    def _no_lesson(self) -> Iterator[None]:
        """Within the block no lesson is being held; one in the middle is abandoned."""
        while not self._model_free.acquire(timeout=0.01):
            self.scheduler.interrupt()
        try:
            yield
        finally:
            self._model_free.release()

    def _train_all(self) -> None:
        while True:
            with self._changed:
                while not self._stopping and not self._waiting:
                    self._changed.wait()
                if self._stopping:
                    return
            with self._model_free:
                if self._waiting:  # a rollback may have emptied it
                    self._train(self._waiting[0])
            if self.storage_fails:
                with self._changed:
                    self._changed.wait(RETRY)

    def _train(self, record: Record) -> None:
        """Hold one lesson; whatever goes wrong leaves the weights as they were, and this thread alive."""
        before, version = None, self.model.version
        try:
            before = self.model.snapshot()
            self._store(self._lesson(record, before))
        except GivenUpError:
            self._go_back(before)
            return
        except StorageError as problem:  # the lesson is repeated when the disk accepts it
            self.storage_fails, self.last_error = True, str(problem)
            self._go_back(before)
            return
        except Exception as problem:  # neither in the lesson nor in `failure`: before or behind it
            self._failed(f"the lesson of record {record.position} ended with {type(problem).__name__}")
            self._go_back(before)
            self._drop([record], "failed")
        with self._changed:
            if self._waiting and self._waiting[0] is record:
                self._waiting.popleft()
        if self.model.version != version:
            self._publish()

    def _publish(self) -> None:
        """Hand out the new version, unless learning has gone too far: then it is paused."""
        try:
            with self._changed:
                self._new_snapshot = self.model.snapshot()
            self.relative_norm = self.model.relative_norm
            alarm = self.monitor.alarm(self.relative_norm)
            if alarm is not None:
                self.paused = alarm  # also if the disk refuses to record it
                self.state.add_event("alert", self.model.version, alarm)
                self._pause(alarm)
        except StorageError as problem:
            self.last_error = str(problem)
        except Exception as problem:
            self._failed(f"publishing version {self.model.version} ended with {type(problem).__name__}")

    def _lesson(self, record: Record, before: bytes) -> Record:
        """The record with its lesson; an update that must not stand is taken back."""
        try:
            with self.scheduler.teaching():
                learned = self.calibrator.learn(record)
            problem = failure(learned.update) if learned.update is not None else None
        except GivenUpError:
            raise
        except Exception as error:  # of whatever kind: answers go on and so does the next lesson
            # Its own words may hold the question, which must not be shown to others.
            problem = f"the lesson of record {record.position} ended with {type(error).__name__}"
        if problem is None:
            return learned
        self._failed(problem)
        self.model.restore(before)
        self.state.add_event("failed_update", self.model.version, problem)
        return replace(record, outcome="failed")

    def _store(self, record: Record) -> None:
        self.state.add_lesson(record, snapshot=self.model.snapshot() if record.update is not None else None)
        self.storage_fails = False
        if record.outcome != "failed":
            self.last_error = None

    def _go_back(self, snapshot: bytes | None) -> None:
        """Restore the weights from before a lesson; if even that fails, nothing may be learned on top of them."""
        try:
            if snapshot is not None:
                self.model.restore(snapshot)
        except Exception as problem:
            self.paused = f"the weights could not be restored after a failed lesson ({type(problem).__name__})"
            self._failed(self.paused)

    def _failed(self, problem: str) -> None:
        self.failures += 1
        self.last_error = problem

    def _drop(self, records: Sequence[Record], outcome: LearningOutcome = "dropped") -> None:
        for record in records:
            try:
                self.state.add_lesson(replace(record, outcome=outcome))
            except StorageError as problem:  # they wait on disk, and are queued again after the next start
                self.last_error = str(problem)
                return
