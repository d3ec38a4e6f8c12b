"""What a network says about given answers: the same as about its own, whatever window they are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.errors import QuestionError
from secl.evidence import EvidenceKind
from secl.gates import Never
from secl.model import Rating
from secl.question import GivenAnswer, Question
from secl.settings.groups import LoopSettings
from tests.backends.local.conftest import MakeModel, numbers

pytestmark = pytest.mark.heavy

EVERYTHING: tuple[EvidenceKind, ...] = ("p_true", "candidates")
HAMLET = Question("Who wrote Hamlet?", reference="Shakespeare", id="d")
METAL = Question("Which is a metal?", options=("neon", "iron", "argon"), reference="B", id="b")


def all_numbers(rating: Rating) -> list[float | None]:
    """All that a rating says, in numbers."""
    reply, p_true, candidates = rating.reply, rating.evidence.p_true, rating.evidence.candidates
    found: list[float | None] = [*reply.bins, reply.digit_mass, reply.entropy, reply.log_probability]
    found += [*reply.option_log_p, *([] if candidates is None else numbers(candidates))]
    return found if p_true is None else [*found, *p_true.probabilities, *p_true.false_probabilities]


def rated_by(model: LocalModel, given: Sequence[GivenAnswer]) -> list[Rating]:
    """Ratings of answers, none of which the model refuses."""
    return [each for each in model.rate_given(given, EVERYTHING) if isinstance(each, Rating)]


@pytest.mark.parametrize(("family", "prefilled"), [("llama", True), ("gemma2", True), ("gemma2", False)])
def test_a_models_own_answers_are_rated_as_when_it_answers(
    family: str, prefilled: bool, make_model: MakeModel, questions: list[Question]
) -> None:
    if family != "llama" and prefilled:  # they begin a short answer without a space, as no text from elsewhere does
        questions = [question for question in questions if question.form != "short"]
    seed = 1 if family == "llama" else 0  # a random model whose answers are texts of the tokens that it wrote
    model = make_model(family, changes={"seed": seed})
    model.prompting.prefilled = prefilled
    always = LoopSettings(evidence_on="always")
    asking = Calibrator(model, method="secl", gate=Never(), evidence=EVERYTHING, learns=False, loop=always)
    asked = [asking.ask(question) for question in questions]
    rating = Calibrator(model, method="secl", gate=Never(), evidence=EVERYTHING, learns=False)
    rated = list(rating.rate_stream([GivenAnswer(record.question, record.reply.text) for record in asked]))
    for own, given in zip(asked, rated, strict=True):
        assert (given.reply.text, given.reply.answer) == (own.reply.text, own.reply.answer)
        assert given.reply.stated == pytest.approx(own.reply.stated, abs=1e-5)
        assert given.reply.log_probability == pytest.approx(own.reply.log_probability, abs=1e-4)
        assert given.reply.entropy == pytest.approx(own.reply.entropy, abs=1e-4)
        assert given.plain_tokens == own.plain_tokens
        if own.evidence.p_true is not None:
            assert given.evidence.p_true is not None
            assert set(given.evidence.p_true.candidates) == set(own.evidence.p_true.candidates)
            assert given.evidence.p_true.probabilities == pytest.approx(own.evidence.p_true.probabilities, abs=1e-6)
        assert (given.posterior is None) == (own.posterior is None)
        if own.posterior is not None and given.posterior is not None:
            assert given.posterior.probabilities == pytest.approx(own.posterior.probabilities, abs=1e-4)
    assert any(record.posterior is not None for record in asked)


def test_a_window_says_of_each_answer_what_it_says_of_it_alone(
    make_model: MakeModel, questions: list[Question]
) -> None:
    texts = {"a": "rome", "b": "E", "c": "It is 3 + 4.\nAnswer: 7", "d": "Marlowe", "e": "Because it is."}
    given = [GivenAnswer(question, texts[question.id]) for question in questions]
    given.append(replace(given[3], rivals=("Kyd", "Bacon", "marlowe", "KYD")))
    together = rated_by(make_model(), given)
    for each, rating in zip(given, together, strict=True):
        (alone,) = rated_by(make_model(), [each])
        assert all_numbers(rating) == pytest.approx(all_numbers(alone), abs=1e-4)
        assert alone.reply.answer == rating.reply.answer
        # Every token is paid by somebody, and no more in company than alone.
        assert rating.ledger.total <= alone.ledger.total + 1e-6


def test_a_number_that_cannot_be_read_is_rated_as_a_text_and_compared_with_nothing(make_model: MakeModel) -> None:
    question = Question("How many?", form="number", id="n")
    (rating,) = rated_by(make_model(), [GivenAnswer(question, "who knows")])
    assert rating.reply.answer is None
    assert 0.05 <= rating.reply.stated <= 0.95
    assert (rating.evidence.p_true, rating.evidence.candidates) == (None, None)


def test_an_adapted_model_rates_as_the_frozen_one(make_model: MakeModel) -> None:
    model = make_model(learning_rate=0.01)
    given = [GivenAnswer(METAL, "B"), GivenAnswer(HAMLET, "Marlowe", ("Kyd",))]
    before = rated_by(model, given)
    model.learn(METAL, model.answer(METAL).reply, 0.1)
    assert model.version == 1
    after = rated_by(model, given)
    assert [all_numbers(rating) for rating in after] == [all_numbers(rating) for rating in before]


def test_an_answer_or_a_rival_that_is_too_long_is_refused_and_the_others_are_rated(make_model: MakeModel) -> None:
    model, long = make_model(changes={"max_position_embeddings": 400}), "word " * 400
    good = GivenAnswer(HAMLET, "Kyd", ("Marlowe",))
    model.check_given(good)
    given = [GivenAnswer(HAMLET, long), good, GivenAnswer(HAMLET, "Kyd", (long,))]
    for each in (given[0], given[2]):
        with pytest.raises(QuestionError, match=r"'d' takes .* more than the"):
            model.check_given(each)
    first, rating, last = model.rate_given(given, EVERYTHING)
    assert isinstance(first, QuestionError)
    assert isinstance(last, QuestionError)
    assert [rating] == rated_by(model, [good])
