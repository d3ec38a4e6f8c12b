"""Servers rate given answers as the model in this process does."""

from __future__ import annotations

import pytest

from secl.calibrator import Calibrator
from secl.given import GivenAnswer
from secl.question import Question
from tests.backends.vllm.conftest import Fakes, MakeLearner
from tests.backends.vllm.test_engine import MakeFleet, alike, same_p_true

pytestmark = pytest.mark.heavy


def test_given_answers_are_rated_as_by_the_model_in_this_process(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes, questions: list[Question]
) -> None:
    answers = {"a": "Rome", "b": "c", "d": "Marlowe"}
    given = [GivenAnswer(question, answers[question.id]) for question in questions]
    given.append(GivenAnswer(questions[-1], "Bacon", ("Kyd", "Marlowe")))
    fleet = make_fleet(make_learner(), tiny_server())
    found, expected = (list(Calibrator(model).score_many(given)) for model in (fleet, make_learner()))
    for one, other in zip(found, expected, strict=True):
        alike(one.reply, other.reply)
        same_p_true(one.evidence.p_true, other.evidence.p_true)
        assert other.evidence.p_true is not None
        assert (one.posterior is None) == (other.posterior is None)
        sampled = "sampled" in other.evidence.p_true.distractor_source
        if one.posterior is not None and other.posterior is not None and not sampled:
            assert one.posterior.probabilities == pytest.approx(other.posterior.probabilities, abs=1e-3)
        assert one.ledger.answering > 0
        assert one.ledger.scoring > 0
