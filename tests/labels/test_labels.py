"""Labels: the posterior of the Platt parameters, the confidences that it moves, and the labels of runs."""

import math
import shutil
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit as sigmoid
from scipy.stats import binomtest

from secl import load
from secl.calibrator import Calibrator
from secl.errors import ParameterError, RunError
from secl.evaluation.acceptance import answers_of
from secl.labels import state as of_labels
from secl.labels.label import MIN_CHANCE, Label, label_of, random_order, utc
from secl.labels.state import LabelState, Prior, fit, held_out, label_weights, log_odds, observed
from secl.runs import RunSettings, Store
from secl.runs.labelling import current_records, held_out_records, review_queue
from secl.runs.runner import Run, resume_run, start_run
from secl.server.verify import examine
from secl.testing import ScriptedModel, toy_stream
from tests.answers import answered, give_labels


def label(number: int, correct: bool | None, confidence: float = 0.8, domain: str = "d", **changes: Any) -> Label:
    same = {"position": number, "reported": confidence, "time": 0.0, "source": "review", "chance": 1.0, **changes}
    return Label(number=number, correct=correct, confidence=confidence, domain=domain, **same)


LOG = [
    label(1, True, 0.9, "a"),
    label(2, False, 0.9, "b"),
    label(3, False, 0.6, "a"),
    label(4, True, 0.3, "b", chance=None),
    label(5, False, 0.7, "b"),
    label(6, True, 0.8, "a"),
]


def test_without_labels_a_confidence_is_as_it_is_and_its_band_is_that_of_the_prior() -> None:
    rated = replace(LabelState.start(), sound=0.0).rate("d", 0.57)  # the wide prior alone
    assert (rated.calibrated, rated.uncalibrated, rated.labels, rated.until) == (0.57, 0.57, 0, 0)
    z, x = 1.6448536269514722, math.log(0.57 / 0.43)
    spread = math.sqrt(0.4**2 * x**2 + 0.8**2 + 0.5**2)
    assert (rated.low, rated.high) == pytest.approx((sigmoid(x - z * spread), sigmoid(x + z * spread)))


def test_the_parameters_are_those_of_the_greatest_posterior_and_their_spread_that_of_its_curvature() -> None:
    fitted = fit(LOG, Prior(0.4, 0.8, 0.5, 2.0), 0.9)

    def loss(theta: np.ndarray) -> float:
        slope, shift, choice, *own = theta
        total = (slope - 1) ** 2 / (2 * 0.4**2) + shift**2 / (2 * 0.8**2) + choice**2 / (2 * 2.0**2)
        total += sum(d**2 for d in own) / (2 * 0.5**2)
        for age, entry in enumerate(reversed(LOG)):
            z = slope * log_odds(entry.confidence) + shift + own["ab".index(entry.domain)]
            z += choice * (entry.chance is None)
            total += 0.9**age * math.log1p(math.exp(-z if entry.correct else z))
        return float(total)

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    assert fitted.mean == pytest.approx(best.x, abs=1e-6)
    step = 1e-4 * np.eye(5)
    sides = [(si, sj) for si in (1, -1) for sj in (1, -1)]
    curvature = [
        [sum(si * sj * loss(best.x + si * one + sj * other) for si, sj in sides) / 4e-8 for one in step]
        for other in step
    ]
    assert np.array(fitted.covariance) == pytest.approx(np.linalg.inv(curvature), abs=1e-4)


def test_the_two_priors_are_weighed_by_their_evidence() -> None:
    assert astuple(of_labels.NARROW)[:3] == tuple(deviation / 4 for deviation in astuple(of_labels.WIDE)[:3])
    narrow, wide = fit(LOG, of_labels.NARROW, 0.999), fit(LOG, of_labels.WIDE, 0.999)
    state = LabelState.start().add(LOG)
    assert state.sound == pytest.approx(sigmoid(narrow.evidence - wide.evidence))
    rated = state.rate("a", 0.9)
    means = [sigmoid(scaling.logit("a", 0.9)[0]) for scaling in (narrow, wide)]
    assert rated.calibrated == pytest.approx(state.sound * means[0] + (1 - state.sound) * means[1])


def test_the_labels_near_a_confidence_are_counted_with_an_exact_interval() -> None:
    drawn = [label(n, n % 4 > 0, confidence=0.8) for n in range(1, 21)]
    far = [label(n, False, confidence=0.2) for n in range(21, 31)]
    thumbs = [label(n, False, confidence=0.8, chance=None) for n in range(31, 34)]
    state = LabelState.start().add([*drawn, *far, *thumbs])
    rated = state.rate("a", 0.8)
    assert (rated.near, rated.near_right) == (20, 15)
    assert observed(rated) == pytest.approx(tuple(binomtest(15, 20).proportion_ci(0.9, "exact")), abs=1e-9)
    assert state.rate("a", 0.2).near_right == 0
    assert observed(LabelState.start().rate("a", 0.8)) is None
    assert observed(LabelState.start().add(thumbs).rate("a", 0.8)) is None


def test_an_undefined_confidence_stays_undefined_with_and_without_labels() -> None:
    for state in (LabelState.start(), LabelState.start().add(LOG)):
        rated = state.rate("a", math.nan, 0.5)
        assert all(map(math.isnan, (rated.uncalibrated, rated.calibrated, rated.low, rated.high)))
        assert rated.near == 0


def test_what_is_taken_back_is_as_if_never_said_and_labels_of_an_earlier_run_as_if_given_first() -> None:
    before = LabelState.start().add(LOG)
    spoken = before.add([label(7, False)])
    back = spoken.add([replace(label(8, None), position=7)])
    assert spoken.rate("d", 0.8) != before.rate("d", 0.8)
    assert replace(back.rate("d", 0.8), until=6) == before.rate("d", 0.8)
    corrected = [replace(label(8, True), position=7)]
    assert spoken.add(corrected) == before.add(corrected)
    assert spoken.without({7}).standing == before.standing
    carried, own = LOG[:3], LOG[3:]
    after = LabelState.start(carried).add(own)
    renumbered = [replace(entry, position=100 + entry.position) for entry in carried]
    assert after.rate("a", 0.7) == LabelState.start().add([*renumbered, *own]).rate("a", 0.7)
    assert after.standing == tuple(own)  # thresholds use the labels of this stream alone


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([True, False, None])), max_size=12), st.data())
def test_a_log_may_come_in_pieces(said: list[tuple[int, bool | None]], data: st.DataObject) -> None:
    log = [replace(label(n, correct), position=position) for n, (position, correct) in enumerate(said, start=1)]
    cut = data.draw(st.integers(0, len(log)))
    assert LabelState.start().add(log[:cut]).add(log[cut:]) == LabelState.start().add(log)


def test_older_labels_weigh_less_and_unlikely_ones_more_but_no_more_than_they_are_worth() -> None:
    plain = [label(number, True) for number in range(1, 4)]
    assert label_weights(plain, 0.5).tolist() == [0.25, 0.5, 1.0]
    unequal = label_weights([label(1, True, chance=1.0), label(2, True, chance=0.25)], 1.0)
    assert unequal[1] / unequal[0] == pytest.approx(4.0)
    assert unequal.sum() == pytest.approx((1 + 4) ** 2 / (1 + 16))
    assert label_weights([], 0.9).size == 0
    # A review has an equal, unknown chance for all answers, written as 1. It is not compared with that of feedback.
    review = [label(number, True) for number in range(4)]
    feedback = [label(number, False, chance=0.05, source="feedback") for number in range(4, 8)]
    assert label_weights([*review, *feedback], 1.0) == pytest.approx([1.0] * 8)
    chosen = [replace(entry, chance=1.0) for entry in feedback[:2]]
    weights = label_weights([*review, *chosen, *feedback[2:]], 1.0)
    assert weights[:4] == pytest.approx([1.0] * 4)
    assert weights[6] == pytest.approx(20 * weights[4])


def test_what_people_volunteer_moves_the_level_little_and_the_order_of_domains_as_much_as_any_label() -> None:
    """Users rate wrong answers ten times as often as right ones. Confidence and accuracy are 80 %."""
    generator = np.random.default_rng(2)
    thumbs = []
    for number in range(1, 3001):
        correct = bool(generator.random() < (0.9 if number % 2 else 0.7))
        if generator.random() < (0.03 if correct else 0.3):
            thumbs.append(label(number, correct, domain="good" if number % 2 else "bad", chance=None))
    volunteered = LabelState.start().add(thumbs)
    taken_for_fair = LabelState.start().add([replace(thumb, chance=1.0) for thumb in thumbs])
    good, bad = (volunteered.rate(name, 0.8).calibrated for name in ("good", "bad"))
    assert (good + bad) / 2 == pytest.approx(0.8, abs=0.12)
    assert good > bad + 0.05
    assert taken_for_fair.rate("bad", 0.8).calibrated < 0.35
    asked = [label(9000 + n, n % 5 != 0, domain=("good", "bad")[n % 2]) for n in range(30)]
    with_asked = volunteered.add(asked)
    assert with_asked.rate("other", 0.8).calibrated == pytest.approx(0.8, abs=0.08)


def test_the_band_holds_the_true_rate_about_as_often_as_it_says() -> None:
    """For simulated models with parameters drawn from the prior, 84 to 96 % of the bands hold the true rate."""
    generator = np.random.default_rng(3)
    held = []
    for _ in range(100):
        share = 1.0 if generator.random() < 0.5 else 0.25
        slope, shift = 1 + share * 0.4 * generator.normal(), share * 0.8 * generator.normal()
        own = share * 0.5 * generator.normal()
        log = []
        for number in range(1, 31):
            confidence = float(generator.uniform(0.1, 0.95))
            truth = sigmoid(slope * log_odds(confidence) + shift + own)
            log.append(label(number, bool(generator.random() < truth), confidence))
        rated = LabelState.start().add(log).rate("d", 0.7)
        truth = sigmoid(slope * log_odds(0.7) + shift + own)
        held.append(rated.low <= truth <= rated.high)
    assert 0.84 <= np.mean(held) <= 0.96


def test_labels_are_about_reported_answers_and_what_to_label_is_drawn_by_the_seed() -> None:
    record = Calibrator(ScriptedModel(), method="secl").ask(toy_stream(1)[0])
    given = label_of(record, False, number=3, chance=1)
    assert (given.confidence, given.reported) == (record.confidences.uncalibrated, record.confidence)
    assert given.domain == record.question.domain
    queue = random_order(range(30), 42)
    assert queue != random_order(range(30), 43)
    assert queue != list(range(30)) == sorted(queue)
    assert [position for position in random_order(range(40), 42) if position < 30] == queue


def test_only_the_domains_with_the_most_labels_have_a_shift_of_their_own() -> None:
    """A client may send a domain for each user; the size of a fit must not grow with the number of users."""
    often = [label(number, True, domain="often") for number in range(4)]
    users = [label(number, number % 3 > 0, domain=f"user {number % 60:02}") for number in range(180)]
    scaling = fit([*users, *often], of_labels.WIDE, 0.999)
    assert len(scaling.mean) == 3 + of_labels.MOST_DOMAINS
    assert {"often", *(f"user {number:02}" for number in range(of_labels.MOST_DOMAINS - 1))} == set(scaling.domains)
    assert scaling.logit("user 59", 0.8) == scaling.logit("never heard of", 0.8)
    few = [label(number, False, domain="few") for number in range(of_labels.FEWEST_OF_DOMAIN - 1)]
    enough = [label(number, True, domain="enough") for number in range(10, 10 + of_labels.FEWEST_OF_DOMAIN)]
    state = LabelState.start().add([*few, *enough])
    of_few, of_none, of_enough = (state.rate(name, 0.8).calibrated for name in ("few", "never heard of", "enough"))
    assert of_few == of_none < of_enough


def test_a_failed_fit_changes_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The squared inverse of a chance below 1e-154 was infinite, and every later answer failed."""
    log = [*(label(number, True) for number in range(50)), label(51, False, chance=MIN_CHANCE)]
    assert np.isfinite(label_weights(log, 1.0)).all()
    assert 0.0 < LabelState.start().add(log).rate("d", 0.5).calibrated < 1.0
    for chance in (0.0, 5e-324, math.nan, 1.5):
        with pytest.raises(ParameterError, match="must lie from 0\\.0001 to 1"):
            label(1, False, chance=chance)
    monkeypatch.setattr("secl.labels.state.DECAY", math.nan)
    state = LabelState.start().add(LOG)
    assert state.rate("a", 0.87).calibrated == 0.87
    assert "6 labels cannot be fitted" in caplog.text


def test_a_fold_of_labels_is_rated_by_the_others_and_equal_confidences_stay_nearly_equal() -> None:
    """Leaving out one label at a time ranked right answers below wrong ones: AUROC .00 instead of .5."""
    records = answered([0.85] * 60, [None] * 60)
    log = [label_of(record, record.position % 3 > 0, number=record.position + 1, chance=1) for record in records]
    rated = list(held_out(records, log))
    assert len({record.confidence for record in rated}) == of_labels.FOLDS
    assert {record.confidences.uncalibrated for record in rated} == {0.85}
    reported = np.mean([record.confidence for record in rated])
    assert reported == pytest.approx(2 / 3, abs=0.04)


def begun(folder: Path, model: Any = None, **settings: Any) -> Run:
    chosen = {"stream.benchmarks": ["capitals:20", "science:20"], "method": "stated", **settings}
    return start_run(RunSettings.of(chosen), folder, lambda _settings: model or ScriptedModel())


def finished(folder: Path, labels: int = 0) -> Run:
    run = begun(folder)
    run.proceed()
    run.store.close()
    give_labels(folder, lambda position: position % 3 == 0, labels)
    return run


def test_a_review_moves_the_confidences_of_the_whole_run_and_no_answers_own(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    with Store(tmp_path / "run", writable=True) as store:
        waiting = list(review_queue(store).positions)
        assert len(waiting) == 40
        assert waiting == list(review_queue(store).positions) != sorted(waiting)
        for position in waiting[:8]:
            store.add_feedback(position, False, drawn=True)
        store.add_feedback(waiting[0], True, drawn=True)  # the last label counts, and the log keeps both
        store.add_feedback(waiting[1], None, drawn=True)
        assert (len(store.label_log()), len(store.labels())) == (10, 7)
        assert list(review_queue(store).positions) == [waiting[1], *waiting[8:]]
        now = list(current_records(store))
        said = {label.position: bool(label.correct) for label in store.labels()}
        state = LabelState.start().add(store.label_log())
        for record, other in zip(now, map(state.apply, run.records), strict=True):
            assert record == (other.with_label(said[other.position]) if other.position in said else other)
        measured = list(held_out_records(store))
        assert all(record.labelled is not None and record.labelled.until == 10 for record in (*now, *measured))
        counts = {record.position: record.labelled.labels for record in measured if record.labelled is not None}
        assert counts[waiting[20]] == 7  # an answer without a label gets the map of all labels
        assert {counts[position] for position in said} == {5, 6}  # the map leaves out its fold of one or two labels
        assert sum(record.confidence for record in now) < sum(record.confidence for record in run.records)
        # A volunteer rates an answer. The review includes such answers, because the others are right more often.
        store.add_feedback(waiting[30], False)
        assert list(review_queue(store).positions) == [waiting[1], *waiting[8:]]
        store.add_feedback(waiting[30], False, drawn=True)
        assert list(review_queue(store).positions) == [waiting[1], *waiting[8:30], *waiting[31:]]


def test_a_run_takes_over_what_the_labels_of_another_taught_and_needs_its_folder_no_more(tmp_path: Path) -> None:
    first = tmp_path / "first"
    finished(first, 20)
    with Store(first) as store:
        taught = LabelState.start(store.labels())
    run = begun(tmp_path / "second", **{"model.calibration": str(first)})
    steps = run.steps()
    begun_records = [next(steps) for _ in range(10)]
    run.store.close()
    shutil.rmtree(first)
    resumed = resume_run(tmp_path / "second", load=lambda _settings: ScriptedModel())
    resumed.proceed()
    for record in resumed.records:
        assert record.labelled == taught.rate(record.question.domain, record.confidences.uncalibrated)
        assert record.confidence != record.confidences.uncalibrated
    assert resumed.records[:10] == begun_records
    resumed.store.close()
    with Store(tmp_path / "second", writable=True) as store:  # its own labels are added, and thresholds use these alone
        store.add_feedback(3, False, drawn=True)
        both = next(record.labelled for record in current_records(store) if record.position == 4)
        assert both is not None
        assert both.labels == 21
        # The references of the questions count, and no label of the first run.
        assert answers_of(store.records(), store.label_log()).curve.total == 40


def test_a_calibrated_run_also_takes_over_what_rows_with_the_same_options_share(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("".join(["text\n", *(f"row {number}\n" for number in range(12))]), encoding="utf-8")
    rows = {"stream.benchmarks": [], "stream.questions": str(table), "stream.template": "What is {text}?"}
    rows |= {"stream.options": ["red", "green", "blue"], "method": "posterior"}
    first = begun(tmp_path / "first", **rows)
    first.proceed()
    first.store.close()
    give_labels(tmp_path / "first", lambda position: position % 3 == 0, 6)
    second = begun(tmp_path / "second", **rows, **{"model.calibration": str(tmp_path / "first")})
    steps = second.steps()
    before = [next(steps) for _ in range(5)]
    second.store.close()
    shutil.rmtree(tmp_path / "first")
    resumed = resume_run(tmp_path / "second", load=lambda _settings: ScriptedModel())
    resumed.proceed()
    assert resumed.records[:5] == before
    shared = [record.posterior and record.posterior.shared for record in resumed.records]
    assert shared == [*range(12, 24)]
    found = examine(resumed.store)
    assert (found.examined, found.findings) == (12, [])
    resumed.store.close()


def test_labels_that_do_not_apply_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finished(tmp_path / "first", 3)
    finished(tmp_path / "unlabelled")
    other = ScriptedModel()
    other.fingerprint = "another"
    for model, changes, why in (
        (None, {"method": "p_true"}, "because its settings differ .method: stated there, p_true here"),
        (None, {"model.calibration": "unlabelled"}, "has no labels"),
        (None, {"model.calibration": "nowhere"}, "is not a run folder"),
        (other, {}, "made with another model"),
    ):
        with pytest.raises(RunError, match=why):
            begun(tmp_path / "second", model, **{"model.calibration": "first", **changes})
        assert not (tmp_path / "second").exists()


def test_in_python_references_count_as_the_user_says_how_their_rows_were_chosen() -> None:
    rows = [replace(each, reference=each.reference if n % 4 else None) for n, each in enumerate(toy_stream(40))]
    for chance, basis in ((1.0, "labels"), (None, "volunteers")):
        model = load(ScriptedModel(), method="stated")
        answers = list(model.ask_all(rows))
        before = model.ask(rows[0]).confidence
        assert model.label_references(answers, chance=chance) == 30
        assert model.ask(rows[0]).confidence != before
        assert model.threshold(0.4).basis == basis
        assert model.label_references(answers[::4], chance=chance) == 0


def test_a_time_that_no_calendar_has_is_a_number_of_seconds() -> None:
    assert (utc(1e15), utc(0.0)) == ("1e+15 s after 1970", "1970-01-01T00:00:00")
