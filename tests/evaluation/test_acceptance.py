"""Which answers may be accepted, and whether confidences may be acted on at all."""

import math
from dataclasses import replace

import numpy as np
import pytest

from secl import Question, Record
from secl.evaluation.acceptance import advise, answers_of
from secl.evaluation.symptoms import seen, seen_in_one
from secl.evaluation.trust import GAP, assess, conclude, from_grades
from secl.evidence import OPTIONS, CalibratedConfidence, Evidence, LetterOrder, PTrue
from secl.labels.label import Label, LabelSource, label_of
from secl.labels.state import held_out
from tests.answers import answered, compared, make_record, weighed


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
    # A volunteer's label does not remove an answer from the reviewed sample.
    half = [replace(label, correct=label.position % 2 == 0) for label in reviewed]
    thumbs = [replace(label, number=label.number + 40, chance=None, source="feedback") for label in half[1::2]]
    answers = answers_of(records[:22], [*half, *thumbs])
    assert (answers.curve.total, int(answers.curve.wrong[-1])) == (22, 11)


def test_a_promise_rests_on_one_random_sample() -> None:
    records = answered([0.9] * 100, [None] * 100)
    drawn = [said(record, True, "review") for record in records[:30]]
    assert advise(answers_of(records, drawn), 0.1).basis == "labels"
    labelled = [*(record.with_label(True) for record in records[:30]), *records[30:]]  # a label is no reference
    assert answers_of(labelled, [replace(label, chance=None) for label in drawn]).basis == "volunteers"
    unequal = [replace(drawn[0], chance=0.5), *drawn[1:]]
    assert advise(answers_of(records, unequal), 0.1).basis == "volunteers"
    taken_back = [replace(label, number=label.number + 100, correct=None) for label in drawn]
    assert advise(answers_of(records, [*drawn, *taken_back]), 0.1).basis == "confidences"
    # Feedback about all answers of an easy client and a review of all clients are together not a random sample.
    easy = [said(records[k], True, "feedback") for k in range(50)]
    reviewed = [said(records[k], k % 2 == 0, "review") for k in range(50, 80)]
    answers = answers_of(records, [replace(label, chance=1.0) for label in (*easy, *reviewed)])
    assert (answers.curve.total, answers.left_out) == (30, 50)
    # Feedback has another chance than the review, so the guarantee rests on the review alone.
    rare = [replace(said(record, False, "feedback"), chance=0.05) for record in records[5:8]]
    answers = answers_of(records[:8], [*drawn[:5], *rare])
    assert answers.basis == "labels"
    assert answers.correct[:5].tolist() == [1.0] * 5
    assert np.isnan(answers.correct[5:]).all()


def test_thresholds_are_tested_and_given_on_label_free_confidences() -> None:
    records = answered([0.9] * 40 + [0.5] * 40, [None] * 80)
    log = [said(records[k], k < 40 and k % 2 == 0, "review") for k in (*range(20), *range(40, 60))]
    answers = answers_of(held_out(records, log), log)
    assert answers.confidence.tolist() == [record.confidences.uncalibrated for record in records]
    pruned = answers_of(records[70:], log)  # labels of pruned records count as before
    assert advise(pruned, 0.1).labels == 40
    assert np.nansum(pruned.correct) == np.nansum(answers.correct)


def test_an_unread_answer_is_never_accepted_and_counts_as_wrong() -> None:
    records = answered([0.9] * 40, [True] * 40)
    unread = [replace(r, position=40 + r.position, reply=replace(r.reply, answer=None), correct=False) for r in records]
    advice = advise(answers_of([*records, *unread]), 0.1)
    assert advice.threshold is not None
    assert (advice.threshold.coverage, advice.threshold.labels) == (0.5, 40)


Graded = list[tuple[float, bool]]


def choice(record: Record, answer: str, *, reference: str | None = None, options: tuple[str, ...] = ()) -> Record:
    """Return the record with a question that has four options, which no other question has."""
    texts = options or tuple(f"{letter} of {record.position}" for letter in "abcd")
    question = Question(record.question.text, options=texts, reference=reference)
    correct = None if reference is None else answer == reference
    return replace(record, question=question, reply=replace(record.reply, answer=answer), correct=correct)


def calibrated(n: int, seed: int = 0) -> Graded:
    """Calibrated confidences from .05 to .95, with grades."""
    generator = np.random.default_rng(seed)
    chances = generator.uniform(0.05, 0.95, n)
    return [(float(p), bool(generator.random() < p)) for p in chances]


UNRANKED = [(0.3 + 0.2 * (n * 7 % 800) / 800, n % 5 < 2) for n in range(800)]


def right_in_the_mean_alone() -> Graded:
    generator = np.random.default_rng(5)
    pairs = [(sure, bool(generator.random() < 0.5 + (sure - 0.5) / 3)) for sure in (0.05, 0.95) * 100]
    assert abs(np.mean([right for _, right in pairs]) - 0.5) < GAP / 2
    return pairs


BAD = "do not act on it"


@pytest.mark.parametrize(
    ("graded", "level", "code", "words"),
    [
        (calibrated(200), "fine", None, "Tested on 200 graded answers: "),
        ([(0.75, number < 2) for number in range(14)], BAD, "overconfident", "mean confidence 75%, accuracy 14%"),
        ([(p / 2, right) for p, right in calibrated(300)], "unproven", "underconfident", "Underconfident: "),
        (UNRANKED, BAD, "chance", "AUROC"),
        ([(1 - p, right) for p, right in calibrated(300)], BAD, "inverted", "higher for wrong answers"),
        (right_in_the_mean_alone(), "unproven", "miscalibrated", "chance explains an ECE of at most 0.035 (95% limit)"),
        ([(0.9 + n / 1000, n > 0) for n in range(60)], "unproven", "few_labels", "Nearly all graded answers are right"),
        ([(0.4 + n / 100, n % 2 > 0) for n in range(30)], "unproven", "few_labels", "do not show whether"),
        ([(p, n % 100 < 100 * p) for n in range(1000) for p in (0.46, 0.54)], "unproven", "weak", "hardly separate"),
        ([], "unproven", "unlabelled", "No answer has a label"),
    ],
)
def test_right_answers_decide_the_verdict(graded: Graded, level: str, code: str | None, words: str) -> None:
    verdict = from_grades(graded)
    assert verdict.level == level
    assert (verdict.codes[0] if verdict.codes else None) == code
    assert words in verdict.line
    assert math.isnan(verdict.accuracy) is (not graded)


def test_advice_is_possible_to_follow_and_volunteers_are_named() -> None:
    few = [(0.5, number % 2 > 0) for number in range(10)]
    assert "ask 40 more questions to test" in from_grades(few, answers=10).line
    assert "label the other 5 and ask 35 more questions to test" in from_grades(few, answers=15).line
    assert "label 40 more to test" in from_grades(few, answers=50).line
    wrong = [(0.75, number < 2) for number in range(14)]
    assert "People chose" in from_grades(wrong, chosen=True).line
    assert "People chose" not in from_grades(wrong).line


def codes(records: list[Record]) -> set[str]:
    return {reason.code for reason in seen(records)}


def test_one_letter_whatever_the_options_is_said_and_letters_as_they_fall_are_not() -> None:
    records = [choice(make_record(n), "B" if n < 109 else "C") for n in range(120)]
    (reason,) = [each for each in seen(records) if each.code == "same_letter"]
    assert reason.severity == "stop"
    assert "B to 109 of 120 questions" in reason.sentence
    letters = np.random.default_rng(0).choice(list("ABCD"), 400, p=(0.4, 0.3, 0.2, 0.1))
    for harmless in (
        [choice(make_record(n), letter) for n, letter in enumerate(letters)],
        [choice(make_record(n), "B", options=("yes", "no")) for n in range(100)],
        [choice(make_record(n), "A", reference="A") for n in range(100)],
    ):
        assert "same_letter" not in codes(harmless)
    # A single answer shows that the letters follow the places.
    record, plain = choice(make_record(0), "B", options=("Rome", "Paris")), make_record(0)
    order = LetterOrder(order=(1, 0), log_p=(math.log(0.9), math.log(0.1)))
    (reason,) = seen_in_one(replace(record, evidence=compared(("Rome", "Paris"), order)))
    assert reason.code == "same_letter"
    assert "A. Rome" in reason.sentence
    silent = replace(record, reply=replace(record.reply, digit_mass=0.01, option_log_p=(-9.0, -9.0)))
    assert [each.code for each in seen_in_one(silent)] == ["digit_mass", "letter_mass"]
    assert seen_in_one(plain) == []


def sound_confidences() -> list[Record]:
    return [make_record(n, digit=n % 10) for n in range(40)]


def judged_by(record: Record, true: float, false: float) -> Record:
    judged = PTrue(candidates=("A", "B"), probabilities=(true, 0.9), false_probabilities=(false, 0.1), source=OPTIONS)
    return replace(record, evidence=Evidence(judged))


def test_what_shows_without_right_answers() -> None:
    silent = [replace(make_record(n, digit=n % 10, digit_mass=0.0002), correct=None) for n in range(30)]
    verdict = assess(silent)
    # Only graded answers can prove confidences wrong.
    assert (verdict.level, {*verdict.codes}) == ("unproven", {"digit_mass", "unlabelled"})
    assert "0.0002" in verdict.line
    equal = [make_record(n, digit=2) for n in range(40)]
    assert codes(equal) == {"constant"}
    band = CalibratedConfidence(uncalibrated=0.25, calibrated=0.25, low=0.0, high=1.0, labels=9, of_domain=9, until=9)
    moved = [replace(record, labelled=replace(band, calibrated=n / 40)) for n, record in enumerate(equal)]
    assert codes(moved) == {"constant"}  # labels make equal confidences differ, but this difference is not a ranking
    hardly = [judged_by(record, 0.1, 0.2) for record in sound_confidences()]
    assert codes(hardly) == codes([judged_by(record, 0.4, 0.2) for record in hardly]) | {"true_mass"}
    (reason,) = [each for each in seen(hardly) if each.code == "true_mass"]
    assert reason.severity == "note"
    assert "True and False (together they have a median probability of 0.3 in 40 judged answers)" in reason.sentence
    learned = [judged_by(make_record(n, digit=n % 10, outcome="trained"), 0.1, 0.2) for n in range(40)]
    assert [each.severity for each in seen(learned) if each.code == "true_mass"] == ["doubt"]
    assert [each.code for each in seen_in_one(hardly[0])] == ["true_mass"]
    unreadable = [replace(each, reply=replace(each.reply, answer=None)) for each in silent]
    assert "unreadable" in codes(unreadable)
    sound = [choice(make_record(n, digit=n % 10), "ABCD"[n % 4]) for n in range(60)]
    assert (assess(sound).level, assess(sound).codes) == ("unproven", ("unlabelled",))


def test_right_answers_overrule_what_looks_odd_and_people_overrule_references() -> None:
    records = [make_record(n, digit=n % 10, correct=n >= 8, frozen_correct=True) for n in range(40)]
    changed = [replace(r, reply=replace(r.reply, answer="X" if r.position < 8 else "A", version=1)) for r in records]
    (reason,) = [each for each in seen(changed) if each.code == "answers_changed"]
    assert reason.severity == "doubt"
    assert "8 of 40 answers: 0 from wrong to right, 8 from right to wrong" in reason.sentence
    odd = seen([make_record(n, digit=n % 10, digit_mass=0.0002) for n in range(30)])
    verdict = conclude(odd, from_grades(calibrated(200)), 230)
    assert verdict.level == "fine"
    assert [reason.code for reason in verdict.reasons] == ["tested", "digit_mass"]
    posterior = weighed("abcd", 0.7, 0.1, 0.1, 0.1, own=1)
    record = replace(choice(make_record(0), "B", reference="A"), posterior=posterior, best_returned=True)
    assert (record.answer, record.correct) == ("A", False)
    assert assess([record]).accuracy == 1.0  # of the returned answer
    assert assess([record.with_label(False)]).accuracy == 0.0
