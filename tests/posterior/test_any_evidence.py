"""Whatever the evidence is, there is a posterior that is one, or none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Likelihood, PTrue
from secl.posterior.rule import PosteriorRule
from secl.prompts.templates import other_order
from secl.question import LETTERS, Question
from secl.records import Reply
from secl.settings.groups import PosteriorSettings
from tests.posterior.synthetic import replied

LOG_P = st.one_of(st.floats(-20, 0), st.sampled_from([0.0, -1e4, -math.inf]))
P = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 5e-324]))
RULE = PosteriorRule(PosteriorSettings(views=("letters", "likelihood", "p_true")))


@st.composite
def asked(draw: st.DrawFn) -> tuple[Question, Reply, Evidence]:
    """A question with two to six options, some of them equal, and what the model says of them."""
    options = tuple(draw(st.lists(st.sampled_from(["a", "b", "c", "d", "a ", "A"]), min_size=2, max_size=6)))
    count = len(options)
    many = st.tuples(*[LOG_P] * count)
    reply = replied(LETTERS[draw(st.integers(0, count - 1))], draw(many))
    likelihood = st.one_of(
        st.none(), st.builds(Likelihood, given=LOG_P, alone=LOG_P, tokens=st.integers(min_value=1, max_value=9))
    )
    candidates = CandidateEvidence(
        candidates=options,
        letters=(LetterOrder(order=other_order(count), log_p=draw(many)),),
        likelihoods=draw(st.tuples(*[likelihood] * count)),
        source="options",
    )
    p_true = PTrue(
        candidates=options,
        probabilities=draw(st.tuples(*[P] * count)),
        false_probabilities=draw(st.tuples(*[P] * count)),
        distractor_source="options",
    )
    return Question("Which?", options), reply, Evidence(candidates=candidates, p_true=p_true)


@settings(max_examples=10, deadline=None)
@given(st.lists(asked(), min_size=1, max_size=8))
def test_any_evidence_gives_probabilities_or_none(stream: list[tuple[Question, Reply, Evidence]]) -> None:
    state = RULE.start()
    for question, reply, evidence in stream:
        views = RULE.read(question, reply, reply, evidence)
        before = state
        state, posterior = RULE.step(state, views)
        assert state == before or len(set(question.options)) == len(question.options)
        assert (posterior is None) == (views is None)
        if len(set(question.options)) < 2:
            assert posterior is None
            continue
        assert posterior is not None
        p = posterior.probabilities
        assert all(0 <= each <= 1 for each in p)
        assert math.fsum(dict(zip(question.options, p, strict=True)).values()) == pytest.approx(1)
        assert posterior.confidence == p[posterior.own or 0]
        assert p[posterior.best] == max(p)
        assert all(math.isfinite(weight) and weight >= 0 for _, weight in posterior.weights)
        for one, text in enumerate(question.options):
            assert p[one] == p[question.options.index(text)]
