"""The posterior along a stream: pure steps, weights from earlier questions, letters that follow places or options."""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.errors import ParameterError
from secl.evidence import OPTIONS, CandidateEvidence, Evidence, LetterOrder, Likelihood, Posterior, PTrue
from secl.posterior.rule import LetterSums, PosteriorRule, PosteriorState, correlation, of_mean
from secl.posterior.views import Views, centred, read_views
from secl.prompts.templates import other_order
from secl.question import LETTERS as OPTION_LETTERS
from secl.question import Question
from secl.records import Record, Reply
from tests.answers import make_record, replied

RULE = PosteriorRule()


def texts_of(count: int) -> tuple[str, ...]:
    return tuple(f"candidate {i}" for i in range(count))


def lettered(
    rng: np.random.Generator, count: int, places: Sequence[float] = (0.0,), noise: float = 1.0, further: int = 1
) -> Views:
    """Letters in `1 + further` orders: the effects of their places, plus noise in each order."""
    texts, orders, half = texts_of(count), [], count // 2
    orders_of = [tuple(range(count)), other_order(count), (*range(half, count), *range(half))]
    for order in orders_of[: 1 + further]:
        log_p = noise * rng.normal(size=count)
        log_p[[*order]] += places
        orders.append(LetterOrder(order=order, log_p=centred(texts, log_p.tolist())))
    return Views(texts, 0, orders=tuple(orders))


def stream(count: int, seed: int = 0) -> list[Views]:
    """Letters in two orders, and likelihoods, both higher for the right one of four candidates."""
    rng = np.random.default_rng(seed)
    questions = []
    for _ in range(count):
        letters, right = lettered(rng, 4), np.arange(4) == rng.integers(4)
        texts = letters.candidates
        orders = tuple(replace(order, log_p=centred(texts, [*(order.log_p + 2 * right)])) for order in letters.orders)
        likelihood = centred(texts, [*(rng.normal(size=4) + 1.5 * right)])
        questions.append(replace(letters, values={"likelihood": likelihood}, orders=orders))
    return questions


def steps(
    rule: PosteriorRule, questions: Sequence[Views | None], state: PosteriorState | None = None
) -> tuple[list[PosteriorState], list[Posterior]]:
    """All states, the first one included, and the posteriors between them."""
    states, posteriors = [state or rule.start()], []
    for views in questions:
        after, posterior = rule.step(states[-1], views)
        assert posterior is not None
        states.append(after)
        posteriors.append(posterior)
    return states, posteriors


@pytest.mark.parametrize(("known", "reliability"), [(None, 2 / 3), (-0.2, 0.0), (0.8, 8 / 9)])
def test_the_first_question_is_weighed_by_what_is_known_of_the_model(known: float | None, reliability: float) -> None:
    (views,) = stream(1)
    _, (posterior,) = steps(PosteriorRule(letters=known), [views])
    assert posterior.reliability == pytest.approx(reliability)
    assert dict(posterior.weights) == pytest.approx({"letters": 0.8 * reliability, "likelihood": 0.5 - reliability / 3})
    assert (posterior.questions, posterior.candidates, posterior.own) == (0, views.candidates, 0)
    letters = np.mean([order.log_p for order in views.orders], axis=0)
    scores = 0.8 * reliability * letters + (0.5 - reliability / 3) * np.array(views.values["likelihood"])
    assert posterior.probabilities == pytest.approx(np.exp(scores) / np.exp(scores).sum())
    _, (own,) = steps(PosteriorRule(letters=known), [replace(views, none_last=True)])
    assert dict(own.weights)["letters"] == pytest.approx(0.3 * reliability)  # among the model's own answers


def test_the_weights_after_a_stream_are_those_of_an_independent_computation() -> None:
    questions = stream(80)
    last = steps(RULE, questions)[1][-1]
    letters = np.array([[order.log_p for order in views.orders] for views in questions[:79]])
    at_place = np.stack([letters[:, 0], letters[:, 1, ::-1]], axis=1)
    residual = at_place - at_place.mean(axis=0)
    one, other = residual[:, 0], residual[:, 1, ::-1]
    r = (79 * 2 * (one * other).sum() / ((one**2).sum() + (other**2).sum()) + 20 * 0.5) / 99
    reliability = 2 * r / (1 + r)
    assert last.reliability == pytest.approx(reliability, abs=1e-12)
    assert last.questions == 79
    views, of_places = questions[79], [o.sum(axis=0) / 84 for o in (at_place[:, 0], at_place[:, 1, ::-1])]
    less = np.array([order.log_p for order in views.orders]) - np.stack(of_places)
    scores = 0.8 * reliability * less.mean(axis=0) + (0.5 - reliability / 3) * np.array(views.values["likelihood"])
    assert last.probabilities == pytest.approx(np.exp(scores) / np.exp(scores).sum(), abs=1e-12)


def test_steps_are_pure_and_a_stream_can_be_taken_up_from_any_state_to_the_last_digit() -> None:
    questions = stream(25)
    states, posteriors = steps(RULE, questions)
    before = copy.deepcopy(states)
    for cut in (3, 20):
        later, rest = steps(RULE, questions[cut:], states[cut])
        assert posteriors[:cut] + rest == posteriors
        assert later[-1] == states[-1]
    assert states == before
    assert RULE.step(states[9], None) == (states[9], None)
    with pytest.raises(ParameterError, match="must lie in"):
        PosteriorRule(letters=1.1)


def test_open_questions_say_nothing_of_the_letters_of_options() -> None:
    choices = stream(30)
    opened = [replace(views, none_last=True) for views in stream(30, seed=1)]
    mixed = [views for pair in zip(choices, opened, strict=True) for views in pair]
    _, posteriors = steps(RULE, mixed)
    assert posteriors[::2] == steps(RULE, choices)[1]
    assert posteriors[1::2] == steps(RULE, opened)[1]


def recorded(question: Question, reply: Reply, evidence: Evidence) -> Record:
    return replace(make_record(), question=question, reply=reply, learning=None, evidence=evidence)


def test_a_letter_of_two_equal_options_is_worth_as_much_as_one_of_their_sum_and_none_of_these_is_no_answer() -> None:
    def posterior(options: tuple[str, ...], p: tuple[float, ...], likelihoods: tuple[float, ...]) -> Posterior:
        question, reply = Question("Capital?", options), replied("B", [math.log(letter) for letter in p])
        texts = tuple(Likelihood(given=value, alone=-9.0, tokens=1) for value in likelihoods)
        evidence = CandidateEvidence(candidates=options, letters=(), likelihoods=texts, source=OPTIONS)
        _, found = RULE.follow(RULE.start(), recorded(question, reply, Evidence(candidates=evidence)))
        assert found is not None
        return found

    twice = posterior(("Rome", "Paris", "Rome"), (0.5, 0.3, 0.2), (-1.0, -3.0, -1.0))
    once = posterior(("Rome", "Paris"), (0.7, 0.3), (-1.0, -3.0))
    assert twice.probabilities == pytest.approx((*once.probabilities, once.probabilities[0]))
    assert twice.own_probability == pytest.approx(once.own_probability)
    assert once.reliability == 0.5  # one order
    views = Views(("seven", "eight", "None of these"), 0, {"likelihood": (-3.0, 1.0, 2.0)}, none_last=True)
    _, (none,) = steps(RULE, [views])
    assert (none.unlisted, none.best) == (True, 1)


LOG_P = st.one_of(st.floats(-20, 0), st.sampled_from([0.0, -1e4, -math.inf]))
P = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 5e-324]))
ALL_VIEWS = PosteriorRule(("letters", "likelihood", "p_true"))


@st.composite
def asked(draw: st.DrawFn) -> Record:
    """A record of a question with two to six options, some equal, and with evidence about them."""
    texts = st.lists(st.sampled_from(["a", "b", "c", "d", "a ", "A"]), min_size=2, max_size=6)
    options = tuple(draw(texts.filter(lambda each: len({text.strip() for text in each}) > 1)))
    count = len(options)
    many = st.tuples(*[LOG_P] * count)
    reply = replied(OPTION_LETTERS[draw(st.integers(0, count - 1))], draw(many))
    likelihood = st.one_of(st.none(), st.builds(Likelihood, given=LOG_P, alone=LOG_P, tokens=st.integers(1, 9)))
    candidates = CandidateEvidence(
        candidates=options,
        letters=(LetterOrder(order=other_order(count), log_p=draw(many)),),
        likelihoods=draw(st.tuples(*[likelihood] * count)),
        source=OPTIONS,
    )
    p_true = PTrue(
        candidates=options,
        probabilities=draw(st.tuples(*[P] * count)),
        false_probabilities=draw(st.tuples(*[P] * count)),
        source=OPTIONS,
    )
    return recorded(Question("Which?", options), reply, Evidence(candidates=candidates, p_true=p_true))


@settings(max_examples=10)
@given(st.lists(asked(), min_size=1, max_size=8))
def test_any_evidence_gives_probabilities_or_none(stream: list[Record]) -> None:
    state = ALL_VIEWS.start()
    for record in stream:
        question, views = record.question, read_views(ALL_VIEWS.views, record)
        before = state
        state, posterior = ALL_VIEWS.step(state, views)
        assert state.letters == before.letters or len(set(question.options)) == len(question.options)
        assert (posterior is None) == (views is None)
        if len(set(question.options)) < 2:
            assert posterior is None
            continue
        assert posterior is not None
        p = posterior.probabilities
        assert all(0 <= share <= 1 for share in p)
        assert math.fsum(dict(zip(question.options, p, strict=True)).values()) == pytest.approx(1)
        assert posterior.own_probability == p[posterior.own or 0]
        assert p[posterior.best] == max(p)
        assert all(math.isfinite(weight) and weight >= 0 for _, weight in posterior.weights)
        for one, text in enumerate(question.options):
            assert p[one] == p[question.options.index(text)]


def sums(questions: Sequence[Views]) -> LetterSums:
    return reduce(LetterSums.add, questions, LetterSums.empty(questions[0]))


def known(questions: Iterable[Views], before: float) -> float:
    state = steps(RULE, [*questions])[0][-1]
    return correlation([sums for group, sums in sorted(state.letters.items()) if not group[2]], before)


def test_letters_of_an_open_question_have_the_places_of_its_first_order_and_a_mean_the_reliability_of_its_orders() -> (
    None
):
    both = (LetterOrder(order=(1, 0, 2), log_p=(1.0, 2.0, -3.0)), LetterOrder(order=(0, 2, 1), log_p=(4.0, -5.0, 1.0)))
    own = Views(texts_of(3), 0, orders=both, none_last=True)
    assert sums([own]).places == ((2.0, 1.0, -3.0), (-5.0, 4.0, 1.0))
    assert [of_mean(0.5, 1), of_mean(0.5, 3), of_mean(-0.9, 5)] == pytest.approx([0.5, 0.75, 0.0])  # Spearman-Brown


ENDS = (2.0, -2.0, -2.0, 2.0)


def test_letters_that_follow_places_alone_show_nothing_and_what_cannot_tell_leaves_what_was_known() -> None:
    rng = np.random.default_rng(0)
    # The reversed order swaps the first and the last place.
    for places in ((3.0, 0.0, -1.0, -2.0), ENDS, (-2.0, 2.0, 2.0, -2.0)):
        questions = [lettered(rng, 4, places=places, noise=0.0, further=2) for _ in range(20)]
        assert sums(questions).agreement == (0.0, 0.0)
    for silent in ([lettered(rng, 4, further=0) for _ in range(9)], [lettered(rng, count) for count in range(2, 11)]):
        assert known(silent, before=0.3) == 0.3
    assert math.isnan(known([], before=math.nan))
