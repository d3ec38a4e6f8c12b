"""What is advised, from references, from people's labels, from volunteers, and from confidences alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from secl.errors import ParameterError
from secl.evaluation.acceptance import ENOUGH, advise, advise_by_domain, advise_on_cost, answers_of
from tests.answers import answered

CONFIDENCE = [0.9] * 30 + [0.5] * 30
CORRECT = [True] * 30 + [False] * 30


def test_references_promise_what_they_show() -> None:
    advice = advise(answers_of(answered(CONFIDENCE, CORRECT)), 0.1)
    assert advice.basis == "labels"
    assert advice.threshold is not None
    assert (advice.threshold.value, advice.threshold.coverage, advice.labels) == (0.7, 0.5, 60)
    assert (advice.needed, advice.nearest) == (None, None)


def test_people_count_before_references_and_volunteers_not_at_all_beside_them() -> None:
    records = answered([0.9] * 22, [False] * 22)
    said = dict.fromkeys(range(22), True)
    answers = answers_of(records, said, {3: False, 4: False})
    assert answers.left_out == 2
    advice = advise(answers, 0.1)
    assert advice.threshold is not None
    assert (advice.threshold.labels, advice.threshold.wrong) == (22, 0)


def test_volunteers_give_an_estimate_and_no_promise() -> None:
    records = answered(CONFIDENCE, [None] * 60)
    advice = advise(answers_of(records, volunteered={0: True, 1: True, 40: False}), 0.1)
    assert (advice.basis, advice.labels) == ("volunteers", 3)
    assert advice.threshold is not None
    assert advice.threshold.value == 0.7


def test_without_labels_the_confidences_give_an_estimate() -> None:
    records = answered([0.95] * 30 + [0.5] * 30, [None] * 60)
    advice = advise(answers_of(records), 0.1)
    assert (advice.basis, advice.labels) == ("confidences", 0)
    assert advice.threshold is not None
    assert advice.threshold.coverage == 0.5
    assert advice.needed is not None


def test_too_few_labels_say_how_many_it_takes_and_what_they_can_promise() -> None:
    advice = advise(answers_of(answered([0.9] * 15, [True] * 15)), 0.1)
    assert (advice.threshold, advice.fewest) == (None, 22)
    assert advice.needed == 22
    assert advice.nearest == 0.15  # 1 - 0.1 ** (1 / 15) = 0.142
    assert advice.nearest_threshold is not None


def test_an_answer_that_could_not_be_read_is_never_accepted_and_counts_as_wrong() -> None:
    records = answered([0.9] * 40, [True] * 40)
    unread = [
        replace(record, position=40 + k, reply=replace(record.reply, answer=None), correct=False)
        for k, record in enumerate(records[:40])
    ]
    advice = advise(answers_of([*records, *unread]), 0.1)
    assert advice.threshold is not None
    assert (advice.threshold.coverage, advice.threshold.labels) == (0.5, 40)


def test_each_domain_with_enough_labels_gets_a_threshold_of_its_own() -> None:
    domains = ["easy"] * 30 + ["hard"] * 30 + ["rare"] * 5
    answers = answers_of(answered([0.8] * 65, [True] * 30 + [False] * 30 + [True] * 5, domains))
    parts = advise_by_domain(answers, 0.1)
    assert list(parts) == ["easy", "hard"]
    assert parts["easy"].threshold is not None
    assert parts["hard"].threshold is None
    assert advise_by_domain(answers_of(answered([0.8] * 65, [None] * 65, domains)), 0.1) == {}


def test_costs_come_from_labels_only_where_there_are_enough() -> None:
    few, many = answers_of(answered(CONFIDENCE[:-11], CORRECT[:-11])), answers_of(answered(CONFIDENCE, CORRECT))
    assert few.curve.total < ENOUGH <= many.curve.total
    by_labels = advise_on_cost(many, 10, 1)
    assert by_labels.basis == "labels"
    assert by_labels.threshold is not None
    assert (by_labels.threshold.value, by_labels.cost, by_labels.accept_all) == (0.7, 0.5, 5.0)
    by_confidence = advise_on_cost(few, 5, 1)
    assert by_confidence.basis == "confidences"
    assert by_confidence.accept_all == pytest.approx((30 * 0.1 + 19 * 0.5) / 49 * 5)


def test_nothing_asked_gives_no_advice() -> None:
    with pytest.raises(ParameterError, match="no answers"):
        advise(answers_of([]), 0.1)
    with pytest.raises(ParameterError, match="no answers"):
        advise_on_cost(answers_of([]), 1, 1)
