"""Every signal, against the formula it stands for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.evidence import DincoEvidence, Evidence, PTrue
from secl.metrics.probability import normalised_p_true
from secl.question import Question
from secl.records import Reply
from secl.settings.groups import Formula, SignalName
from secl.signals import (
    DincoSignal,
    NormalisedPTrue,
    RawPTrue,
    SelfConsistency,
    Signal,
    answer_probability,
    consistency,
    make_signal,
    normalised_verbalised_confidence,
    token_entropy,
)

CHOICE = Question("Which is a metal?", options=("neon", "iron", "argon"), reference="B")
OPEN = Question("Longest river?", reference="Nile")
BINS = (0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.3, 0.4)
REPLY = Reply(text="B", answer="B", bins=BINS, digit_mass=0.9, entropy=0.7, log_probability=-0.2)
JUDGEMENT = PTrue(candidates=("iron", "neon", "argon"), probabilities=(0.6, 0.3, 0.1), distractor_source="options")
BEAMS = DincoEvidence(
    candidates=("neon", "iron"),
    answers=("A", "B"),
    beams=2,
    p_yes=(0.9, 0.6),
    entails=((1.0, 0.1), (0.3, 1.0)),
    contradicts=((0.0, 0.8), (0.6, 0.0)),
    agreement=((1.0, 0.95, 0.1, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0, 1.0)),
    nli_name="self",
)
EVIDENCE = Evidence(JUDGEMENT, ("B", "B", "A", None), BEAMS)
SIGNALS: list[Signal] = [RawPTrue(), NormalisedPTrue(0.7), NormalisedPTrue(0.7, "exp"), SelfConsistency()]
SIGNALS += [SelfConsistency("mode"), DincoSignal(), DincoSignal("greedy")]


@pytest.mark.parametrize("signal", SIGNALS, ids=str)
def test_a_signal_is_a_probability_of_a_named_answer_and_says_nothing_without_its_evidence(signal: Signal) -> None:
    confidence = signal(CHOICE, REPLY, EVIDENCE)
    assert confidence is not None
    assert 0.0 <= confidence <= 1.0
    assert signal.answer(CHOICE, REPLY, EVIDENCE) in CHOICE.letters
    assert signal(CHOICE, REPLY, Evidence()) is None


def test_what_a_reply_and_p_true_say_is_their_formula() -> None:
    assert REPLY.stated_hard == 0.95
    assert answer_probability(REPLY) == math.exp(-0.2)
    assert answer_probability(replace(REPLY, log_probability=math.nan)) is None
    assert token_entropy(REPLY) == math.exp(-0.7)
    assert RawPTrue()(CHOICE, REPLY, EVIDENCE) == 0.6
    for formula in get_args(Formula):
        expected = normalised_p_true(JUDGEMENT.probabilities, 0.7, formula)
        assert NormalisedPTrue(0.7, formula)(CHOICE, REPLY, EVIDENCE) == expected


def test_equal_options_are_one_candidate() -> None:
    def judged(texts: tuple[str, ...], probabilities: tuple[float, ...]) -> Evidence:
        return Evidence(PTrue(candidates=texts, probabilities=probabilities, distractor_source="options"))

    twice, once = judged(("4", "4", "5"), (0.6, 0.6, 0.2)), judged(("4", "5"), (0.6, 0.2))
    for signal in (NormalisedPTrue(0.7), NormalisedPTrue(0.7, "exp")):
        assert signal(CHOICE, REPLY, twice) == signal(CHOICE, REPLY, once)
    assert NormalisedPTrue()(CHOICE, REPLY, judged(("4", "4"), (0.6, 0.6))) is None
    question, samples = replace(CHOICE, options=("4", "5", "4")), Evidence(samples=("A", "B", "C", "B", "C"))
    assert SelfConsistency()(question, replace(REPLY, text="A", answer="A"), samples) == 0.6
    assert SelfConsistency("mode").answer(question, REPLY, samples) == "A"
    assert SelfConsistency("mode")(question, REPLY, samples) == 0.6


def test_self_consistency_counts_unreadable_samples_as_disagreement_and_the_mode_answers_for_itself() -> None:
    assert SelfConsistency()(CHOICE, REPLY, EVIDENCE) == 0.5
    assert SelfConsistency()(CHOICE, replace(REPLY, text="C", answer="C"), EVIDENCE) == 0.0
    assert SelfConsistency()(CHOICE, replace(REPLY, text="", answer=None), EVIDENCE) is None
    tied = Evidence(samples=(None, "The Nile.", "Amazon", "nile", "the amazon"))
    mode, reply = SelfConsistency("mode"), replace(REPLY, text="Volga", answer="Volga")
    assert mode.answer(OPEN, reply, tied) == "The Nile."  # the earliest of a tie wins
    assert mode(OPEN, reply, tied) == 0.4
    assert mode(OPEN, reply, Evidence(samples=(None, None))) is None


def test_dinco_is_the_mean_of_its_halves_for_the_answer_of_each_policy() -> None:
    # Beam: A, contradicted by B with (0.8 + 0.6) / 2; nobody else repeats B.
    nvc = 0.9 / max(1.0, 0.9 + 0.6 * 0.7)
    assert DincoSignal()(CHOICE, REPLY, EVIDENCE) == pytest.approx((nvc + 3 / 6) / 2)
    assert DincoSignal().answer(CHOICE, REPLY, EVIDENCE) == "A"
    nvc = 0.6 / max(1.0, 0.6 + 0.9 * 0.7)
    assert DincoSignal("greedy")(CHOICE, REPLY, EVIDENCE) == pytest.approx((nvc + 4 / 6) / 2)
    assert DincoSignal("greedy").answer(CHOICE, REPLY, EVIDENCE) == "B"


MATRIX = st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=6, max_size=6)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), MATRIX, MATRIX)
def test_normalised_verbalised_confidence_is_the_published_sum_and_never_inflates(
    p_yes: list[float], entails: list[list[float]], contradicts: list[list[float]]
) -> None:
    p, e, c = np.array(p_yes), np.array(entails), np.array(contradicts)
    total = p[0]
    for i in range(1, len(p)):
        unique = 1 / (1 + sum(e[j, i] for j in range(len(p)) if j not in (0, i)))
        total += p[i] * unique * (c[0, i] + c[i, 0]) / 2
    found = normalised_verbalised_confidence(p_yes, entails, contradicts)
    assert found == pytest.approx(p[0] / max(1, total), rel=1e-12)
    assert found <= p[0]


def test_every_signal_of_a_recipe_has_its_class() -> None:
    needs = {name: make_signal(name, 0.7, "log").needs for name in get_args(SignalName)}
    assert needs == {"norm_p_true": "p_true", "p_true": "p_true", "self_consistency": "samples"}
    assert consistency([]) == 1.0
    assert consistency([0.9, 0.91]) == 2 / 3  # agreement above nine tenths counts, and the answer itself
