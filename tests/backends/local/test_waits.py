"""What is read off the network comes over at once: on a GPU every look at a number waits for all that is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from secl.backends.local import backend
from secl.question import Question
from tests.backends.local.conftest import MakeModel


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The looks at numbers of tensors from now on, by the name of the method."""
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
    reading: Any = model.answer(QUESTION) and model._latest and model._latest.frozen.reading
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
    statistics = asked[2]()
    assert statistics.entropy == pytest.approx(whole[2].entropy, abs=1e-5)
    assert statistics.log_probability == pytest.approx(whole[2].log_probability, abs=1e-5)


def test_a_lesson_looks_once_at_the_device_before_each_step_and_once_behind_the_last(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    reply = model.answer(QUESTION).reply
    looks = counted(monkeypatch)
    model.learn(QUESTION, reply, 0.3)
    # What is left (the optimizer's count of steps, where tokens stand) lies on the processor, whatever the device.
    assert looks.count("tolist") == 3 + 1
