"""Passes fit into the memory of the device, and their numbers are fetched together.

On a GPU every fetched number waits for all running computations.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch

from secl.backends.local import backend, passes
from secl.backends.local.fast.batch import Batch
from secl.backends.local.passes import in_halves
from secl.data.benchmarks import quiz
from secl.errors import ModelError
from secl.question import Question
from tests.backends.local.conftest import MakeModel, memory_ends

pytestmark = pytest.mark.heavy


halved = partial(pytest.warns, RuntimeWarning, match="last digits of numbers may differ")


def test_a_pass_that_does_not_fit_into_memory_is_halved_until_it_does(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, cramped = make_model(), make_model()
    sizes = list[int]()

    def does_not_fit(sequences: Sequence[Sequence[int]], **_: Any) -> bool:
        sizes.append(len(sequences))
        return len(sequences) > room

    memory_ends(monkeypatch, cramped.backend.network, "run", does_not_fit)
    questions, room = quiz("capitals", 8, 3), 4  # the four letters of one question
    usual.prefetch(questions, [()] * len(questions), weights_fixed=True)
    with halved():
        cramped.prefetch(questions, [()] * len(questions), weights_fixed=True)
    assert sizes.count(4) == 8
    assert max(sizes) > 8
    for question in questions:
        one, other = (model.answer(question).reply for model in (usual, cramped))
        assert one.answer == other.answer
        assert one.stated == pytest.approx(other.stated, abs=1e-3)
    room = 3
    with halved(), pytest.raises(ModelError, match="a single question needs more memory than the device has"):
        cramped.prefetch(quiz("science", 2, 3), [()] * 2, weights_fixed=True)


def test_texts_for_which_memory_is_too_small_together_are_written_in_halves(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, cramped = make_model(), make_model()
    rows, lacks = list[int](), list[int]()

    def third_step_does_not_fit(batch: Batch, keep: list[int], _tokens: list[int]) -> bool:
        rows.append(len(keep))
        return batch.model is cramped.backend.model and len(keep) > room and len(rows) % 3 == 0

    def three_prompts_do_not_fit(begun: Sequence[Any], *_: Any) -> bool:
        lacks.extend([len(begun)] * (len(begun) > 2))
        return len(begun) > 2

    memory_ends(monkeypatch, Batch, "step", third_step_does_not_fit)
    questions, room = quiz("arithmetic", 5, 3), 2
    usual.prefetch(questions, [()] * len(questions), weights_fixed=True)
    memory_ends(monkeypatch, passes, "_padded", three_prompts_do_not_fit)
    with halved():
        cramped.prefetch(questions, [()] * len(questions), weights_fixed=True)
    for question in questions:
        one, other = (model.answer(question).reply for model in (usual, cramped))
        assert (one.text, one.answer_tokens) == (other.text, other.answer_tokens)
    assert lacks == [5]
    room = 0
    with halved(), pytest.raises(ModelError, match="a single question needs more memory than the device has"):
        cramped.prefetch(quiz("arithmetic", 5, 4), [()] * 5, weights_fixed=True)


def test_a_lack_of_memory_is_recognised_on_every_kind_of_device() -> None:
    tried = list[int]()

    def on_a_processor(items: Sequence[int]) -> list[int]:
        tried.append(len(items))
        return torch.empty(2**50 if len(items) > 1 else 1).tolist() and [*items]

    def on_a_mac(items: Sequence[int]) -> list[int]:
        raise RuntimeError("MPS backend out of memory (MPS allocated: 8.99 GB, other allocations: 3 MB)")

    def with_a_mistake(items: Sequence[int]) -> list[int]:
        tried.append(len(items))
        raise RuntimeError("The size of tensor a (3) must match the size of tensor b (4).")

    with pytest.warns(RuntimeWarning, match="The device has too little memory for a whole pass"):
        assert in_halves(on_a_processor, [1, 2, 3]) == [1, 2, 3]
    assert tried == [3, 1, 2, 1, 1]
    with pytest.raises(ModelError, match="needs more memory than the device has"):
        in_halves(on_a_mac, [1])
    with halved(), pytest.raises(ModelError, match="needs more memory"):
        in_halves(on_a_mac, [1, 2])
    tried.clear()
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        in_halves(with_a_mistake, [1, 2])
    assert tried == [2], "what has another cause is not tried again"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a growing list of the methods that fetch numbers of tensors from now on."""
    looks: list[str] = []
    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__"):
        usual = getattr(torch.Tensor, name)

        def look(tensor: Any, *given: Any, usual: Any = usual, name: str = name) -> Any:
            looks.append(name)
            return usual(tensor, *given)

        monkeypatch.setattr(torch.Tensor, name, look)
    return looks


QUESTION = Question("What is the capital of France?", options=("Paris", "Rome", "Bern"), id="a")


def test_a_reading_looks_once_at_the_device_whatever_is_asked_of_it(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    model.prefetch([QUESTION], [["candidates", "p_true"]], weights_fixed=True)
    reading: Any = model.answer(QUESTION) and model.latest_answer(QUESTION).reading
    looks = counted(monkeypatch)
    places, ids = reading.bundle.positions, model.backend.token_ids.digits
    asked: list[Callable[[], Any]] = [
        lambda: reading.logits(places, ids),
        lambda: reading.log_p(places, ids),
        lambda: reading.text_statistics(places[:2], [ids[0]], ids),
        lambda: reading.most_likely(places),
        reading.likelihoods,
    ]
    whole = []
    for ask in asked:
        looks.clear()
        whole.append(ask())
        assert looks == ["tolist"]
    assert len(whole[-1]) > 1
    monkeypatch.setattr(backend, "ROWS", 1)  # the same in parts
    for ask, before in zip(asked[:2] + asked[4:], whole[:2] + whole[4:], strict=True):
        torch.testing.assert_close(torch.tensor(ask()), torch.tensor(before), atol=1e-5, rtol=1e-5)
    assert asked[2]()[1:3] == pytest.approx(whole[2][1:3], abs=1e-5)


def test_a_lesson_looks_once_at_the_device_before_each_step_and_once_behind_the_last(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    reply = model.answer(QUESTION).reply
    looks = counted(monkeypatch)
    model.learner.learn(QUESTION, reply, 0.3)
    # Other fetched numbers (the optimizer's count of steps, positions of tokens) are always on the CPU.
    assert looks.count("tolist") == 3 + 1
