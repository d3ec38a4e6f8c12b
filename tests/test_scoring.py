"""Given answers, rated by a model of known numbers; every signal against its formula."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secl
from secl import CalibratedModel
from secl.calibrator import WINDOW_SIZE, Calibrator
from secl.errors import QuestionError
from secl.evidence import OPTIONS, DincoEvidence, Evidence, PTrue
from secl.methods import METHODS
from secl.metrics.probability import normalised_p_true, softmax
from secl.model import learner_of
from secl.posterior.rule import PosteriorRule
from secl.question import LETTERS, GivenAnswer, Question
from secl.records import Record, Reply
from secl.scores import (
    SCORES,
    Score,
    answer_probability,
    consistency,
    letter_probability,
    make_signal,
    most_frequent,
    normalised_verbalised_confidence,
    order_averaged,
)
from secl.settings.groups import Formula
from secl.testing import ScriptedModel, toy_stream
from tests.answers import make_record

STREAM = [GivenAnswer(question, LETTERS[i % 4]) for i, question in enumerate(toy_stream(60))]
COMPARING = METHODS["posterior"].evidence


def test_numbers_of_a_given_answer_are_those_of_its_own_letter_and_of_the_rule_stepped_through_its_views() -> None:
    records = list(secl.load(ScriptedModel()).score_all(STREAM))
    rated = SCORES["letter_probability"].estimate(records).confidence.tolist()
    assert min(rated) < 1 / 4 < max(rated)
    rule = PosteriorRule()
    state, asked = rule.start(), 0
    for record, confidence in zip(records, rated, strict=True):
        p = [math.exp(each) for each in record.reply.option_log_p]
        assert confidence == pytest.approx(p[LETTERS.index(record.reply.text)] / sum(p))
        state, posterior = rule.follow(state, record)
        assert record.posterior == posterior
        assert posterior is None or posterior.questions == asked
        asked += posterior is not None
    assert asked > 40
    record = secl.load(ScriptedModel()).score(Question("Is it so?", ("yes", "no", "yes"), reference="A"), "yes")
    compared = record.evidence.candidates  # the letters of equal options add up
    assert compared is not None
    first, further = record.frozen.option_log_p, compared.letters[0].log_p
    shares, averaged = softmax(first), softmax([(a + b) / 2 for a, b in zip(first, further, strict=True)])
    assert letter_probability(record.question, record.reply) == pytest.approx(shares[0] + shares[2])
    assert order_averaged(record) == pytest.approx(averaged[0] + averaged[2])


def test_a_record_says_that_its_answer_was_given_and_costs_what_rating_it_took() -> None:
    record = secl.load(ScriptedModel()).score("Capital of Peru?", " Lima ", rivals=["Cusco", "Quito"])
    assert (record.kind, record.learning, record.signal) == ("given", None, None)
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
        learner = learner_of(mixed.model)
        before = (learner.snapshot(), mixed.state.gate, mixed.state.entropy, mixed.state.decision)
        position = mixed.state.position
        (rated,) = mixed.rate_window([GivenAnswer(question, LETTERS[i % 4])])
        assert isinstance(rated, Record)
        assert rated.position == position
        assert (learner.snapshot(), mixed.state.gate, mixed.state.entropy, mixed.state.decision) == before
        assert mixed.state.position == position + 1
    assert learner_of(plain.model).snapshot() == learner.snapshot()
    assert plain.state.gate == mixed.state.gate


def test_scoring_resumed_anywhere_gives_the_same_records_from_the_same_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[int] = []
    rate = ScriptedModel.rate

    def counted(self: ScriptedModel, given: Any, evidence: Any) -> Any:
        windows.append(len(given))
        return rate(self, given, evidence)

    monkeypatch.setattr(ScriptedModel, "rate", counted)
    whole = list(Calibrator(ScriptedModel(), method="secl").rate_stream(STREAM))
    begun = list(windows)
    assert begun == [WINDOW_SIZE, WINDOW_SIZE, WINDOW_SIZE, 60 - 3 * WINDOW_SIZE]
    for stopped in (0, 1, WINDOW_SIZE - 1, WINDOW_SIZE, WINDOW_SIZE + 3, 59, 60):
        windows.clear()
        rest = list(Calibrator(ScriptedModel(), method="secl").rate_stream(STREAM, whole[:stopped]))
        assert rest == whole[stopped:]
        assert windows == begun[stopped // WINDOW_SIZE :]
    windows.clear()
    answers = [(q, "A" if i < 39 else "ninety") for i, q in enumerate(toy_stream(40))]
    with pytest.raises(QuestionError, match="'toy-0039' is none of its options"):
        list(secl.load(ScriptedModel()).score_all(answers))
    assert windows == []  # a bad answer is found before any is rated


def test_p_true_of_the_rivals_is_asked_where_the_calibrator_gathers_p_true() -> None:
    question = toy_stream(1)[0]
    alone = CalibratedModel(Calibrator(ScriptedModel(), method="secl", learns=False, evidence=COMPARING))
    own, both = (m.score(question, "B").evidence.p_true for m in (alone, secl.load(ScriptedModel(), method="secl")))
    assert own is not None
    assert both is not None
    assert own.candidates == (question.option("B"),)
    assert len(both.candidates) == 4
    assert both.probabilities[:1] == own.probabilities


def test_rows_are_rated_and_their_own_truth_wins_over_the_reference() -> None:
    row: dict[str, object] = {"question": "Who wrote Hamlet?", "reference": "Shakespeare", "answer": "the Bard"}
    rows = [row, row | {"correct": True}, row | {"rivals": ["Marlowe"], "correct": False}]
    records: list[Record] = list(secl.load(ScriptedModel()).score_all(rows))
    assert [record.correct for record in records] == [False, True, False]
    assert [record.frozen_correct for record in records] == [False, True, False]


CAPITAL = Question("What is the capital of France?", options=("Rome", "Paris", "St. Denis."), id="q1")


def letters(question: Question, answers: str) -> str:
    """Return the letters that a list of answers, separated by bars, is read as."""
    return "".join(str(GivenAnswer(question, answer).answer) for answer in answers.split("|"))


def test_an_option_is_given_by_its_letter_its_text_or_both() -> None:
    assert letters(CAPITAL, "B|b| paris |PARIS.|B.|(B)|b) Paris|(B) paris|B: Paris|(B). Paris") == "B" * 10
    assert letters(CAPITAL, "st. denis|C. St. Denis.") == "CC"
    vowels = Question("Which vowel?", options=("m", "b", "a"))
    assert letters(vowels, "A|B|C|M|m|a") == "ABCAAC"  # an exact letter is rather meant than a text in another case
    assert letters(Question("Which?", options=("x", "y", "y")), "y") == "B"  # of equal options the first
    for answer in ("London", "D", "A. Paris", "B. London", "Par", "(", "BB"):
        with pytest.raises(QuestionError, match=r"'q1' is none of its options \(A\. Rome, B\. Paris, C\. St\. Denis"):
            GivenAnswer(CAPITAL, answer)
    blood = Question("Which blood group can anyone receive?", options=("O", "B", "A"))
    assert letters(blood, "C. A|O|b") == "CAB"
    with pytest.raises(QuestionError, match=r"write 'C\. A' or 'A\. O'"):
        GivenAnswer(blood, "A")


def test_what_is_no_text_is_no_answer_and_no_rival_and_options_are_the_only_rivals() -> None:
    for text in ("", "  ", "\ud800"):
        for parts in ((text,), ("Shakespeare", ("Marlowe", text))):
            with pytest.raises(QuestionError, match="'h'"):
                GivenAnswer(Question("Who wrote Hamlet?", id="h"), *parts)
    with pytest.raises(QuestionError, match="leave rivals out"):
        GivenAnswer(CAPITAL, "B", ("London",))


CHOICE = Question("Which is a metal?", options=("neon", "iron", "argon"), reference="B")
OPEN = Question("Longest river?", reference="Nile")
BINS = (0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.3, 0.4)
REPLY = Reply(text="B", answer="B", bins=BINS, digit_mass=0.9, entropy=0.7, log_probability=-0.2)
JUDGEMENT = PTrue(candidates=("iron", "neon", "argon"), probabilities=(0.6, 0.3, 0.1), source=OPTIONS)
BEAMS = DincoEvidence(
    candidates=("neon", "iron"),
    answers=("A", "B"),
    beams=2,
    p_yes=(0.9, 0.6),
    entails=((1.0, 0.1), (0.3, 1.0)),
    contradicts=((0.0, 0.8), (0.6, 0.0)),
    agreement=((1.0, 0.95, 0.1, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0, 1.0)),
    nli_name="self",
)
EVIDENCE = Evidence(JUDGEMENT, ("B", "B", "A", None), BEAMS)
GREEDY = make_signal("self_consistency")
RATING = [SCORES[name] for name in ("p_true", "norm_p_true", "self_consistency", "dinco", "dinco_greedy")]
RATING += [make_signal("norm_p_true", 0.7), make_signal("norm_p_true", 0.7, "exp"), GREEDY]


def rated(question: Question, reply: Reply, evidence: Evidence) -> Record:
    return replace(make_record(), question=question, reply=reply, evidence=evidence, learning=None)


@pytest.mark.parametrize("score", RATING, ids=lambda score: score.title)
def test_a_score_is_a_probability_of_a_named_answer_and_says_nothing_without_its_evidence(score: Score) -> None:
    record = rated(CHOICE, REPLY, EVIDENCE)
    confidence = score.of(record)
    assert confidence is not None
    assert 0.0 <= confidence <= 1.0
    assert score.answer(record) in CHOICE.letters
    assert score.of(rated(CHOICE, REPLY, Evidence())) is None


def test_what_a_reply_and_p_true_say_is_their_formula() -> None:
    assert REPLY.stated == pytest.approx(0.1 * 0.15 + 0.2 * 0.65 + 0.3 * 0.85 + 0.4 * 0.95)
    assert REPLY.stated_hard == 0.95
    assert answer_probability(REPLY) == math.exp(-0.2)
    assert answer_probability(replace(REPLY, log_probability=math.nan)) is None
    assert SCORES["token_entropy"].of(rated(CHOICE, REPLY, EVIDENCE)) == math.exp(-0.7)
    record = rated(CHOICE, REPLY, EVIDENCE)
    assert SCORES["p_true"].of(record) == 0.6
    for formula in get_args(Formula):
        expected = normalised_p_true(JUDGEMENT.probabilities, 0.7, formula)
        assert make_signal("norm_p_true", 0.7, formula).of(record) == expected


def test_equal_options_are_one_candidate() -> None:
    def judged(texts: tuple[str, ...], probabilities: tuple[float, ...]) -> Evidence:
        return Evidence(PTrue(candidates=texts, probabilities=probabilities, source=OPTIONS))

    twice, once = judged(("4", "4", "5"), (0.6, 0.6, 0.2)), judged(("4", "5"), (0.6, 0.2))
    for signal in (make_signal("norm_p_true", 0.7), make_signal("norm_p_true", 0.7, "exp")):
        assert signal.of(rated(CHOICE, REPLY, twice)) == signal.of(rated(CHOICE, REPLY, once))
    assert SCORES["norm_p_true"].of(rated(CHOICE, REPLY, judged(("4", "4"), (0.6, 0.6)))) is None
    question, samples = replace(CHOICE, options=("4", "5", "4")), Evidence(samples=("A", "B", "C", "B", "C"))
    assert GREEDY.of(rated(question, replace(REPLY, text="A", answer="A"), samples)) == 0.6
    assert most_frequent(rated(question, REPLY, samples)) == "A"
    assert SCORES["self_consistency"].of(rated(question, REPLY, samples)) == 0.6


def test_self_consistency_counts_unreadable_samples_as_disagreement_and_the_mode_answers_for_itself() -> None:
    assert GREEDY.of(rated(CHOICE, REPLY, EVIDENCE)) == 0.5
    assert GREEDY.of(rated(CHOICE, replace(REPLY, text="C", answer="C"), EVIDENCE)) == 0.0
    assert GREEDY.of(rated(CHOICE, replace(REPLY, text="", answer=None), EVIDENCE)) is None
    mode, reply = SCORES["self_consistency"], replace(REPLY, text="Volga", answer="Volga")
    tied = rated(OPEN, reply, Evidence(samples=(None, "The Nile.", "Amazon", "nile", "the amazon")))
    assert mode.answer(tied) == "The Nile."  # the earliest of a tie wins
    assert mode.of(tied) == 0.4
    assert mode.of(rated(OPEN, reply, Evidence(samples=(None, None)))) is None


def test_dinco_is_the_mean_of_its_halves_for_the_answer_of_each_policy() -> None:
    # Beam: A, contradicted by B with (0.8 + 0.6) / 2; no other beam repeats B.
    nvc = 0.9 / max(1.0, 0.9 + 0.6 * 0.7)
    record = rated(CHOICE, REPLY, EVIDENCE)
    assert SCORES["dinco"].of(record) == pytest.approx((nvc + 3 / 6) / 2)
    assert SCORES["dinco"].answer(record) == "A"
    nvc = 0.6 / max(1.0, 0.6 + 0.9 * 0.7)
    assert SCORES["dinco_greedy"].of(record) == pytest.approx((nvc + 4 / 6) / 2)
    assert SCORES["dinco_greedy"].answer(record) == "B"
    assert consistency([]) == 1.0
    assert consistency([0.9, 0.91]) == 2 / 3  # agreement above nine tenths counts, and the answer itself


MATRIX = st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=6, max_size=6)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), MATRIX, MATRIX)
def test_normalised_verbalised_confidence_is_the_published_sum_and_never_inflates(
    p_yes: list[float], entails: list[list[float]], contradicts: list[list[float]]
) -> None:
    p, e, c = np.array(p_yes), np.array(entails), np.array(contradicts)
    total = p[0]
    for i in range(1, len(p)):
        unique = 1 / (1 + sum(e[j, i] for j in range(len(p)) if j not in (0, i)))
        total += p[i] * unique * (c[0, i] + c[i, 0]) / 2
    drawn = {"p_yes": p_yes, "entails": entails, "contradicts": contradicts, "beams": len(p_yes)}
    found = normalised_verbalised_confidence(replace(BEAMS, **drawn), 0)  # type: ignore[arg-type]
    assert found == pytest.approx(p[0] / max(1, total), rel=1e-12)
    assert found <= p[0]
