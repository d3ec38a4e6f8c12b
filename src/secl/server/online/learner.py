"""Lessons behind the answers: a twin of the model learns from the questions of bursts, one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from secl.calibrator import Calibrator
from secl.errors import GivenUpError, StorageError
from secl.records import Record
from secl.server.audit.control import carry_out_rollback
from secl.server.audit.store import ServerStore
from secl.server.online.guardrails import Watch, failure
from secl.server.online.scheduler import Scheduler

RETRY = 1.0
"""Seconds until a lesson that the disk refused is tried again."""


class Learner:
    """Teaches its model in a thread of its own and hands out each version that comes of it.

    A lesson is one step of the calibrator: the newest weights answer the question again, the frozen model judges that
    answer, and an update follows where the two disagree by more than the bin gate allows.

    Args:
        calibrator: its model learns; its gate is always open, because the decision was made when the reply was given.
        state: where lessons are written.
        watch: pauses learning that goes too far.
        pace: says when learning may use the machine.
        backlog: most questions that wait for their lesson.
    """

    def __init__(self, calibrator: Calibrator, state: ServerStore, watch: Watch, pace: Scheduler, backlog: int) -> None:
        self.calibrator, self.model = calibrator, calibrator.model
        self.state, self.watch, self.pace, self.backlog = state, watch, pace, backlog
        self.paused = state.paused
        self.last_error: str | None = None
        self.relative_norm = self.model.relative_norm
        self._waiting: deque[Record] = deque()
        self._changed = threading.Condition()
        self._model_free = threading.Lock()
        self._fresh: bytes | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._teach_all, name="secl-lessons", daemon=True)

    def restore_state(self) -> None:
        """Go back to where the state was left: the latest weights, and the lessons that were not held."""
        carry_out_rollback(self.state, self.model)
        snapshot = self.state.snapshot()
        if snapshot is not None:
            self.model.restore(snapshot)
            self._fresh, self.relative_norm = snapshot, self.model.relative_norm
        left = self.state.waiting()
        if self.state.keep_text == "full" and self.paused is None:
            self._waiting.extend(left)
        else:
            self._drop(left)  # learning is paused, or what was asked is not known any more

    def start(self) -> None:
        """Begin to teach."""
        self._thread.start()

    def stop(self) -> None:
        """End; a lesson in the middle is given up and will be held again."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self.pace.interrupt()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def active(self) -> bool:
        """Whether questions of bursts get lessons."""
        return self.paused is None and self.last_error is None and self.calibrator.learns

    @property
    def waiting(self) -> int:
        """How many questions wait for their lesson."""
        return len(self._waiting)

    def take(self, records: Sequence[Record]) -> None:
        """Line up questions of a burst; beyond the backlog the oldest are dropped, and all while learning is paused."""
        with self._changed:
            if self.paused is not None:  # since the gate was asked
                late = list(records)
            else:
                self._waiting.extend(records)
                # The first one may be having its lesson now.
                late = list(self._waiting)[1 : 1 + max(0, len(self._waiting) - self.backlog)]
                for record in late:
                    self._waiting.remove(record)
            self._changed.notify_all()
        self._drop(late)

    def newest(self) -> bytes | None:
        """The learner's state if it has changed since the last call."""
        with self._changed:
            fresh, self._fresh = self._fresh, None
            return fresh

    def rollback(self, version: int) -> None:
        """Go back to a kept version, 0 for the untouched model; lessons that wait are dropped."""
        weights = self.state.weights(version) if version else b""
        with self._alone():
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
                late, self._fresh = list(self._waiting), snapshot
                self._waiting.clear()
        self._drop(late)

    def pause(self, reason: str) -> None:
        """Hold no more lessons until `resume`; those that wait are dropped."""
        with self._alone():
            self._pause(reason)

    def _pause(self, reason: str) -> None:
        self.state.add_event("pause", self.model.version, reason)
        with self._changed:
            self.paused, late = reason, list(self._waiting)
            self._waiting.clear()
        self._drop(late)

    def resume(self) -> None:
        """Hold lessons again."""
        self.state.add_event("resume", self.model.version, "learning goes on")
        self.paused = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Within the block no lesson is being held; one in the middle is given up."""
        while not self._model_free.acquire(timeout=0.01):
            self.pace.interrupt()
        try:
            yield
        finally:
            self._model_free.release()

    def _teach_all(self) -> None:
        while True:
            with self._changed:
                while not self._stopping and not self._waiting:
                    self._changed.wait()
                if self._stopping:
                    return
            with self._model_free:
                if self._waiting:  # a rollback may have emptied it
                    self._teach(self._waiting[0])
            if self.last_error is not None:
                with self._changed:
                    self._changed.wait(RETRY)

    def _teach(self, asked: Record) -> None:
        """Hold one lesson; whatever goes wrong leaves the weights as they were."""
        before, version = self.model.snapshot(), self.model.version
        try:
            with self.pace.teaching():
                taught = self._lesson(asked)
            changed = taught.update is not None
            self.state.add_lesson(taught, snapshot=self.model.snapshot() if changed else None)
        except GivenUpError:
            self.model.restore(before)
            return
        except StorageError as problem:
            self.model.restore(before)
            self.last_error = str(problem)
            return
        self.last_error = None
        with self._changed:
            if self._waiting and self._waiting[0] is asked:
                self._waiting.popleft()
            if self.model.version != version:
                self._fresh = self.model.snapshot()
        if self.model.version != version:
            self.relative_norm = (
                self.model.relative_norm
            )  # kept, because it is looked at often and takes a while to compute
        alarm = self.watch.alarm(self.relative_norm)
        if alarm is not None:
            self.paused = alarm  # also if the disk refuses to keep it
            try:
                self.state.add_event("alert", self.model.version, alarm)
                self._pause(alarm)
            except StorageError as problem:
                self.last_error = str(problem)

    def _lesson(self, asked: Record) -> Record:
        """The record with its lesson; a failed update is taken back."""
        before = self.model.snapshot()
        try:
            taught = self.calibrator.ask(asked.question)
            failed = failure(taught.update) if taught.update is not None else None
        except GivenUpError:
            raise
        except Exception as problem:  # whatever it is, answers go on and so does the next lesson
            # Its own words may hold what was asked, which may not be kept.
            taught, failed = None, f"the lesson of record {asked.position} ended with {type(problem).__name__}"
        if taught is None or failed is not None:
            self.model.restore(before)
            self.state.add_event("failed_update", self.model.version, str(failed))
            return replace(asked, outcome="failed")
        spent = taught.ledger
        learning = round(spent.total - spent.scoring, 6)
        return replace(
            asked,
            evidence=taught.evidence,
            signal=taught.signal,
            outcome=taught.outcome,
            update=taught.update,
            ledger=replace(asked.ledger, scoring=spent.scoring, learning=learning),
        )

    def _drop(self, late: Sequence[Record]) -> None:
        for record in late:
            try:
                self.state.add_lesson(replace(record, outcome="dropped"))
            except StorageError as problem:  # they wait on disk, and are taken up again after the next start
                self.last_error = str(problem)
                return
