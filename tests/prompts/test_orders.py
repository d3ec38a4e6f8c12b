"""The order in which options are asked again: each option gets another letter."""

from __future__ import annotations

import pytest

from secl.prompts.templates import other_order
from secl.question import LETTERS


@pytest.mark.parametrize("options", [2, 3, 4, 7, len(LETTERS)])
def test_every_option_has_another_letter_in_the_nearly_reversed_order(options: int) -> None:
    order = other_order(options)
    assert sorted(order) == list(range(options))
    assert all(number != place for place, number in enumerate(order))
    moved = [place for place, number in enumerate(order) if number != options - 1 - place]
    assert len(moved) == (2 if options % 2 else 0)
