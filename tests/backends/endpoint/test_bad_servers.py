"""Servers that refuse, break down, break off, answer nonsense or lack log-probabilities, one table for all requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from secl.backends.endpoint.model import EndpointModel
from secl.errors import ModelError, QuestionError, UnavailableError
from secl.question import GivenAnswer
from secl.writing import Writing
from tests.backends.endpoint.fake import CHOICE, OPEN, FakeServer

OFF = "stopped in the middle of an answer"
NO_JSON = r"does not answer in JSON; is http.* the right address"
OTHERWISE = "reply does not have the form of OpenAI's API"


def rated(model: EndpointModel) -> None:
    (outcome,) = model.rate_given([GivenAnswer(CHOICE, "A")], ())
    if isinstance(outcome, QuestionError):
        raise outcome


def started(model: EndpointModel) -> None:
    EndpointModel(model.endpoint.url, "tiny").close()


ANSWERS: dict[str, Callable[[EndpointModel], object]] = {
    "choice": lambda model: model.answer(CHOICE),
    "open": lambda model: model.answer(OPEN),
    "rating": rated,
}
TEXT: dict[str, Callable[[EndpointModel], object]] = {"text": lambda model: [*model.write(OPEN, Writing())]}
START: dict[str, Callable[[EndpointModel], object]] = {"start": started}

# (changes of the server, which requests, error, part of its sentence)
BAD: dict[str, tuple[dict[str, Any], dict[str, Callable[[EndpointModel], object]], type[Exception], str]] = {
    "400": ({"statuses": [400] * 9}, ANSWERS | TEXT, QuestionError, r"refuses with status 400: Not now\."),
    "400 at the start": ({"statuses": [400] * 99}, START, ModelError, "refuses to give log-probabilities.*400"),
    "401": ({"statuses": [401] * 9}, ANSWERS | TEXT | START, ModelError, "rejected the API key .status 401"),
    "429": ({"statuses": [429] * 99}, ANSWERS | TEXT | START, UnavailableError, "refuses with status 429"),
    "500": ({"statuses": [500] * 99}, ANSWERS | TEXT | START, UnavailableError, "refuses with status 500"),
    "hangs up": ({"statuses": [0] * 99}, ANSWERS | TEXT | START, UnavailableError, OFF),
    "half an answer": ({"broken": lambda body: body[:99]}, ANSWERS | START, UnavailableError, OFF),
    "no chunk": ({"cut": 0}, TEXT, UnavailableError, OFF),
    "half a stream": ({"cut": 2}, TEXT, UnavailableError, OFF),
    "no JSON": ({"broken": lambda body: b"<" * len(body)}, ANSWERS | START, ModelError, NO_JSON),
    "a number": ({"broken": lambda body: b"%*d" % (len(body), 0)}, ANSWERS | START, ModelError, NO_JSON),
    "other JSON": ({"broken": lambda body: b"%-*s" % (len(body), b"{}")}, ANSWERS | START, ModelError, OTHERWISE),
    "no model": ({"models": ["other"]}, ANSWERS | TEXT | START, ModelError, "status 404: The model `tiny` does not"),
    "no log-probabilities": ({"most": 0}, START, ModelError, "without the log-probabilities of the most probable"),
}


@pytest.mark.parametrize(("row", "request_of"), [(row, name) for row, bad in BAD.items() for name in bad[1]])
def test_a_bad_server_is_told_in_a_sentence_and_asked_again_once_it_is_well(
    model: EndpointModel, server: FakeServer, row: str, request_of: str
) -> None:
    changes, requests, error, sentence = BAD[row]
    well = {name: getattr(server, name) for name in changes} | {"statuses": []}
    server.change(changes)
    with pytest.raises(error, match=sentence):
        requests[request_of](model)
    server.change(well)
    requests[request_of](model)
