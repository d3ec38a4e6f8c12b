"""What goes through the network at a time follows the memory of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from secl.backends.local import prefill
from secl.backends.local.fast.batch import Batch
from secl.backends.local.fast.batching import group_tokens
from secl.data.quiz import quiz
from secl.errors import ModelError
from tests.backends.local.conftest import MakeModel

pytestmark = pytest.mark.heavy


def test_a_pass_that_does_not_fit_into_memory_is_halved_until_it_does(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, cramped = make_model(), make_model()
    run, sizes = cramped.backend.network.run, list[int]()

    def run_if_it_fits(sequences: Sequence[Sequence[int]], **options: Any) -> Any:
        sizes.append(len(sequences))
        if len(sequences) > room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return run(sequences, **options)

    monkeypatch.setattr(cramped.backend.network, "run", run_if_it_fits)
    questions, room = quiz("capitals", 8, 3), 4  # the four letters of one question
    for model in (usual, cramped):
        model.prefetch(questions, [()] * len(questions), weights_fixed=True)
    assert sizes.count(4) == 8
    assert max(sizes) > 8
    for question in questions:
        one, other = (model.answer(question).reply for model in (usual, cramped))
        assert one.answer == other.answer
        assert one.confidence == pytest.approx(other.confidence, abs=1e-3)
    room = 3
    with pytest.raises(ModelError, match="a question alone needs more memory than the device has"):
        cramped.prefetch(quiz("science", 2, 3), [()] * 2, weights_fixed=True)


def test_texts_for_which_memory_is_too_small_together_are_written_in_halves(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, cramped = make_model(), make_model()
    step, rows = Batch.step, list[int]()

    def step_if_it_fits(batch: Batch, keep: list[int], tokens: list[int]) -> None:
        rows.append(len(keep))
        if batch.model is cramped.backend.model and len(keep) > room and len(rows) % 3 == 0:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        step(batch, keep, tokens)

    monkeypatch.setattr(Batch, "step", step_if_it_fits)
    padded, lacks = prefill._padded, list[int]()

    def padded_if_it_fits(begun: Sequence[Any], config: Any) -> Any:
        if model is cramped and len(begun) > 2:
            lacks.append(len(begun))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return padded(begun, config)

    monkeypatch.setattr(prefill, "_padded", padded_if_it_fits)
    questions, room = quiz("arithmetic", 5, 3), 2
    for model in (usual, cramped):
        model.prefetch(questions, [()] * len(questions), weights_fixed=True)
    for question in questions:
        one, other = (model.answer(question).reply for model in (usual, cramped))
        assert (one.text, one.answer_tokens) == (other.text, other.answer_tokens)
    assert lacks == [5]
    room = 0
    with pytest.raises(ModelError, match="a question alone needs more memory than the device has"):
        cramped.prefetch(quiz("arithmetic", 5, 4), [()] * 5, weights_fixed=True)


def test_a_gpu_takes_what_its_free_memory_holds_and_a_processor_what_keeps_it_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for free, expected in ((1 << 40, 2500), (2000 << 20, 2000), (1 << 20, 1000)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device, free=free: (free, 1 << 40))
        assert group_tokens(torch.device("cuda")) == expected
    assert group_tokens(torch.device("cpu")) == 1000
