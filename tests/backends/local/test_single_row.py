"""Texts that are written alone use the kernels for one row, and leave the process as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from secl.backends.local.fast.batch import ONEDNN, fast_single_row
from secl.question import Question
from tests.backends.local.conftest import MakeModel


@pytest.fixture(params=[True, False])
def setting(request: pytest.FixtureRequest) -> Iterator[bool]:
    """What the user has chosen for the process."""
    before = ONEDNN.enabled
    ONEDNN.enabled = request.param
    yield request.param
    ONEDNN.enabled = before


def test_the_setting_comes_back_when_the_last_one_leaves(setting: bool) -> None:
    with fast_single_row:
        with fast_single_row:
            assert not ONEDNN.enabled
        assert not ONEDNN.enabled
    assert ONEDNN.enabled == setting


@pytest.mark.parametrize("served", [False, True])
def test_only_steps_of_a_text_that_is_written_alone_are_switched(make_model: MakeModel, served: bool) -> None:
    model = make_model()
    if served:  # other threads compute meanwhile
        model.set_pause_hook(lambda: None)
    seen: set[tuple[int, bool]] = set()

    def note(_module: Any, _args: Any, named: dict[str, Any]) -> None:
        rows, tokens = named["input_ids"].shape
        if tokens == 1:
            seen.add((rows, ONEDNN.enabled))

    model.backend.model.register_forward_pre_hook(note, with_kwargs=True)
    questions = [Question(f"Who wrote book {number}?") for number in range(2)]
    model.answer(Question("Who wrote Hamlet?"))
    model.prefetch(questions, [()] * 2, weights_fixed=True)
    assert (1, served) in seen
    assert (2, True) in seen
    assert (2, False) not in seen
