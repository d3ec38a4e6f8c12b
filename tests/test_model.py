"""The smallest `secl.Model`: a name, a fingerprint and `answer`. All other members have defaults."""

from pathlib import Path
from typing import Any

import pytest

import secl
from secl.errors import ParameterError, QuestionError
from secl.evidence import Evidence
from secl.model import ModelAnswer
from secl.question import GivenAnswer
from secl.records import Reply
from secl.server.online.factory import open_service, serving_settings
from secl.testing import bins_around, toy_stream
from secl.writing import SamplingParameters
from tests.server.conftest import client_of


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
