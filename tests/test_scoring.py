"""Rating answers from elsewhere, with a model whose every number is known."""

from __future__ import annotations

import math

import pytest

import secl
from secl.calibrator import WINDOW, Calibrator
from secl.entry import CalibratedModel
from secl.errors import QuestionError
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.posterior import letter_probability, order_averaged
from secl.gates import Always
from secl.methods import METHODS
from secl.metrics.probability import softmax
from secl.posterior.rule import PosteriorRule
from secl.question import LETTERS, GivenAnswer, Question
from secl.records import Record
from secl.settings.groups import LoopSettings
from secl.testing import ScriptedModel, toy_stream

STREAM = [GivenAnswer(question, LETTERS[i % 4]) for i, question in enumerate(toy_stream(60))]
COMPARING = METHODS["posterior"].evidence


class CountingModel(ScriptedModel):
    """Counts the answers in each of its windows."""

    def __init__(self) -> None:
        super().__init__()
        self.windows: list[int] = []

    def rate_given(self, given, evidence):  # type: ignore[no-untyped-def]
        self.windows.append(len(given))
        return super().rate_given(given, evidence)


def test_the_models_own_answer_given_to_it_is_rated_as_it_rates_it_unasked() -> None:
    questions = toy_stream(50)
    asked = [
        Calibrator(ScriptedModel(), method="secl", learns=False, gate=Always(), evidence=COMPARING).ask(q)
        for q in questions
    ]
    rated = list(secl.load(ScriptedModel()).score_all([(r.question, r.reply.text) for r in asked]))
    assert [r.reply for r in rated] == [r.frozen for r in asked]
    assert [r.evidence.candidates for r in rated] == [r.evidence.candidates for r in asked]
    assert [r.correct for r in rated] == [r.correct for r in asked]
    asking = Calibrator(
        ScriptedModel(), method="secl", learns=False, gate=Always(), evidence=COMPARING, loop=LoopSettings(answer="own")
    )
    along = list(asking.run(questions))
    assert [r.posterior for r in rated] == [r.posterior for r in along]
    assert [r.confidence for r in rated] == [r.confidence for r in along]


def test_the_letter_probability_of_a_given_answer_is_that_of_its_own_letter() -> None:
    records = list(secl.load(ScriptedModel()).score_all(STREAM))
    rated = ESTIMATORS["letter_probability"].estimate(records).confidence.tolist()
    for record, confidence in zip(records, rated, strict=True):
        p = [math.exp(each) for each in record.reply.option_log_p]
        assert confidence == pytest.approx(p[LETTERS.index(record.reply.text)] / sum(p))
    assert min(rated) < 1 / 4 < max(rated)


def test_the_letters_of_equal_options_add_up() -> None:
    record = secl.load(ScriptedModel()).score(Question("Is it so?", ("yes", "no", "yes"), reference="A"), "yes")
    compared = record.evidence.candidates
    assert compared is not None
    first, further = record.frozen.option_log_p, compared.letters[0].log_p
    p, averaged = softmax(first), softmax([(a + b) / 2 for a, b in zip(first, further, strict=True)])
    assert letter_probability(record.question, record.reply) == pytest.approx(p[0] + p[2])
    assert order_averaged(record) == pytest.approx(averaged[0] + averaged[2])


def test_a_record_says_that_its_answer_was_given_and_costs_what_rating_it_took() -> None:
    record = secl.load(ScriptedModel()).score("Capital of Peru?", " Lima ", rivals=["Cusco", "Quito"])
    assert (record.given, record.outcome, record.update, record.signal) == (True, "given", None, None)
    assert (record.reply.answer, record.correct, record.reply == record.frozen) == (" Lima ", None, True)
    assert (record.decision.alarm, record.decision.in_burst) == (False, False)
    assert (record.ledger.answering, record.ledger.scoring, record.ledger.sampling) == (10, 20, 5)
    assert record.posterior is not None
    assert record.confidence == record.posterior.probabilities[0]


def test_rating_teaches_neither_model_nor_gate_but_counts_in_the_stream() -> None:
    plain, mixed = Calibrator(ScriptedModel(), method="secl"), Calibrator(ScriptedModel(), method="secl")
    questions = toy_stream(40)
    for i, question in enumerate(questions):
        plain.ask(question)
        mixed.ask(question)
        before = (mixed.model.snapshot(), mixed.state.gate, mixed.state.entropy, mixed.state.decision)
        position = mixed.state.position
        assert mixed.rate_window([GivenAnswer(question, LETTERS[i % 4])])[0].position == position
        assert (mixed.model.snapshot(), mixed.state.gate, mixed.state.entropy, mixed.state.decision) == before
        assert mixed.state.position == position + 1
    assert plain.model.snapshot() == mixed.model.snapshot()
    assert plain.state.gate == mixed.state.gate


def test_the_posterior_of_a_stream_is_the_rule_stepped_through_its_views() -> None:
    records = list(secl.load(ScriptedModel()).score_all(STREAM))
    rule = PosteriorRule()
    state = rule.start()
    for record in records:
        views = rule.read(record.question, record.reply, record.frozen, record.evidence)
        state, posterior = rule.step(state, views)
        assert record.posterior == posterior
    assert records[-1].posterior is not None
    assert records[-1].posterior.questions == len(
        [r for r in records[:-1] if r.posterior is not None and r.question.options]
    )


@pytest.mark.parametrize("stopped", [0, 1, WINDOW - 1, WINDOW, WINDOW + 3, 59, 60])
def test_scoring_resumed_anywhere_gives_the_same_records_from_the_same_windows(stopped: int) -> None:
    whole = list(Calibrator(ScriptedModel(), method="secl").rate_stream(STREAM))
    model = CountingModel()
    rest = list(Calibrator(model, method="secl").rate_stream(STREAM, whole[:stopped]))
    assert rest == whole[stopped:]
    begun = [WINDOW, WINDOW, WINDOW, 60 - 3 * WINDOW]
    assert model.windows == begun[stopped // WINDOW :]


def test_p_true_of_the_rivals_is_asked_where_the_calibrator_gathers_p_true() -> None:
    question = toy_stream(1)[0]
    (own,) = [
        CalibratedModel(Calibrator(ScriptedModel(), method="secl", learns=False, evidence=COMPARING))
        .score(question, "B")
        .evidence.p_true
    ]
    (both,) = [secl.load(ScriptedModel(), method="secl").score(question, "B").evidence.p_true]
    assert own is not None
    assert both is not None
    assert own.candidates == (question.option("B"),)
    assert len(both.candidates) == 4
    assert both.probabilities[:1] == own.probabilities


def test_a_bad_answer_is_found_before_any_is_rated() -> None:
    model = CountingModel()
    with pytest.raises(QuestionError, match="'toy-0039' is none of its options"):
        list(secl.load(model).score_all([(q, "A" if i < 39 else "ninety") for i, q in enumerate(toy_stream(40))]))
    assert model.windows == []


def test_rows_are_rated_and_their_own_truth_wins_over_the_reference() -> None:
    row = {"question": "Who wrote Hamlet?", "reference": "Shakespeare", "answer": "the Bard"}
    rows = [row, row | {"correct": True}, row | {"rivals": ["Marlowe"], "correct": False}]
    records: list[Record] = list(secl.load(ScriptedModel()).score_all(rows))
    assert [record.correct for record in records] == [False, True, False]
    assert [record.frozen_correct for record in records] == [False, True, False]
    with pytest.raises(QuestionError, match="has no answer"):
        list(secl.load(ScriptedModel()).score_all([row | {"answer": None}]))
