"""The verdict on confidences: what it rests on, and that it does not cry wolf."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from secl.evaluation.measures import measure
from secl.evaluation.reason import Reason
from secl.evaluation.symptoms import seen, seen_in_one
from secl.evaluation.trust import GAP, assess, conclude, from_grades
from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Posterior, PTrue
from secl.question import Question
from secl.records import Record
from tests.reports.conftest import MakeRecord


def choice(record: Record, answer: str, *, reference: str | None = None, options: tuple[str, ...] = ()) -> Record:
    """The record as one of a multiple choice with four options of its own."""
    texts = options or tuple(f"{letter} of {record.position}" for letter in "abcd")
    question = Question(record.question.text, options=texts, reference=reference)
    correct = None if reference is None else answer == reference
    return replace(record, question=question, reply=replace(record.reply, answer=answer), correct=correct)


def with_posterior(record: Record, confidence: float, *, own: int = 0) -> Record:
    """The record with a posterior over four candidates, of which the first has this probability."""
    rest = (1 - confidence) / 3
    posterior = Posterior(
        candidates=("a", "b", "c", "d"),
        probabilities=(confidence, rest, rest, rest),
        own=own,
        weights=(("letters", 1.0),),
        reliability=None,
        questions=100,
    )
    return replace(record, posterior=posterior)


def calibrated(n: int, seed: int = 0) -> list[tuple[float, bool]]:
    """Confidences from .05 to .95 that mean what they say."""
    generator = np.random.default_rng(seed)
    chances = generator.uniform(0.05, 0.95, n)
    return [(float(p), bool(generator.random() < p)) for p in chances]


class TestOnLabels:
    def test_a_calibrated_confidence_that_separates_is_fine(self) -> None:
        verdict = from_grades(calibrated(200))
        assert verdict.level == "fine"
        assert verdict.codes == ()
        assert [reason.code for reason in verdict.reasons] == ["tested"]

    def test_calibrated_confidences_are_hardly_ever_found_wrong(self) -> None:
        alarms = sum(from_grades(calibrated(100, seed)).level == "do not act on it" for seed in range(20))
        assert alarms == 0

    def test_twelve_labels_tell_a_gross_error(self) -> None:
        verdict = from_grades([(0.75, number < 2) for number in range(14)])
        assert verdict.level == "do not act on it"
        assert "overconfident" in verdict.codes
        assert "75%" in verdict.line
        assert "14%" in verdict.line
        assert "People chose" not in verdict.line
        assert "People chose" in from_grades([(0.75, number < 2) for number in range(14)], chosen=True).line

    def test_a_confidence_without_ranking_is_at_chance(self) -> None:
        generator = np.random.default_rng(0)
        pairs = [(float(generator.uniform(0.3, 0.5)), bool(generator.random() < 0.4)) for _ in range(800)]
        verdict = from_grades(pairs)
        assert verdict.codes == ("chance",)
        assert verdict.level == "do not act on it"
        assert "AUROC" in verdict.line

    def test_a_confidence_that_ranks_backwards_is_inverted(self) -> None:
        assert from_grades([(1 - p, right) for p, right in calibrated(300)]).codes[0] == "inverted"

    def test_the_verdict_says_what_the_floor_of_the_table_says(self) -> None:
        """28 answers, 26% said and 46% right: an ECE above its floor, so the verdict says too low."""
        pairs = [(0.2 + number / 233, number % 2 > 0) for number in range(28)]
        measures = measure(*zip(*pairs, strict=True))
        assert not measures.ece_within_floor
        low = from_grades(pairs, answers=28).reasons[0]
        assert low.code == "underconfident"
        assert "too low: on 28 graded answers they say 26% and 50% are right, which happens to" in low.sentence

    def test_confidences_that_are_right_in_the_mean_alone_are_not_fine(self) -> None:
        generator = np.random.default_rng(5)
        pairs = [(sure, bool(generator.random() < 0.5 + (sure - 0.5) / 3)) for sure in (0.05, 0.95) * 100]
        assert abs(np.mean([right for _, right in pairs]) - 0.5) < GAP / 2
        verdict = from_grades(pairs)
        assert (verdict.level, verdict.codes) == ("unproven", ("miscalibrated",))
        assert "95% have 0." in verdict.line

    def test_advice_is_possible_to_follow(self) -> None:
        few = [(0.5, number % 2 > 0) for number in range(10)]
        assert "ask 40 more questions to test" in from_grades(few, answers=10).line
        assert "label the other 5 and ask 35 more questions to test" in from_grades(few, answers=15).line
        assert "label 40 more to test" in from_grades(few, answers=50).line

    def test_no_labels_at_all_are_unproven(self) -> None:
        of_one_kind = from_grades([(0.9 + number / 1000, number > 0) for number in range(60)])
        assert (of_one_kind.level, of_one_kind.codes) == ("unproven", ("few_labels",))
        verdict = from_grades([])
        assert (verdict.level, verdict.graded) == ("unproven", 0)
        assert math.isnan(verdict.accuracy)


class TestWithoutLabels:
    def test_one_letter_for_nearly_everything_is_said(self, make_record: MakeRecord) -> None:
        records = [choice(make_record(n), "B" if n < 109 else "C") for n in range(120)]
        (reason,) = [each for each in seen(records) if each.code == "same_letter"]
        assert reason.severity == "stop"
        assert "B on 109 of 120 questions" in reason.sentence

    def test_letters_as_they_fall_are_not_nor_what_is_right_or_no_all_the_time(self, make_record: MakeRecord) -> None:
        always = [
            [choice(make_record(n), "B", options=("yes", "no")) for n in range(100)],
            [choice(make_record(n), "A", reference="A") for n in range(100)],
        ]
        assert all("same_letter" not in {reason.code for reason in seen(records)} for records in always)
        letters = np.random.default_rng(0).choice(list("ABCD"), 400, p=(0.4, 0.3, 0.2, 0.1))
        records = [choice(make_record(n), letter) for n, letter in enumerate(letters)]
        assert "same_letter" not in {reason.code for reason in seen(records)}

    def test_digits_that_the_model_does_not_say(self, make_record: MakeRecord) -> None:
        records = [make_record(n, digit=n % 10, digit_mass=0.0002) for n in range(30)]
        verdict = assess([replace(record, correct=None) for record in records])
        assert verdict.level == "unproven"  # how much it means only right answers tell
        assert verdict.warnings == ("digit_mass",)
        assert "0.0002" in verdict.line

    def test_the_same_confidence_for_all(self, make_record: MakeRecord) -> None:
        assert {reason.code for reason in seen([make_record(n, digit=2) for n in range(40)])} == {"constant"}

    def test_a_signal_of_one_over_the_candidates(self, make_record: MakeRecord) -> None:
        p_true = PTrue(candidates=tuple("abcde"), probabilities=(0.3,) * 5, distractor_source="listed:4")
        records = [
            replace(make_record(n, digit=n % 10, outcome="trained"), evidence=Evidence(p_true), signal=0.19 + n / 1500)
            for n in range(40)
        ]
        assert "flat_signal" in {reason.code for reason in seen(records)}

    def test_answers_changed_by_learning_are_counted(self, make_record: MakeRecord) -> None:
        records = [make_record(n, digit=n % 10, correct=None) for n in range(40)]
        changed = [
            replace(each, reply=replace(each.reply, answer="X" if each.position < 5 else "A", version=1))
            for each in records
        ]
        (reason,) = seen(changed)
        assert (reason.code, reason.severity) == ("answers_changed", "note")
        assert "5 of 40" in reason.sentence

    def test_a_sound_unlabelled_run_is_unproven_for_one_reason(self, make_record: MakeRecord) -> None:
        records = [choice(make_record(n, digit=n % 10), "ABCD"[n % 4]) for n in range(60)]
        verdict = assess(records)
        assert verdict.level == "unproven"
        assert verdict.codes == ("unlabelled",)


class TestTogether:
    def test_right_answers_overrule_what_looks_odd(self, make_record: MakeRecord) -> None:
        odd = seen([make_record(n, digit=n % 10, digit_mass=0.0002) for n in range(30)])
        verdict = conclude(odd, from_grades(calibrated(200)), 230)
        assert verdict.level == "fine"
        assert [reason.code for reason in verdict.reasons] == ["tested", "digit_mass"]

    def test_the_grade_is_that_of_the_answer_that_was_given(self, make_record: MakeRecord) -> None:
        best = with_posterior(choice(make_record(0), "B", reference="A"), 0.7, own=1)
        record = replace(best, answers_best=True)
        assert (record.answer, record.correct) == ("A", False)
        assert assess([record]).accuracy == 1.0


def of_one(record: Record) -> list[Reason]:
    return seen_in_one(record.question, record.reply, record.evidence)


class TestOneAnswer:
    def test_letters_that_follow_the_place(self, make_record: MakeRecord) -> None:
        record = choice(make_record(0), "B", options=("Rome", "Paris"))
        order = LetterOrder(order=(1, 0), log_p=(math.log(0.9), math.log(0.1)))
        compared = CandidateEvidence(
            candidates=("Rome", "Paris"), letters=(order,), likelihoods=(None, None), source="options"
        )
        (reason,) = of_one(replace(record, evidence=Evidence(candidates=compared)))
        assert reason.code == "same_letter"
        assert "A. Rome" in reason.sentence

    def test_nothing_to_say_of_a_sound_answer(self, make_record: MakeRecord) -> None:
        assert of_one(make_record(0)) == []
