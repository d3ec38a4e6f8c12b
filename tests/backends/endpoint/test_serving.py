"""`secl serve --engine openai`: a service in front of a server that answers, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from secl.errors import ModelError, ParameterError, QuestionError, RunError, UnavailableError
from secl.question import Question
from secl.records import Record
from secl.runs.settings import Recipe
from secl.server.online.factory import open_service, serving_settings
from secl.server.online.service import Service
from tests.backends.endpoint.fake import FakeServer
from tests.server.waiting import Texts

Open = Callable[..., Service]


@pytest.fixture
def opened(server: FakeServer, tmp_path: Path) -> Iterator[Open]:
    """Opens and starts services on one state folder, each once the one before has stopped."""
    running: list[Service] = []

    def open_it(settings: Mapping[str, object] | None = None) -> Service:
        stop(running)
        recipe = serving_settings({"model.engine": "openai", "model.endpoint": server.url, **(settings or {})})
        running.append(open_service(tmp_path / "state", recipe))
        running[-1].start()
        return running[-1]

    yield open_it
    stop(running)


def stop(services: list[Service]) -> None:
    for service in services:
        service.stop()
        service.state.close()
        service.model.close()
    services.clear()


def asked(service: Service, numbers: range) -> list[Record]:
    """Questions whose right answer has changing places; the server knows it."""
    questions = []
    for i in numbers:
        options = (*"abc"[: i % 4], "d!", *"abc"[i % 4 :])
        questions.append(Question(f"Which is {i}?", options=options, id=str(i)))
    return [service.ask(question, 30).record for question in questions]


def test_answers_have_a_posterior_that_feedback_moves_and_a_restart_keeps(opened: Open, server: FakeServer) -> None:
    service = opened()
    assert (service.model.name, service.learner.active) == ("tiny", False)
    before = asked(service, range(8))
    assert [record.answer for record in before] == [*"ABCD"] * 2
    assert {record.outcome for record in before} == {"idle"}
    assert all(record.posterior and record.posterior.confidence == record.confidence for record in before)
    assert before[-1].confidence > 0.5
    for record in before:
        service.state.add_feedback(record.position, correct=False)
    (moved,) = asked(service, range(8, 9))
    assert moved.labelled is not None
    assert moved.confidence < moved.label_free - 0.05
    (after,) = asked(opened(), range(9, 10))
    assert after.position == 9
    assert after.labelled is not None
    assert after.labelled.labels == 8
    assert after.confidence < after.label_free - 0.05


def test_a_question_that_the_server_refuses_fails_alone_and_no_other_is_asked_twice(
    server: FakeServer, tmp_path: Path
) -> None:
    recipe = serving_settings({"model.engine": "openai", "model.endpoint": server.url})
    service = open_service(tmp_path / "state", recipe)
    texts = [f"Which is {i}?" for i in range(16)]
    texts[5] = "long " * 2000
    waiting = [service.submit(Question(text, options=("a", "b", "c", "d!"), id=text[:20])) for text in texts]
    server.asked.clear()
    service.start()  # so all of them are in one batch
    with pytest.raises(QuestionError, match="maximum context length"):
        waiting.pop(5).result(30)
    records = [each.result(30).record for each in waiting]
    assert [record.position for record in records] == [*range(15)]
    assert len(server.asked) == 15 * 7
    stop([service])


def test_a_text_is_streamed_and_becomes_a_record(opened: Open) -> None:
    service = opened()
    texts = Texts(service, Question("Which city?", form="text"))
    (answer,) = texts.answers()
    assert "".join(piece.text for piece in texts.pieces) == answer.record.answer == "Lima"
    assert 0 < answer.record.confidence < 1
    assert service.position == 1


def test_a_server_that_goes_away_fails_questions_and_nothing_else(opened: Open, server: FakeServer) -> None:
    service = opened()
    server.statuses = [500] * 99
    with pytest.raises(UnavailableError, match="status 500"):
        asked(service, range(1))
    server.statuses = []
    with pytest.raises(QuestionError, match="maximum context length"):
        service.ask(Question("long " * 2000), 30)
    assert asked(service, range(1))[0].position == 0


def test_a_server_that_moves_is_the_same_and_another_model_is_not(opened: Open, server: FakeServer) -> None:
    asked(opened(), range(1))
    assert opened({"model.endpoint": server.url.replace("127.0.0.1", "localhost")}).position == 1
    server.models = ["large"]
    with pytest.raises(RunError, match=r"begun with other settings .*model.name: tiny there, large here"):
        opened()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "secl"}, "--engine openai cannot train, so the method 'secl' cannot learn"),
        ({"adapter.rank": 4}, "--engine openai cannot train, so nothing is adapted; leave adapter.rank out"),
        ({"model.answer_weights": "adapted"}, "cannot train, so nothing is adapted; leave model.answer_weights out"),
        ({"method": "baselines"}, "has no beam search, which DINCO needs"),
        ({"posterior.views": ["letters", "likelihood"]}, "the view likelihood needs the likelihood of a text"),
        ({"model.device": "cpu"}, "a server computes as it was started; leave model.device out"),
        ({"model.quantize": "4bit"}, "a server computes as it was started; leave model.quantize out"),
        ({"model.endpoint": None}, "--engine openai needs the address of a server"),
        ({"model.engine": "local"}, "--endpoint names a server, but --engine is local"),
        ({"model.engine": "vllm", "model.endpoint": None}, "--engine vllm needs the address of a server"),
    ],
)
def test_what_a_server_does_not_support_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        serving_settings({"model.engine": "openai", "model.endpoint": "http://h", **settings})


def test_settings_of_an_endpoint_survive_a_trip_through_a_manifest() -> None:
    settings = serving_settings({"model.engine": "openai", "model.endpoint": "http://h"})
    assert (settings.method, settings.posterior.views) == ("posterior", ("letters", "samples", "text", "p_true"))
    assert Recipe.of(settings.to_json()) == settings


def test_a_server_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not answer"):
        open_service(
            tmp_path / "state", serving_settings({"model.engine": "openai", "model.endpoint": "http://127.0.0.1:9"})
        )
    assert not (tmp_path / "state").exists()
