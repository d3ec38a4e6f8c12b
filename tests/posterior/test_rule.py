"""The posterior along a stream: pure, fitted on schedule to what the window holds, and blind to the future."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from secl.evidence import CandidateEvidence, Evidence, Likelihood, Posterior
from secl.posterior.fit import FEWEST, fit, prior_fit
from secl.posterior.rule import PosteriorRule, PosteriorState
from secl.posterior.views import Views
from secl.question import Question
from secl.records import Reply
from secl.settings import PosteriorSettings, ViewName
from tests.posterior.synthetic import drawn, lettered, texts_of, together, view

TWO: tuple[ViewName, ...] = ("likelihood", "pmi")
SMALL = PosteriorRule(PosteriorSettings(window=8, refit=3))


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
    state = SMALL.start()
    assert SMALL.step(state, None) == (state, None)


def test_before_the_first_fit_the_prior_weighs() -> None:
    questions = stream(5)
    _, posteriors = steps(PosteriorRule(), questions)
    for views, posterior in zip(questions, posteriors, strict=True):
        assert posterior is not None
        assert posterior.probabilities == prior_fit(views).probabilities(views)
        assert posterior.weights == (("letters", 2 / 3), ("likelihood", 0.4))
        assert (posterior.reliability, posterior.agreement) == (2 / 3, None)
        assert (posterior.informed, posterior.questions) == (True, 0)
        assert (posterior.candidates, posterior.own) == (views.candidates, 0)


@pytest.mark.parametrize(
    ("refit", "fits"),
    [(20, [5, 10, 20, 40, 60]), (7, [5, 7, 14, 21, 28, 35, 42, 49, 56, 63]), (5, [*range(5, 64, 5)]), (64, [5, 10])],
)
def test_weights_are_fitted_on_schedule(refit: int, fits: list[int]) -> None:
    _, posteriors = steps(PosteriorRule(PosteriorSettings(refit=refit)), stream(64))
    seen = [each.questions for each in posteriors if each is not None]
    assert seen == [max((n for n in fits if n <= position), default=0) for position in range(64)]


def test_a_question_is_weighed_by_what_came_before_it() -> None:
    questions = stream(30)
    rule = PosteriorRule(PosteriorSettings(refit=10))
    _, posteriors = steps(rule, questions)
    known = fit(questions[:20], prior=20)
    last = posteriors[-1]
    assert last is not None
    assert last.probabilities == known.probabilities(questions[-1])
    assert [weight for _, weight in last.weights] == list(known.weights)
    _, other = steps(rule, [*questions[:20], *reversed(questions[20:])])
    assert other[:20] == posteriors[:20]
    assert other[20] == last


def test_the_window_forgets() -> None:
    one, other, common = stream(20, seed=1), stream(20, seed=2, delta=0.0), stream(8, seed=3)
    rule = PosteriorRule(PosteriorSettings(window=8, refit=4))
    (*_, first), _ = steps(rule, [*one, *common])
    (*_, second), _ = steps(rule, [*other, *common])
    assert first == second
    (group,) = first.groups.values()
    assert group.latest == tuple(common)
    assert group.fit.questions == 8


def test_a_step_changes_nothing_and_gives_the_same_again() -> None:
    questions = stream(25)
    states, posteriors = steps(SMALL, questions)
    before = copy.deepcopy(states)
    for state, views, after, posterior in zip(states, questions, states[1:], posteriors, strict=False):
        assert SMALL.step(state, views) == (after, posterior)
    assert states == before
    with pytest.raises(AttributeError):
        states[0].groups = {}  # type: ignore[misc]


def test_a_stream_can_be_taken_up_from_any_state() -> None:
    questions = stream(25)
    states, posteriors = steps(SMALL, questions)
    for cut in (3, 9, 20):
        later, rest = steps(SMALL, questions[cut:], states[cut])
        assert posteriors[:cut] + rest == posteriors
        assert later[-1] == states[-1]


def test_questions_with_other_views_or_orders_are_weighed_apart() -> None:
    rng = np.random.default_rng(4)
    kinds = [
        stream(30, seed=5),
        [view([rng.normal(size=3).tolist()] * 2, TWO) for _ in range(30)],
        [lettered(rng, 4, further=2, preference=1.0) for _ in range(30)],
        [lettered(rng, 4, preference=1.0) for _ in range(30)],
    ]
    mixed = [views for group in zip(*kinds, strict=True) for views in group]
    (*_, state), posteriors = steps(SMALL, mixed)
    for number, group in enumerate(kinds):
        _, alone = steps(SMALL, group)
        assert posteriors[number::4] == alone
    assert set(state.groups) == {
        ("letters", "likelihood", 2),
        ("likelihood", "pmi", 0),
        ("letters", 3),
        ("letters", 2),
    }


def test_what_knows_nothing_says_so_and_gives_each_candidate_the_same() -> None:
    rng = np.random.default_rng(6)
    # Symmetric by construction: no third moment.
    values = [rng.normal(size=2) for _ in range(FEWEST + 1)]
    questions = [view([[a, -a, b, -b]]) for a, b in values]
    _, posteriors = steps(PosteriorRule(PosteriorSettings(guard=True)), questions)
    before, last = posteriors[FEWEST - 1], posteriors[FEWEST]
    assert before is not None
    assert last is not None
    assert before.informed
    assert len(set(before.probabilities)) == 4
    assert not last.informed
    assert last.probabilities == (0.25,) * 4
    assert last.confidence == 0.25
    assert last.best == last.own
    unguarded = PosteriorRule(PosteriorSettings(guard=False))
    _, posteriors = steps(unguarded, questions)
    last = posteriors[FEWEST]
    assert last is not None
    assert not last.informed
    assert len(set(last.probabilities)) == 4


def check_valid(posteriors: Sequence[Posterior | None]) -> None:
    for posterior in posteriors:
        assert posterior is not None
        assert all(0 <= p <= 1 for p in posterior.probabilities)
        assert math.fsum(posterior.probabilities) == pytest.approx(1)
        assert all(math.isfinite(weight) and weight >= 0 for _, weight in posterior.weights)
        assert posterior.reliability is None or 0 <= posterior.reliability <= 1


@pytest.mark.parametrize("count", [30, 100, 300])
@pytest.mark.parametrize("sizes", [(4,), tuple(range(2, 11)), (2,)], ids=["4", "2 to 10", "2"])
def test_streams_short_and_long_rank_what_they_know(count: int, sizes: tuple[int, ...]) -> None:
    questions = stream(count, seed=7, sizes=sizes)
    _, posteriors = steps(PosteriorRule(), questions)
    check_valid(posteriors)


@pytest.mark.parametrize("sure_of", ["right", "wrong", "nothing"])
def test_a_domain_that_is_all_right_or_all_wrong_is_survived(sure_of: str) -> None:
    rng = np.random.default_rng(8)
    questions = stream(40, seed=8)
    for _ in range(60):
        number = int(rng.integers(4))
        texts = view([[20.0 * (i == number) for i in range(4)]])
        sure = 30.0 * (sure_of != "nothing")
        agreed = number if sure_of == "right" else (number + 1) % 4
        letters = lettered(rng, 4, noise=1e-3)
        orders = tuple(
            replace(each, log_p=tuple(sure * ((i == agreed) - 0.25) + v for i, v in enumerate(each.log_p)))
            for each in letters.orders
        )
        questions.append(together(replace(letters, orders=orders), texts))
    _, posteriors = steps(PosteriorRule(), questions)
    check_valid(posteriors)
    last = posteriors[-1]
    assert last is not None
    if sure_of == "right":
        assert max(last.probabilities) > 0.9


def test_one_option_repeated_is_one_candidate_with_the_same_probability_twice() -> None:
    texts = ("a", "b", "a", "c")
    rule, state = PosteriorRule(), PosteriorRule().start()
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
        state, posterior = rule.step(state, shared)
        assert posterior is not None
        # Letters lose what their places get, which differs; equal texts share what is left.
        assert posterior.probabilities[0] == posterior.probabilities[2]
        assert math.fsum(posterior.probabilities[number] for number in shared.distinct) == pytest.approx(1)


def test_a_letter_of_two_equal_options_is_worth_as_much_as_one_of_their_sum() -> None:
    def posterior(options: tuple[str, ...], p: tuple[float, ...], likelihoods: tuple[float, ...]) -> Posterior:
        question, log_p = Question("Capital?", options), tuple(map(math.log, p))
        reply = Reply(
            text="B", answer="B", bins=(0.1,) * 10, digit_mass=1.0, entropy=1.0, log_probability=0.0, option_log_p=log_p
        )
        texts = tuple(Likelihood(given=value, alone=-9.0, tokens=1) for value in likelihoods)
        evidence = CandidateEvidence(candidates=options, letters=(), likelihoods=texts, source="options")
        rule = PosteriorRule()
        _, found = rule.step(rule.start(), rule.read(question, reply, reply, Evidence(candidates=evidence)))
        assert found is not None
        return found

    twice = posterior(("Rome", "Paris", "Rome"), (0.5, 0.3, 0.2), (-1.0, -3.0, -1.0))
    once = posterior(("Rome", "Paris"), (0.7, 0.3), (-1.0, -3.0))
    assert twice.probabilities == pytest.approx((*once.probabilities, once.probabilities[0]))
    assert twice.confidence == pytest.approx(once.confidence)


@pytest.mark.parametrize("value", [0.0, -1e4, -1e30])
def test_extreme_evidence_gives_probabilities(value: float) -> None:
    questions = [replace(each) for each in stream(20, seed=10)]
    extreme = together(lettered(np.random.default_rng(0), 4, noise=0.0), view([[0.0, value, value / 2, value / 3]]))
    sure = tuple(replace(each, log_p=tuple(value * ((i == 0) - 0.25) for i in range(4))) for each in extreme.orders)
    questions[10:10] = [extreme, replace(extreme, orders=sure)]
    with np.errstate(all="ignore"):
        _, posteriors = steps(PosteriorRule(), questions)
    check_valid(posteriors)


def test_the_number_of_candidates_is_up_to_the_question() -> None:
    views = view([[0.0, 1.0]], own=None)
    _, posterior = PosteriorRule().step(PosteriorRule().start(), views)
    assert posterior is not None
    assert posterior.candidates == texts_of(2)
    assert posterior.confidence is None
    assert posterior.best == 1


def test_none_of_these_is_a_candidate_and_no_answer() -> None:
    views = Views(("seven", "eight", "None of these"), 0, ("pmi",), ((-3.0, 1.0, 2.0),), none_last=True)
    _, posterior = PosteriorRule().step(PosteriorRule().start(), views)
    assert posterior is not None
    assert posterior.probabilities.index(max(posterior.probabilities)) == 2
    assert posterior.best == 1
    assert views.key != replace(views, none_last=False).key
