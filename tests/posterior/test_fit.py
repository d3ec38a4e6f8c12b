"""Weights without labels: expectation maximisation against the numbers that its data were drawn with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from secl.posterior.fit import Fit, Stack, fit, prior_fit
from secl.posterior.views import VIEWS, Views, centred
from secl.settings import ViewName
from tests.posterior.synthetic import drawn, lettered, texts_of, together, view

TWO: tuple[ViewName, ...] = ("likelihood", "pmi")
DELTA = (1.6, 1.0)
COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.6]])


def stream(seed: int, count: int, sizes: Sequence[int], delta: Sequence[float] = DELTA) -> list[Views]:
    rng = np.random.default_rng(seed)
    return [drawn(rng, sizes[i % len(sizes)], delta, COVARIANCE, TWO)[0] for i in range(count)]


@pytest.mark.parametrize("sizes", [(2,), (4,), (10,), (2, 3, 4, 7)], ids=str)
def test_the_fit_finds_the_weights_that_the_views_were_drawn_with(sizes: tuple[int, ...]) -> None:
    found = fit(stream(0, 2000, sizes), prior=1, level=False)
    assert found.weights == pytest.approx(np.linalg.solve(COVARIANCE, DELTA), rel=0.15)


@pytest.mark.parametrize("count", [4, 10])
def test_with_these_weights_probabilities_are_how_often_candidates_are_right(count: int) -> None:
    rng = np.random.default_rng(1)
    questions, right = zip(*(drawn(rng, count, DELTA, COVARIANCE, TWO) for _ in range(2000)), strict=True)
    found = fit(questions, prior=20, level=False)
    probabilities = np.array([found.probabilities(each) for each in questions])
    best = probabilities.argmax(1)
    assert probabilities.max(1).mean() == pytest.approx(np.mean(best == right), abs=0.03)


def test_the_prior_alone_by_hand() -> None:
    views = view([[2.0, 0.0, -2.0], [0.0, 3.0, -3.0]], TWO)
    found = prior_fit(views)
    assert found.weights == (VIEWS["likelihood"].prior, VIEWS["pmi"].prior) == (0.4, 0.1)
    exp = [math.exp(score) for score in (0.8, 0.3, -1.1)]
    assert found.probabilities(views) == pytest.approx([each / sum(exp) for each in exp])
    assert (found.questions, found.informed, found.places) == (0, True, {})
    assert math.isnan(found.reliability)
    assert math.isnan(found.agreement)


@pytest.mark.parametrize(("further", "weight"), [(0, 0.5), (1, 2 / 3), (2, 0.75)])
def test_the_prior_of_letters_grows_with_their_orders(further: int, weight: float) -> None:
    found = prior_fit(lettered(np.random.default_rng(0), 4, further=further))
    assert found.weights == pytest.approx((weight,))
    assert found.reliability == pytest.approx(weight if further else math.nan, nan_ok=True)


def test_few_questions_move_the_prior_little_and_many_move_it_far() -> None:
    start = np.array([VIEWS[name].prior for name in TWO])
    far = [
        np.abs(np.array(fit(stream(2, count, (4,)), prior=20, level=False).weights) - start).sum()
        for count in (1, 10, 100, 1000)
    ]
    assert far == sorted(far)
    assert far[0] < 0.2


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("sizes", [(2,), (4,), (2, 3, 10)], ids=str)
def test_a_prior_of_many_questions_keeps_its_weights_however_far_views_spread(
    size: float, sizes: tuple[int, ...]
) -> None:
    questions = [
        replace(views, values=tuple(tuple(size * value for value in values) for values in views.values))
        for views in stream(2, 100, sizes)
    ]
    held = fit(questions, prior=1e9, level=False)
    assert held.weights == pytest.approx([VIEWS[name].prior for name in TWO], rel=1e-4)


def test_letters_that_spread_far_are_not_trusted_the_more_for_it() -> None:
    rng = np.random.default_rng(1)
    questions = [lettered(rng, 4, preference=3.0) for _ in range(5)]
    assert fit(questions, prior=20, level=False).weights[0] < 1.2


def test_no_weight_is_below_0() -> None:
    # The second view only tells the noise of the first: S^-1 delta has (2.8, -2.2).
    rng = np.random.default_rng(3)
    questions = [drawn(rng, 4, [1.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], TWO)[0] for _ in range(1500)]
    first, second = fit(questions, prior=1, level=False).weights
    assert second == 0
    assert first == pytest.approx(1.0, rel=0.2)


def test_noise_beside_a_view_that_knows_weighs_next_to_nothing() -> None:
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        questions = [drawn(rng, 4, [2.0, 0.0], np.eye(2), TWO)[0] for _ in range(400)]
        found.append(fit(questions, prior=20, level=False).weights)
    known, noise = np.array(found).T
    assert known == pytest.approx(2.0, rel=0.3)  # the prior of 20 questions holds it back
    assert (noise >= 0).all()
    assert noise.max() < 0.3
    assert noise.mean() < 0.1


@pytest.mark.parametrize("count", [5, 20, 400])
def test_a_view_that_comes_twice_counts_once(count: int) -> None:
    rng = np.random.default_rng(4)
    single = [drawn(rng, 4, [2.0], [[1.0]], ("likelihood",))[0] for _ in range(count)]
    double = [replace(each, names=TWO, values=each.values * 2) for each in single]
    once, twice = fit(single, prior=20, level=False), fit(double, prior=20, level=False)
    # As long as there are few questions, the second one brings its prior: .1 beside .4.
    assert 0.85 < sum(twice.weights) / once.weights[0] < 1.35


@pytest.mark.parametrize("count", [5, 20, 400])
def test_a_view_that_says_the_same_of_all_changes_nothing(count: int) -> None:
    rng = np.random.default_rng(5)
    single = [drawn(rng, 4, [2.0], [[1.0]], ("likelihood",))[0] for _ in range(count)]
    padded = [replace(each, names=TWO, values=(*each.values, (0.0,) * 4)) for each in single]
    once, twice = fit(single, prior=20, level=False), fit(padded, prior=20, level=False)
    assert twice.weights[0] == pytest.approx(once.weights[0])
    assert math.isfinite(twice.weights[1])
    assert twice.probabilities(padded[0]) == pytest.approx(once.probabilities(single[0]))


def test_an_empty_stream_of_evidence_leaves_nothing_to_say() -> None:
    nothing = [view([[0.0] * 4, [0.0] * 4], TWO) for _ in range(30)]
    found = fit(nothing, prior=20)
    assert found.probabilities(nothing[0]) == (0.25,) * 4
    assert not found.informed
    letters = [lettered(np.random.default_rng(0), 4, noise=0.0) for _ in range(30)]
    assert fit(letters, prior=20).probabilities(letters[0]) == (0.25,) * 4


@pytest.mark.parametrize("size", [1e-9, 1e4])
@pytest.mark.parametrize("count", [1, 5, 50])
def test_tiny_and_huge_values_give_probabilities(size: float, count: int) -> None:
    rng = np.random.default_rng(6)
    questions = []
    for _ in range(count):
        other, _ = drawn(rng, 4, [2.0 * size, size], size**2 * COVARIANCE, TWO)
        questions.append(together(lettered(rng, 4, preference=size, noise=size), other))
    for found in (fit(questions, prior=20), prior_fit(questions[0])):
        for views in questions:
            probabilities = found.probabilities(views)
            assert all(0 <= p <= 1 for p in probabilities)
            assert math.fsum(probabilities) == pytest.approx(1)


def test_one_question_beyond_all_measure_is_survived() -> None:
    questions = stream(7, 100, (4,))
    questions[50] = view([[0.0, -1e4, -2e4, -3e4], [-1e4, 0.0, -1e4, -1e4]], TWO)
    found = fit(questions, prior=20)
    assert all(math.isfinite(weight) and weight >= 0 for weight in found.weights)
    assert math.fsum(found.probabilities(questions[50])) == pytest.approx(1)


def permuted(views: Views, order: Sequence[int]) -> Views:
    """The same candidates, counted in another order."""
    new = {old: i for i, old in enumerate(order)}
    return replace(
        views,
        candidates=tuple(views.candidates[old] for old in order),
        own=None if views.own is None else new[views.own],
        values=tuple(tuple(values[old] for old in order) for values in views.values),
        orders=tuple(
            replace(each, order=tuple(new[old] for old in each.order), log_p=tuple(each.log_p[old] for old in order))
            for each in views.orders
        ),
    )


def test_the_order_in_which_candidates_are_counted_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    questions = []
    for _ in range(60):
        count = int(rng.integers(2, 8))
        other, _ = drawn(rng, count, DELTA, COVARIANCE, TWO)
        questions.append(together(lettered(rng, count, preference=1.0), other))
    orders = [rng.permutation(len(each.candidates)).tolist() for each in questions]
    shuffled = [permuted(each, order) for each, order in zip(questions, orders, strict=True)]
    one, second = fit(questions, prior=20), fit(shuffled, prior=20)
    assert second.weights == pytest.approx(one.weights, rel=1e-6)
    assert (second.reliability, second.agreement) == pytest.approx((one.reliability, one.agreement))
    for views, mixed, order in zip(questions, shuffled, orders, strict=True):
        expected = [one.probabilities(views)[old] for old in order]
        assert second.probabilities(mixed) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9, 17, 26])
def test_equal_candidates_are_equally_probable_to_the_last_digit(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(50):
        texts = list(texts_of(count))
        one, other = rng.choice(count, 2, replace=False)
        texts[one] = texts[other]
        values = tuple(centred(texts, rng.normal(size=count).tolist()) for _ in range(3))
        views = Views(tuple(texts), 0, ("likelihood", "pmi", "p_true"), values)
        found = Fit(views.names, (0.37, 1.21, 0.77), {}, math.nan, math.nan, informed=True, questions=9)
        probabilities = found.probabilities(views)
        assert probabilities[one] == probabilities[other]


def test_the_first_of_equal_values_is_the_best() -> None:
    stack = Stack.of([np.array([[0.0], [2.0], [2.0]]), np.array([[1.0], [1.0]])])
    assert stack.best(stack.x[:, 0]).tolist() == [1, 3]
    assert stack.softmax(np.zeros(5)).tolist() == pytest.approx([1 / 3] * 3 + [1 / 2] * 2)


def levelled(agree: float, count: int) -> list[Views]:
    """Letters that are always sure of a candidate, now of this one and now of that, and texts that so often agree."""
    questions = []
    for number in range(count):
        letters = lettered(np.random.default_rng(0), 4)
        sure = number % 4
        preferred = sure if number % 10 < 10 * agree else (sure + 1) % 4
        log_p = centred(texts_of(4), [9.0 * (i == sure) for i in range(4)])
        texts = view([[float(i == preferred) for i in range(4)]])
        orders = tuple(replace(each, log_p=log_p) for each in letters.orders)
        questions.append(together(replace(letters, orders=orders), texts))
    return questions


@pytest.mark.parametrize("preference", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("count", [5, 50, 400])
def test_letters_weigh_at_most_their_reliability(preference: float, count: int) -> None:
    rng = np.random.default_rng(11)
    questions = []
    for _ in range(count):
        other, _ = drawn(rng, 4, [1.5], [[1.0]], ("likelihood",))
        questions.append(together(lettered(rng, 4, preference=preference, noise=0.5), other))
    found = fit(questions, prior=20, level=False)
    assert 0 <= found.weights[0] <= found.reliability * VIEWS["letters"].prior + 1e-9
    assert found.reliability <= 1


def test_letters_that_never_change_are_believed_as_the_model_does_and_others_are_lowered_with_them() -> None:
    questions = levelled(0.7, 100)
    found = fit(questions, prior=20, level=False)
    free = fit(questions, prior=20, level=False, use_reliability=False)
    assert found.weights[0] == pytest.approx(found.reliability)
    assert free.weights[0] > 3
    assert 0 < found.weights[1] < free.weights[1] / 2


@pytest.mark.parametrize("agree", [0.4, 0.7])
def test_letters_are_no_surer_than_they_agree_with_texts(agree: float) -> None:
    questions = levelled(agree, 100)
    free, bound = fit(questions, prior=20, level=False), fit(questions, prior=20)

    def confidence(found: Fit) -> float:
        sure = [views.orders[0].log_p.index(max(views.orders[0].log_p)) for views in questions]
        return float(np.mean([found.probabilities(views)[i] for views, i in zip(questions, sure, strict=True)]))

    assert bound.agreement == pytest.approx(agree)
    assert math.isnan(free.agreement)
    believed = confidence(free)
    assert believed > 0.9
    # The prior's 20 questions take them at their word.
    assert confidence(bound) == pytest.approx((agree * 100 + believed * 20) / 120, abs=1e-4)
    shares = np.array(bound.weights) / np.array(free.weights)
    assert shares == pytest.approx([shares[0]] * 2)


def test_texts_that_always_agree_leave_the_level_alone() -> None:
    questions = levelled(1.0, 100)
    assert fit(questions, prior=20).weights == fit(questions, prior=20, level=False).weights


def test_letters_and_texts_that_never_agree_leave_no_confidence() -> None:
    questions = levelled(0.0, 2000)
    assert fit(questions, prior=20).weights == (0.0, 0.0)


def test_without_texts_or_with_letters_that_weigh_nothing_there_is_no_level() -> None:
    rng = np.random.default_rng(10)
    letters = [lettered(rng, 4, preference=1.0) for _ in range(50)]
    assert math.isnan(fit(letters, prior=20).agreement)
    assert fit(letters, prior=20) == fit(letters, prior=20)
    places = [together(lettered(rng, 4, places=(1, 2, 3, 4), noise=0), view([[1.0, 0, 0, 0]])) for _ in range(50)]
    assert math.isnan(fit(places, prior=20).agreement)
