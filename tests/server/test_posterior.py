"""A server whose confidence is the posterior, and one with a threshold: what they store, say and send on (route.py)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from examples.route import Endpoint, route
from secl.cli.server_pages import explanation_page
from secl.evidence import CandidateEvidence
from secl.question import Question
from secl.records import Reply
from secl.server.online.service import Service
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import Make, client_of, metrics_of, opened
from tests.server.waiting import ask_all, examined, explained


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


def test_candidates_are_stored_without_their_texts_but_equal_ones_stay_equal(make_service: Make) -> None:
    service = make_service(keep_text="none", model=Mixed(), settings={"method": "posterior"})
    twice = Question("Which zebra?", options=("stripes", "dots", "stripes"))
    answer: Any
    answer, *others = ask_all(service, [twice, *mixed_stream(20)])
    samples = [each.text for record in others if (found := record.evidence.candidates) for each in found.samples]
    stored: Any = service.state.served(0).record
    text = json.dumps(list(service.state.rows("SELECT body FROM records")))
    assert not any(word in text for word in ("stripes", "dots", "zebra"))
    assert any(samples)
    assert not any(each and f'"{each}"' in text for each in samples)
    one, other, same = stored.posterior.candidates
    assert one == same != other
    assert stored.posterior.probabilities == answer.posterior.probabilities
    assert stored.evidence.candidates.candidates == stored.posterior.candidates
    assert examined(service.state) == (21, [])


OPTIONS = {"question": "Capital of France?", "options": ["Rome", "Paris", "Bern", "Oslo"]}


class Silent(ScriptedModel):
    """Has nothing to compare."""

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:  # noqa: ARG002
        return None


def ask(service: Service, body: dict[str, Any] = OPTIONS) -> dict[str, Any]:
    reply: dict[str, Any] = client_of(service).post("/v1/ask", json={**body, "detail": "full"}).json()
    return reply


def test_the_reported_confidence_is_the_posterior_of_the_models_own_answer(make_service: Make) -> None:
    service = make_service(settings={"method": "posterior", "loop.answer": "own"})
    reply = ask(service)
    posterior: Any = service.state.served(0).record.posterior
    detail, own = reply["detail"], "ABCD".index(reply["letter"])
    assert "reason" not in reply
    assert reply["confidence"] == posterior.probabilities[own] == posterior.confidence
    assert detail["reply"]["answer"] == reply["letter"]
    assert {each["text"] for each in reply["candidates"]} == set(OPTIONS["options"])
    shares = [each["probability"] for each in reply["candidates"]]
    assert shares == sorted(posterior.probabilities, reverse=True)
    assert sum(each["probability"] for each in reply["candidates"]) == pytest.approx(1)
    assert detail["reply"]["stated"] == pytest.approx(0.85)


def test_a_server_can_answer_with_the_best_candidate_and_keeps_the_models_own(make_service: Make) -> None:
    service = make_service(settings={"method": "posterior", "loop.answer": "best"})
    differing = [question for question in toy_stream(40) if question.id and service.ask(question, 20)]
    records = [served.record for served in service.state.latest(len(differing))]
    chosen = next(record for record in records if record.best_answer != record.reply.answer)
    body = {"question": chosen.question.text, "options": list(chosen.question.options)}
    reply = ask(service, body)
    record = service.state.served(service.position - 1).record
    assert (reply["letter"], reply["detail"]["reply"]["answer"]) == (record.best_answer, record.reply.answer)
    assert reply["text"] == record.question.option(reply["letter"])
    assert reply["confidence"] == max(each["probability"] for each in reply["candidates"])


def test_a_question_without_candidates_is_answered_as_stated_and_says_so(make_service: Make) -> None:
    words = "here are no two different candidates to compare"
    same = {"question": "Which?", "options": ["same", "same"]}
    for name, model, body in (("silent", Silent(), OPTIONS), ("same", ScriptedModel(), same)):
        service = make_service(name, model=model, settings={"method": "posterior"})
        reply = ask(service, body)
        detail = reply["detail"]
        assert (detail["posterior"], reply["candidates"]) == (None, None)
        assert reply["confidence"] == detail["reply"]["stated"] == pytest.approx(0.85)
        assert words in reply["reason"]
        assert detail["reply"]["answer"] == (reply["letter"] or reply["text"])
        assert words in "\n".join(map(str, explanation_page(service.state.served(0), explained(service.state, 0))))


CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "What is the capital of France?"}]}


@pytest.mark.parametrize(("accept", "accepted"), [(0.8, True), (0.9, False), (None, None)])
def test_a_reply_says_whether_it_reaches_the_threshold(make_service: Make, accept: Any, accepted: Any) -> None:
    service = make_service(settings={"method": "stated", "loop.accept": accept})  # states 0.85 of everything
    http = client_of(service)
    chat = http.post("/v1/chat/completions", json={**CHAT, "secl": {"detail": "full"}}).json()["secl"]
    for reply in (ask(service), chat):
        assert (reply["accepted"], reply["detail"]["accept"]) == (accepted, accept)
    # It is marked, and given all the same.
    assert http.post("/v1/ask", json=OPTIONS).json()["letter"] in "ABCD"
    if accept is not None:
        assert metrics_of(http)[f'secl_accepted_total{{accepted="{str(accepted).lower()}"}}'] > 0


def test_what_the_small_model_does_not_accept_goes_to_the_large_one(make_service: Make) -> None:
    questions = toy_stream(12)
    service = make_service(settings={"method": "posterior", "loop.answer": "own", "loop.accept": 0.27})
    larger = make_service("large", settings={"method": "stated"})
    with opened(service) as small, opened(larger) as large:
        first, second = Endpoint.at(f"{small}/v1", 0.1, "none"), Endpoint.at(f"{large}/v1", 2.0, "none")
        answers = list(route(questions, first, second))
    assert {each.by for each in answers} == {"small", "large"}
    assert [each.by for each in answers] == ["small" if each.confidence >= 0.27 else "large" for each in answers]
    spent = [record.ledger.total for record in service.state.records()]
    assert [each.paid_small for each in answers] == pytest.approx([0.1 * tokens / 1000 for tokens in spent])
    sent_on = [each for each in answers if each.by == "large"]
    asked = [record.question.text for record in larger.state.records()]
    for text, question in zip(asked, [each.question for each in sent_on], strict=True):
        assert text.split("\n") == [question.text, *(f"{each}. {question.option(each)}" for each in question.letters)]
    assert [each.answer for each in sent_on] == [record.reply.text for record in larger.state.records()]
    assert all(each.paid_large > each.paid_small for each in sent_on)
    assert all(each.answer in each.question.options for each in answers if each.by == "small")
    assert all(record.accept == 0.27 for record in service.state.records())
