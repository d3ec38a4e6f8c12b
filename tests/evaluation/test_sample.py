"""How labelled answers were chosen: samples, skips, documents, ages, and repeated looks."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

import secl
from benchmarks import samples
from secl.errors import ParameterError
from secl.evaluation.acceptance import Answers, Judgement, advise, answers_of, judgement_of
from secl.labels.label import Label, moment_of, utc
from secl.metrics.risk_control import ANYTIME_STARTS, fewest_labels, guaranteed, risk_bound, risk_coverage
from secl.metrics.sampling import change, effective_sizes, selection
from secl.question import NOT_KEPT, Question
from secl.records import RecordKind
from secl.reports.acceptance_report import advice_json, advice_table
from tests.answers import make_record

GENERATOR = np.random.default_rng


def judged(confidence: Sequence[float], **texts: Sequence[int | None]) -> list[Judgement]:
    """Return judgements of answers to different questions, without references."""
    documents = texts.get("document", [None] * len(confidence))
    asked = texts.get("asked", range(len(confidence)))
    rows = enumerate(zip(confidence, documents, asked, strict=True))
    return [Judgement(place, "d", float(each), None, document, text) for place, (each, document, text) in rows]


def entry(position: int, correct: bool | None = True, **changes: object) -> Label:
    values = {"number": position + 1, "confidence": 0.9, "domain": "d", "reported": 0.9, "time": float(position)}
    values |= {"source": "review", "chance": 1.0, **changes}
    return Label(position=position, correct=correct, **values)  # type: ignore[arg-type]


def facts(answers: Answers, risk: float = 0.1, **options: bool) -> str:
    """Return all words that `secl threshold` prints."""
    table = advice_table(answers, advise(answers, risk, **options))
    return " ".join([*(cell.text for row in table.sections[""] for cell in row), *table.notes])


CHOSEN = (
    "accepted answers only (from .9)",
    "most certain first",
    "least certain first",
    "middle third",
    "both ends",
    "30 labels, accepted answers only",
    "easiest of 5 domains only",
)


@pytest.mark.parametrize("name", CHOSEN)
def test_labels_of_answers_that_people_chose_give_no_guarantee_and_the_table_says_why(name: str) -> None:
    for seed in range(10):
        stream = samples.CASES[name].world(GENERATOR(seed))
        answers = answers_of(stream.judgements(), stream.log())
        assert (answers.doubt, answers.basis) == ("unlike", "confidences")
    advice = advise(answers, 0.1)
    assert (advice.labels, advice_json(answers, advice)["guarantee"]) == (0, False)
    said = facts(answers)
    assert "the labelled answers differ from the others in confidence or domain" in said
    assert "secl label RUN, or secl export RUN --sample 50" in said


@pytest.mark.parametrize("kind", ["distinct", "ties", "few", "documents"])
def test_random_samples_are_doubted_in_about_one_of_a_hundred_cases(kind: str) -> None:
    doubted = 0
    for seed in range(300):
        generator = GENERATOR(seed)
        confidence = generator.beta(4, 1, 60 if kind == "few" else 400)
        drawn = generator.permutation(confidence.size)[:30]
        document = np.arange(confidence.size)
        if kind == "ties":
            confidence = confidence.round(1)
        if kind == "documents":  # confidences of one document are alike, and all its fields have labels
            document = np.arange(400) // 10
            confidence = (confidence[:40][document] + confidence) / 2
            drawn = np.flatnonzero(np.isin(document, generator.permutation(40)[:8]))
        log = [entry(place, confidence=confidence[place]) for place in drawn.tolist()]
        answers = answers_of(judged(confidence.tolist(), document=document.tolist()), log, samples.UNFITTED)
        doubted += answers.doubt is not None
    assert doubted <= 9  # with a rate of 1 %, more happen in 0.1 % of cases


def test_a_sample_of_all_answers_or_of_none_is_no_choice() -> None:
    confidence, domain = np.linspace(0, 1, 50), np.arange(50) % 3
    assert selection(np.ones(50, np.bool_), confidence, domain) == 1.0
    assert selection(np.zeros(50, np.bool_), confidence, domain) == 1.0
    assert selection(np.arange(50) < 49, np.full(50, 0.5), np.zeros(50, np.intp)) == 1.0
    assert selection(np.arange(50) < 25, confidence, domain) < 0.01


def test_references_count_as_a_random_sample_only_if_every_answer_has_one() -> None:
    rows = [each._replace(reference=True) for each in judged([0.9] * 60)]
    assert answers_of(rows).basis == "labels"
    some = [*rows[:59], rows[59]._replace(reference=None)]
    answers = answers_of(some)
    assert (answers.basis, answers.doubt) == ("volunteers", "partly")
    assert "if you drew the rows with a reference at random: secl label RUN --references --random" in facts(answers)
    told = answers_of(some, [entry(place, source="review") for place in range(30)])
    assert (told.basis, told.curve.total, told.left_out) == ("labels", 30, 29)


def test_labels_of_unknown_or_unequal_choice_give_an_estimate_and_the_table_names_the_remedy() -> None:
    for chances, doubt, remedy in (
        ((None,), "chosen", "say so (secl label RUN"),
        ((0.1, 0.5), "unequal", "label a random"),
    ):
        log = [entry(place, chance=chances[place % len(chances)]) for place in range(30)]
        answers = answers_of(judged([0.9] * 60), log)
        assert (answers.doubt, answers.basis, advise(answers, 0.1).basis) == (doubt, "volunteers", "volunteers")
        assert remedy in facts(answers)
        # An estimate does not reach below the lowest confidence with a label.
        lower = answers_of(judged([0.9] * 30 + [0.5] * 30), log)
        threshold = advise(lower, 0.1).threshold
        assert threshold is not None
        assert threshold.coverage == 0.5


def test_a_few_labels_of_users_do_not_say_how_many_labels_a_guarantee_needs() -> None:
    answers = judged(GENERATOR(0).uniform(0.92, 0.98, 40).tolist())
    alone = advise(answers_of(answers), 0.1).needed
    assert alone is not None
    for correct in (True, False):
        thumbs = [entry(place, correct, chance=None, source="feedback") for place in range(3)]
        advice = advise(answers_of(answers, thumbs), 0.1)
        assert advice.basis == "confidences"
        assert advice.needed is not None
        assert advice.needed > alone / 2  # the share of wrong answers among three labels would give 22, or None


def test_skipped_answers_count_as_wrong_and_the_table_names_the_threshold_without_them() -> None:
    log = [entry(place, None if place < 3 else True, skipped=place < 3) for place in range(40)]
    answers = answers_of(judged([0.9] * 60), log)
    advice = advise(answers, 0.1)
    assert (advice.labels, advice.wrong, advice.skipped) == (37, 0, 3)
    assert (answers.curve.total, int(answers.curve.wrong[-1])) == (40, 3)
    assert advice.threshold is None
    assert advice.unskipped is not None
    assert (advice.unskipped.labels, advice.unskipped.wrong) == (37, 0)
    assert "3 answers, counted as wrong; if these are like the others, accept from: every answer" in facts(answers)
    assert advice_json(answers, advice)["skipped"] == 3
    assert facts(answers, 0.3).count("40, 3 wrong or skipped") == 1
    judged_later = [*log, *(entry(place, True, number=50 + place) for place in range(3))]
    assert advise(answers_of(judged([0.9] * 60), judged_later), 0.1).threshold is not None
    thumbs = [entry(place, None, number=50 + place, skipped=True, chance=None) for place in range(10, 20)]
    assert advise(answers_of(judged([0.9] * 60), [*log, *thumbs]), 0.1).skipped == 3


def test_labels_of_one_document_or_question_are_worth_few_independent_labels() -> None:
    units = GENERATOR(3).integers(6, size=40)
    expected = [n**2 / sum(np.bincount(units[:n]) ** 2) for n in range(1, 41)]
    assert effective_sizes(units).tolist() == pytest.approx(expected)
    log = [entry(place) for place in range(200)]
    for texts in ({"document": np.arange(200) // 10}, {"asked": np.arange(200) // 10}):
        answers = answers_of(judged([0.9] * 200, **{name: each.tolist() for name, each in texts.items()}), log)
        advice = advise(answers, 0.1)
        assert advice.worth == pytest.approx(20)
        assert advice.threshold is None  # 22 independent labels are needed
        assert "independent labels about 20: labels of one document, or of a repeated question" in facts(answers)
    one_text = answers_of(judged([0.9] * 200, document=[7] * 200), log)  # a text of all questions is no document
    one_question = answers_of(judged([0.9] * 200, asked=[7] * 200), log)
    unknown = answers_of(judged([0.9] * 200, asked=[None] * 200), log)  # a server that keeps no texts
    assert {advise(each, 0.1).worth for each in (one_text, one_question, unknown)} == {200}


def test_documents_and_repeated_questions_are_recognised_by_their_texts() -> None:
    def texts(kind: RecordKind = "asked", **parts: object) -> tuple[int | None, int | None]:
        record = replace(make_record(), kind=kind, question=Question(**{"text": "Why?", **parts}))  # type: ignore[arg-type]
        found = judgement_of(record)
        return found.document, found.asked

    assert texts() == texts(id="another")
    assert texts()[0] is None
    assert len({texts(text=text, context=context) for text, context in product("ab", "xy")}) == 4
    assert texts(text="a", context="x")[0] == texts(text="b", context="x")[0] != texts(context="y")[0]
    assert texts(options=("a", "b"))[1] != texts(options=("a", "c"))[1]
    fields = {texts("field", text=f"What is the value of {name}?", context="An invoice.")[0] for name in "abc"}
    assert len(fields) == 1
    calls = {
        texts("field", text=f"{request}\n\nWhat is the value of {name}?")[0] for request, name in product("xy", "ab")
    }
    assert len(calls) == 2
    assert texts(text=NOT_KEPT) == (None, None)


def test_only_labels_since_a_time_count_whatever_the_clock_said_once() -> None:
    log = [entry(place, place >= 50) for place in range(100)]
    rows = [each._replace(reference=True) for each in judged([0.9] * 100)]
    answers = answers_of(rows[:99], log, since=50.0)
    assert (answers.older, answers.misdated, answers.curve.total, int(answers.curve.wrong[-1])) == (50, 0, 50, 0)
    assert "too old 50 labels" in facts(answers)
    ahead = [*log[:10], replace(log[10], time=1e6), *log[11:]]  # the clock once ran ahead
    answers = answers_of(rows, ahead, since=50.0)
    assert (answers.curve.total, answers.misdated) == (50, 1)
    assert "a clock was wrong: 1 of these came before older labels" in facts(answers)
    behind = [*log[:99], replace(log[99], time=0.0)]  # it was behind: no label is surely new
    assert answers_of(rows, behind, since=50.0).misdated == 49
    assert answers_of(rows, log, since=1e9).basis == "confidences"


def test_an_age_is_a_number_of_days_or_a_date_and_needs_a_clock_that_is_right() -> None:
    assert moment_of("30d", []) == pytest.approx(time.time() - 30 * 86400, abs=60)
    assert moment_of("2026-03-01T01:00:00+01:00", []) == moment_of("2026-03-01", [])
    assert moment_of(utc(123456789.0), []) == 123456789.0
    for wrong in ("30", "yesterday", "", "-3d", "2026-13-01", "9" * 400 + "d"):
        with pytest.raises(ParameterError, match="give a number of days, like 30d, or a date, like 2026-03-01"):
            moment_of(wrong, [])
    later = [entry(1, time=time.time() + 9 * 86400)]
    with pytest.raises(ParameterError, match=r"the clock of this computer shows .* correct the clock, or give a date"):
        moment_of("30d", later)
    assert moment_of("2026-03-01", later) == moment_of("2026-03-01", [])


def test_a_difference_between_old_and_new_labels_is_reported() -> None:
    log = [entry(place, place < 100 or place % 3 > 0) for place in range(160)]
    answers = answers_of(judged([0.9] * 300), log)
    assert answers.change is not None
    assert (answers.change.old, answers.change.new, answers.change.old_risk) == (102, 58, 0.0)
    said = facts(answers)
    assert f"if later answers are like the newest, add --since {utc(answers.change.time)}" in said
    newest = answers_of(judged([0.9] * 300), log, since=answers.change.time)
    assert newest.curve.total == 58
    assert newest.change is None
    assert answers_of(judged([0.9] * 300), log[:100]).change is None


def test_equal_ages_are_reported_as_different_in_at_most_one_of_twenty_cases() -> None:
    false = found = 0
    for seed in range(300):
        generator = GENERATOR(seed)
        confidence = generator.beta(4, 1, 200)
        false += change(confidence, (generator.random(200) < confidence).astype(float))[0] < 0.05
        right = generator.random(200) >= np.where(np.arange(200) < 100, 0.03, 0.15)
        found += change(confidence, right.astype(float))[0] < 0.05
    assert false <= 24  # of 300
    assert found >= 200


def test_the_anytime_bound_is_the_risk_at_which_the_mixture_of_lower_risks_is_likely_enough() -> None:
    for wrong, labels in ((0, 50), (3, 100), (40, 100)):
        bound = float(risk_bound(wrong, labels, 0.9, anytime=True))
        mixture = quad(lambda r: binom.pmf(wrong, labels, r) / bound, 0, bound)[0]  # noqa: B023
        assert mixture / binom.pmf(wrong, labels, bound) == pytest.approx(10 * len(ANYTIME_STARTS), rel=1e-5)
        assert bound > float(risk_bound(wrong, labels, 0.9))
    assert risk_bound(5, 5, 0.9, anytime=True) == risk_bound(0, 0, 0.9, anytime=True) == 1.0
    fewest = fewest_labels(0.1, 0.9, anytime=True)
    assert risk_bound(0, fewest, 0.9, anytime=True) <= 0.1 < risk_bound(0, fewest - 1, 0.9, anytime=True)


def test_a_guarantee_for_any_number_of_looks_needs_more_labels_and_says_so() -> None:
    confidence = np.linspace(0.99, 0.5, 300)
    answers = answers_of(judged(confidence.tolist()), [entry(place) for place in GENERATOR(1).permutation(300)[:43]])
    once, often = (advise(answers, 0.1, anytime=anytime) for anytime in (False, True))
    assert once.value == often.value == 0.0
    assert (once.fewest, often.fewest) == (22, 43)
    assert often.threshold is not None
    assert advice_json(answers, often)["threshold"]["bound"] == often.threshold.bound(0.9, anytime=True)  # type: ignore[index]
    assert "A guarantee holds for one look: with a look after every 5 labels" in facts(answers)
    assert "A guarantee with --anytime holds however often you look" in facts(answers, anytime=True)
    few = answers_of(judged(confidence.tolist()), [entry(place) for place in GENERATOR(1).permutation(300)[:42]])
    assert advise(few, 0.1, anytime=True).threshold is None


def test_looking_after_every_few_labels_breaks_one_test_and_not_the_other() -> None:
    once, often = (samples.looks(100, 0.101, 10, 300, anytime=anytime) for anytime in (False, True))
    false = [sum(not math.isnan(each.risk) for each in found) for found in (once, often)]
    assert false[0] > 16
    assert false[1] <= 10


@pytest.mark.parametrize(
    "names", [("random sample, risk .105", "half of the wrong answers skipped", "20 documents, ICC .6")]
)
def test_worlds_that_broke_the_guarantee_no_longer_do(names: tuple[str, ...]) -> None:
    for name, result in samples.simulated(60, names):
        false = [sum(each.risk > 0.1 for each in found) for found in (result.before, result.now)]
        assert false[1] <= min(false[0], 6 + 7), name  # 10 % and three standard errors


def test_python_needs_to_be_told_how_an_answer_was_chosen() -> None:
    model = secl.load(secl.testing.ScriptedModel())
    answers = [model.ask(f"{k} + {k}?") for k in range(40)]
    with pytest.raises(TypeError, match="chance"):
        model.label(answers[0], True)  # type: ignore[call-arg]
    for answer in answers:
        model.label(answer, True, chance=None)
    assert model.threshold(0.1).basis == "volunteers"
    for answer in answers[:39]:
        model.label(answer, True, chance=1)
    model.label(answers[39], None, chance=1, skipped=True)
    advice = model.threshold(0.1)
    assert (advice.basis, advice.labels, advice.skipped) == ("labels", 39, 1)
    assert model.threshold(0.2, anytime=True).anytime
    assert model.threshold(0.1, since="1d").labels == 39
    assert model.threshold(0.1, since="2999-01-01").labels == 0
    with pytest.raises(ParameterError, match="like 30d"):
        model.threshold(0.1, since="soon")


def test_a_curve_without_units_is_as_before() -> None:
    curve = risk_coverage([0.9, 0.8, 0.7], [1, math.nan, 0])
    assert curve.worth.tolist() == curve.labels.tolist() == [1, 1, 2]
    assert guaranteed(risk_coverage([], []), 0.1, 0.9) is None
    assert answers_of([]).curve.total == 0
