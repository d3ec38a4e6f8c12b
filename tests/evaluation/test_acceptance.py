"""What is advised, from references, from people's labels, from volunteers, and from confidences alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secl.evaluation.acceptance import advise, answers_of
from secl.labels.label import Label, LabelSource, label_of
from secl.labels.state import relabelled
from secl.records import Record
from tests.answers import answered

BASE = answered([0.85], [None])[0]
CONFIDENCE = [0.9] * 30 + [0.5] * 30
CORRECT = [True] * 30 + [False] * 30


def said(record: Record, correct: bool, source: LabelSource) -> Label:
    chance = None if source == "feedback" else 1.0
    return label_of(record, correct, number=record.position + 1, source=source, chance=chance)


def test_people_count_before_references_and_volunteers_not_at_all_beside_them() -> None:
    records = answered([0.9] * 24, [False] * 22 + [None] * 2)
    reviewed = [said(record, True, "review") for record in records[:22]]
    answers = answers_of(records, [*reviewed, *(said(record, False, "feedback") for record in records[22:])])
    assert answers.left_out == 2
    threshold = advise(answers, 0.1).threshold
    assert threshold is not None
    assert (threshold.labels, threshold.wrong) == (22, 0)
    # A volunteer's word takes no answer out of a reviewed sample.
    half = [replace(label, correct=label.position % 2 == 0) for label in reviewed]
    thumbs = [replace(label, number=label.number + 40, chance=None, source="feedback") for label in half[1::2]]
    answers = answers_of(records[:22], [*half, *thumbs])
    assert (answers.curve.total, int(answers.curve.wrong[-1])) == (22, 11)


def test_volunteers_give_an_estimate_and_no_promise() -> None:
    records = answered(CONFIDENCE, [None] * 60)
    log = [said(records[k], k < 30, "feedback") for k in (*range(21), 40, 41, 42)]
    advice = advise(answers_of(records, log), 0.1)
    assert (advice.basis, advice.labels) == ("volunteers", 24)
    assert advice.threshold is not None
    assert (advice.threshold.coverage, advice.threshold.labels) == (0.5, 21)
    assert advise(answers_of(records, log[:21]), 0.1).basis == "confidences"


def test_a_promise_rests_on_one_random_sample() -> None:
    records = answered([0.9] * 100, [None] * 100)
    drawn = [said(record, True, "review") for record in records[:30]]
    assert advise(answers_of(records, drawn), 0.1).basis == "labels"
    unequal = [replace(drawn[0], chance=0.5), *drawn[1:]]
    assert advise(answers_of(records, unequal), 0.1).basis == "volunteers"
    taken_back = [replace(label, number=label.number + 100, correct=None) for label in drawn]
    assert advise(answers_of(records, [*drawn, *taken_back]), 0.1).basis == "confidences"
    # Feedback about every answer of an easy client, beside a review of all: together they are no random sample.
    easy = [said(records[k], True, "feedback") for k in range(50)]
    reviewed = [said(records[k], k % 2 == 0, "review") for k in range(50, 80)]
    answers = answers_of(records, [replace(label, chance=1.0) for label in (*easy, *reviewed)])
    assert (answers.curve.total, answers.left_out) == (30, 50)
    # Feedback of another chance beside a review, which alone can promise.
    rare = [replace(said(record, False, "feedback"), chance=0.05) for record in records[5:8]]
    answers = answers_of(records[:8], [*drawn[:5], *rare])
    assert answers.basis == "labels"
    assert answers.correct[:5].tolist() == [1.0] * 5
    assert np.isnan(answers.correct[5:]).all()


def test_thresholds_are_tested_and_given_on_label_free_confidences() -> None:
    records = answered([0.9] * 40 + [0.5] * 40, [None] * 80)
    log = [said(records[k], k < 40 and k % 2 == 0, "review") for k in (*range(20), *range(40, 60))]
    answers = answers_of(relabelled(records, log), log)
    assert answers.confidence.tolist() == [record.label_free for record in records]
    pruned = answers_of(records[70:], log)  # the labels of answers whose records are gone count as before
    assert advise(pruned, 0.1).labels == 40
    assert np.nansum(pruned.correct) == np.nansum(answers.correct)


def test_labels_of_domains_do_not_choose_the_order_in_which_they_test_thresholds() -> None:
    """40 equally hard domains, equal confidences, 15 % wrong: of 98 % of such streams 10 % were promised."""
    promised = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        right = generator.random(1000) < 0.85
        domain = generator.integers(40, size=1000)
        records = [
            replace(BASE, position=k, question=replace(BASE.question, domain=f"domain {domain[k]}"))
            for k in range(1000)
        ]
        log = [
            replace(said(records[k], bool(right[k]), "review"), number=number)
            for number, k in enumerate(generator.permutation(1000)[:200].tolist(), start=1)
        ]
        answers = answers_of(relabelled(records, log), log)
        promised += advise(answers, 0.1).threshold is not None
    assert promised <= 4  # at most 10 % are allowed; more than 4 of 20 have a chance of .04 then


def test_too_few_labels_say_how_many_it_takes_and_an_unread_answer_is_never_accepted_and_counts_as_wrong() -> None:
    advice = advise(answers_of(answered([0.9] * 15, [True] * 15)), 0.1)
    assert (advice.threshold, advice.fewest, advice.needed) == (None, 22, 22)
    assert advice.nearest == 0.15  # 1 - 0.1 ** (1 / 15) = 0.142
    records = answered([0.9] * 40, [True] * 40)
    unread = [replace(r, position=40 + r.position, reply=replace(r.reply, answer=None), correct=False) for r in records]
    advice = advise(answers_of([*records, *unread]), 0.1)
    assert advice.threshold is not None
    assert (advice.threshold.coverage, advice.threshold.labels) == (0.5, 40)
