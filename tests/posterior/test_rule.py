"""The posterior along a stream: pure, by constants and the letters' reliability, and blind to the future."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from secl.errors import ParameterError
from secl.evidence import CandidateEvidence, Evidence, Likelihood, Posterior
from secl.posterior.rule import PosteriorRule, PosteriorState
from secl.posterior.views import VIEWS, Views
from secl.question import Question
from secl.records import Reply
from tests.posterior.synthetic import drawn, lettered, texts_of, together, view

RULE = PosteriorRule()


def stream(count: int, seed: int = 0, sizes: Sequence[int] = (4,), delta: float = 1.5) -> list[Views]:
    """Letters in two orders and texts that know the right one."""
    rng = np.random.default_rng(seed)
    questions = []
    for number in range(count):
        texts, right = drawn(rng, sizes[number % len(sizes)], [delta], [[1.0]], ("likelihood",))
        letters = lettered(rng, len(texts.candidates))
        liked = tuple(
            replace(
                each,
                log_p=tuple(value + 2 * ((i == right) - 1 / len(each.log_p)) for i, value in enumerate(each.log_p)),
            )
            for each in letters.orders
        )
        questions.append(together(replace(letters, orders=liked), texts))
    return questions


def steps(
    rule: PosteriorRule, questions: Sequence[Views | None], state: PosteriorState | None = None
) -> tuple[list[PosteriorState], list[Posterior | None]]:
    """All states, the first one included, and the posteriors between them."""
    states, posteriors = [state or rule.start()], []
    for views in questions:
        after, posterior = rule.step(states[-1], views)
        states.append(after)
        posteriors.append(posterior)
    return states, posteriors


def test_without_views_there_is_no_posterior_and_nothing_is_learned() -> None:
    state = RULE.start()
    assert RULE.step(state, None) == (state, None)


@pytest.mark.parametrize(("known", "reliability"), [(None, 2 / 3), (0.0, 0.0), (-0.2, 0.0), (0.8, 8 / 9)])
def test_the_first_question_is_weighed_by_what_is_known_of_the_model(known: float | None, reliability: float) -> None:
    (views,) = stream(1)
    _, (posterior,) = steps(PosteriorRule(letters=known), [views])
    assert posterior is not None
    assert posterior.reliability == pytest.approx(reliability)
    assert dict(posterior.weights) == pytest.approx({"letters": 0.8 * reliability, "likelihood": 0.5 - reliability / 3})
    assert (posterior.questions, posterior.candidates, posterior.own) == (0, views.candidates, 0)
    letters = np.mean([order.log_p for order in views.orders], axis=0)
    scores = 0.8 * reliability * letters + (0.5 - reliability / 3) * np.array(views.values[1])
    assert posterior.probabilities == pytest.approx(np.exp(scores) / np.exp(scores).sum())


@pytest.mark.parametrize("known", [1.1, -2.0, math.nan])
def test_no_correlation_lies_beyond_one(known: float) -> None:
    with pytest.raises(ParameterError, match="must lie in"):
        PosteriorRule(letters=known)


def test_an_independent_computation_gives_the_same_weights() -> None:
    questions = stream(80)
    _, posteriors = steps(RULE, questions)
    letters = np.array([[order.log_p for order in views.orders] for views in questions[:79]])
    at_place = np.stack([letters[:, 0], letters[:, 1, ::-1]], axis=1)
    residual = at_place - at_place.mean(axis=0)
    one, other = residual[:, 0], residual[:, 1, ::-1]
    r = (79 * 2 * (one * other).sum() / ((one**2).sum() + (other**2).sum()) + 20 * 0.5) / 99
    last, reliability = posteriors[-1], 2 * r / (1 + r)
    assert last is not None
    assert last.reliability == pytest.approx(reliability, abs=1e-12)
    less = [order.log_p for order in questions[79].orders] - np.stack(
        [o.sum(axis=0) / 84 for o in (at_place[:, 0], at_place[:, 1, ::-1])]
    )
    scores = 0.8 * reliability * less.mean(axis=0) + (0.5 - reliability / 3) * np.array(questions[79].values[1])
    assert last.probabilities == pytest.approx(np.exp(scores) / np.exp(scores).sum(), abs=1e-12)
    assert last.questions == 79


def test_letters_that_do_not_follow_the_options_weigh_nothing_soon() -> None:
    rng = np.random.default_rng(3)
    questions = []
    for _ in range(200):
        other, _ = drawn(rng, 4, [2.0], [[1.0]], ("likelihood",))
        questions.append(together(lettered(rng, 4, places=(2.0, -2.0, -2.0, 2.0)), other))
    _, posteriors = steps(RULE, questions)
    last = posteriors[-1]
    assert last is not None
    assert dict(last.weights)["letters"] < 0.2
    assert VIEWS["likelihood"].weight(0.0) == 0.5
    blind, _ = steps(PosteriorRule(letters=0.0), questions)
    assert blind[-1].correlation(0.0, is_open=False) < 0.1


def test_a_step_changes_nothing_and_gives_the_same_again() -> None:
    questions = stream(25)
    states, posteriors = steps(RULE, questions)
    before = copy.deepcopy(states)
    for state, views, after, posterior in zip(states, questions, states[1:], posteriors, strict=False):
        assert RULE.step(state, views) == (after, posterior)
    assert states == before
    with pytest.raises(AttributeError):
        states[0].letters = {}  # type: ignore[misc]


def test_a_stream_can_be_taken_up_from_any_state_to_the_last_digit() -> None:
    questions = stream(25)
    states, posteriors = steps(RULE, questions)
    for cut in (3, 9, 20):
        later, rest = steps(RULE, questions[cut:], states[cut])
        assert posteriors[:cut] + rest == posteriors
        assert later[-1] == states[-1]


def test_open_questions_say_nothing_of_the_letters_of_options() -> None:
    choices = stream(30)
    opened = [replace(views, none_last=True) for views in stream(30, seed=1)]
    mixed = [views for pair in zip(choices, opened, strict=True) for views in pair]
    _, posteriors = steps(RULE, mixed)
    assert posteriors[::2] == steps(RULE, choices)[1]
    assert posteriors[1::2] == steps(RULE, opened)[1]


def check_valid(posteriors: Sequence[Posterior | None]) -> None:
    for posterior in posteriors:
        assert posterior is not None
        assert all(0 <= p <= 1 for p in posterior.probabilities)
        assert math.fsum(posterior.probabilities) == pytest.approx(1)
        assert all(0 <= weight <= 1 for _, weight in posterior.weights)
        assert posterior.reliability is None or 0 <= posterior.reliability <= 1


@pytest.mark.parametrize("sizes", [(4,), tuple(range(2, 11)), (2,)], ids=["4", "2 to 10", "2"])
def test_streams_of_any_number_of_options_rank_what_they_know(sizes: tuple[int, ...]) -> None:
    questions = stream(100, seed=7, sizes=sizes)
    _, posteriors = steps(RULE, questions)
    check_valid(posteriors)
    last = posteriors[-1]
    assert last is not None
    assert (last.reliability or 0) > 0.3


def test_one_option_repeated_is_one_candidate_with_the_same_probability_twice() -> None:
    texts = ("a", "b", "a", "c")
    state = RULE.start()
    for views in stream(60, seed=9):
        shared = replace(
            views,
            candidates=texts,
            values=tuple((v[0], v[1], v[0], v[3]) for v in views.values),
            orders=tuple(
                replace(each, log_p=(each.log_p[0], each.log_p[1], each.log_p[0], each.log_p[3]))
                for each in views.orders
            ),
        )
        after, posterior = RULE.step(state, shared)
        assert posterior is not None
        assert after == state  # it says nothing of places
        assert posterior.probabilities[0] == posterior.probabilities[2]
        assert math.fsum(posterior.probabilities[number] for number in shared.distinct) == pytest.approx(1)
        state, _ = RULE.step(state, views)


def test_a_letter_of_two_equal_options_is_worth_as_much_as_one_of_their_sum() -> None:
    def posterior(options: tuple[str, ...], p: tuple[float, ...], likelihoods: tuple[float, ...]) -> Posterior:
        question, log_p = Question("Capital?", options), tuple(map(math.log, p))
        reply = Reply(
            text="B", answer="B", bins=(0.1,) * 10, digit_mass=1.0, entropy=1.0, log_probability=0.0, option_log_p=log_p
        )
        texts = tuple(Likelihood(given=value, alone=-9.0, tokens=1) for value in likelihoods)
        evidence = CandidateEvidence(candidates=options, letters=(), likelihoods=texts, source="options")
        _, found = RULE.step(RULE.start(), RULE.read(question, reply, reply, Evidence(candidates=evidence)))
        assert found is not None
        return found

    twice = posterior(("Rome", "Paris", "Rome"), (0.5, 0.3, 0.2), (-1.0, -3.0, -1.0))
    once = posterior(("Rome", "Paris"), (0.7, 0.3), (-1.0, -3.0))
    assert twice.probabilities == pytest.approx((*once.probabilities, once.probabilities[0]))
    assert twice.confidence == pytest.approx(once.confidence)
    assert once.reliability == 0.5  # one order


@pytest.mark.parametrize("value", [0.0, -1e4, -1e30])
def test_extreme_evidence_gives_probabilities(value: float) -> None:
    questions = [replace(each) for each in stream(20, seed=10)]
    extreme = together(lettered(np.random.default_rng(0), 4, noise=0.0), view([[0.0, value, value / 2, value / 3]]))
    sure = tuple(replace(each, log_p=tuple(value * ((i == 0) - 0.25) for i in range(4))) for each in extreme.orders)
    questions[10:10] = [extreme, replace(extreme, orders=sure)]
    _, posteriors = steps(RULE, questions)
    check_valid(posteriors)


def test_the_number_of_candidates_is_up_to_the_question() -> None:
    _, posterior = RULE.step(RULE.start(), view([[0.0, 1.0]], own=None))
    assert posterior is not None
    assert posterior.candidates == texts_of(2)
    assert (posterior.confidence, posterior.best, posterior.reliability) == (None, 1, None)


def test_none_of_these_is_a_candidate_and_no_answer() -> None:
    views = Views(("seven", "eight", "None of these"), 0, ("likelihood",), ((-3.0, 1.0, 2.0),), none_last=True)
    _, posterior = RULE.step(RULE.start(), views)
    assert posterior is not None
    assert posterior.probabilities.index(max(posterior.probabilities)) == 2
    assert posterior.best == 1
