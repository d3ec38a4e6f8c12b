"""Free answers: threads write several texts at once, a few tokens at a time, between batches of answers."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from secl.errors import BusyError, ClosingError
from secl.model import Model
from secl.question import Question
from secl.server.entries import new_record_id
from secl.server.online.queue import QueuedRequest, RequestQueue, Scheduler, ServedAnswer
from secl.writing import Chunk, SamplingParameters, joined

T = TypeVar("T")


class Ended(NamedTuple):
    """The end of all texts, sent twice: first without `answers`, later with an answer for each rated text."""

    texts: tuple[Chunk, ...]
    answers: tuple[ServedAnswer, ...] | None = None


TextEvent = Chunk | Ended | Exception
"""A new chunk of a text, the end of all texts, or an exception if all texts have failed."""


class WritingJob:
    """Texts to write for one request; the writing thread calls `send` with every event.

    Attributes:
        record_ids: ids of the texts' future records; empty if no text is rated.
        cancelled: event that is set once the client no longer needs the texts, for example after a disconnect.
    """

    def __init__(
        self, question: Question, sampling: SamplingParameters, send: Callable[[TextEvent], None], *, rate: bool
    ) -> None:
        self.question, self.sampling, self.send = question, sampling, send
        self.record_ids = tuple(new_record_id() for _ in range(sampling.n if rate else 0))
        self.cancelled = threading.Event()


class TextWriters:
    """Writes texts, and queues each text for its confidence.

    secl writes the texts of at most `most` requests at the same time, and of fewer if the memory is too small. At most
    `queue.most` other requests wait. A model in this process writes in a single thread, a few tokens per turn, because
    PyTorch keeps compiled kernels for each thread.

    Attributes:
        apart: whether another server writes, so that texts need no turns.
        unrated: record ids of written texts that have no confidence yet.
    """

    def __init__(self, model: Model, scheduler: Scheduler, queue: RequestQueue, most: int, *, apart: bool) -> None:
        self.model, self.scheduler, self.queue, self.apart = model, scheduler, queue, apart
        self.unrated: set[str] = set()
        self._places, self._stopping = most + queue.most, False
        self._jobs: dict[WritingJob, Future[None]] = {}
        self._shares: dict[WritingJob, float] = {}
        self._changed, self._entering = threading.Condition(), threading.Lock()
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="secl-texts")
        self._computing = ThreadPoolExecutor(1, thread_name_prefix="secl-writing")

    @property
    def active(self) -> int:
        """Number of requests whose texts are being written or are waiting."""
        return len(self._jobs)

    def submit(self, job: WritingJob) -> None:
        """Queue a job. Raises the errors of `Service.write`."""
        with self._changed:
            if self._stopping:
                raise ClosingError("the server is stopping; ask again when it is back.")
            if self.active >= self._places:
                raise BusyError(f"{self.active} chats are being answered already; ask again in a moment.")
            self._jobs[job] = future = self._pool.submit(self._work, job)
        future.add_done_callback(lambda _: self._jobs.pop(job))

    def cancel(self, job: WritingJob) -> None:
        """Stop writing a job's texts. If all texts are already written, secl still rates and records the texts."""
        with self._changed:
            job.cancelled.set()
            self._changed.notify_all()
        if (waiting := self._jobs.get(job)) is not None:
            waiting.cancel()

    def stop(self) -> None:
        """Finish all jobs, including waiting jobs."""
        with self._changed:
            self._stopping = True
        self._pool.shutdown()
        self._computing.shutdown()

    def _work(self, job: WritingJob) -> None:
        try:
            model, question, sampling = self.model, job.question, job.sampling
            share, coming = self._run_in_turn(
                lambda _: (model.memory_share(question, sampling), model.write(question, sampling))
            )
            # Keep the reserved memory until the texts are rated, because the model keeps the conversation in memory.
            with self._room(share, job):
                chunks: list[Chunk] = []
                ended = False
                while not ended and not job.cancelled.is_set():
                    ended = self._run_in_turn(partial(self._advance, job, coming, chunks))
                if ended:
                    texts = joined(chunks)
                    job.send(Ended(texts))
                    job.send(Ended(texts, self._answered(job, texts)))
        except Exception as problem:
            job.send(problem)

    def _answered(self, job: WritingJob, texts: Sequence[Chunk]) -> tuple[ServedAnswer, ...]:
        """Queue the written texts, and wait for a `ServedAnswer` with the confidence of each text."""
        requests = [
            QueuedRequest(asked=job.question, written=text, record_id=identifier)
            for text, identifier in zip(texts, job.record_ids, strict=False)
        ]
        self.unrated |= set(job.record_ids)
        try:
            waiting = [self.queue.put(request, full=True) for request in requests]  # `submit` checked the limit
            return tuple(each.result() for each in waiting)
        finally:
            self.unrated -= set(job.record_ids)

    @contextlib.contextmanager
    def _room(self, share: float, job: WritingJob) -> Iterator[None]:
        """Reserve a job's share of memory for the block. Jobs wait in order, so no small job overtakes a large one."""
        with self._entering, self._changed:
            self._changed.wait_for(
                lambda: job.cancelled.is_set() or not self._shares or sum(self._shares.values()) + share <= 1
            )
            self._shares[job] = share
        try:
            yield
        finally:
            with self._changed:
                del self._shares[job]
                self._changed.notify_all()

    def _run_in_turn(self, work: Callable[[float], T]) -> T:
        """Run `work` in a turn of its own; the argument of `work` is the length of the turn in seconds."""
        if self.apart:
            return work(math.inf)
        with self.scheduler.writing(max(1, len(self._shares))) as seconds:
            return self._computing.submit(work, seconds).result()

    def _advance(self, job: WritingJob, coming: Iterator[Chunk], chunks: list[Chunk], seconds: float) -> bool:
        """Write chunks for about `seconds` seconds; return whether the texts have ended."""
        until = time.monotonic() + seconds
        for chunk in coming:
            if not job.cancelled.is_set():
                chunks.append(chunk)
                job.send(chunk)
            if job.cancelled.is_set() or time.monotonic() >= until:
                return False
        return True
