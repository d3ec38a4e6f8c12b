"""Questions from an event loop."""

import asyncio
import threading
import time

import secl
from secl.question import Question
from secl.testing import ScriptedModel


class Slow(ScriptedModel):
    """A model that takes a moment, and notes how many questions it answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self.busy, self.most = 0, 0
        self.set_pause_hook(self.pause)

    def pause(self) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)
        time.sleep(0.01)
        self.busy -= 1


def test_the_event_loop_goes_on_and_questions_wait_for_each_other() -> None:
    slow = Slow()
    model, ticks = secl.load(slow), list[int]()

    async def ask() -> list[secl.Record]:
        asked = [asyncio.create_task(model.aask(Question(f"What is {n}?"))) for n in range(5)]
        while not all(task.done() for task in asked):
            ticks.append(threading.active_count())
            await asyncio.sleep(0.001)
        return [task.result() for task in asked]

    records = asyncio.run(ask())
    assert [record.question.text for record in records] == [f"What is {n}?" for n in range(5)]
    assert [record.position for record in records] == [0, 1, 2, 3, 4]
    assert slow.most == 1
    assert len(ticks) > 5


def test_a_cancelled_question_runs_to_its_end_before_the_next_and_waiting_ones_are_dropped() -> None:
    slow = Slow()
    model = secl.load(slow)

    async def ask() -> secl.Record:
        asked = [asyncio.create_task(model.aask(f"What is {n}?")) for n in range(4)]
        await asyncio.sleep(0.005)
        for task in asked:
            task.cancel()
        return await model.aask("What is 9?")

    record = asyncio.run(ask())
    assert record.question.text == "What is 9?"
    assert record.position == 1  # only the first question had begun
    assert slow.most == 1


def test_a_model_answers_in_one_event_loop_after_another_and_raises_errors_there() -> None:
    model = secl.load(Slow())

    async def ask() -> list[secl.Record | BaseException]:
        asked = (model.aask(text) for text in ("What is 1?", " ", "What is 2?"))
        return await asyncio.gather(*asked, return_exceptions=True)

    for _ in range(2):
        first, error, last = asyncio.run(ask())
        assert isinstance(first, secl.Record)
        assert isinstance(last, secl.Record)
        assert isinstance(error, secl.QuestionError)
