""" "Knows nothing": how often views that know nothing pass for informed ones, and how often one that knows is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from secl.posterior.fit import FEWEST, fit
from secl.posterior.letters import agreements, follow_options
from secl.posterior.views import Views
from tests.posterior.synthetic import Generator, drawn, lettered, together, view

pytestmark = pytest.mark.heavy

Draw = Callable[[Generator], Views]
PLACES = (2.0, -2.0, -2.0, 2.0)


def share_informed(draw: Draw, questions: int, times: int = 200) -> float:
    """How often a stream of such questions is called informed."""
    rng = np.random.default_rng(0)
    return float(np.mean([fit([draw(rng) for _ in range(questions)], prior=20).informed for _ in range(times)]))


def noise(kind: str, count: int = 4) -> Draw:
    def draw(rng: Generator) -> Views:
        values = {
            "normal": rng.normal(size=count),
            "heavy tails": rng.standard_t(3, size=count),
            "unequal spread": rng.normal(size=count) * rng.gamma(1.0),
        }[kind]
        return view([values.tolist()])

    return draw


@pytest.mark.parametrize("questions", [FEWEST, 60])
def test_of_views_that_know_nothing_about_5_in_100_pass(questions: int) -> None:
    # Of 200 streams: two standard errors are 3 %.
    assert share_informed(noise("normal"), questions) == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize("kind", ["heavy tails", "unequal spread"])
def test_of_noise_with_outliers_fewer_pass(kind: str) -> None:
    assert share_informed(noise(kind), FEWEST) <= 0.05


@pytest.mark.parametrize("questions", [FEWEST, 60])
@pytest.mark.parametrize("places", [None, PLACES], ids=["no places", "places"])
def test_of_letters_that_follow_no_option_about_5_in_100_pass(questions: int, places: Sequence[float] | None) -> None:
    rng = np.random.default_rng(1)
    followed = [
        follow_options(agreements([lettered(rng, 4, places=places) for _ in range(questions)]), 1.645)
        for _ in range(200)
    ]
    assert np.mean(followed) == pytest.approx(0.05, abs=0.03)


def test_with_letters_and_texts_that_know_nothing_each_test_has_its_own_5_in_100() -> None:
    def draw(rng: Generator) -> Views:
        return together(lettered(rng, 4, places=PLACES), noise("normal")(rng))

    assert 0.05 < share_informed(draw, 40, times=80) < 0.2


@pytest.mark.parametrize(
    ("count", "delta", "questions", "least"),
    [(4, 2.0, 100, 0.95), (10, 2.0, 100, 0.95), (3, 2.0, 100, 0.9), (4, 1.2, 400, 0.75)],
)
def test_a_view_that_knows_is_seen(count: int, delta: float, questions: int, least: float) -> None:
    def draw(rng: Generator) -> Views:
        return drawn(rng, count, [delta], [[1.0]], ("likelihood",))[0]

    assert share_informed(draw, questions, times=20) >= least


@pytest.mark.parametrize("count", [2, 3, 4])
def test_letters_that_follow_the_options_are_seen_with_any_number_of_options(count: int) -> None:
    def draw(rng: Generator) -> Views:
        return lettered(rng, count, preference=1.0)

    assert share_informed(draw, 100, times=40) >= 0.95


@pytest.mark.parametrize("delta", [0.0, 3.0])
def test_of_two_candidates_no_view_but_the_letters_can_be_told_from_noise(delta: float) -> None:
    """One stands out upwards as far as the other does downwards."""

    def draw(rng: Generator) -> Views:
        return drawn(rng, 2, [delta], [[1.0]], ("likelihood",))[0]

    assert share_informed(draw, 100, times=40) == 0.0


def test_a_view_that_knows_the_wrong_one_is_not_informed() -> None:
    """One candidate stands out downwards: ruled out, and none of the others is preferred."""

    def draw(rng: Generator) -> Views:
        return drawn(rng, 4, [-3.0], [[0.5]], ("likelihood",))[0]

    assert share_informed(draw, 100, times=40) <= 0.05


def test_of_few_questions_none_is_called_uninformed() -> None:
    rng = np.random.default_rng(2)
    questions = [view([rng.normal(size=4).tolist()]) for _ in range(FEWEST)]
    assert all(fit(questions[:count], prior=20).informed for count in range(1, FEWEST))
    nothing = [view([[1.0, 1.0, -1.0, -1.0]])] * FEWEST
    assert fit(nothing[:-1], prior=20).informed
    assert not fit(nothing, prior=20).informed
