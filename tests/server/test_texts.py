"""Free answers of a service, written between its batches, and the order of turns."""

import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from secl.errors import BusyError, ClosingError, GivenUpError, TooLongError
from secl.question import Question
from secl.server.online import queue
from secl.server.online import service as service_module
from secl.server.online.queue import SLICE, Scheduler
from secl.server.online.service import Service
from secl.server.online.texts import WritingJob
from secl.server.settings import Limits
from secl.testing import ScriptedModel, toy_stream
from secl.writing import Chunk, SamplingParameters
from tests.server.conftest import Make, Patch
from tests.server.waiting import Texts, settled, until

WHY = Question("Why is the sky blue?", form="text")
DRAWN = SamplingParameters(temperature=1.0, seed=3, n=3)


class Paced(ScriptedModel):
    """Writes one chunk for each release of `steps`, and counts texts and threads."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = threading.Semaphore(0)
        self.written: list[str] = []
        self.together = self.most = 0
        self.threads: set[str] = set()

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        for chunk in super().write(question, sampling):
            self.threads.add(threading.current_thread().name)
            self.together += 1
            self.most = max(self.most, self.together)
            assert self.steps.acquire(timeout=60)
            self.together -= 1
            self.written.append(question.text)
            yield chunk


def test_each_text_is_a_record_of_its_own_and_is_learned_from(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "always"})
    texts = Texts(service, WHY, DRAWN)
    answers, chunks = texts.answers(), texts.chunks
    whole = ["".join(chunk.text for chunk in chunks if chunk.choice == number) for number in range(3)]
    assert [answer.record.reply.text for answer in answers] == whole
    assert len(set(whole)) == 3
    assert [service.state.served(place).record.reply.text for place in range(3)] == whole
    assert [answer.record.question for answer in answers] == [WHY] * 3
    settled(service)
    assert service.state.counts() == {"trained": 3}
    later = [service.state.served(place).record for place in range(3)]
    assert [record.evidence.p_true.candidates[0] for record in later if record.evidence.p_true] == whole


def test_texts_grow_in_turns_and_questions_pass_between_their_tokens(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(queue, "SLICE", 0.0)
    model = Paced()
    service = make_service(model=model)
    monkeypatch.setattr(service.scheduler, "_clock", lambda: 0.0)  # batches take no time
    other = Question("Why is the sea blue?", form="text")
    both = [Texts(service, question) for question in (WHY, other)]
    until(lambda: model.together == 1)
    asked = service.submit(toy_stream(1)[0])
    until(lambda: len(service.scheduler._turns) == 3)  # both texts come before it
    model.steps.release(4)
    assert asked.result(60).record.answer
    assert not any(text.done for text in both)
    model.steps.release(40)
    for text in both:
        text.answers()
    assert model.most == 1  # one pass at a time
    assert len(model.threads) == 1  # each thread would keep compiled kernels of its own
    assert set(model.written[:4]) == {WHY.text, other.text}


def test_a_cancelled_text_is_not_written_on(make_service: Make) -> None:
    model = Paced()
    service = make_service(model=model)
    text = Texts(service, WHY)
    until(lambda: model.together == 1)
    text.cancel()
    model.steps.release(40)
    until(lambda: service.texts.active == 0)
    assert len(model.written) == 1
    assert len(service.state) == 0


def test_too_many_texts_are_refused_and_a_stop_finishes_the_others(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(service_module, "TEXTS", 1)
    model = Paced()
    service = make_service(model=model, limits=Limits(queue=1))
    begun = [Texts(service, WHY) for _ in range(2)]
    with pytest.raises(BusyError, match="2 chats are being answered already"):
        Texts(service, WHY)
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    until(lambda: not service.ready)
    with pytest.raises(ClosingError):
        Texts(service, WHY)
    model.steps.release(40)
    stopping.join(60)
    with pytest.raises(ClosingError, match="the server is stopping"):
        service.texts.submit(WritingJob(WHY, SamplingParameters(), lambda _: None, rate=True))
    assert [text.answers()[0].stored for text in begun] == [True, True]
    assert service.texts.active == 0


def test_cancelled_texts_that_wait_give_their_places_to_others(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(service_module, "TEXTS", 1)
    model = Paced()
    service = make_service(model=model, limits=Limits(queue=2))
    begun = Texts(service, WHY)
    for _ in range(3):  # the only thread stays busy
        for waiting in [Texts(service, WHY) for _ in range(2)]:
            waiting.cancel()
        assert service.texts.active == 1
    last = Texts(service, WHY)
    model.steps.release(40)
    assert [begun.answers()[0].stored, last.answers()[0].stored] == [True, True]


class Large(Paced):
    """Needs the share of the memory that the question names, and notes the texts that it began."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        self.begun.append(question.text)
        yield from super().write(question, sampling)

    def memory_share(self, question: Question, sampling: SamplingParameters) -> float:  # noqa: ARG002
        share = float(question.text)
        if share > 1:
            raise TooLongError("too many tokens; ask for fewer.")
        return share


def waits_for_memory(service: Service) -> bool:
    return bool(vars(service.texts._changed)["_waiters"])


def sized(service: Service, share: float) -> Texts:
    """Begin to write a text that needs a share of the memory."""
    return Texts(service, Question(str(share), form="text"))


def test_texts_wait_for_memory_in_order_and_a_cancelled_one_lets_the_next_begin(make_service: Make) -> None:
    model = Large()
    service = make_service(model=model)
    service.texts.apart = True  # so only memory makes texts wait
    texts = [sized(service, 0.5)]
    until(lambda: model.together == 1)
    cancelled = sized(service, 1.0)
    until(lambda: waits_for_memory(service), 20)
    texts.append(sized(service, 0.25))
    assert model.begun == ["0.5"]
    cancelled.cancel()
    until(lambda: model.together == 2, 20)
    texts.append(sized(service, 0.8))
    until(lambda: waits_for_memory(service), 20)
    texts.append(sized(service, 0.1))
    assert model.begun == ["0.5", "0.25"]
    model.steps.release(80)
    assert all(text.answers()[0].stored for text in texts)
    assert model.begun[:3] == ["0.5", "0.25", "0.8"]
    assert service.texts._shares == {}


def test_texts_that_can_never_fit_are_refused_in_a_sentence(make_service: Make, host: Callable[[Service], str]) -> None:
    service = make_service(model=Large())
    body = {"model": "scripted", "messages": [{"role": "user", "content": "1.5"}], "n": 4}
    reply = httpx.post(f"{host(service)}/v1/chat/completions", json=body, timeout=60)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["message"] == "too many tokens; ask for fewer."
    until(lambda: service.texts.active == 0)  # the thread ends after its reply


def test_what_goes_wrong_with_a_text_reaches_the_one_who_asked(make_service: Make) -> None:
    class Breaking(ScriptedModel):
        def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
            yield from list(super().write(question, sampling))[:2]
            raise RuntimeError("broken")

    service = make_service(model=Breaking())
    texts = Texts(service, WHY)
    with pytest.raises(RuntimeError, match="broken"):
        texts.answers()
    assert len(texts.chunks) == 2
    assert service.ask(toy_stream(1)[0], 60).stored
    assert service.texts.active == 0


class Lesson:
    """A lesson that goes through layers until `end`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.layers = 0
        self.ended = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        try:
            with self.scheduler.training():
                while not self._end.is_set():
                    self.scheduler.wait()
                    self.layers += 1
                    time.sleep(0.001)
            self.ended = "held"
        except GivenUpError:
            self.ended = "given up"

    def moves(self, seconds: float = 0.1) -> bool:
        """Whether the lesson goes through layers now."""
        time.sleep(0.02)
        before = self.layers
        time.sleep(seconds)
        return self.layers > before

    def end(self) -> str:
        self._end.set()
        self._thread.join(30)
        return self.ended


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_between_two_batches_a_lesson_goes_on_for_its_share_of_the_first(share: float) -> None:
    scheduler = Scheduler(share)
    lesson = Lesson(scheduler)
    assert lesson.moves()  # idle time is free
    with scheduler.answering():
        time.sleep(0.2)
        before = lesson.layers
    began = time.monotonic()
    with scheduler.answering():
        took = time.monotonic() - began
        assert (lesson.layers > before + 10) is (share > 0)
        assert took == pytest.approx(0.2 * share, abs=0.08)
        assert not lesson.moves()
    assert lesson.moves()
    assert lesson.end() == "held"


def test_all_texts_together_get_as_long_as_the_latest_batch() -> None:
    moments = iter([0.0, 10.0, 16.0, 20.0, 21.0, 30.0, 31.0])  # a batch of six seconds
    scheduler = Scheduler(0.0, clock=lambda: next(moments))
    with scheduler.answering():
        pass
    with scheduler.writing(3) as seconds:
        assert seconds == 2.0
    with scheduler.writing(1000) as seconds:  # the time of a text does not count
        assert seconds == SLICE


def test_an_interrupt_just_before_a_lesson_begins_is_not_lost() -> None:
    scheduler = Scheduler(0.2)
    scheduler.interrupt()
    assert Lesson(scheduler).end() == "given up"
    again = Lesson(scheduler)  # an interrupt counts for one lesson
    assert again.moves()
    assert again.end() == "held"
