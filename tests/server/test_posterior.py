"""A server whose confidence is the posterior: what it reports, what it stores, and that it goes on exactly."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from secl.evidence import CandidateEvidence, Evidence, EvidenceKind, Posterior
from secl.question import Question
from secl.records import Reply
from secl.runs.runner import build_calibrator
from secl.server.online.factory import serving_settings
from secl.server.online.service import Service
from secl.server.recompute import verify
from secl.server.redaction import Keep
from secl.server.store import ServerStore
from secl.signals import NormalisedPTrue
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import MakePosterior
from tests.server.folders import spoiled
from tests.server.waiting import close, examined


def mixed_stream(count: int) -> list[Question]:
    """Questions of two kinds, whose views are weighed apart: every third one is open."""
    return [
        replace(question, options=(), form="short") if number % 3 == 2 else question
        for number, question in enumerate(toy_stream(count))
    ]


class Mixed(ScriptedModel):
    """Gives no letters for open questions."""

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        evidence = super().compare_candidates(question, reply)
        return evidence if question.options or evidence is None else replace(evidence, letters=())


def posteriors(service: Service) -> list[Posterior | None]:
    return [served.record.posterior for served in service.state.latest(10**6)]


@pytest.mark.parametrize(("keep", "stop"), [("full", 11), ("none", 40)])
def test_a_server_that_comes_back_gives_the_posteriors_of_one_that_never_stopped(
    make_posterior: MakePosterior, keep: Keep, stop: int
) -> None:
    questions = mixed_stream(50)
    whole = make_posterior("whole", model=Mixed())
    answers = [whole.ask(question, 20).record.posterior for question in questions]
    first = make_posterior("broken", keep=keep, model=Mixed())
    for question in questions[:stop]:
        first.ask(question, 20)
    close(first)
    second = make_posterior("broken", keep=keep, model=Mixed())
    again = [second.ask(question, 20).record.posterior for question in questions[stop:]]
    assert again == answers[stop:]
    assert second.calibrator.state.posterior == whole.calibrator.state.posterior
    assert examined(second.state) == (50, [])


def test_candidates_are_stored_without_their_texts_but_equal_ones_stay_equal(make_posterior: MakePosterior) -> None:
    service = make_posterior(keep="none")
    twice = Question("Which zebra?", options=("stripes", "dots", "stripes"))
    answer = service.ask(twice, 20).record
    stored = service.state.served(0).record
    text = json.dumps(list(service.state.read("SELECT body FROM records")))
    assert not any(word in text for word in ("stripes", "dots", "zebra"))
    assert stored.posterior is not None
    assert answer.posterior is not None
    one, other, same = stored.posterior.candidates
    assert one == same != other
    assert stored.posterior.probabilities == answer.posterior.probabilities
    assert stored.evidence.candidates is not None
    assert stored.evidence.candidates.candidates == stored.posterior.candidates
    assert examined(service.state) == (1, [])


SPOILS = {
    "UPDATE records SET body = json_set(body, '$.posterior.questions', 3) WHERE position = 9": "posterior",
    "UPDATE records SET body = json_set(body, '$.posterior', NULL) WHERE position = 9": "posterior",
    "UPDATE records SET body = json_set(body, '$.posterior.probabilities[0]', 0.5) WHERE position = 9": "posterior",
    "UPDATE records SET body = json_set(body, '$.evidence.candidates.likelihoods[0].given', -3.5) WHERE position = 9": (
        "posterior"
    ),
    "UPDATE served SET reported = 0.5 WHERE position = 9": "integrity",
    "UPDATE served SET differs = 1 - differs WHERE position = 9": "integrity",
    "DELETE FROM served WHERE position = 9": "integrity",
    "INSERT INTO served (position, time, batch, domain, outcome) VALUES (99, 0, 1, '', 'idle')": "integrity",
}


def test_whatever_is_changed_in_evidence_or_posterior_is_found(make_posterior: MakePosterior, tmp_path: Path) -> None:
    service = make_posterior()
    for question in toy_stream(20):
        service.ask(question, 20)
    assert examined(service.state) == (20, [])
    folder = close(service)
    for number, (statement, check) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(folder, tmp_path / str(number), statement)) as state:
            findings = examined(state)[1]
        assert check in {finding.check for finding in findings}, statement
        assert findings[0].position in (9, 99)


def test_a_lesson_on_another_answer_than_the_one_reported_is_about_that_answer() -> None:
    question, other = toy_stream(1)[0], ScriptedModel(accuracy=0.0)
    settings = serving_settings(
        method="secl", extra_evidence=["candidates"], views=["letters", "p_true"], gate="always"
    )
    record = build_calibrator(settings, ScriptedModel(accuracy=1.0)).answer(question)
    assert record.reply.answer == "A"
    learned = build_calibrator(settings, other).learn(record)
    reply = other.answer(question).reply
    assert reply.answer == "B"
    assert learned.signal == NormalisedPTrue(1.0)(question, reply, Evidence(other.score_p_true(question, reply)))
    assert learned.evidence.p_true == record.evidence.p_true
    assert learned.posterior == record.posterior


class Changed(ScriptedModel):
    """Gives other likelihoods than before."""

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        evidence = super().compare_candidates(question, reply)
        assert evidence is not None
        return replace(evidence, likelihoods=evidence.likelihoods[::-1])


def test_evidence_is_computed_again_with_the_reply_that_it_is_about(make_posterior: MakePosterior) -> None:
    service = make_posterior()
    for question in toy_stream(3):
        service.ask(question, 20)
    assert verify(service.state, service.state.latest(3), ScriptedModel()).matches == {"same": 3}
    outcome = verify(service.state, service.state.latest(3), Changed())
    assert outcome.matches == {"differs": 3}
    assert "other evidence about the candidates" in outcome.findings[0].detail


def test_questions_of_a_batch_share_a_pass_with_their_evidence(make_posterior: MakePosterior) -> None:
    announced: list[Sequence[Collection[EvidenceKind]]] = []

    class Announced(ScriptedModel):
        def prefetch(
            self,
            questions: Sequence[Question],
            evidence: Sequence[Collection[EvidenceKind]],
            *,
            weights_fixed: bool,  # noqa: ARG002
            written: Sequence[str | None] = (),  # noqa: ARG002
        ) -> None:
            assert len(questions) == len(evidence)
            announced.append(evidence)

    make_posterior("a", model=Announced()).ask(toy_stream(1)[0], 20)
    make_posterior("b", model=Announced(), gate="always").ask(toy_stream(1)[0], 20)
    make_posterior("c", model=Announced(), method="secl", evidence_on="always", extra_evidence=["candidates"]).ask(
        toy_stream(1)[0], 20
    )
    # P(True) is for the lesson, behind the answer, unless the posterior reads it.
    assert announced == [[{"candidates"}], [frozenset()], [{"candidates"}]]
