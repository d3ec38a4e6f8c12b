"""Orders in which options are asked again: each option gets another letter, and no order comes twice."""

from __future__ import annotations

import pytest

from secl.prompts.orders import further_orders
from secl.question import LETTERS

SIZES = range(2, len(LETTERS) + 1)


@pytest.mark.parametrize("options", SIZES)
def test_every_option_has_another_letter_in_each_order_and_no_order_comes_twice(options: int) -> None:
    orders = further_orders(options, 1000)
    assert len(set(orders)) == len(orders)
    for order in orders:
        assert sorted(order) == list(range(options))
        assert all(number != place for place, number in enumerate(order))


@pytest.mark.parametrize("options", SIZES)
def test_there_are_all_rotations_and_the_reversed_order(options: int) -> None:
    # Of two options the reversed order is the rotation, and of three the repaired one is.
    assert len(further_orders(options, 1000)) == (options if options > 3 else options - 1)


@pytest.mark.parametrize("options", SIZES)
def test_fewer_orders_are_the_first_of_more(options: int) -> None:
    orders = further_orders(options, 1000)
    for count in range(len(orders) + 1):
        assert further_orders(options, count) == orders[:count]


@pytest.mark.parametrize("options", SIZES)
def test_the_first_is_the_reversed_order_but_for_a_middle_option(options: int) -> None:
    (order,) = further_orders(options, 1)
    moved = [place for place, number in enumerate(order) if number != options - 1 - place]
    assert len(moved) == (2 if options % 2 else 0)
    # Over both orders an option stands as far down as any other, give or take a place.
    together = [place + order.index(place) for place in range(options)]
    assert set(together) <= {options - 2, options - 1, options}
