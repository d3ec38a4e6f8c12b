"""Orders in which options are asked again: each option gets another letter, and no order comes twice."""

from __future__ import annotations

import pytest

from secl.prompts.orders import further_orders
from secl.question import LETTERS


@pytest.mark.parametrize("options", [2, 3, 4, 7, len(LETTERS)])
def test_every_option_has_another_letter_in_each_order_and_the_first_is_nearly_reversed(options: int) -> None:
    orders = further_orders(options, 1000)
    # Of two options the reversed order is the rotation, and of three the repaired one is.
    assert len(set(orders)) == len(orders) == (options if options > 3 else options - 1)
    assert further_orders(options, 2) == orders[:2]
    for order in orders:
        assert sorted(order) == list(range(options))
        assert all(number != place for place, number in enumerate(order))
    moved = [place for place, number in enumerate(orders[0]) if number != options - 1 - place]
    assert len(moved) == (2 if options % 2 else 0)
