"""Answers that are given to a server to be rated: replies, the trail they leave, and that it goes on exactly."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any

import httpx
import pytest

import secl
from secl.backends.open_answers import compare
from secl.cli.server_pages import explanation_page, history_page
from secl.evidence import EvidenceKind, Sample
from secl.grading import everyday
from secl.grading.texts import LONGEST_TEXT
from secl.model import Rating
from secl.prompts.parsing import is_brief
from secl.question import GivenAnswer, Question
from secl.server.http.pages.view import view
from secl.server.online.service import Service
from secl.server.recompute import verify
from secl.server.records import history
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import Make, Patch
from tests.server.waiting import explained, settled

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
    assert (record["outcome"], record["question"]["form"]) == ("given", "sentence")
    short = client.post("/v1/score", json={**PERU, "answer": "Lima"}).json()
    asked = client.get(f"/v1/records/{short['record_id']}").json()["record"]["question"]
    assert (asked["text"], asked["form"]) == (PERU["question"], "short")


def mix(service: Service, count: int, first: int = 0) -> None:
    """Ask questions, and after each let an answer to it be rated."""
    for number, question in enumerate(toy_stream(60)[first : first + count], first):
        service.ask(question, 10)
        service.ask(GivenAnswer(question, "ABCD"[number % 4]), 10)


def test_a_burst_goes_on_around_rated_answers_and_none_of_them_is_learned(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "always"})
    mix(service, 12)
    settled(service)
    state = service.state
    records = list(state.records())
    assert [record.given for record in records] == [False, True] * 12
    assert all(record.outcome == "given" and record.reply.version == 0 for record in records[1::2])
    assert sum(record.update is not None for record in records) > 0
    past = history(state)
    assert (past["answers"], past["lessons"]["given"]) == (24, 12)
    assert any("12 given" in str(part) for part in history_page(past))
    assert len(view(service).timeline) == 12


def test_the_trail_of_rated_answers_verifies_and_explains_itself(make_service: Make) -> None:
    service = make_service(settings={"method": "posterior"})
    mix(service, 15)
    question = Question("Capital of Peru?", form="short")
    answer = service.ask(GivenAnswer(question, "Lima", ("Cusco", "Quito")), 10)
    position = answer.record.position
    service.stop()
    with service.state as state:
        found = verify(state, state.latest(31), ScriptedModel())
        assert found.findings == []
        assert found.examined == 31
        assert {each.difference for each in found.rederived} == {0}
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
    assert [answer.record.given for answer in done] == [False, False, True, True, True, False]


class Comparing(ScriptedModel):
    """A scripted model that compares rated answers as real models do, with two samples of its own."""

    def rate_given(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        drawn = [Sample(text=text, candidate=None, log_p=None) for text in ("Ann Lee wrote it.", "It was Bo Li")]
        for each in given:
            if is_brief(each.answer, each.question.form):
                compare(each.question, each.answer, drawn, rivals=each.rivals)
        return super().rate_given(given, evidence)


@pytest.mark.parametrize("text", ["1" * 5000, "Ann" + " " * 30_000 + "Lee", "8 between and " * 1500])
def test_graders_read_long_answers_up_to_a_limit(text: str, make_service: Make, host: Any, monkeypatch: Patch) -> None:
    lengths: list[int] = []

    def judged(question: str, reference: str, answer: str) -> bool:
        lengths.extend(map(len, (question, reference, answer)))
        return rule(question, reference, answer)

    rule = everyday._says
    monkeypatch.setattr(everyday, "_says", judged)
    address = host(make_service(model=Comparing()))
    for body in ({"answer": text}, {"answer": "Zed", "rivals": [text, f"{text}."]}):
        reply = httpx.post(f"{address}/v1/score", json={"question": f"Who wrote it? {text}", **body}, timeout=60)
        assert reply.status_code == 200, reply.text
    assert 0 < max(lengths) <= LONGEST_TEXT
