"""Questions with the same options: the bias of each option and the scale of the scores, learnt without labels."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from examples.posterior_by_hand import PosteriorByHand
from secl.calibrator.stream import StreamState
from secl.evidence import OPTIONS, CandidateEvidence, Evidence, LetterOrder, Likelihood, Posterior
from secl.gates import Always
from secl.learning import Calibrator
from secl.posterior.rule import OPTION_LISTS, PosteriorRule, PosteriorState
from secl.posterior.shared import SharedSums
from secl.question import Question
from secl.records import Record
from secl.testing import ScriptedModel
from tests.answers import make_record, replied

RULE = PosteriorRule()
CLASSES = ("refund", "login", "price", "other")


def row(
    rng: np.random.Generator,
    right: int,
    options: Sequence[str] = CLASSES,
    bias: Sequence[float] = (),
    signal: float = 2,
) -> Record:
    """A row to classify: both views prefer the right class by `signal` nats, and each class has a bias."""
    count = len(options)
    shift = np.array(bias if len(bias) else [0.0] * count) + signal * (np.arange(count) == right)
    letters = [tuple((rng.normal(size=count) + shift).tolist()) for _ in range(2)]
    given = rng.normal(size=count) + 2 * shift
    candidates = CandidateEvidence(
        candidates=tuple(options),
        letters=(LetterOrder(order=tuple(range(count))[::-1], log_p=letters[1]),),
        likelihoods=tuple(Likelihood(given=float(each) - 9, alone=-9.0, tokens=1) for each in given),
        source=OPTIONS,
    )
    question = Question(f"Row {rng.integers(10**9)}?", tuple(options), reference=chr(65 + right))
    reply = replied("A", letters[0])
    evidence = Evidence(candidates=candidates)
    return replace(make_record(), question=question, reply=reply, learning=None, evidence=evidence)


def stream(records: Sequence[Record], rule: PosteriorRule = RULE) -> tuple[PosteriorState, list[Posterior]]:
    state, posteriors = rule.start(), []
    for record in records:
        state, posterior = rule.follow(state, record)
        assert posterior is not None
        posteriors.append(posterior)
    return state, posteriors


def alone(records: Sequence[Record]) -> list[Posterior]:
    """The posteriors without what rows share: the number of the row in each option makes all options different."""
    return stream([renamed(record, f" {number}") for number, record in enumerate(records)])[1]


def renamed(record: Record, end: str) -> Record:
    compared = record.evidence.candidates
    assert compared is not None
    options = tuple(option + end for option in record.question.options)
    question, compared = replace(record.question, options=options), replace(compared, candidates=options)
    return replace(record, question=question, evidence=Evidence(candidates=compared))


def scores(records: Sequence[Record], posteriors: Sequence[Posterior]) -> tuple[float, float]:
    """Share of right answers, and Brier score of the confidence in them."""
    right = [chr(65 + p.best) == r.question.reference for r, p in zip(records, posteriors, strict=True)]
    confidence = [max(p.probabilities) for p in posteriors]
    return float(np.mean(right)), float(np.mean([(c - y) ** 2 for c, y in zip(confidence, right, strict=True)]))


BIAS = (2.5, 0.0, -1.0, -1.5)


@pytest.mark.parametrize("share", [0.25, 0.8, 0.95])
@pytest.mark.parametrize("most", [0, 3])
def test_the_bias_of_a_class_is_told_from_a_class_with_most_of_the_rows(share: float, most: int) -> None:
    rng = np.random.default_rng(1)
    others = [number for number in range(4) if number != most]
    drawn = [most if rng.random() < share else int(rng.choice(others)) for _ in range(200)]
    records = [row(rng, right, bias=BIAS, signal=2.5) for right in drawn]
    now, before = scores(records, stream(records)[1]), scores(records, alone(records))
    assert now[0] >= before[0] - 0.02
    assert now[1] < before[1]


@pytest.mark.parametrize(("share", "cost"), [(0.5, -0.01), (0.8, 0.0), (0.95, 0.02)])
def test_a_frequent_class_of_two_without_a_bias_costs_little(share: float, cost: float) -> None:
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        records = [row(rng, int(rng.random() > share), options=("yes", "no"), signal=0.7) for _ in range(150)]
        gains.append(np.subtract(scores(records, stream(records)[1]), scores(records, alone(records))))
    accuracy, brier = np.mean(gains, axis=0)
    assert accuracy > -0.08
    assert brier < cost


def test_the_first_row_is_a_single_question_and_a_row_says_how_many_rows_it_rests_on() -> None:
    rng = np.random.default_rng(2)
    records = [row(rng, number % 4) for number in range(5)]
    _, posteriors = stream(records)
    assert [posterior.shared for posterior in posteriors] == [0, 1, 2, 3, 4]
    first, single = posteriors[0], alone(records[:1])[0]
    assert (first.probabilities, first.bias) == (single.probabilities, ())
    for posterior in posteriors[1:]:
        assert math.fsum(posterior.bias) == pytest.approx(0, abs=1e-12)


def test_questions_with_other_options_between_the_rows_change_nothing_but_the_reliability_of_the_letters() -> None:
    rng = np.random.default_rng(3)
    records = [row(rng, number % 4) for number in range(30)]
    other = [row(rng, 1, options=[f"{text} {number}" for text in CLASSES[:3]]) for number in range(30)]
    mixed = [record for pair in zip(records, other, strict=True) for record in pair]
    state, posteriors = stream(mixed)
    assert [posterior.shared for posterior in posteriors[::2]] == [*range(30)]
    assert {posterior.shared for posterior in posteriors[1::2]} == {0}
    assert len(state.shared) == 31


def test_a_stream_keeps_the_latest_lists_of_options_alone() -> None:
    rng = np.random.default_rng(4)
    other = [row(rng, 1, options=[f"{text} {number}" for text in CLASSES]) for number in range(OPTION_LISTS + 9)]
    state, _ = stream(other)
    assert len(state.shared) == OPTION_LISTS
    again = [RULE.follow(state, record)[1] for record in (other[-1], other[0])]
    assert [posterior and posterior.shared for posterior in again] == [1, 0]


def test_a_state_that_was_stored_goes_on_to_the_last_digit() -> None:
    rng = np.random.default_rng(5)
    records = [row(rng, number % 4, bias=BIAS) for number in range(40)]
    gate = Always()
    state = StreamState(gate=None)
    whole: list[Posterior | None] = []
    resumed: list[Posterior | None] = []
    other = state
    for record in records:
        state, _, posterior = state.follow(record, gate, RULE)
        other, _, stored = StreamState.unpack(other.pack(), gate).follow(record, gate, RULE)
        whole.append(posterior)
        resumed.append(stored)
    assert whole == resumed
    assert list(state.posterior.shared) == list(other.posterior.shared)


def test_a_table_in_windows_row_by_row_or_interrupted_gives_the_same_records() -> None:
    questions = [Question(f"Row {n}?", CLASSES, reference="ABCD"[n % 4], id=f"row-{n}") for n in range(40)]

    def run(table: Iterable[Question], done: Sequence[Record] = ()) -> list[Posterior | None]:
        return [record.posterior for record in Calibrator(ScriptedModel()).run(table, done)]

    records = [*Calibrator(ScriptedModel()).run(questions)]
    whole = [record.posterior for record in records]
    assert [posterior and posterior.shared for posterior in whole] == [*range(40)]
    assert run(iter(questions)) == whole
    for done in (1, 15, 16, 17, 39):
        assert run(questions, records[:done]) == whole[done:]


def test_the_estimates_are_those_computed_by_hand_from_all_scores() -> None:
    rng = np.random.default_rng(6)
    for count in (2, 3, 26):
        sums, hand = SharedSums.empty(count), PosteriorByHand(torch.nn.Identity(), None)
        options = CLASSES * 7
        for number in range(60):
            score = rng.normal(size=count) + np.linspace(2, -2, count) + 2 * (np.arange(count) == number % count)
            score -= score.mean()
            bias, factor = sums.correction()
            expected = hand.relative(options[:count], torch.tensor(score, dtype=torch.float32))
            relative = factor * (score - np.array(bias))
            assert relative == pytest.approx(expected.numpy(), abs=1e-4)
            sums = sums.add(score.tolist())


def test_one_repeated_row_keeps_its_answer_and_its_doubt() -> None:
    rng = np.random.default_rng(7)
    record = row(rng, 2, signal=1)
    _, posteriors = stream([record] * 200)
    single, last = posteriors[0], posteriors[-1]
    assert last.best == single.best
    assert last.own_probability == pytest.approx(
        single.own_probability, abs=0.02
    )  # the letters' reliability moves a little
    assert set(last.bias) == {0.0}


def test_a_class_that_never_occurs_is_not_invented() -> None:
    rng = np.random.default_rng(8)
    records = [row(rng, int(rng.integers(3)), bias=(0, 0, 0, 3)) for _ in range(150)]
    _, posteriors = stream(records)
    assert sum(posterior.best == 3 for posterior in posteriors[50:]) < 25
    assert scores(records, posteriors)[0] > scores(records, alone(records))[0] + 0.1


@pytest.mark.parametrize(
    "options", [tuple(f"class {number}" for number in range(26)), ("yes", "no"), ("same", "other", "same")]
)
def test_lists_of_any_length_and_equal_names_give_probabilities(options: tuple[str, ...]) -> None:
    rng = np.random.default_rng(9)
    records = [row(rng, number % len(options), options=options) for number in range(40)]
    for posterior in stream(records)[1]:
        shares = dict(zip(options, posterior.probabilities, strict=True))
        assert math.fsum(shares.values()) == pytest.approx(1)
        assert posterior.probabilities == tuple(shares[text] for text in options)


def test_scores_without_any_signal_or_spread_give_equal_probabilities() -> None:
    sums = SharedSums.empty(3)
    for _ in range(50):
        sums = sums.add((0.0, 0.0, 0.0))
    bias, strength = sums.estimate()
    assert bias == [0.0] * 3
    assert math.isfinite(strength)
