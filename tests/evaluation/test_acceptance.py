"""What is advised, from references, from people's labels, from volunteers, and from confidences alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secl.evaluation.acceptance import advise, answers_of
from secl.labels import Label, LabelSource, LabelState, label_of
from secl.records import Record
from tests.answers import answered

CONFIDENCE = [0.9] * 30 + [0.5] * 30
CORRECT = [True] * 30 + [False] * 30


def said(record: Record, correct: bool, source: LabelSource) -> Label:
    chance = None if source == "feedback" else 1.0
    return label_of(record, correct, number=record.position + 1, source=source, chance=chance)


def test_people_count_before_references_and_volunteers_not_at_all_beside_them() -> None:
    records = answered([0.9] * 22, [False] * 22)
    log = [said(records[k], True, "review") for k in range(20)] + [
        said(records[k], True, "reference") for k in (20, 21)
    ]
    extra = answered([0.9] * 24, [False] * 22 + [None] * 2)[22:]
    answers = answers_of(
        [*records, *extra], [*log, said(extra[0], False, "feedback"), said(extra[1], False, "feedback")]
    )
    assert answers.left_out == 2
    advice = advise(answers, 0.1)
    assert advice.threshold is not None
    assert (advice.threshold.labels, advice.threshold.wrong) == (22, 0)


def test_volunteers_give_an_estimate_and_no_promise() -> None:
    records = answered(CONFIDENCE, [None] * 60)
    log = [said(records[k], k < 30, "feedback") for k in (*range(21), 40, 41, 42)]
    advice = advise(answers_of(records, log), 0.1)
    assert (advice.basis, advice.labels) == ("volunteers", 24)
    assert advice.threshold is not None
    assert (advice.threshold.coverage, advice.threshold.labels) == (0.5, 21)
    assert advise(answers_of(records, log[:21]), 0.1).basis == "confidences"


def test_labels_that_were_not_all_as_likely_promise_nothing_and_those_taken_back_count_for_nothing() -> None:
    records = answered([0.9] * 30, [None] * 30)
    drawn = [said(record, True, "review") for record in records]
    assert advise(answers_of(records, drawn), 0.1).basis == "labels"
    unequal = [replace(drawn[0], chance=0.5), *drawn[1:]]
    assert advise(answers_of(records, unequal), 0.1).basis == "volunteers"
    taken_back = [replace(label, number=label.number + 100, correct=None) for label in drawn]
    assert advise(answers_of(records, [*drawn, *taken_back]), 0.1).basis == "confidences"


def test_the_threshold_is_one_of_confidences_after_the_labels() -> None:
    # 40 labels: 0.9 is right half of the time, and 0.5 never. The next answers are reported with less, and so is it.
    records = answered([0.9] * 40 + [0.5] * 40, [None] * 80)
    log = [said(records[k], k < 40 and k % 2 == 0, "review") for k in (*range(20), *range(40, 60))]
    answers = answers_of(records, log)
    assert answers.confidence[0] < 0.85
    assert len(set(answers.confidence)) == 2
    next_one = LabelState.start().add(log).rate("toy", records[0].label_free).confidence
    assert answers.confidence[0] == next_one
    pruned = answers_of(records[70:], log)  # the labels of answers whose records are gone count as before
    assert advise(pruned, 0.1).labels == 40
    assert np.nansum(pruned.correct) == np.nansum(answers.correct)


def test_too_few_labels_say_how_many_it_takes_and_what_they_can_promise() -> None:
    advice = advise(answers_of(answered([0.9] * 15, [True] * 15)), 0.1)
    assert (advice.threshold, advice.fewest) == (None, 22)
    assert advice.needed == 22
    assert advice.nearest == 0.15  # 1 - 0.1 ** (1 / 15) = 0.142


def test_an_answer_that_could_not_be_read_is_never_accepted_and_counts_as_wrong() -> None:
    records = answered([0.9] * 40, [True] * 40)
    unread = [
        replace(record, position=40 + k, reply=replace(record.reply, answer=None), correct=False)
        for k, record in enumerate(records[:40])
    ]
    advice = advise(answers_of([*records, *unread]), 0.1)
    assert advice.threshold is not None
    assert (advice.threshold.coverage, advice.threshold.labels) == (0.5, 40)


def test_a_review_beside_feedback_of_another_chance_can_promise() -> None:
    records = answered([0.5] * 8, [None] * 8)
    review = [said(record, True, "review") for record in records[:5]]
    feedback = [replace(said(record, False, "feedback"), chance=0.05) for record in records[5:]]
    log = [replace(each, number=number) for number, each in enumerate([*review, *feedback], start=1)]
    answers = answers_of(records, log)
    assert answers.basis == "labels"
    assert answers.correct[:5].tolist() == [1.0] * 5
    assert np.isnan(answers.correct[5:]).all()
