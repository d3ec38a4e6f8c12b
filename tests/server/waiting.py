"""Waiting for what another thread is about to do, or for its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from secl.model import ModelAnswer
from secl.question import Question
from secl.records import Record
from secl.server.explain import Explained, explain
from secl.server.online.queue import Answer
from secl.server.online.service import Service
from secl.server.online.texts import Ended, Event, WritingJob
from secl.server.store import ServerStore
from secl.server.verify import Finding, examine
from secl.testing import ScriptedModel, toy_stream
from secl.writing import Piece, Writing


class Slow(ScriptedModel):
    """Writes at once; answers, and rates what it wrote, when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def answer(self, question: Question, **how: Any) -> ModelAnswer:
        self.begun.set()
        assert self.go.wait(60)
        return super().answer(question, **how)


class Texts(WritingJob):
    """Texts that a service writes, and what it tells of them."""

    def __init__(self, service: Service, question: Question, writing: Writing | None = None) -> None:
        self.events: list[Event] = []
        self._service = service
        super().__init__(question, writing or Writing(), self.events.append, rate=True)
        service.write(self)

    @property
    def pieces(self) -> list[Piece]:
        return [event for event in self.events if isinstance(event, Piece)]

    @property
    def done(self) -> bool:
        last = self.events[-1] if self.events else None
        return isinstance(last, Exception) or (isinstance(last, Ended) and last.answers is not None)

    def cancel(self) -> None:
        self._service.texts.cancel(self)

    def answers(self) -> tuple[Answer, ...]:
        until(lambda: self.done, 60)
        last = self.events[-1]
        if isinstance(last, Exception):
            raise last
        assert isinstance(last, Ended)
        assert self.events[-2] == Ended(last.texts)
        return last.answers or ()


def until(condition: Any, seconds: float = 120) -> None:
    """Wait for what another thread is about to do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def settled(service: Service) -> None:
    """Wait for all lessons."""
    until(lambda: service.learner.waiting == 0 and "waiting" not in service.state.counts())


def ask_all(service: Service, questions: Sequence[Question]) -> list[Record]:
    """The records of questions that are asked one after the other, each with its lesson held before the next."""
    records = []
    for question in questions:
        records.append(service.ask(question, 60).record)
        settled(service)
    return records


def close(service: Service) -> Path:
    """Stop a service; its folder."""
    service.stop()
    service.state.close()
    return service.state.folder


def examined(state: ServerStore) -> tuple[int, list[Finding]]:
    """How many records an examination looked at, and what does not agree."""
    found = examine(state)
    return found.examined, found.findings


def explained(state: ServerStore, position: int) -> Explained:
    """Why an answer has its confidence."""
    return explain(state, state.served(position))


def served(service: Service, count: int = 40) -> Service:
    """The service after some answers, lessons and judgements."""
    for number, question in enumerate(toy_stream(count)):
        service.ask(question, 20)
        if number % 4 == 0:
            service.state.add_feedback(number, number % 8 == 0)
    settled(service)
    return service
