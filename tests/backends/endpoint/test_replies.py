"""Replies as servers really send them: missing parts, other values, failures of single requests."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any

import pytest

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.model import EndpointModel
from secl.errors import ModelError, NoObjectError, QuestionError, SeclError, TooLongError, UnavailableError
from secl.fields.extraction import Objects
from secl.question import Question
from secl.writing import SamplingParameters, joined
from tests.backends.endpoint.fake import CHOICE, OPEN, PLAIN, Body, FakeServer, knowing
from tests.backends.endpoint.test_objects import GREEDY, objects_of, writing
from tests.server.conftest import Patch

Edit = Callable[[Any], Any]


def of_choice(change: Callable[[dict[str, Any]], object]) -> Edit:
    return lambda answer: [change(each) for each in answer["choices"]]


def of_message(change: Callable[[dict[str, Any]], object]) -> Edit:
    return of_choice(lambda choice: change(choice.get("message") or choice["delta"]))


def as_blocks(message: dict[str, Any]) -> None:
    text = message.get("content") or ""
    message["content"] = [{"type": "text", "text": text[:1]}, None, {"type": "text", "text": {"value": text[1:]}}]


def as_columns(choice: dict[str, Any]) -> None:
    """The log-probabilities of a choice as a completion lists them."""
    if choice.get("logprobs"):
        listed = choice["logprobs"]["content"]
        tops = [{other["token"]: other["logprob"] for other in entry["top_logprobs"]} for entry in listed]
        columns = ([entry[name] for entry in listed] for name in ("token", "logprob"))
        choice["logprobs"] = dict(zip(("tokens", "token_logprobs", "top_logprobs"), (*columns, tops), strict=True))


SHAPES: dict[str, Edit] = {
    "log-probabilities of a completion": of_choice(as_columns),
    "blocks": of_message(as_blocks),
    "one block": of_message(lambda message: message.update(content={"type": "text", "text": message.get("content")})),
    "a thought in a block": of_message(
        lambda message: message.update(
            content=[{"type": "thinking", "thinking": [{"type": "text", "text": ""}]}, message.get("content") or ""]
        )
    ),
    "refusal instead of content": of_message(lambda message: message.update(refusal=message.pop("content", None))),
    "null for all other fields": of_message(
        lambda message: message.update(tool_calls=None, function_call=None, reasoning=None, reasoning_content=None)
    ),
    "message and delta": of_choice(lambda choice: choice.update(message=choice.get("message") or choice.get("delta"))),
    "null among the choices": lambda answer: answer["choices"].insert(0, None),
    "usage null": lambda answer: answer.update(usage=None),
    "usage of other types": lambda answer: answer.update(usage={"prompt_tokens": "10", "completion_tokens": -3.5}),
    "usage a list": lambda answer: answer.update(usage=[1, 2]),
    "details null": lambda answer: answer.update(usage={"prompt_tokens": 1.0, "completion_tokens_details": None}),
    "unknown fields": lambda answer: answer.update(system_fingerprint=None, choices_extra=[None], error=None),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes_of_replies_give_the_same_numbers(model: Any, server: FakeServer, shape: str) -> None:
    server.edit = SHAPES[shape]
    reply = model.answer(CHOICE).reply
    assert (reply.answer, reply.option_log_p[2]) == ("C", pytest.approx(math.log(0.7)))
    if "usage" not in shape and "details" not in shape:  # without usage, secl asks a server for the prompt's length
        (text,) = joined(model.write(OPEN, SamplingParameters()))
        again = model.answer(OPEN, written=text).reply
        assert (text.text, again.log_probability) == ("Lima", pytest.approx(math.log(PLAIN["Lima"])))


CHUNKS: dict[str, Any] = {
    "choices null": {"choices": None, "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
    "no choices": {"usage": {"prompt_tokens": 10, "completion_tokens": 1}},
    "empty choices": {"choices": []},
    "a choice null": {"choices": [None]},
    "delta null": {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
    "no delta": {"choices": [{"index": 0}]},
    "role alone": {"choices": [{"delta": {"role": "assistant", "content": None}, "logprobs": None}]},
    "no content": {"choices": [{"delta": {"content": ""}, "logprobs": {"content": []}, "finish_reason": ""}]},
    "empty": {},
}


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("kind", CHUNKS)
def test_chunks_without_text_change_nothing(
    model: Any, server: FakeServer, monkeypatch: Patch, kind: str, place: int
) -> None:
    def chunks(answer: Any) -> list[Any]:
        sent = FakeServer.chunks(server, answer)
        sent.insert(place % (len(sent) + 1), CHUNKS[kind])
        return sent

    monkeypatch.setattr(server, "chunks", chunks)
    (text,) = joined(model.write(OPEN, SamplingParameters(top_logprobs=2)))
    assert (text.text, text.finish, len(text.tokens)) == ("Lima", "stop", 1)
    assert (text.prompt_tokens, text.completion_tokens) == (10, 1)
    generation: Any = text.generation
    assert generation[0].log_p == pytest.approx(math.log(PLAIN["Lima"]))


@pytest.mark.parametrize("kind", CHUNKS)
def test_chunks_that_are_passed_on_have_a_list_of_choices(
    model: Any, server: FakeServer, monkeypatch: Patch, kind: str
) -> None:
    monkeypatch.setattr(server, "chunks", lambda answer: [CHUNKS[kind], *FakeServer.chunks(server, answer)])
    body = {"messages": [{"role": "user", "content": "Which city?"}], "tools": [{"type": "function"}], "stream": True}
    chunks = list(model.upstream.chat(body))
    assert all(isinstance(choice, dict) for chunk in chunks for choice in chunk["choices"])
    assert "weather" in str(chunks)


FRAMES: dict[str, Callable[[str], str]] = {
    "comments": lambda text: ": OPENROUTER PROCESSING\n\n" + text.replace("\n\n", "\n\n: keep-alive\n\n"),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "events without data": lambda text: "retry: 3000\n\nevent: ping\n\n" + text,
    "ids and names": lambda text: text.replace("data: ", "id: 7\nevent: message\ndata:"),
    "no last event": lambda text: text.replace("data: [DONE]\n\n", ""),
    "no reason of the end": lambda text: text.replace('"finish_reason": "stop"', '"finish_reason": null'),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_streams_may_have_other_frames(model: Any, server: FakeServer, frame: str) -> None:
    server.framed = FRAMES[frame]
    (text,) = joined(model.write(OPEN, SamplingParameters()))
    assert (text.text, text.finish) == ("Lima", "stop")


def error_event(**error: Any) -> Callable[[str], str]:
    return lambda text: text.split("\n\n")[0] + f"\n\ndata: {json.dumps({'error': error})}\n\n"


BROKEN_STREAMS: dict[str, tuple[Callable[[str], str], type[SeclError], str]] = {
    "no end": (lambda text: text.replace("[DONE]", "").replace('"stop"', "null"), UnavailableError, "the end is miss"),
    "an error": (error_event(message="CUDA out of memory"), UnavailableError, "answer: CUDA out of memory"),
    "a refusal": (error_event(message="no such parameter", code=400), QuestionError, "status 400: no such parameter"),
    "too long": (
        error_event(message="This model's maximum context length is 9 tokens.", code="400"),
        TooLongError,
        "maximum context length",
    ),
    "no JSON": (lambda text: "data: <html>\n\n" + text, ModelError, "does not answer with a JSON object"),
    "a number": (lambda text: "data: 7\n\n" + text, ModelError, "does not have the form of OpenAI's API"),
    "choices a text": (lambda text: 'data: {"choices": "a"}\n\n' + text, ModelError, "does not have the form"),
    "content a number": (
        lambda text: 'data: {"choices": [{"delta": {"content": 7}}]}\n\n' + text,
        ModelError,
        "does not have the form",
    ),
}


@pytest.mark.parametrize("kind", BROKEN_STREAMS)
def test_a_broken_stream_is_one_sentence(model: Any, server: FakeServer, kind: str) -> None:
    server.framed, error, sentence = BROKEN_STREAMS[kind]
    with pytest.raises(error, match=sentence):
        list(model.write(OPEN, SamplingParameters()))


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        *((reason, "stop") for reason in ("eos", "eos_token", "stop_sequence", "end_turn", "STOP", "", None, "new")),
        *((reason, "length") for reason in ("max_tokens", "MAX_TOKENS", "model_length", "length")),
        ({"type": "stop", "matched": 2}, "stop"),
        ({"type": "length"}, "length"),
        (["stop"], "stop"),
    ],
    ids=str,
)
def test_a_text_is_rated_whatever_its_server_calls_the_end(
    model: Any, server: FakeServer, reason: Any, finish: str
) -> None:
    server.edit = of_choice(lambda choice: choice.get("finish_reason") and choice.update(finish_reason=reason))
    assert model.answer(CHOICE).reply.answer == "C"
    (text,) = joined(model.write(OPEN, SamplingParameters()))
    assert (text.text, text.finish) == ("Lima", finish)


@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "content_filter", "error"])
def test_a_reply_that_is_no_complete_text_is_refused(model: Any, server: FakeServer, reason: str) -> None:
    server.edit = of_choice(lambda choice: choice.get("finish_reason") and choice.update(finish_reason=reason))
    for ask in (lambda: model.answer(OPEN), lambda: list(model.write(OPEN, SamplingParameters()))):
        with pytest.raises(QuestionError, match=f"ended the reply with finish_reason '{reason}', so the reply is no"):
            ask()


LONG = (
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "Requested tokens (5000) exceed context window of 2048",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "The input token count (5000) exceeds the maximum number of tokens allowed (4096).",
    "Please reduce the length of the messages or completion.",
    "This model's maximum prompt length is 131072 but the request contains 140000.",
)
OTHER = (
    "Invalid schema for response_format 'City': In context=(), 'additionalProperties' is required to be supplied.",
    "Invalid schema for response_format 'x': In context=('properties', 'context_length'), 'type' is required.",
    "Unknown parameter: 'context_window'.",
    "tool_choice is not allowed in this context",
    "Invalid 'response_format.json_schema.name': string too long. Expected a string with maximum length 64.",
    "mapping values are not allowed in this context",
    "Context: the grammar has 3 errors",
)


@pytest.mark.parametrize("sentence", [*LONG, *OTHER])
def test_only_a_refusal_about_the_length_of_a_prompt_says_that_it_is_too_long(
    model: Any, server: FakeServer, sentence: str
) -> None:
    server.refuses = lambda body: (400, {"message": sentence})
    with pytest.raises(QuestionError) as refusal:
        model.answer(CHOICE)
    assert isinstance(refusal.value, TooLongError) == (sentence in LONG)
    server.refuses = lambda body: (400, {"message": sentence, "code": "context_length_exceeded"})
    with pytest.raises(TooLongError):
        model.answer(CHOICE)


def if_schema(status: int, message: str, word: str = "") -> Callable[[Body], Any]:
    """A server that refuses a schema, in all requests or in those with a word."""
    return lambda body: (
        (status, {"message": message}) if "response_format" in body and word in str(body["messages"]) else None
    )


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("message", [OTHER[0], "invalid JSON schema in format", LONG[0]])
def test_a_server_that_refuses_a_schema_is_asked_without(
    model: Any, server: FakeServer, status: int, message: str
) -> None:
    server.rule, server.refuses = writing(*[GREEDY] * 9), if_schema(status, message)
    for _ in range(2):
        (written,) = objects_of(model)
        assert written.greedy.text == GREEDY
    assert not any("response_format" in body for body in server.asked)


def test_a_schema_that_fails_for_one_document_still_holds_for_others(model: Any, server: FakeServer) -> None:
    server.rule = writing(*[GREEDY] * 99)
    objects_of(model, "good")
    server.refuses = if_schema(500, "invalid JSON schema in format", "bad")
    assert [type(each) for each in objects_of(model, "good", "bad", "fine")] == [Objects] * 3
    server.asked.clear()
    objects_of(model, "later")
    assert "response_format" in server.asked[0]


def failing(word: str) -> Callable[[Body], Any]:
    return lambda body: (500, {"message": "boom"}) if word in str(body["messages"]) else None


def test_a_document_at_which_a_server_fails_is_left_out_alone(model: Any, server: FakeServer) -> None:
    server.rule, server.refuses = writing(*[GREEDY] * 99), failing("bad")
    good, bad, fine = objects_of(model, "good", "bad", "fine")
    assert isinstance(bad, QuestionError)
    assert not isinstance(bad, NoObjectError)
    assert "refuses the request with status 500: boom" in str(bad)
    assert good.greedy.text == fine.greedy.text == GREEDY
    for question in (Question("Is this bad?", options=("yes", "no")), Question("Is this bad?")):
        with pytest.raises(QuestionError, match="status 500: boom"):
            model.answer(question)
    with pytest.raises(QuestionError, match="status 500: boom"):
        list(model.write(Question("Is this bad?", form="text"), SamplingParameters()))


def test_a_server_that_fails_often_in_a_row_ends_the_run(model: Any, server: FakeServer, monkeypatch: Patch) -> None:
    monkeypatch.setattr(model.endpoint._client, "max_retries", 0)
    server.refuses = failing("doc")
    with pytest.raises(UnavailableError, match="status 500: boom"):
        objects_of(model, *[f"doc {number}" for number in range(30)])


WHOLE: dict[str, tuple[bytes, type[SeclError], str]] = {
    "an error": (b'{"error": {"message": "no worker", "code": 503}}', UnavailableError, "status 503: no worker"),
    "a refusal": (b'{"error": {"message": "bad", "code": "400"}}', QuestionError, "status 400: bad"),
    "an old error of vLLM": (b'{"object": "error", "message": "odd", "code": 400}', QuestionError, "status 400: odd"),
    "choices null": (b'{"choices": null}', ModelError, "does not have the form of OpenAI's API"),
    "no choice": (b'{"choices": []}', ModelError, "does not have the form of OpenAI's API"),
    "choices a number": (b'{"choices": 7}', ModelError, "does not have the form of OpenAI's API"),
    "content a number": (b'{"choices": [{"message": {"content": 7}}]}', ModelError, "does not have the form"),
    "a message that is a text": (b'{"choices": [{"message": "Lima"}]}', ModelError, "does not have the form"),
    "deep JSON": (b"[", ModelError, "does not answer with a JSON object"),
    "cut JSON": (b'{"choices": [{"message"', ModelError, "does not answer with a JSON object"),
    "a page": (b"<html><h1>Bad gateway</h1></html>", ModelError, "does not answer with a JSON object"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_broken_reply_is_one_sentence_that_names_the_server(model: Any, server: FakeServer, kind: str) -> None:
    sent, error, sentence = WHOLE[kind]
    server.broken = lambda body: sent.ljust(len(body), b"[" if kind == "deep JSON" else b" ")
    with pytest.raises(error, match=sentence) as raised:
        model.answer(OPEN)
    assert str(raised.value).startswith(server.url)


def tempered(body: Body) -> list[Any]:
    """A model whose server reports probabilities after temperature and, unlike `top_p`, renormalised."""
    steps = knowing(body)
    if body.get("temperature") == 0:
        return [{max(step, key=step.__getitem__): 1.0} for step in steps]
    return steps


def cut_by_top_p(body: Body) -> list[Any]:
    narrow = body.get("temperature") == 0 or body.get("top_p", 1) < 0.1
    return tempered({**body, "temperature": 0}) if narrow else knowing(body)


def test_probabilities_after_temperature_0_are_read_at_temperature_1(server: FakeServer) -> None:
    server.rule = tempered
    with closing(EndpointModel(server.url)) as model:
        assert model.abilities.tempered
        reply = model.answer(CHOICE).reply
        assert reply.option_log_p[2] == pytest.approx(math.log(0.7))
        assert all(body["temperature"] == 1 for body in server.asked[-2:])
        (text,) = joined(model.write(OPEN, SamplingParameters(temperature=0)))
        assert model.answer(OPEN, written=text).reply.log_probability == pytest.approx(math.log(PLAIN["Lima"]))
        with pytest.warns(UserWarning, match=f"{server.url}/v1 reports log-probabilities after the temperature"):
            (text,) = joined(model.write(OPEN, SamplingParameters(temperature=0.5)))
        assert text.generation == ()


@pytest.mark.parametrize("rule", [cut_by_top_p, lambda body: tempered({**body, "temperature": 0})])
def test_a_server_without_probabilities_before_sampling_is_refused(server: FakeServer, rule: Any) -> None:
    server.rule = rule

    def renormalised(answer: Any) -> None:
        for token in answer["choices"][0]["logprobs"]["content"]:
            if token["logprob"] == 0:
                for other in token["top_logprobs"][1:]:
                    other["logprob"] = -9999.0

    server.edit = renormalised
    with pytest.raises(ModelError, match=r"reports (log-probabilities that depend on the temp|a probability of 1 for)"):
        EndpointModel(server.url)


def test_a_clear_trial_needs_no_further_reply(server: FakeServer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EndpointModel(server.url).close()
    assert [body["temperature"] for body in server.asked] == [0, 1]
    with closing(Endpoint(server.url)) as endpoint:
        assert endpoint.models() == [{"id": "tiny"}]


# The tokens of the letter "く" of the word "くx", as each server reports them: token, bytes, log-probability, and the
# form of the written token among the most probable ones.
PARTS: dict[str, tuple[list[tuple[str, list[int] | None, float, str]], float]] = {
    "OpenAI": ([("bytes:\\xe3\\x81", [227, 129], -1.0, ""), ("bytes:\\x8f", [143], -0.5, "")], -1.5),
    "vLLM": ([("", [], -1.0, ""), ("く", [227, 129, 143], -0.5, "")], -1.5),
    "Ollama": ([("\ufffd", [239, 191, 189], -1.0, ""), ("\ufffd", [239, 191, 189], -0.5, "")], -1.5),
    "one token": ([("\ufffd", [239, 191, 189], -1.5, "")], -1.5),
    "SentencePiece": ([("<0xE3>", None, -1.0, ""), ("<0x81>", None, -0.4, ""), ("<0x8F>", None, -0.1, "")], -1.5),
    "llama.cpp": ([("く", [227, 129, 143], -0.5, "\ufffd")], math.nan),
}


@pytest.mark.parametrize("engine", PARTS)
def test_a_character_of_several_tokens_costs_no_other_value_its_probability(
    model: Any, server: FakeServer, engine: str
) -> None:
    parts, expected = PARTS[engine]
    server.rule = writing(*['{"number": "くx", "total": 306}'] * 9, greedy='{"number": "くx", "total": 306}')

    def edit(answer: Any) -> None:
        for choice in answer["choices"]:
            listed = choice["logprobs"]["content"]
            spots = [number for number, entry in enumerate(listed) if entry["token"] == "くx"]
            for spot in spots:
                rest = {**listed[spot], "token": "x", "logprob": -0.2}
                shown = [(*part, rest["top_logprobs"][1:]) for part in parts]
                listed[spot : spot + 1] = [
                    {
                        "token": token,
                        "bytes": data,
                        "logprob": log_p,
                        "top_logprobs": [
                            {"token": form or token, "bytes": [143] if form else data, "logprob": log_p},
                            *others,
                        ],
                    }
                    for token, data, log_p, form, others in shown
                ] + [{**rest, "top_logprobs": [{"token": "x", "logprob": -0.2}, *rest["top_logprobs"][1:]]}]

    server.edit = edit
    named = pytest.warns(UserWarning, match="reports the log-probability of only a part of a character")
    with named if math.isnan(expected) else nullcontext():
        (written,) = objects_of(model)
    greedy = written.greedy
    number, total = (
        greedy.reading(None, greedy.tokens(span)) for span in (greedy.places["number",], greedy.places["total",])
    )
    assert total.log_p == pytest.approx(math.log(0.99))
    quotes = 2 * math.log(0.99)
    assert number.log_p == pytest.approx(expected - 0.2 + quotes, nan_ok=True)
