"""Servers with a posterior, with a threshold, and of given answers; questions for a larger model (route.py)."""

import json
import math
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import httpx
import pytest

import secl
from examples.route import Endpoint, route
from secl.cli.state import explanation_page, history_page
from secl.evidence import Evidence
from secl.question import GivenAnswer, Question
from secl.server.entries import Keep
from secl.server.http.health import view
from secl.server.online.service import Service
from secl.server.records import history
from secl.server.verify import examine
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import Make, client_of, metrics_of, opened
from tests.server.waiting import ask_all, close, examined, explained, settled


def mixed_stream(count: int) -> list[Question]:
    """Questions of two kinds, with separate weights of views: every third question is open."""
    return [
        replace(question, options=(), form="short") if number % 3 == 2 else question
        for number, question in enumerate(toy_stream(count))
    ]


class Mixed(ScriptedModel):
    """Gives no letters for open questions; the samples have other wordings than the candidates."""

    def gather(self, question: Question, *asked: Any, **how: Any) -> Evidence:
        found = super().gather(question, *asked, **how)
        if question.options or found.candidates is None:
            return found
        samples = tuple(replace(each, text=f"It is {each.text}", log_p=-0.1) for each in found.candidates.samples)
        return replace(found, candidates=replace(found.candidates, letters=(), samples=samples))


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


@pytest.mark.parametrize("keep_text", ["none", "full"])
def test_requests_with_the_same_options_share_their_bias_only_where_texts_are_kept(
    make_service: Make, keep_text: Keep
) -> None:
    rows = [replace(question, options=("red", "green", "blue")) for question in toy_stream(12)]
    stopped = make_service("state", keep_text=keep_text, settings={"method": "posterior"})
    records = ask_all(stopped, rows[:7])
    close(stopped)
    again = make_service("state", keep_text=keep_text, settings={"method": "posterior"})
    records += ask_all(again, rows[7:])
    shared = [record.posterior and record.posterior.shared for record in records]
    assert shared == ([*range(12)] if keep_text == "full" else [0] * 12)
    assert examined(again.state) == (12, [])


OPTIONS = {"question": "Capital of France?", "options": ["Rome", "Paris", "Bern", "Oslo"]}


class Silent(ScriptedModel):
    """Has no candidates."""

    def gather(self, *asked: Any, **how: Any) -> Evidence:
        return replace(super().gather(*asked, **how), candidates=None)


def ask(service: Service, body: dict[str, Any] = OPTIONS) -> dict[str, Any]:
    reply: dict[str, Any] = client_of(service).post("/v1/ask", json={**body, "detail": "full"}).json()
    return reply


def test_the_reported_confidence_is_the_posterior_of_the_models_own_answer(make_service: Make) -> None:
    service = make_service(settings={"method": "posterior", "loop.answer": "own"})
    reply = ask(service)
    posterior: Any = service.state.served(0).record.posterior
    detail, own = reply["detail"], "ABCD".index(reply["letter"])
    assert "reason" not in reply
    assert reply["confidence"] == posterior.probabilities[own] == posterior.own_probability
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
    words = "here are fewer than two different candidates to compare"
    service = make_service(model=Silent(), settings={"method": "posterior"})
    reply = ask(service, OPTIONS)
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
    # The server answers below the threshold, too.
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


PERU = {"question": "What is the capital of Peru?"}
CHOICE = {"question": "Capital of France?", "options": ["Rome", "Paris", "Bern"]}


def test_an_answer_from_elsewhere_gets_its_confidence_and_where_it_comes_from(client: httpx.Client) -> None:
    reply = client.post("/v1/score", json={**CHOICE, "answer": "paris", "detail": "full"}).json()
    detail = reply["detail"]
    expected: Any = secl.load(ScriptedModel()).score("Capital of France?", "B", options=CHOICE["options"])
    assert (reply["letter"], reply["text"]) == ("B", "Paris")
    assert reply["confidence"] == pytest.approx(expected.confidence)
    assert detail["reply"]["stated"] == pytest.approx(expected.reply.stated)
    assert (detail["reply"]["answer"], detail["reply"]["version"]) == ("B", 0)
    likelihood = expected.evidence.candidates.likelihoods[1]
    assert detail["evidence"]["p_true"]["probabilities"][0] == expected.evidence.p_true.probabilities[0]
    assert detail["pmi"] == pytest.approx(likelihood.given - likelihood.alone)
    assert math.isclose(sum(each["probability"] for each in reply["candidates"]), 1.0)


def test_rivals_may_be_given_and_the_form_is_that_of_the_answer(client: httpx.Client) -> None:
    said = "Lima, and it has been so since the days of the viceroys, as you know well."
    reply = client.post("/v1/score", json={**PERU, "answer": said, "rivals": ["Cusco", "Quito"]}).json()
    assert (reply["text"], reply["letter"]) == (said, None)
    record = client.get(f"/v1/records/{reply['record_id']}").json()["record"]
    assert (record["kind"], record["question"]["form"]) == ("given", "sentence")
    short = client.post("/v1/score", json={**PERU, "answer": "Lima"}).json()
    asked = client.get(f"/v1/records/{short['record_id']}").json()["record"]["question"]
    assert (asked["text"], asked["form"]) == (PERU["question"], "short")


def mix(service: Service, count: int, first: int = 0) -> None:
    """Ask questions; after each question, have a given answer to it rated."""
    for number, question in enumerate(toy_stream(60)[first : first + count], first):
        service.ask(question, 10)
        service.ask(GivenAnswer(question, "ABCD"[number % 4]), 10)


def test_a_burst_goes_on_around_rated_answers_and_none_of_them_is_learned(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "always"})
    mix(service, 12)
    settled(service)
    state = service.state
    records = list(state.records())
    assert [record.kind for record in records] == ["asked", "given"] * 12
    assert all(record.learning is None and record.reply.version == 0 for record in records[1::2])
    assert sum(record.update is not None for record in records) > 0
    past = history(state)
    assert (past["answers"], sum(past["lessons"].values())) == (24, 12)
    assert any("lessons: " in str(part) for part in history_page(past))
    assert len(view(service).timeline) == 12


def test_the_trail_of_rated_answers_verifies_and_explains_itself(make_service: Make) -> None:
    service = make_service(settings={"method": "posterior"})
    mix(service, 15)
    question = Question("Capital of Peru?", form="short")
    answer = service.ask(GivenAnswer(question, "Lima", ("Cusco", "Quito")), 10)
    position = answer.record.position
    service.stop()
    with service.state as state:
        found = examine(state)
        assert (found.findings, found.examined, {*found.largest.values()}) == ([], 31, {0.0})
        page = "\n".join(map(str, explanation_page(state.served(position), explained(state, position))))
        assert f"(record {position}), rated " in page


def test_answers_waiting_together_share_a_pass_with_their_own_kind(make_service: Make) -> None:
    service = make_service(start=False)
    questions = toy_stream(6)
    asked: list[Question | GivenAnswer] = [
        *questions[:2], *(GivenAnswer(q, "A") for q in questions[2:4]), GivenAnswer(questions[5], "B"), questions[4]
    ]  # fmt: skip
    waiting: list[Future[Any]] = [service.submit(each) for each in asked]
    service.start()
    done = [each.result(10) for each in waiting]
    assert [served.batch for served in service.state.latest(6)] == [2, 2, 3, 3, 3, 1]
    assert [answer.record.position for answer in done] == list(range(6))
    assert [answer.record.kind == "given" for answer in done] == [False, False, True, True, True, False]
