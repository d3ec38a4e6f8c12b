"""Contract of `secl.model.Model`: one suite for all engines, each of which is a row.

Tests in `local/` compare the computed numbers with plain transformers, and `endpoint/test_vllm.py` compares those of
vLLM with a model in this process.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from secl.calibrator import Calibrator
from secl.conversation import Message
from secl.errors import QuestionError
from secl.evidence import EvidenceKind
from secl.question import GivenAnswer, Question
from secl.settings.groups import LoopSettings
from secl.writing import SamplingParameters, joined
from tests.answers import in_window, sampled

pytestmark = pytest.mark.heavy

BOTH: tuple[EvidenceKind, ...] = ("p_true", "candidates")
CHOICE = Question("Which is a metal?", options=("neon", "iron!", "argon"), reference="B", id="choice")
OPEN = Question("Who wrote Hamlet?", reference="Shakespeare", id="open")
FREE = Question("And of Italy?", form="text", history=(Message("user", "Of France?"), Message("assistant", "Paris.")))
LEARNERS = ("local", "plain", "vllm")

Make = Callable[..., Any]


@pytest.fixture(params=[*LEARNERS, "vllm alone", "endpoint"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes equal, untrained models of an engine."""
    if request.param == "endpoint":
        model = request.getfixturevalue("model")
        return lambda: model
    if request.param == "vllm alone":
        server = request.getfixturevalue("tiny_server")()
        server.root = str(request.getfixturevalue("tiny_llama"))
        alone: Make = request.getfixturevalue("make_alone")(server)
        return alone
    make_learner = request.getfixturevalue("make_learner")
    if request.param == "vllm":
        server, make_remote = request.getfixturevalue("tiny_server")(), request.getfixturevalue("make_remote")
        return lambda **settings: make_remote(make_learner(**settings), server)
    return lambda **settings: make_learner(family="gpt2" if request.param == "plain" else "llama", **settings)


learners = pytest.mark.parametrize("make", LEARNERS, indirect=True)


def test_a_reply_is_whole_and_the_same_every_time(make: Make) -> None:
    model = make()
    for question in (CHOICE, OPEN):
        answer = model.answer(question)
        reply = answer.reply
        assert math.fsum(reply.bins) == pytest.approx(1)
        assert 0.05 <= reply.stated <= 0.95
        assert 0 <= reply.digit_mass <= 1
        assert reply.entropy > 0
        assert len(reply.option_log_p) == len(question.options)
        assert (reply, reply.version) == (answer.frozen, 0)
        assert model.meter.take().total >= answer.plain_tokens > 0
        assert model.answer(question).reply == reply


def test_a_window_says_of_each_question_what_it_says_of_it_alone(make: Make) -> None:
    model = make()
    stream = [CHOICE, OPEN, replace(CHOICE, text="Which is a gas?", id="gas"), CHOICE]
    alone = [model.answer(question, evidence=BOTH).reply for question in stream]
    model.meter.take()
    model.prefetch(stream, [BOTH] * len(stream), weights_fixed=True)
    together = [model.answer(question, evidence=BOTH).reply for question in stream]
    for one, other in zip(together, alone, strict=True):
        assert (one.text, one.answer) == (other.text, other.answer)
        assert one.bins == pytest.approx(other.bins, abs=1e-5)
        assert one.entropy == pytest.approx(other.entropy, abs=1e-3)


def test_evidence_is_about_the_answer_and_its_rivals_and_the_same_if_it_is_asked_for_later(make: Make) -> None:
    model = make()
    for question in (CHOICE, OPEN):
        reply = model.answer(question, evidence=BOTH).reply
        gathered = model.gather(question, reply, ["candidates", "p_true"])
        p_true, compared = gathered.p_true, gathered.candidates
        assert p_true.candidates[0] == question.text_of(reply.answer)
        assert all(0 <= p <= 1 for p in (*p_true.probabilities, *p_true.false_probabilities))
        if compared is not None:
            for order in compared.letters:
                assert sorted(order.order) == list(range(len(compared.candidates)))
        later = model.answer(question).reply
        # Distractors of an open answer may come from samples for other evidence, or else from a list.
        count = None if question.options else 1
        again = model.gather(question, later, ["p_true"]).p_true.probabilities
        assert again[:count] == pytest.approx(p_true.probabilities[:count], abs=1e-5)
        unread = replace(reply, answer=None)
        assert model.gather(question, unread, ["p_true"]).p_true is None
        assert model.gather(question, unread, ["candidates"]).candidates is None


def test_its_own_answer_given_to_it_is_rated_as_its_own(make: Make) -> None:
    model = make()
    own = model.answer(CHOICE).reply
    rating, rival = model.rate([GivenAnswer(CHOICE, own.text), GivenAnswer(OPEN, "Marlowe", ("Kyd",))], BOTH)
    assert rating.reply.answer == own.answer
    assert rating.reply.bins == pytest.approx(own.bins, abs=1e-5)
    assert rating.evidence.p_true.candidates[0] == CHOICE.option(own.answer)
    assert rival.evidence.p_true.candidates[:2] == ("Marlowe", "Kyd")
    assert rating.ledger.total > 0


def test_a_given_answer_is_compared_with_the_models_own_which_depends_on_no_seed(make: Make) -> None:
    model = make()
    written = model.answer(OPEN).reply
    reseeded = make()
    object.__setattr__(reseeded.driver, "seed", reseeded.driver.seed + 1)  # some drivers are frozen
    given = [GivenAnswer(OPEN, "Marlowe")]
    (first, *drawn), (again, *others) = (
        each.rate(given, ["candidates"])[0].evidence.candidates.samples for each in (model, reseeded)
    )
    assert replace(first, log_p=None) == replace(again, log_p=None)
    assert drawn != others or first.text  # a server of the tests draws the same
    assert first.text in (written.answer, None)  # None: the token limit cut it off
    if first.log_p is not None:
        assert first.log_p == pytest.approx(again.log_p, abs=1e-3)
        assert first.text is None or first.log_p == pytest.approx(written.log_probability, abs=1e-3)


def test_samples_are_the_same_every_time(make: Make) -> None:
    for question in (CHOICE, OPEN):
        drawn = sampled(make(), question, 4)
        assert len(drawn) == 4
        assert sampled(make(), question, 4) == drawn
        assert sampled(make(), replace(question, id="a row of another table"), 4) == drawn


def test_a_text_comes_in_pieces_and_is_answered_for_as_it_was_written(make: Make) -> None:
    model = make()
    *chunks, last = model.write(FREE, SamplingParameters(max_tokens=3))
    (text,) = joined([*chunks, last])
    assert last.finish in ("stop", "length")
    assert 0 < last.completion_tokens <= 3
    assert model.answer(FREE, written=text.text).reply.text == text.text.strip()


def test_a_question_that_is_too_long_is_refused(make: Make) -> None:
    model = make()
    with pytest.raises(QuestionError, match=r"'long' takes \d+ tokens|maximum context length"):
        model.answer(replace(OPEN, text="Why? " * 3000, id="long"))


@learners
def test_a_lesson_moves_the_confidence_and_leaves_the_frozen_model_alone(make: Make) -> None:
    model = make()
    before = model.answer(CHOICE)
    update = model.learner.learn(CHOICE, before.reply, before.reply.stated - 0.1)
    assert update.before == before.reply.stated
    assert update.after < update.before
    assert update.losses[0] == pytest.approx(0.01, rel=1e-2)
    after = model.answer(CHOICE)
    assert (model.learner.version, after.reply.version) == (1, 1)
    assert after.reply.stated == pytest.approx(update.after, abs=1e-4)
    assert after.frozen.bins == pytest.approx(before.frozen.bins, abs=1e-5)
    model.answer(OPEN)
    with pytest.raises(QuestionError, match="latest"):
        model.learner.learn(CHOICE, after.reply, 0.5)


@learners
def test_a_lesson_is_about_the_answer_that_was_given_before_whatever_would_be_answered_now(make: Make) -> None:
    model = make()
    for letter in CHOICE.letters:
        reply = model.answer(CHOICE, written=letter).reply
        assert (reply.text, reply.answer, reply.version) == (letter, letter, model.learner.version)
        update = model.learner.learn(CHOICE, reply, reply.stated - 0.1)
        assert update.after < update.before == reply.stated
        assert model.answer(CHOICE, written=letter).reply.stated == pytest.approx(update.after, abs=1e-4)
    reply = model.answer(OPEN, written="Marlowe").reply
    assert (reply.text, reply.version) == ("Marlowe", model.learner.version)


@learners
def test_evidence_of_lessons_behind_the_answers_is_about_these_answers(make: Make) -> None:
    model = make(learning_rate=0.1)
    calibrator = Calibrator(
        model,
        method="secl",
        gate="always",
        evidence=["candidates", "samples"],
        loop=LoopSettings(bin_gate=None, delta=1.0, alpha=1.0),
    )
    questions = [replace(CHOICE, text=f"Which is a {kind}?", id=kind) for kind in ("metal", "gas", "salt", "stone")]
    records = [calibrator.learn(record) for record in in_window(calibrator, [*questions, OPEN])]
    assert {record.outcome for record in records} == {"trained"}
    for record in records:
        assert record.evidence.p_true is not None
        assert record.evidence.p_true.candidates[0] == record.question.text_of(record.reply.answer or "")
        assert record.signal == calibrator.plan.signal.of(record)
    assert any(model.answer(record.question).reply.text != record.reply.text for record in records)


@learners
def test_a_snapshot_brings_back_what_was_learned_and_a_reset_the_untouched_model(make: Make) -> None:
    model, other = make(), make()
    untouched = model.answer(CHOICE).reply
    model.learner.learn(CHOICE, untouched, 0.1)
    taught = model.answer(CHOICE).reply
    other.learner.restore(model.learner.snapshot())
    assert (other.learner.snapshot(), other.learner.weights()) == (model.learner.snapshot(), model.learner.weights())
    assert other.answer(CHOICE).reply == taught
    other.learner.reset()
    assert other.answer(CHOICE).reply.bins == pytest.approx(untouched.bins, abs=1e-5)
    other.learner.load_version(model.learner.weights(), 1)  # in vLLM, servers read with this version from now on
    assert other.answer(CHOICE).reply.bins == pytest.approx(taught.bins, abs=1e-5)
