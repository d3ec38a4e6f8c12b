"""What can be seen in views without right answers: which of them knows something, and how often two agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from secl.evaluation.view_check import check_views
from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Likelihood
from secl.question import Question
from secl.records import Record, Reply

Values = Sequence[float]
OPTIONS = ("Rome", "Paris", "Bern", "Oslo")


@pytest.fixture
def asked(make_record: Any) -> Callable[..., Record]:
    """A question with four options and what the views say of each; letters are asked in order and in reverse."""

    def record(position: int, first: Values, second: Values, texts: Values, options: Any = OPTIONS) -> Record:
        plain: Record = make_record(position)
        reply: Reply = replace(plain.frozen, option_log_p=tuple(first))
        order = tuple(range(len(options)))[::-1]
        evidence = CandidateEvidence(
            candidates=options,
            letters=(LetterOrder(order=order, log_p=tuple(second)),),
            likelihoods=tuple(Likelihood(given=text, alone=0.0, tokens=1) for text in texts),
            source="options",
        )
        question = Question("Capital?", tuple(options))
        return replace(plain, question=question, reply=reply, frozen=reply, evidence=Evidence(candidates=evidence))

    return record


def test_letters_that_follow_the_options_are_reliable(asked: Any) -> None:
    generator = np.random.default_rng(0)
    records = []
    for position in range(60):
        liked, noise = generator.normal(size=4), generator.normal(size=(3, 4)) / 2
        records.append(asked(position, liked + noise[0], liked + noise[1], noise[2]))
    checks = check_views(records)
    assert (checks.questions, checks.compared) == (60, 60)
    assert 0.6 < checks.correlation < 0.9
    assert checks.reliability == pytest.approx(2 * checks.correlation / (1 + checks.correlation))


def test_agreement_is_the_share_of_equal_first_places(asked: Any) -> None:
    eye = np.eye(4)
    # Every option is preferred once by the letters, so that no place has more than another.
    records = [asked(i, eye[i], eye[i], eye[i] if i < 3 else eye[0]) for i in range(4)]
    checks = check_views(records)
    assert (checks.agreement, checks.chance) == (0.75, 0.25)
