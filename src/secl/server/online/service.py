"""Answers in batches and in order, with learning behind them; no HTTP here.

    ask -> queue -> one batch, one version -> gate, in order -> records on disk -> replies
                                                          \\-> lessons -> learner -> next version, between two batches

One thread answers. Another one teaches a twin of the model, which shares its weights and has an adapter of its own, so
that no reply ever sees half an update.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from secl.calibrator import Calibrator
from secl.errors import BusyError, ClosingError, SeclError, StorageError
from secl.gates import Gate
from secl.model import Model, ModelAnswer
from secl.records import Decision, Evidence, Ledger, Question, Record
from secl.runs.store import Version
from secl.server.audit.store import ServerStore
from secl.server.online.guardrails import Bounds, Watch
from secl.server.online.learner import Learner
from secl.server.online.limits import Limits
from secl.server.online.scheduler import Scheduler

GATHER = 0.005
"""Seconds that the first question of a batch waits for others: those who were answered together ask again together."""


class Answering(Model, Protocol):
    """A model that can say beforehand whether it can answer a question."""

    def check(self, question: Question) -> None:
        """Let a question pass that the model can answer.

        Raises:
            QuestionError: it cannot.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gets.

    Attributes:
        record: the reply with everything known about it then.
        stored: whether the record is on disk; without that it has no number that could be asked for later.
        batch: how many questions were answered in the same pass.
        seconds: from asking to replying.
    """

    record: Record
    stored: bool
    batch: int
    seconds: float


class Service:
    """A model behind a queue, with its gate, its learner and its state.

    Args:
        model: answers.
        calibrator: around the learner's twin of the model: signal, evidence, step size, bin gate.
        gate: decides on the replies, in order.
        state: where everything is written.
        limits, bounds: of load and of learning.
    """

    def __init__(
        self,
        model: Answering,
        calibrator: Calibrator,
        gate: Gate,
        state: ServerStore,
        limits: Limits | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.model, self.gate, self.state = model, gate, state
        self.limits = limits or Limits()
        self.watch = Watch(bounds or Bounds())
        self.pace = Scheduler(self.limits.share)
        self.started = time.time()
        self.position = len(state)
        self.last_error: str | None = None
        self.unreadable = 0
        self._gate_state: Any = gate.start()
        self._decision: Decision | None = None
        for entropy in state.entropies():
            self._gate_state, self._decision = gate.step(self._gate_state, entropy)
        for served in state.latest(self.watch.bounds.window):
            self.watch.see(served.record)
        self._kept = set(state.versions())
        self._coming: bytes | None = None
        self.learner = Learner(calibrator, state, self.watch, self.pace, self.limits.backlog)
        self._asked: deque[tuple[Question, float, Future[Answer]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._answer_all, name="secl-answers", daemon=True)

    def start(self) -> None:
        """Begin to answer and to learn, from where the state was left."""
        self.learner.restore_state()
        self._swap()
        self._thread.start()
        self.learner.start()

    def submit(self, question: Question) -> Future[Answer]:
        """Ask; the future can be cancelled until its turn comes.

        Raises:
            BusyError: the queue is full.
            ClosingError: the service is about to stop.
        """
        future: Future[Answer] = Future()
        with self._changed:
            if self._closing:
                raise ClosingError("the server is stopping; ask again when it is back.")
            if len(self._asked) >= self.limits.queue:  # those who gave up leave their place
                self._asked = deque(each for each in self._asked if not each[2].cancelled())
            if len(self._asked) >= self.limits.queue:
                raise BusyError(f"{self.limits.queue} questions are waiting already; ask again in a moment.")
            self._asked.append((question, time.perf_counter(), future))
            self._changed.notify_all()
        return future

    def ask(self, question: Question, timeout: float | None = None) -> Answer:
        """Ask and wait for the reply, at most `timeout` seconds."""
        return self.submit(question).result(timeout)

    def stop(self) -> None:
        """Answer what was asked, take no more, and end; a lesson in the middle is held again after the next start."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self.learner.stop()

    @property
    def ready(self) -> bool:
        """Whether questions are taken."""
        return self._thread.is_alive() and not self._closing

    @property
    def waiting(self) -> int:
        """How many questions wait for their answer."""
        return len(self._asked)

    @property
    def decision(self) -> Decision | None:
        """Of the gate on the latest reply."""
        return self._decision

    def rollback(self, version: int) -> None:
        """Go back to a kept adapter version, 0 for the untouched model; lessons that wait are dropped.

        Raises:
            RunError: that version was not kept.
            StorageError: it cannot be written down; nothing changes.
        """
        self.learner.rollback(version)

    def pause(self, reason: str) -> None:
        """Learn no more, until `resume`; answers go on.

        Raises:
            StorageError: it cannot be written down.
        """
        self.learner.pause(reason)

    def resume(self) -> None:
        """Learn again.

        Raises:
            StorageError: it cannot be written down.
        """
        self.learner.resume()

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                while not self._asked and not self._closing:
                    self._changed.wait()
                if not self._asked:
                    return
                self._changed.wait_for(lambda: self._closing or len(self._asked) >= self.limits.batch, GATHER)
            with self.pace.answering():
                self._answer(self._take())

    def _take(self) -> list[tuple[Question, float, Future[Answer]]]:
        """The next batch, without what was cancelled."""
        with self._changed:
            taken = [self._asked.popleft() for _ in range(min(self.limits.batch, len(self._asked)))]
        return [each for each in taken if each[2].set_running_or_notify_cancel()]

    def _answer(self, batch: list[tuple[Question, float, Future[Answer]]]) -> None:
        """Answer a batch under one version; a question that cannot be answered does not spoil it."""
        self._swap()
        good = []
        for question, asked, future in batch:
            with _problems_to(future):
                self.model.check(question)
                good.append((question, asked, future))
        if not good:
            return
        began = time.perf_counter()
        try:
            questions = [question for question, _, _ in good]
            self.model.prefetch(questions, [False] * len(questions), weights_fixed=True)
            answered = [self._one(question) for question in questions]
            records = self._decide(questions, answered)
            stored = self._write(records, time.perf_counter() - began)
        except Exception as problem:  # whatever it is belongs to those who wait, and the thread goes on
            for _, _, future in good:
                future.set_exception(problem)
            return
        now = time.perf_counter()
        for record, (_, asked, future) in zip(records, good, strict=True):
            future.set_result(Answer(record, stored, len(records), now - asked))

    def _one(self, question: Question) -> tuple[ModelAnswer, float]:
        before = self.model.tokens
        return self.model.answer(question), self.model.tokens - before

    def _decide(self, questions: list[Question], answered: list[tuple[ModelAnswer, float]]) -> list[Record]:
        """The records of a batch, the gate asked in order; nothing is changed yet."""
        records = []
        state, learning = self._gate_state, self.learner.active
        for number, (question, (said, spent)) in enumerate(zip(questions, answered, strict=True)):
            state, decision = self.gate.step(state, said.reply.entropy)
            adapting = round(said.adapting, 6)
            records.append(
                Record(
                    position=self.position + number,
                    question=question,
                    reply=said.reply,
                    frozen=said.frozen,
                    decision=decision,
                    evidence=Evidence(),
                    signal=None,
                    outcome="waiting" if decision.in_burst and learning else "idle",
                    update=None,
                    correct=None,
                    frozen_correct=None,
                    ledger=Ledger(answering=round(spent - adapting, 6), adapting=adapting),
                    plain_tokens=said.plain_tokens,
                )
            )
        self._coming_state = state
        return records

    def _write(self, records: list[Record], seconds: float) -> bool:
        """Write a batch down, then let the gate and the learner go on; False if the disk refuses, and nothing moves."""
        number = self.model.version
        kept = Version(number, self.model.weights()) if number and number not in self._kept else None
        try:
            self.state.add_answers(records, seconds, moment=time.time(), kept=kept)
        except StorageError as problem:
            self.last_error = str(problem)
            return False
        self.last_error = None if self._coming is None else self.last_error
        self._kept.add(number)
        self._gate_state, self._decision = self._coming_state, records[-1].decision
        self.position += len(records)
        for record in records:
            self.watch.see(record)
            self.unreadable += record.reply.answer is None
        self.learner.take([record for record in records if record.outcome == "waiting"])
        return True

    def _swap(self) -> None:
        """Take over the learner's newest version; called between two batches."""
        self._coming = self.learner.newest() or self._coming
        if self._coming is None:
            return
        try:
            self.model.restore(self._coming)
        except SeclError as problem:  # a fleet publishes versions as files; the next batch tries again
            self.last_error = str(problem)
        else:
            self._coming = None


@contextmanager
def _problems_to(future: Future[Answer]) -> Iterator[None]:
    """What goes wrong with a question belongs to the one who asked it."""
    try:
        yield
    except Exception as problem:
        future.set_exception(problem)
