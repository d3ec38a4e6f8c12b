"""Servers as their engines answer: where thoughts stand, and which log-probabilities come."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import pytest

from secl.backends.endpoint.model import EndpointModel
from secl.errors import ModelError
from secl.question import Question
from secl.writing import Writing, Written
from tests.backends.endpoint.fake import PLAIN, Body, FakeServer, Form

CHOICE = Question("Which?", options=("Rome", "Paris", "Lima!", "Bonn"), id="choice")
OPEN = Question("Which city?", id="open")
MUSING = ("Let", " me", " see", ": A", " or", " B", ", 7", "?")


def by_template(body: Body) -> bool:
    """Whether a request tells the chat template not to let the model think."""
    return body.get("chat_template_kwargs", {}).get("enable_thinking") is False


def by_effort(body: Body) -> bool:
    return body.get("reasoning_effort") == "none"


# How each engine answers, with a model that thinks unless it is told not to, and the switch that tells it.
ENGINES: dict[str, tuple[dict[str, Any], str | None]] = {
    "vLLM": ({"form": Form("reasoning", end="<|im_end|>", switched=by_template)}, "chat_template_kwargs"),
    "vLLM before 0.11": ({"form": Form("reasoning_content", switched=by_template)}, "chat_template_kwargs"),
    "vLLM without a parser": ({"form": Form(switched=by_template)}, "chat_template_kwargs"),
    "vLLM with a parser that expects a thought": (
        {"form": Form("reasoning_content", mislabels=True, switched=by_template)},
        "chat_template_kwargs",
    ),
    "SGLang": ({"form": Form("reasoning_content", switched=by_template)}, "chat_template_kwargs"),
    "llama-server": ({"form": Form("reasoning_content", switched=by_template)}, "chat_template_kwargs"),
    "Ollama": ({"form": Form("reasoning", switched=by_effort)}, "reasoning_effort"),
    "TGI": ({"thought": (), "most": 5}, None),
    "OpenAI": (
        {
            "form": Form(hides=True, mixes=False, switched=by_effort, effortless=True),
            "limit": "max_completion_tokens",
            "several": True,
        },
        "reasoning_effort",
    ),
    "a template that begins the thought": (
        {"form": Form(marks=("", "</think>\n\n"), switched=by_template), "thought": MUSING * 3},
        "chat_template_kwargs",
    ),
    "any, with a model that does not think": ({"thought": (), "form": Form(end="</s>")}, None),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_thoughts_are_switched_off_and_probabilities_are_those_of_the_answer(server: FakeServer, engine: str) -> None:
    changes, switch = ENGINES[engine]
    vars(server).update({"thought": MUSING, **changes})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this endpoint gives 5 log-probabilities")
        model = EndpointModel(server.url)
    server.asked.clear()
    assert [*model.abilities.switch] == ([switch] if switch else [])
    chosen, opened = model.answer(CHOICE).reply, model.answer(OPEN).reply
    assert (chosen.answer, opened.answer) == ("C", "Lima")
    assert chosen.option_log_p[2] == pytest.approx(math.log(0.7))
    assert chosen.digit_mass == pytest.approx(0.9)
    assert opened.log_probability == pytest.approx(math.log(PLAIN["Lima"]))
    (text,) = Written.of(model.write(OPEN, Writing()))
    assert (text.text, model.answer(OPEN, written=text).reply.log_probability) == ("Lima", opened.log_probability)
    assert all((switch in body) is bool(switch) for body in server.asked)
    model.close()


# What a server does wrong, and the sentence that refuses it.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "LM Studio": ({"most": 0, "thought": ()}, "answers without the log-probabilities of the most probable tokens"),
    "ignores the switch": ({"form": Form("reasoning")}, "tiny thinks before it answers, and http.* does not keep it"),
    "hides a thought": (
        {"form": Form(hides=True, mixes=False), "thought": MUSING * 2},
        "tiny thinks before it answers",
    ),
    "gives log-probabilities of something else": (
        {"form": Form(hides=True, mixes="only"), "thought": ("A", " B")},
        r"gives log-probabilities of other tokens than those of its answer \('<think>A B</think>",
    ),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_server_whose_confidence_would_be_wrong_is_refused_at_the_start(server: FakeServer, row: str) -> None:
    changes, sentence = REFUSED[row]
    vars(server).update({"thought": MUSING, **changes})
    with pytest.raises(ModelError, match=sentence):
        EndpointModel(server.url)


def test_a_thought_that_comes_now_and_then_is_no_part_of_an_answer(model: EndpointModel, server: FakeServer) -> None:
    server.thought, server.form = ("Maybe", " A", "."), Form("reasoning")
    reply = model.answer(CHOICE).reply
    assert reply.answer == "C"
    assert reply.option_log_p[2] == pytest.approx(math.log(0.7))
    server.form = Form("reasoning", mixes="only")
    unknown = model.answer(CHOICE).reply
    assert (unknown.answer, unknown.bins, unknown.option_log_p) == (None, (), ())
    assert math.isnan(unknown.stated)


def test_a_request_may_let_the_model_think(server: FakeServer) -> None:
    server.thought, server.form = MUSING, Form("reasoning", switched=by_effort)
    model = EndpointModel(server.url)
    wish: Mapping[str, object] = {"reasoning_effort": "high"}
    (text,) = Written.of(model.write(OPEN, Writing(extra=wish)))
    assert (text.text, server.asked[-1]["reasoning_effort"]) == ("Lima", "high")
    model.close()
