"""`secl serve --engine openai`: a service in front of another server, and its refusals."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl.cli.run import cost_line
from secl.errors import ModelError, ParameterError, QuestionError, RunError
from secl.question import GivenAnswer, Question
from secl.runs.runner import start_run
from secl.runs.settings import RunSettings
from secl.server.online.service import Service, open_service, serving_settings
from tests.backends.endpoint.fake import CALL, FakeServer, Form, knowing
from tests.backends.endpoint.test_engines import by_template
from tests.backends.endpoint.test_objects import GREEDY, OTHER, SCHEMA, writing
from tests.server.conftest import client_of, sdk_of

Open = Callable[..., Service]


@pytest.fixture
def opened(server: FakeServer, tmp_path: Path) -> Iterator[Open]:
    """A function that opens and starts a service on the state folder, after it has stopped the previous one."""
    running: list[Service] = []

    def open_it(settings: Mapping[str, object] | None = None, *, start: bool = True, keep: Any = "full") -> Service:
        stop(running)
        recipe = serving_settings({"model.engine": "openai", "model.endpoint": server.url, **(settings or {})})
        running.append(open_service(tmp_path / "state", recipe, keep_text=keep))
        if start:
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


def chat(service: Service, **fields: Any) -> Any:
    with client_of(service) as client:
        return client.post("/v1/chat/completions", json={"model": "tiny", "messages": [USER], **fields})


def asked(service: Service, numbers: range) -> list[Any]:
    """Ask questions whose right option has changing letters; the server knows the right option."""
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
    assert {record.learning for record in before} == {None}
    assert all(record.posterior and record.posterior.own_probability == record.confidence for record in before)
    assert before[-1].confidence > 0.5
    for record in before:
        service.state.add_feedback(record.position, correct=False)
    (moved,) = asked(service, range(8, 9))
    assert moved.confidence < moved.confidences.uncalibrated - 0.05
    (after,) = asked(opened(), range(9, 10))
    assert after.position == 9
    assert after.labelled.labels == 8
    assert after.confidence < after.confidences.uncalibrated - 0.05


@pytest.mark.parametrize("rates", [False, True])
def test_questions_of_a_batch_fail_alone_and_are_asked_once(opened: Open, server: FakeServer, rates: bool) -> None:
    service = opened(start=False)
    texts = [f"Which is {i}?" for i in range(16)]
    texts[5] = "long " * 2000
    questions = [Question(text, options=("a", "b", "c", "d!"), id=text[:20]) for text in texts]
    waiting = [service.submit(GivenAnswer(each, "A") if rates else each) for each in questions]
    server.asked.clear()
    service.start()  # so all of them are in one batch
    with pytest.raises(QuestionError, match="maximum context length"):
        waiting.pop(5).result(30)
    records = [each.result(30).record for each in waiting]
    assert [record.position for record in records] == [*range(15)]
    assert len(server.asked) == 15 * 7


@pytest.mark.parametrize("keep", ["full", "none"])
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", None])
def test_a_client_gets_the_thought(opened: Open, server: FakeServer, field: str | None, keep: str) -> None:
    server.thought, server.form = ("Hm", ", well"), Form(field, switched=by_template)
    service = opened({"prompts.thinking": "auto", "method": "posterior"}, keep=keep)
    with sdk_of(service) as client:
        said = {"role": "assistant", "content": "Lima.", "reasoning_content": "Hm."}
        messages: list[Any] = [{"role": "user", "content": "Which?"}, said, USER]
        whole: Any = client.chat.completions.create(model="tiny", messages=messages)
        message = whole.choices[0].message
        assert (message.content, message.reasoning_content) == ("Lima", "Hm, well")
        assert 0 < whole.secl["confidence"] < 1
        assert whole.warnings == ["messages.1.reasoning_content was accepted and has no effect."]
        assert "reasoning" not in str(server.asked[-1]["messages"])
        coming: Any = client.chat.completions.create(model="tiny", messages=messages, stream=True)
        deltas = [chunk.choices[0].delta for chunk in coming]
        thoughts = [getattr(delta, "reasoning_content", None) for delta in deltas]
        assert "".join(filter(None, thoughts)).strip() == "Hm, well"
        assert "".join(delta.content or "" for delta in deltas) == "Lima"
        assert not any(delta.content and thought for delta, thought in zip(deltas, thoughts, strict=True))
        record: Any = service.state.served(0).record
        assert record.reply.thought.text == ("Hm, well" if keep == "full" else None)
        passed: Any = client.chat.completions.create(model="tiny", messages=messages, tools=[TOOL])
        assert passed.choices[0].message.tool_calls


STATED = [
    ("\n", 0.9),
    ("In ", 0.9),
    ("15", 0.9),
    ("35", 0.5),
    (", ", 0.9),
    ("Francisco", 0.8),
    (" Piz", 0.5),
    ("arro", 0.9),
]
STATED += [(f" {word}", 0.9) for word in ("founded", "a", "city", "by", "the", "sea", "and", "called", "it")]
STATED += [(" Lima", 0.7), (" for", 0.9), (" short", 0.9)] + [
    (f" {word}", 0.9) for word in ("and", "the", "people", "of", "the", "valley", "came", "down", "to", "its", "port")
]
STATED += [
    (f" {word}", 0.9)
    for word in ("with", "maize", "wool", "and", "salt", "which", "they", "sold", "there", "year", "after", "year")
]


OTHERS = {"15": "18", "Francisco": "Diego", " Lima": " Rio"}


def paragraph(body: Mapping[str, Any]) -> list[Any]:
    """A model that writes the tokens `STATED` with their probabilities; its digits are those of `knowing`."""
    asked = str(body["messages"][-1]["content"])
    return (
        knowing(dict(body))
        if "one digit" in asked
        else [{token: p, other: 0.05} for token, p in STATED for other in [OTHERS.get(token, "?")]]
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("logprobs", [{}, {"logprobs": True, "top_logprobs": 1}])
@pytest.mark.parametrize("thought", [(), ("Hm", ", well")])
def test_facts_of_a_text_have_the_probabilities_that_the_server_reports(
    opened: Open, server: FakeServer, logprobs: Any, stream: bool, thought: tuple[str, ...]
) -> None:
    server.rule, server.thought, server.form = paragraph, thought, Form("reasoning", switched=by_template)
    service = opened({"prompts.thinking": "auto" if thought else "off", "method": "posterior"})
    with sdk_of(service) as client:
        asked: Any = {"model": "tiny", "messages": [USER], "stream": stream, **logprobs}
        reply: Any = client.chat.completions.create(**asked)
        chunks = list(reply) if stream else []
        secl = chunks[-1].choices[0].secl if stream else reply.secl
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks) or reply.choices[0].message.content
    assert {content[fact["start"] : fact["end"]]: fact["confidence"] for fact in secl["facts"]} == {
        "1535": pytest.approx(0.9 / 0.95 * 0.5),
        "Francisco Pizarro": pytest.approx(0.8 / 0.85 * 0.5 * 0.9),
        "Lima": pytest.approx(0.7 / 0.75),
    }
    assert secl["confidence"] == pytest.approx(math.prod(fact["confidence"] for fact in secl["facts"]))


@pytest.mark.parametrize(
    ("most", "values"), [(3, []), (4, []), (6, []), (7, ["1535"]), (8, ["1535"]), (10, ["1535", "Francisco Pizarro"])]
)
def test_a_value_that_the_limit_may_have_cut_is_no_fact(
    opened: Open, server: FakeServer, most: int, values: list[str]
) -> None:
    server.rule = paragraph
    reply = chat(opened(), max_tokens=most).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert [fact["text"] for fact in reply["secl"]["facts"]] == values


@pytest.mark.filterwarnings("ignore:http")
def test_facts_have_no_confidence_where_the_server_reports_no_probabilities(opened: Open, server: FakeServer) -> None:
    server.rule = paragraph
    service = opened()
    server.edit = lambda answer: [choice.update(logprobs=None) for choice in answer["choices"]]
    secl = chat(service).json()["secl"]
    assert [(fact["text"], fact["confidence"]) for fact in secl["facts"]] == [
        ("1535", None),
        ("Francisco Pizarro", None),
        ("Lima", None),
    ]
    assert (secl["confidence"], secl["expected_wrong"]) == (None, None)
    assert "the probabilities of the text's tokens are unknown" in secl["reason"]
    service.state.add_feedback(0, False, 1.0, fact=1)
    assert service.state.labels()[0].reported == 0


USER = {"role": "user", "content": "Which city?"}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
PHOTO = [{"type": "text", "text": "Which?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False}, "tools"),
        ({"response_format": {"type": "grammar", "value": "root ::= digit"}}, "response_format"),
        ({"messages": [{"role": "user", "content": PHOTO}], "top_k": 5}, "image_url"),
        ({"messages": [USER, {"role": "tool", "content": "5", "tool_call_id": "a"}]}, "calls a tool"),
        ({"messages": [USER, {"role": "assistant", "content": "It is", "prefix": True}]}, "the last message"),
        ({"stop": list("abcde"), "n": 17}, "stop"),
        ({"tools": [TOOL], "tool_choice": "none"}, "tools"),
        ({"messages": [{"role": "user", "content": [*PHOTO, {"type": "text", "text": "x" * 2**20}]}]}, "image_url"),
        ({"secl": {"confidence": False}, "tools": [TOOL]}, "turned confidences off"),
    ],
)
def test_what_is_not_rated_is_passed_on(
    opened: Open, server: FakeServer, fields: Any, reason: str, stream: bool
) -> None:
    service = opened()
    body = {"model": "tiny", "messages": [USER], "max_tokens": 5000, "user": "me", "stream": stream, **fields}
    server.asked.clear()
    reply = chat(service, **body)
    assert reply.status_code == 200, reply.text
    sent = {name: value for name, value in body.items() if name != "secl"}
    assert server.asked == [{**sent, "max_tokens": 1024}]
    if stream:
        *chunks, end = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
        assert end == "[DONE]"
        (last,) = [each for each in map(json.loads, chunks) if "secl" in each]
    else:
        last = reply.json()
    (choice,) = last["choices"]
    assert choice["secl"] == last["secl"]
    assert (last["secl"]["confidence"], last["secl"]["record_id"], last["model"]) == (None, None, "tiny")
    assert reason in last["secl"]["reason"]
    assert last["warnings"] == ["this server cuts a text after 1024 tokens, not after 5000."]
    assert choice["finish_reason"] == ("tool_calls" if "tools" in fields else "stop")
    if stream and "tools" in fields:
        (call,) = json.loads(chunks[1])["choices"][0]["delta"]["tool_calls"]
        assert call == {"index": 0, **CALL}
    assert service.position == 0


def test_parameters_that_this_server_does_not_know_hold_for_rated_texts(opened: Open, server: FakeServer) -> None:
    service = opened()
    server.asked.clear()
    extra = {"top_k": 5, "presence_penalty": 0.5, "logit_bias": {"7": -100}, "user": "me", "min_p": 0}
    reply = chat(service, **extra).json()
    assert 0 < reply["secl"]["confidence"] < 1
    assert {name: server.asked[0][name] for name in extra} == extra
    assert all("top_k" not in body for body in server.asked[1:])
    assert reply["warnings"] == []
    assert service.position == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_object_that_the_limit_cuts_ends_by_length_with_the_tokens_of_both_tries(
    opened: Open, server: FakeServer, stream: bool
) -> None:
    server.rule = writing()
    service = opened()
    wanted = {"type": "json_schema", "json_schema": {"name": "invoice", "schema": SCHEMA}}
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    reply = chat(service, response_format=wanted, max_tokens=4, **options)
    chunks = [json.loads(line[6:]) for line in reply.text.split("\n\n") if line.startswith("data: {")] or [reply.json()]
    ended = next(chunk["choices"][0] for chunk in reversed(chunks) if chunk["choices"])
    assert (ended["finish_reason"], ended["secl"]["confidence"]) == ("length", None)
    assert (chunks[0]["choices"][0].get("message") or chunks[0]["choices"][0]["delta"])["content"] == ""
    assert chunks[-1]["usage"] == {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28}
    assert service.position == 0


@pytest.mark.parametrize(("seed", "rated"), [(-1, True), (2**70, True), (7.0, True), ("7", False), (0.5, False)])
def test_a_seed_reaches_the_server_as_it_is(opened: Open, server: FakeServer, seed: Any, rated: bool) -> None:
    service = opened()
    server.asked.clear()
    reply = chat(service, seed=seed).json()
    assert server.asked[0]["seed"] == seed
    assert (reply["secl"]["confidence"] is not None) is rated
    assert ("seed is" in reply["secl"].get("reason", "")) is not rated


def test_an_object_of_the_server_has_a_confidence_for_each_field(opened: Open, server: FakeServer) -> None:
    server.several = True
    server.rule = writing(GREEDY, OTHER, OTHER, "{}", GREEDY)
    service = opened()
    wanted = {"type": "json_schema", "json_schema": {"name": "invoice", "schema": SCHEMA}}
    reply = chat(service, response_format=wanted).json()
    beyond = chat(service, response_format=wanted, top_k=5, max_tokens=50).json()
    assert json.loads(reply["choices"][0]["message"]["content"]) == json.loads(GREEDY)
    fields = reply["secl"]["fields"]
    assert [(name, 0 < fields[name]["confidence"] < 1) for name in fields] == [("number", True), ("total", True)]
    assert reply["usage"]["completion_tokens"] > 10
    assert service.position == 2
    assert (beyond["secl"]["confidence"], server.asked[-1]["top_k"]) == (None, 5)
    remedy = "remove top_k, or remove response_format."
    assert beyond["secl"]["reason"] == f"top_k cannot be combined with response_format; {remedy}"


GONE = (503, "no_endpoint")
BAD: dict[str, tuple[dict[str, Any], tuple[int, str]]] = {
    "400": ({"statuses": [400] * 9}, (400, "bad_question")),
    "429": ({"statuses": [429] * 99}, GONE),
    "500": ({"statuses": [500] * 99}, GONE),
    "hangs up": ({"statuses": [0] * 99}, GONE),
    "half a stream": ({"cut": 2}, GONE),
    "another model": ({"models": ["large"]}, GONE),
    "no choice": ({"broken": lambda body: b"%-*s" % (len(body), b"{}")}, (500, "model_failed")),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(("changes", "seen"), BAD.values(), ids=BAD)
def test_a_bad_server_is_an_error_of_a_chat(
    opened: Open, server: FakeServer, changes: dict[str, Any], seen: tuple[int, str], tools: bool, stream: bool
) -> None:
    service = opened()
    well = {name: getattr(server, name) for name in changes} | {"statuses": []}
    server.change(changes)
    fields = {"stream": stream, **({"tools": [TOOL]} if tools else {})}
    reply = chat(service, **fields)
    if ("cut" in changes and tools and not stream) or ("broken" in changes and stream):  # does not concern this reply
        assert reply.status_code == 200
        return
    if stream and "cut" in changes:
        *_, failed, end = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
        assert (reply.status_code, json.loads(failed)["error"]["code"], end) == (200, seen[1], "[DONE]")
    else:
        assert (reply.status_code, reply.json()["error"]["code"]) == seen
    assert service.position == 0
    server.change(well)
    assert chat(service, **fields).status_code == 200


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
        ({"model.device": "cpu"}, "--engine openai cannot set model.device of its server"),
        ({"model.quantize": "4bit"}, "--engine openai cannot set model.quantize of its server"),
        ({"model.endpoint": None}, "--engine openai needs the address of a server"),
        ({"model.engine": "local"}, "--endpoint names a server, but --engine is local"),
        ({"model.engine": "vllm", "model.endpoint": None}, "--engine vllm needs the address of a server"),
    ],
)
def test_what_a_server_does_not_support_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        serving_settings({"model.engine": "openai", "model.endpoint": "http://h", **settings})


def test_a_server_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    recipe = serving_settings({"model.engine": "openai", "model.endpoint": "http://127.0.0.1:9"})
    with pytest.raises(ModelError, match="does not answer"):
        open_service(tmp_path / "state", recipe)
    assert not (tmp_path / "state").exists()


def test_a_run_says_what_its_questions_will_take(server: FakeServer, tmp_path: Path) -> None:
    settings = {"model.engine": "openai", "model.endpoint": server.url, "stream.benchmarks": ("capitals:4",)}
    run = start_run(RunSettings.of(settings), tmp_path / "run")
    server.asked.clear()
    with run.store, closing(run.calibrator.model):
        line = cost_line(run)
        assert line.startswith("4 questions: about 28 requests, ")
        assert line.endswith(" and 84 written tokens")  # three tokens for each letter, digit or verdict
        run.proceed()
        assert len(server.asked) == 28
        assert cost_line(run) == ""
