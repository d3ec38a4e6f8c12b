"""Letters under two orders: what belongs to the place is told apart from what belongs to the option."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from secl.evidence import LetterOrder
from secl.posterior.letters import LetterSums, correlation, of_mean
from secl.posterior.rule import PosteriorState
from secl.posterior.views import Views
from tests.posterior.synthetic import lettered, texts_of


def sums(questions: Sequence[Views]) -> LetterSums:
    found = LetterSums.empty(questions[0])
    for views in questions:
        found = found.add(views)
    return found


def known(questions: Iterable[Views], before: float = 0.5, weight: float = 0.0) -> float:
    state = PosteriorState()
    for views in questions:
        state = state.add(views)
    return state.correlation(before, weight, is_open=False)


def two(first: Sequence[float], second: Sequence[float]) -> Views:
    """Two candidates in both orders."""
    orders = (LetterOrder(order=(0, 1), log_p=tuple(first)), LetterOrder(order=(1, 0), log_p=tuple(second)))
    return Views(texts_of(2), 0, orders=orders)


QUESTIONS = [two((1, -1), (2, -2)), two((-3, 3), (0, 0))]


def test_sums_by_hand() -> None:
    found = sums(QUESTIONS)
    assert found == LetterSums(2, ((-2.0, 2.0), (2.0, -2.0)), 2 + 8 + 18, 18 + 18)
    # In the first order candidate 0 has -2 / 7 for its place, in the second 2 / 7.
    assert found.mean_letters(QUESTIONS[0]) == pytest.approx((1.5, -1.5))
    assert found.mean_letters(two((1, -1), (1, -1))) == pytest.approx((1.0, -1.0))
    # Less their places the letters are (2, -2), (1, -1) and (-2, 2), (-1, 1): products 4 + 4, squares 5 + 5.
    assert found.agreement == pytest.approx((8, 10))
    assert correlation([found], 0.5, 20) == pytest.approx((2 * 0.8 + 20 * 0.5) / 22)


def test_the_reliability_of_a_mean_is_spearman_and_browns() -> None:
    assert [of_mean(0.5, 1), of_mean(0.5, 3), of_mean(-0.9, 5)] == pytest.approx([0.5, 0.75, 0.0])


def test_what_cannot_tell_leaves_what_was_known() -> None:
    rng = np.random.default_rng(0)
    for questions in (
        [lettered(rng, 4, further=0) for _ in range(9)],
        [lettered(rng, count) for count in range(2, 11)],
    ):
        assert known(questions, before=0.3, weight=20) == 0.3
    assert math.isnan(known([], before=math.nan))


FIRST, ENDS, MIDDLE = (3.0, 0.0, -1.0, -2.0), (2.0, -2.0, -2.0, 2.0), (-2.0, 2.0, 2.0, -2.0)


@pytest.mark.parametrize("places", [FIRST, ENDS, MIDDLE])  # the ends are alike in an order and its reverse
def test_letters_that_follow_places_alone_show_nothing(places: tuple[float, ...]) -> None:
    rng = np.random.default_rng(0)
    questions = [lettered(rng, 4, places=places, noise=0.0, further=2) for _ in range(20)]
    assert sums(questions).agreement == (0.0, 0.0)


@pytest.mark.parametrize("places", [None, ENDS])
@pytest.mark.parametrize("preference", [0.5, 2.0])
def test_correlation_is_the_share_of_the_preference(places: tuple[float, ...] | None, preference: float) -> None:
    rng = np.random.default_rng(1)
    questions = [lettered(rng, 4, places=places, preference=preference, further=2) for _ in range(1000)]
    assert known(questions) == pytest.approx(preference**2 / (preference**2 + 1), abs=0.03)


def test_an_open_question_is_added_up_by_the_places_of_its_own_first_order() -> None:
    orders = (
        LetterOrder(order=(1, 0, 2), log_p=(1.0, 2.0, -3.0)),
        LetterOrder(order=(0, 2, 1), log_p=(4.0, -5.0, 1.0)),
    )
    views = Views(texts_of(3), 0, orders=orders, none_last=True)
    assert sums([views]).places == ((2.0, 1.0, -3.0), (-5.0, 4.0, 1.0))
