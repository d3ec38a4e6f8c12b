"""A server whose confidence is the posterior: what it reports, what it stores, and that it goes on exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from secl.evidence import CandidateEvidence, Posterior
from secl.question import Question
from secl.records import Reply
from secl.server.online.service import Service
from secl.server.redaction import Keep
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import MakeService
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
    make_service: MakeService, keep: Keep, stop: int
) -> None:
    questions = mixed_stream(50)
    whole = make_service("whole", model=Mixed(), method="posterior")
    answers = [whole.ask(question, 20).record.posterior for question in questions]
    first = make_service("broken", keep_text=keep, model=Mixed(), method="posterior")
    for question in questions[:stop]:
        first.ask(question, 20)
    close(first)
    second = make_service("broken", keep_text=keep, model=Mixed(), method="posterior")
    again = [second.ask(question, 20).record.posterior for question in questions[stop:]]
    assert again == answers[stop:]
    assert second.calibrator.state.posterior == whole.calibrator.state.posterior
    assert examined(second.state) == (50, [])


def test_candidates_are_stored_without_their_texts_but_equal_ones_stay_equal(make_service: MakeService) -> None:
    service = make_service(keep_text="none", method="posterior")
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
    "DELETE FROM served WHERE position = 9": "integrity",
    "INSERT INTO served (position, time, batch, domain, outcome) VALUES (99, 0, 1, '', 'idle')": "integrity",
}


def test_whatever_is_changed_in_evidence_or_posterior_is_found(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service(method="posterior")
    for question in toy_stream(20):
        service.ask(question, 20)
    assert examined(service.state) == (20, [])
    folder = close(service)
    for number, (statement, check) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(folder, tmp_path / str(number), statement)) as state:
            findings = examined(state)[1]
        assert check in {finding.check for finding in findings}, statement
        assert findings[0].position in (9, 99)
