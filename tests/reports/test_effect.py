"""What the posterior changes, in words that follow the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.summary import Summary, summarise
from secl.evidence import Posterior
from secl.question import Question
from secl.records import Record
from secl.reports.effect import effect_sentence, effect_table

KEYS = ("stated", "posterior_best", "posterior")


@pytest.fixture
def stream(make_record: Any) -> Callable[..., list[Record]]:
    """A hundred answers "A", half of them right, with a posterior of each and the weights of the last one."""

    def records(confidence: Callable[[bool], float], weights: tuple[tuple[str, float], ...] = ()) -> list[Record]:
        made = []
        for position in range(100):
            right = position % 2 == 0
            own = confidence(right)
            posterior = Posterior(
                candidates=("a", "b"),
                probabilities=(own, 1 - own),
                own=0,
                weights=weights,
                reliability=None,
                questions=20,
            )
            plain = make_record(position, digit=8, frozen_digit=8, correct=right, frozen_correct=right)
            question = Question("?", ("a", "b"), "A" if right else "B")
            made.append(replace(plain, question=question, posterior=posterior))
        return made

    return records


def summary_of(records: list[Record]) -> Summary:
    return summarise(records, {name: ESTIMATORS[name] for name in KEYS})


def test_a_posterior_that_knows_is_said_to_tell_right_from_wrong(stream: Any) -> None:
    records = stream(lambda right: 0.8 if right else 0.3)
    assert effect_sentence(summary_of(records)) == (
        "The model says 85%, is right 50% of the time, and its word is not shown to tell right from wrong; the "
        "posterior tells right from wrong, and the answers that it prefers are right 100% of the time (--answer best)."
    )


def test_a_posterior_that_does_not_help_is_not_praised(stream: Any) -> None:
    generator = np.random.default_rng(0)
    records = stream(lambda _right: float(generator.uniform(0.5, 0.9)))
    assert "the posterior is not shown to tell right from wrong" in str(effect_sentence(summary_of(records)))
    records = stream(lambda right: 0.3 if right else 0.8)
    assert "is higher for wrong answers than for right ones" in str(effect_sentence(summary_of(records)))


def test_the_table_says_whose_answers_each_row_grades(make_record: Any) -> None:
    records = [make_record(position, correct=position < 60, frozen_correct=position < 20) for position in range(100)]
    table = effect_table(summarise(records, {name: ESTIMATORS[name] for name in ("stated", "secl")}))
    assert [row[1].text for row in table.sections[""]] == ["20%", "60%"]
    assert "the frozen model's answers in the first row, of the adapted model's in the next two" in table.notes[0]
