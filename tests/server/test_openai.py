"""Chats by the package `openai`, and the question in the messages of a chat."""

import json
import socket
from collections.abc import Iterable, Iterator
from typing import Any, assert_type
from urllib.parse import urlsplit

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from secl.client import Secl, reply_of
from secl.conversation import Message
from secl.errors import ParameterError, RequestError
from secl.model import learner_of
from secl.question import Question
from secl.runs.encoding import from_plain
from secl.server.http import chat_request
from secl.server.http.chat_request import ROLES, ChatMessage, ChatRequest, Part, check_length, question_in
from secl.server.online.service import Service
from secl.server.settings import Limits
from tests.server.conftest import Log, Make, Patch, client_of, sdk_of

ASKED: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
TEXT = "I think that it is 583, and nothing else."

FULL = {"secl": {"detail": "full"}}


def ask(sdk: openai.OpenAI, **how: Any) -> Any:
    return sdk.chat.completions.create(**{"model": "scripted", "messages": ASKED, **how})


def said(stream: Iterable[Any], index: int = 0) -> str:
    """The text of a choice in a stream."""
    choices = [choice for chunk in stream for choice in chunk.choices if choice.index == index]
    return "".join(choice.delta.content or "" for choice in choices)


def test_a_chat_is_answered_in_the_model_s_words_with_a_confidence(sdk: openai.OpenAI, service: Service) -> None:
    completion = ask(sdk, extra_body=FULL)
    (choice,) = completion.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", TEXT, "stop")
    usage = completion.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 9, 15)
    record = service.state.served(0).record
    assert (record.question.text, record.question.form) == (ASKED[0]["content"], "text")
    assert record.reply.text == TEXT
    assert choice.secl == completion.secl
    detail = completion.secl.pop("detail")
    assert [*completion.secl] == ["confidence", "low", "high", "candidates", "accepted", "accept", "record_id"]
    assert from_plain(detail).reply == record.reply
    assert completion.secl["confidence"] == detail["reply"]["stated"] == pytest.approx(0.85)
    assert detail["ledger"]["answering"] == 10
    assert completion.warnings == []


def test_confidences_of_learned_weights_say_so_and_labels_are_counted(sdk: openai.OpenAI, service: Service) -> None:
    service.learner.pause("so that the version stands still")
    learner_of(service.model).learn(Question("Why?"), service.model.answer(Question("Why?")).reply, 0.5)
    learned = ask(sdk, extra_body=FULL)
    detail = learned.secl["detail"]
    assert (detail["posterior"], detail["reply"]["version"]) == (None, 1)
    assert detail["learning"]["frozen"]["stated"] == pytest.approx(0.85) != detail["reply"]["stated"]
    sdk.post("/feedback", body={"record_id": learned.secl["record_id"], "correct": False}, cast_to=object)
    labelled = ask(sdk, extra_body=FULL)
    assert labelled.secl["detail"]["labelled"]["labels"] == 1


def test_a_stream_says_the_same_in_pieces_as_they_are_written(sdk: openai.OpenAI, service: Service) -> None:
    service.learner.pause("so that both are answered alike")
    whole = ask(sdk)
    pieces = list(ask(sdk, stream=True))
    assert pieces[0].choices[0].delta.role == "assistant"
    assert said(pieces) == whole.choices[0].message.content
    assert len(pieces) == 1 + 9 + 1
    assert [piece.choices[0].finish_reason for piece in pieces] == [None] * 10 + ["stop"]
    assert len({piece.id for piece in pieces}) == 1
    assert pieces[-1].secl | {"record_id": 0} == whole.secl | {"record_id": 0}
    assert pieces[-1].secl == pieces[-1].choices[0].secl
    assert service.state.find(pieces[-1].secl["record_id"]).record.position == 1
    assert pieces[-1].warnings == []


def test_several_texts_are_records_of_their_own(sdk: openai.OpenAI, service: Service) -> None:
    drawn: dict[str, Any] = {"n": 3, "temperature": 1, "seed": 5, "max_tokens": 6}
    whole = ask(sdk, **drawn)
    texts = [choice.message.content for choice in whole.choices]
    assert len(set(texts)) == 3
    assert [choice.finish_reason for choice in whole.choices] == ["length"] * 3
    assert [choice.secl["record_id"] for choice in whole.choices] == [service.state.served(i).id for i in range(3)]
    assert whole.secl == whole.choices[0].secl
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (6, 18)
    assert [service.state.served(i).record.reply.text for i in range(3)] == texts
    again = ask(sdk, **drawn)
    assert [choice.message.content for choice in again.choices] == texts
    pieces = list(ask(sdk, stream=True, **drawn))
    assert [said(pieces, index) for index in range(3)] == texts
    ends = [(each.choices[0].index, each.choices[0].finish_reason) for each in pieces[-3:]]
    assert ends == [(0, "length"), (1, "length"), (2, "length")]


def test_a_text_ends_where_it_was_to_end(sdk: openai.OpenAI) -> None:
    def end(**how: Any) -> tuple[str | None, str, int]:
        completion = ask(sdk, **how)
        (choice,) = completion.choices
        return choice.message.content, choice.finish_reason, completion.usage.completion_tokens

    assert end(max_tokens=5) == end(max_completion_tokens=5) == ("I think that it is", "length", 5)
    assert end(max_tokens=5, max_completion_tokens=5) == ("I think that it is", "length", 5)
    assert end(stop=" it") == end(stop=["never", " it"]) == ("I think that", "stop", 3)
    assert end(stop=[], temperature=0, top_p=1, presence_penalty=0, frequency_penalty=0, logit_bias={}, n=1) == end()


NEUTRAL: list[dict[str, Any]] = [
    *({"seed": seed} for seed in (-1, -(2**40), 2**63, 2**80, 7.0, None)),
    *({"max_tokens": tokens} for tokens in (None, -1)),
    *({"stop": stop} for stop in (None, "", [], ["never", ""])),
    {"temperature": None, "top_p": None, "n": None, "stream_options": None, "logprobs": None, "top_logprobs": 0},
    {"presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {"5": 0}},
    {"tools": [], "tool_choice": "auto"},
    {"tools": None, "tool_choice": None, "parallel_tool_calls": None, "response_format": None},
    {"functions": [], "function_call": "none"},
    {"repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0, "modalities": ["text"], "reasoning_effort": "none"},
]


@pytest.mark.parametrize("fields", NEUTRAL, ids=str)
def test_values_that_change_nothing_are_taken(service: Service, fields: dict[str, Any]) -> None:
    body = {"model": "scripted", "messages": ASKED, **fields}
    with client_of(service) as client:
        reply = client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    assert (reply.json()["choices"][0]["message"]["content"], reply.json()["warnings"]) == (TEXT, [])


@pytest.mark.parametrize(("seed", "taken"), [(5, 5), (7.0, 7), (2**63 + 3, 3), (-1, None), (None, None)])
def test_a_seed_that_no_generator_takes_is_reduced_and_a_negative_one_is_none(seed: Any, taken: int | None) -> None:
    asked = ChatRequest(model="m", messages=[user("Q?")], seed=seed)
    drawn = [asked.sampling(Limits()).seed for _ in range(2)]
    assert drawn == [taken] * 2 if taken is not None else drawn[0] != drawn[1]
    assert asked.sampling(Limits(), takes_all=True).seed == seed or seed is None


def test_no_request_makes_a_text_longer_than_the_server_s_limit(make_service: Make) -> None:
    client = client_of(make_service(limits=Limits(max_tokens=4)))
    for field in ("max_tokens", "max_completion_tokens"):
        for asked, length in ((3, 3), (4, 4), (5, 4), (2**31, 4)):
            body = {"model": "scripted", "messages": ASKED, field: asked}
            reply = client.post("/v1/chat/completions", json=body).json()
            ended = (reply["choices"][0]["finish_reason"], reply["usage"]["completion_tokens"])
            assert ended == ("length", length)
            said = [f"this server cuts a text after 4 tokens, not after {asked}."] if asked > 4 else []
            assert reply["warnings"] == said


def test_log_probabilities_have_openai_s_shape(sdk: openai.OpenAI) -> None:
    completion = ask(sdk, logprobs=True, top_logprobs=2)
    tokens = completion.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == TEXT
    first = tokens[0]
    assert (first.logprob, first.bytes, [top.token for top in first.top_logprobs]) == (-0.5, [73], ["I", " or"])
    pieces = ask(sdk, logprobs=True, stream=True)
    streamed = [each.choices[0].logprobs.content for each in pieces if each.choices[0].logprobs]
    assert [each[0].token for each in streamed] == [token.token for token in tokens]


def test_a_connection_that_closes_in_mid_stream_does_not_disturb_others(
    address: str, sdk: openai.OpenAI, caplog: Log
) -> None:
    body = json.dumps({"model": "scripted", "messages": ASKED, "stream": True}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    at = urlsplit(address)
    for sent in (len(whole), len(whole), len(whole) - 5, 30):
        with socket.create_connection((at.hostname, at.port), timeout=5) as connection:
            connection.sendall(whole[:sent])
            if sent == len(whole):
                connection.recv(20)
    completion = ask(sdk)
    assert completion.choices[0].message.content == TEXT
    assert [each for each in caplog.records if each.name.startswith("secl") and each.levelname != "INFO"] == []


def test_what_says_nothing_about_the_reply_is_taken_and_named(sdk: openai.OpenAI) -> None:
    idle: dict[str, Any] = {"user": "me", "store": True, "metadata": {"a": "b"}, "service_tier": "auto"}
    usual: dict[str, Any] = {"parallel_tool_calls": True, "response_format": {"type": "text"}, "tool_choice": "none"}
    reply = ask(sdk, messages=[{**ASKED[0], "name": "Ada"}], **idle, **usual)
    fields = ("metadata", "parallel_tool_calls", "service_tier", "store", "user", "messages.0.name")
    assert sorted(reply.warnings) == sorted(f"{field} was accepted and has no effect." for field in fields)
    *_, last = ask(sdk, user="me", stream=True)
    assert last.warnings == ["user was accepted and has no effect."]


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages"),
    "an image": ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages.0.content.0"),
    "no text": ({"messages": [{"role": "user", "content": " "}]}, "messages.0.content"),
    "a tool's result": ({"messages": [{"role": "tool", "content": "5", "tool_call_id": "a"}]}, "messages.0.role"),
    "half": ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}, *ASKED]}, "messages.0.tool_calls"),
    "a call": ({"messages": [{"role": "assistant", "function_call": {"name": "f"}}, *ASKED]}, "messages.0.role"),
    "the assistant last": ({"messages": [*ASKED, {"role": "assistant", "content": "Paris"}]}, "messages.1.role"),
    "the system alone": ({"messages": [{"role": "system", "content": "Be brief."}]}, "messages.0.role"),
    "too many texts": ({"n": 17}, "n"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    "a choice of tools": ({"tool_choice": "required"}, "tool_choice"),
    "a schema": ({"response_format": {"type": "json_object"}}, "response_format"),
    "a penalty": ({"frequency_penalty": 0.5}, "frequency_penalty"),
    "a bias": ({"logit_bias": {"5": 1}}, "logit_bias"),
    "functions": ({"functions": [{"name": "f"}]}, "functions"),
    "a legacy call": ({"function_call": {"name": "f"}}, "function_call"),
    "two limits": ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
    "a hot temperature": ({"temperature": "hot"}, "temperature"),
    "five stops": ({"stop": list("abcde")}, "stop"),
    "a seed in words": ({"extra_body": {"seed": "7"}}, "seed"),
    "half a seed": ({"extra_body": {"seed": 0.5}}, "seed"),
    "tops alone": ({"top_logprobs": 2}, "top_logprobs"),
    "a stream in doubt": ({"extra_body": {"stream": "maybe"}}, "stream"),
    "an unknown field": ({"extra_body": {"top_k": 5}}, "top_k"),
    "a rare penalty": ({"extra_body": {"repetition_penalty": 1.1}}, "repetition_penalty"),
    "options": ({"extra_body": {"options": ["a", "b"]}}, "options"),
    "no word of no": ({"extra_body": {"secl": {"confidence": "no"}}}, "secl.confidence"),
    "no table": ({"extra_body": {"secl": 5}}, "secl"),
    "no text for a domain": ({"extra_body": {"secl": {"domain": 5}}}, "secl.domain"),
    "a stray wish": ({"extra_body": {"secl": {"options": ["a", "b"]}}}, "secl.options"),
}


@pytest.fixture(scope="module")
def refusing(share_service: Make) -> Iterator[openai.OpenAI]:
    """A client of a server that answers nothing of what the tests ask."""
    service = share_service()
    with sdk_of(service) as client:
        yield client
    assert service.position == 0


def test_what_is_not_supported_is_refused_and_named(refusing: openai.OpenAI) -> None:
    for why, (fields, param) in REFUSED.items():
        with pytest.raises(openai.BadRequestError) as refused:
            ask(refusing, **fields)
        assert refused.value.param == param, why
        assert refused.value.body["message"].endswith(".")  # type: ignore[index]
        assert refused.value.type == "invalid_request_error"
        assert ("/v1/ask" in refused.value.message) == why.startswith(("a stray wish", "options", "tools", "a schema"))


SAID = st.text(min_size=1).filter(str.strip)


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


@given(st.lists(st.tuples(st.sampled_from(sorted(ROLES)), st.text())), SAID)
def test_every_turn_stays_in_its_role_and_its_place(earlier: list[tuple[str, str]], last: str) -> None:
    asked = question_in([*(ChatMessage(role=role, content=text) for role, text in earlier), user(last)])
    system = [Message("system", asked.system)] if asked.system else []
    turns = [*system, *asked.history, Message("user", asked.text)]
    assert turns == [*(Message(ROLES[role], text) for role, text in earlier), Message("user", last)]
    assert asked.context == ""


def test_the_first_system_text_is_the_question_s_own_and_silent_turns_and_parts_stay() -> None:
    instructions = [ChatMessage(role="developer", content="Be brief."), ChatMessage(role="system", content="Be kind.")]
    parts: list[Part] = [Part(type="text", text="b"), Part(type="text", text="c")]
    talk = [*instructions, user("a"), ChatMessage(role="assistant"), ChatMessage(role="user", content=parts)]
    history = (Message("system", "Be kind."), Message("user", "a"), Message("assistant", ""))
    assert question_in(talk) == Question("b\nc", form="text", system="Be brief.", history=history)


def test_a_prompt_that_is_longer_than_allowed_is_refused_with_both_numbers(monkeypatch: Patch) -> None:
    monkeypatch.setattr(chat_request, "MAX_PROMPT_CHARS", 9)
    question = Question("ab", ("ef", "gh"), context="c", system="d", history=(Message("user", "c"),))
    assert check_length(question) is question
    with pytest.raises(RequestError, match="10 characters, more than the 9") as refused:
        check_length(question, "x")
    assert refused.value.status == 413


@pytest.mark.parametrize("names", [{"alias": ("gpt-4o", " ")}, {"served_model_name": ""}])
def test_empty_names_of_the_model_are_refused(names: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="name of the model for requests is empty"):
        Limits(**names)


def test_requests_may_call_the_model_by_an_alias_and_the_list_has_all_names(make_service: Make) -> None:
    with sdk_of(make_service(limits=Limits(alias=("gpt-4o", "org/large")))) as sdk:
        assert [card.id for card in sdk.models.list()] == ["scripted", "gpt-4o", "org/large"]
        assert sdk.models.retrieve("org/large").id == "org/large"
        reply: Any = sdk.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hello"}])
        assert reply.model == "scripted"
        assert 0 < (reply_of(reply)["confidence"] or 0) < 1
        with pytest.raises(
            openai.NotFoundError, match=r"no model 'gpt-5'; its model is 'scripted' or 'gpt-4o' or .*--alias"
        ):
            sdk.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Hello"}])


def test_a_reply_of_another_server_has_no_confidence_and_the_helper_says_so() -> None:
    for completion in ({"choices": []}, {"secl": None}, object(), None):
        with pytest.raises(ParameterError, match="has no object `secl`; send the request to a server of secl"):
            reply_of(completion)


def test_a_loop_over_a_stream_finds_the_confidence_in_the_last_chunk_and_none_before(make_service: Make) -> None:
    with sdk_of(make_service()) as sdk:
        how: dict[str, Any] = {
            "n": 2,
            "stream_options": {"include_usage": True},
            "extra_body": {"secl": {"wait": True}},
        }
        chunks = list(ask(sdk, stream=True, **how))
    for known in (chunks, [chunk.to_dict() for chunk in chunks]):  # objects, and dictionaries
        replies = [reply for chunk in known if (reply := reply_of(chunk)) is not None]
        assert [0 < (reply["confidence"] or 0) < 1 for reply in replies] == [True, True]
        assert [reply_of(known[0]), reply_of(known[-1])] == [None, None]  # the role, and the number of tokens
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert [reply_of(choice) for choice in choices if choice.finish_reason is None] == [None] * (len(choices) - 2)
    assert [reply_of(choice) for choice in choices if choice.finish_reason] == replies


def _types(chunk: ChatCompletionChunk, completion: ChatCompletion) -> None:
    """mypy checks that a chunk may have no confidence and that a completion has one."""
    assert_type(reply_of(chunk), Secl | None)
    assert_type(reply_of(chunk.choices[0]), Secl | None)
    assert_type(reply_of(completion), Secl)
    assert_type(reply_of(completion.choices[0]), Secl)
