"""Letters under several orders: what belongs to the place is told apart from what belongs to the option."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from secl.evidence import LetterOrder
from secl.posterior import letters
from secl.posterior.fit import fit
from secl.posterior.letters import (
    agreements,
    mean_letters,
    of_mean,
    place_effects,
    without_places,
)
from secl.posterior.views import Views
from tests.posterior.synthetic import drawn, lettered, texts_of, together


def reliability(questions: Sequence[Views]) -> float:
    return letters.reliability(agreements(questions))


def follow_options(questions: Sequence[Views]) -> bool:
    return letters.follow_options(agreements(questions), 1.645)


def two(first: Sequence[float], second: Sequence[float]) -> Views:
    """Two candidates in both orders."""
    orders = (LetterOrder(order=(0, 1), log_p=tuple(first)), LetterOrder(order=(1, 0), log_p=tuple(second)))
    return Views(texts_of(2), 0, ("letters",), ((0.0, 0.0),), orders)


QUESTIONS = [two((1, -1), (2, -2)), two((-3, 3), (0, 0))]


def test_place_effects_by_hand() -> None:
    # In the first order candidate 0 stands at the first place (1 - 3), in the second candidate 1 does (-2 + 0).
    assert place_effects(QUESTIONS, prior=0.0) == {(2, 0): (-1.0, 1.0), (2, 1): (-1.0, 1.0)}
    assert place_effects(QUESTIONS) == {(2, 0): (-2 / 7, 2 / 7), (2, 1): (-2 / 7, 2 / 7)}


def test_letters_without_place_effects_by_hand() -> None:
    places = place_effects(QUESTIONS, prior=0.0)
    assert without_places(QUESTIONS[0], places) == [(2.0, -2.0), (1.0, -1.0)]
    assert without_places(QUESTIONS[1], places) == [(-2.0, 2.0), (-1.0, 1.0)]
    assert mean_letters(QUESTIONS[1], places) == (-1.5, 1.5)
    assert mean_letters(QUESTIONS[1], {}) == (-1.5, 1.5)
    # Nothing is known of the places of three candidates.
    third = lettered(np.random.default_rng(0), 3)
    for found, each in zip(without_places(third, places), third.orders, strict=True):
        assert found == pytest.approx(each.log_p)


def test_reliability_by_hand() -> None:
    # Products 4 + 4, squares 5 + 5, and five pseudo-questions with squares of 5 and a correlation of one half.
    assert reliability(QUESTIONS) == pytest.approx((8 + 12.5) / (10 + 25))


@pytest.mark.parametrize(
    ("correlation", "orders", "expected"),
    [(0.5, 1, 0.5), (0.5, 2, 2 / 3), (0.5, 3, 0.75), (1.0, 4, 1.0), (0.0, 2, 0.0), (-0.9, 5, 0.0), (0.2, 4, 0.5)],
)
def test_the_reliability_of_a_mean_is_spearman_and_browns(correlation: float, orders: int, expected: float) -> None:
    assert of_mean(correlation, orders) == pytest.approx(expected)


def test_one_order_has_no_reliability_and_a_question_alone_has_the_prior() -> None:
    rng = np.random.default_rng(0)
    single = [lettered(rng, 4, further=0) for _ in range(30)]
    assert agreements(single) == []
    assert math.isnan(fit(single, prior=20).reliability)
    assert reliability([lettered(rng, 4)]) == 0.5
    assert reliability([lettered(rng, count) for count in range(2, 11)]) == 0.5


PLACES = {
    "first": (3.0, 0.0, -1.0, -2.0),
    "ends": (2.0, -2.0, -2.0, 2.0),  # alike in an order and its reverse
    "middle": (-2.0, 2.0, 2.0, -2.0),
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("count", [2, 5, 20, 400])
@pytest.mark.parametrize("further", [1, 2])
def test_a_model_that_follows_places_alone_is_not_believed(places: tuple[float, ...], count: int, further: int) -> None:
    rng = np.random.default_rng(0)
    questions = [lettered(rng, 4, places=places, noise=0.0, further=further) for _ in range(count)]
    assert reliability(questions) <= 0
    found = fit(questions, prior=20)
    assert found.reliability == 0
    assert found.weights == (0.0,)
    assert found.probabilities(questions[0]) == (0.25,) * 4
    assert not follow_options(questions)


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_noise_around_places_is_as_unreliable_as_noise_alone(places: tuple[float, ...]) -> None:
    found = {}
    for name, effects in (("places", places), ("none", None)):
        rng = np.random.default_rng(0)
        found[name] = [reliability([lettered(rng, 4, places=effects) for _ in range(40)]) for _ in range(50)]
    assert found["places"] == pytest.approx(found["none"])
    # The prior of 5 questions beside 40 is left.
    assert np.mean(found["none"]) == pytest.approx(0.5 * 5 / 45, abs=0.03)


@pytest.mark.parametrize("places", [None, (2.0, -2.0, -2.0, 2.0)])
@pytest.mark.parametrize("preference", [0.5, 1.0, 2.0])
def test_reliability_is_the_share_of_the_preference(places: tuple[float, ...] | None, preference: float) -> None:
    rng = np.random.default_rng(1)
    questions = [lettered(rng, 4, places=places, preference=preference, further=2) for _ in range(1500)]
    assert reliability(questions) == pytest.approx(preference**2 / (preference**2 + 1), abs=0.03)
    assert follow_options(questions)


def test_places_are_kept_apart_by_the_number_of_candidates_and_of_the_order() -> None:
    rng = np.random.default_rng(2)
    effects = {3: (2.0, 0.0, -2.0), 4: (-1.0, 3.0, -1.0, -1.0)}
    questions = [lettered(rng, count, places=effects[count], noise=0.0) for count in (3, 4) * 20]
    places = place_effects(questions, prior=0.0)
    assert set(places) == {(3, 0), (3, 1), (4, 0), (4, 1)}
    for (count, _), values in places.items():
        assert values == pytest.approx(effects[count])
    assert reliability(questions) <= 0


def test_unreliable_letters_weigh_nothing_beside_a_view_that_knows() -> None:
    rng = np.random.default_rng(3)
    questions = []
    for _ in range(200):
        other, _ = drawn(rng, 4, [2.0], [[1.0]], ("likelihood",))
        questions.append(together(lettered(rng, 4, places=(2.0, -2.0, -2.0, 2.0), noise=0.0), other))
    found = fit(questions, prior=20)
    assert found.weights[0] == 0
    assert found.weights[1] > 1
