"""Each record stores evidence about the answer that it reports: for every method, with frozen and adapted weights.

Lessons follow each answer at once, as in a run, or come after all answers, as on a server.
The smallest `secl.Model` has a name, a fingerprint and `answer`; all other members have defaults.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import secl
from secl import Question
from secl.errors import ParameterError, QuestionError
from secl.evidence import Evidence
from secl.gates import Never
from secl.grading.rules import grade
from secl.learning import Calibrator
from secl.methods import METHODS
from secl.model import ModelAnswer
from secl.posterior.rule import PosteriorRule
from secl.posterior.views import own_candidate
from secl.question import GivenAnswer
from secl.records import Record, Reply, Update
from secl.runs import RunSettings
from secl.runs.loading import build_calibrator
from secl.server.online.service import open_service, serving_settings
from secl.settings.groups import AnswerWeights, LoopSettings
from secl.testing import ScriptedModel, bins_around, toy_stream, unit
from secl.writing import SamplingParameters
from tests.answers import in_window
from tests.server.conftest import client_of

STREAM = [
    *toy_stream(6),
    Question("Who wrote Hamlet?", reference="Shakespeare", form="short", id="short"),
    Question("How many moons has Mars?", reference="2", form="number", id="number"),
    Question("Tell me about Mars.", form="text", id="free"),
]
COMPARING = [name for name, each in METHODS.items() if each.learns or "candidates" in each.evidence]
WITH_P_TRUE = ("letters", "likelihood", "samples", "text", "p_true")


class Restless(ScriptedModel):
    """Answers differently after each lesson if adapted weights write, and notes the answers that teach it."""

    def __init__(self, weights: AnswerWeights) -> None:
        super().__init__()
        self.answer_weights = weights
        self.taught: list[tuple[str, str | None]] = []

    def answer(self, question: Question, *, evidence: Any = (), written: Any = None) -> ModelAnswer:
        frozen = super().answer(question, evidence=evidence, written=None if question.options else written).frozen
        if written is None and self.version and self.answer_weights == "adapted":
            other = [*question.letters, "one", "two"]
            written = other[(other.index(frozen.text) + 1) % len(question.letters)] if question.options else other[-1]
        return replace(super().answer(question, evidence=evidence, written=written), frozen=frozen)

    def gather(self, *asked: Any, **how: Any) -> Evidence:
        found = super().gather(*asked, **how)
        if (p_true := found.p_true) is None:
            return found
        return replace(found, p_true=replace(p_true, false_probabilities=tuple(1 - p for p in p_true.probabilities)))

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        self.taught.append((question.id, reply.answer))
        return super().learn(question, reply, target)


def check(records: Sequence[Record], calibrator: Calibrator) -> None:
    """Check that the evidence of each record is about its answer."""
    for record in records:
        question, reply, evidence = record.question, record.reply, record.evidence
        assert record.correct == grade(question, reply.answer)
        assert record.frozen_correct == grade(question, record.frozen.answer)
        if evidence.p_true is not None:
            assert evidence.p_true.candidates[0] == question.text_of(reply.answer or "")
            said = 0.2 + 0.6 * unit(f"p/{question.id}/{evidence.p_true.candidates[0]}")
            assert evidence.p_true.probabilities[0] == said
        if evidence.candidates is not None and not question.options:
            assert evidence.candidates.candidates[0] == reply.answer
        if evidence.dinco is not None:
            assert reply.answer in evidence.dinco.answers
        if record.posterior is not None:
            assert record.posterior.own == own_candidate(question, reply)
            texts = dict(zip(record.posterior.candidates, record.posterior.probabilities, strict=True))
            assert record.confidences.uncalibrated == texts[question.text_of(record.answer or "")]
        else:
            assert record.confidences.uncalibrated == reply.stated
        if record.signal is not None:
            assert record.signal == calibrator.plan.signal.of(record)


def lessons(calibrator: Calibrator, *, later: bool) -> list[Record]:
    """Return the records of the stream; with `later`, all lessons come at the end."""
    if not later:
        return list(calibrator.run(STREAM))
    return [calibrator.learn(record) for record in in_window(calibrator, STREAM)]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("weights", ["adapted", "frozen"])
@pytest.mark.parametrize(("name", "answer"), [*product(METHODS, ["own"]), *product(COMPARING, ["best"])])
def test_what_a_record_stores_is_about_its_answer(name: str, answer: str, weights: AnswerWeights, later: bool) -> None:
    learns = METHODS[name].learns
    learning = {"gate.name": "always", "evidence.extra_evidence": ["candidates", "samples", "dinco"]}
    learning |= {"loop.bin_gate": "off", "loop.evidence_on": "always"}
    settings = {"stream.benchmarks": ["capitals"], "method": name, "posterior.views": WITH_P_TRUE}
    model = Restless(weights)
    changes = learning if learns else {}
    calibrator = build_calibrator(RunSettings.of({**settings, "loop.answer": answer, **changes}), model)
    records = lessons(calibrator, later=later)
    check(records, calibrator)
    assert model.taught == ([(record.question.id, record.reply.answer) for record in records] if learns else [])
    if learns:
        assert {record.outcome for record in records} == {"trained"}
        assert all(record.evidence.dinco is not None for record in records)
    if learns and later and weights == "adapted":
        assert any(model.answer(r.question).reply.answer != r.reply.answer for r in records), "it answers otherwise"


@pytest.mark.parametrize("name", [name for name, each in METHODS.items() if not each.paper])
def test_given_answers_are_rated_as_they_are(name: str) -> None:
    rule = PosteriorRule(("letters", "p_true"))
    calibrator = Calibrator(Restless("adapted"), method=name, posterior=rule)
    given = [GivenAnswer(question, question.letters[-1] if question.options else "Marlowe") for question in STREAM]
    records = list(calibrator.rate_stream(given))
    check(records, calibrator)
    assert [record.answer for record in records] == [each.answer for each in given]
    for record in records:
        assert record.posterior is not None
        assert "p_true" in dict(record.posterior.weights), "no view that was asked for is dropped"


@pytest.mark.parametrize("name", [name for name, each in METHODS.items() if not each.paper])
def test_a_method_is_the_same_here_and_in_a_run_and_gathers_what_the_views_of_the_posterior_read(name: str) -> None:
    rule, own = PosteriorRule(("letters", "p_true")), LoopSettings(answer="own")
    comparing = "candidates" in METHODS[name].evidence
    changes = {"posterior.views": ["letters", "p_true"]} if comparing else {}
    settings = RunSettings.of({"stream.benchmarks": ["capitals"], "method": name, **changes})
    here = Calibrator(Restless("frozen"), method=name, loop=own, posterior=rule if comparing else None)
    of_run = build_calibrator(settings, Restless("frozen"))
    records = list(here.run(toy_stream(60)))
    assert records == list(of_run.run(toy_stream(60)))
    assert replace(here.plan, loop=settings.loop) == of_run.plan == settings.plan()
    assert here.learns == METHODS[name].learns
    if name == "stated":  # views that are not weighed ask for nothing
        assert Calibrator(Restless("frozen"), method=name, posterior=rule).plan.kinds == frozenset()
    if not comparing:
        return
    assert here.gate == Never()
    for record in records:
        assert record.posterior is not None
        assert [view for view, _ in record.posterior.weights] == ["letters", "p_true"]


class Smallest(secl.Model):
    """Answers B."""

    name = fingerprint = "smallest"

    def answer(self, question: secl.Question, **how: Any) -> ModelAnswer:  # noqa: ARG002
        self.meter.spend("answering", 10)
        reply = Reply(text="B", answer="B", bins=bins_around(0.7), digit_mass=1.0, entropy=1.0, log_probability=-1.0)
        return ModelAnswer(reply=reply, frozen=reply, plain_tokens=10.0)


def test_a_model_of_three_members_is_asked_and_a_kind_of_evidence_that_it_lacks_is_none(tmp_path: Path) -> None:
    for method in ("posterior", "stated", "p_true", "norm_p_true", "self_consistency", "label_free"):
        settings = secl.runs.RunSettings.of({"stream.benchmarks": ["capitals:20"], "method": method})
        run = secl.runs.start_run(settings, tmp_path / method, load=lambda _: Smallest())
        with run.store:
            run.proceed()
            run.finish()
            assert {record.reply.answer for record in run.records} == {"B"}
            assert {record.evidence for record in run.records} == {Evidence()}
            assert {record.ledger.total for record in run.records} == {10.0}
            assert run.manifest.adapter == {}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": "secl"}, "cannot learn"),
        ({"method": "secl-paper"}, "cannot learn"),
        ({"method": "dinco"}, "has no beam search"),
        ({"method": "baselines"}, "has no beam search"),
        ({"evidence.extra_evidence": ["dinco"]}, "has no beam search"),
    ],
)
def test_what_a_model_cannot_do_is_refused_before_the_first_question(changes: Any, why: str, tmp_path: Path) -> None:
    said = f"the model 'smallest' {why}, .* take .* method.* that runs in this process"
    settings = secl.runs.RunSettings.of({"stream.benchmarks": ["capitals:20"], **changes})
    with pytest.raises(ParameterError, match=said):
        secl.runs.start_run(settings, tmp_path / "run", load=lambda _: Smallest())
    with pytest.raises(ParameterError, match=said):
        open_service(tmp_path / "state", serving_settings(changes), load=lambda _: Smallest())
    assert [*tmp_path.iterdir()] == []


def test_answers_from_elsewhere_and_free_texts_are_refused_in_one_sentence() -> None:
    model, (question,) = Smallest(), toy_stream(1)
    (rated,) = secl.learning.Calibrator(model).rate_window([GivenAnswer(question, "A")])
    assert isinstance(rated, QuestionError)
    assert str(rated) == "the model 'smallest' rates no answers from elsewhere."
    with pytest.raises(QuestionError, match="'smallest' writes no free texts; ask for options"):
        model.write(question, SamplingParameters())


def test_a_server_of_a_model_that_cannot_learn_has_version_0_and_nothing_to_go_back_to(tmp_path: Path) -> None:
    service = open_service(tmp_path / "state", serving_settings(), load=lambda _: Smallest())
    service.start()
    try:
        assert service.ask(toy_stream(1)[0], 20).record.confidence == pytest.approx(0.7)
        client = client_of(service)
        assert client.get("/v1/state").json()["version"] == 0
        paused = client.post("/v1/pause", json={"reason": "a test"}).json()
        assert (paused["version"], paused["paused"]) == (0, "a test")
        assert client.post("/v1/resume").json()["paused"] is None
        refused = client.post("/v1/rollback", json={"version": 0})
        assert refused.status_code == 400
        assert "'smallest' cannot learn" in refused.json()["error"]["message"]
        assert "secl_drift 0.0" in client.get("/metrics").text
    finally:
        service.stop()
        service.state.close()
