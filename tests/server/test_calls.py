"""Calls of tools over HTTP: OpenAI's form, a confidence for tool and arguments, and recorded requests of clients."""

from __future__ import annotations

import json
import math
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

from secl.conversation import ToolCall, Turn
from secl.errors import SeclError
from secl.fields.calls import WrittenReply
from secl.server.online.service import Service
from secl.server.verify import examine
from tests.fields.scribe import CallScribe, call, reply
from tests.server.conftest import Make, client_of, sdk_of

USER: dict[str, Any] = {"role": "user", "content": "Acme: invoice 7, 306.00"}
ARGUMENTS = '{"total": 306.0, "kind": "invoice"}'
PROPERTIES = {"total": {"type": "number", "description": "with tax"}, "kind": {"enum": ["invoice", "credit note"]}}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["total", "kind"]}


def tool(name: str, **more: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


RECORD, NOW = tool("record", description="An invoice.", parameters=PARAMETERS), tool("now")
CALLED = call("record", ARGUMENTS, unsure="306")
OTHERS = [reply(call("record", '{"total": 305.0, "kind": "invoice"}')), reply(call("now"))]


class Record(BaseModel):
    """An invoice."""

    total: float = Field(description="with tax")
    kind: str


def serve(make_service: Make, *replies: WrittenReply | SeclError) -> Service:
    return make_service(model=CallScribe(*replies, samples=OTHERS), settings={"method": "posterior"})


@pytest.fixture
def ask(make_service: Make) -> Any:
    """Sends a request to a server whose model writes these replies in turn."""

    def ask(*replies: WrittenReply | SeclError, **fields: Any) -> Any:
        ask.service = serve(make_service, *replies)  # type: ignore[attr-defined]
        body = {"model": "scripted", "messages": [USER], "tools": [RECORD, NOW], **fields}
        with client_of(ask.service) as client:  # type: ignore[attr-defined]
            return client.post("/v1/chat/completions", json=body)

    return ask


def test_the_sdk_gets_calls_with_a_confidence_for_tool_arguments_and_their_end(make_service: Make) -> None:
    service = serve(make_service, *[reply(CALLED, call("now", p=0.6))] * 4)
    with sdk_of(service) as client:
        asked: Any = {"model": "scripted", "messages": [USER], "tools": [RECORD, NOW]}
        found: Any = client.chat.completions.create(**asked)
        chunks: list[Any] = [*client.chat.completions.create(**asked, stream=True)]
        with client.chat.completions.stream(**asked) as stream:
            final: Any = stream.get_final_completion()
        strict: Any = [openai.pydantic_function_tool(Record, name="record"), tool("now", strict=True)]
        parsed: Any = client.chat.completions.parse(**asked | {"tools": strict})
    (choice,) = found.choices
    assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")
    called = [(each.function.name, each.function.arguments) for each in choice.message.tool_calls]
    assert called == [("record", ARGUMENTS), ("now", "{}")]
    assert len({each.id for each in choice.message.tool_calls}) == 2
    secl = choice.secl
    assert secl == found.secl
    first, second = secl["calls"]
    assert (first["name"], first["tool"]["text"], second["tool"]["text"]) == ("record", "record", "now")
    assert {each["text"] for each in first["tool"]["candidates"]} == {"record", "now", "no tool"}
    assert {name: field["text"] for name, field in first["fields"].items()} == {"total": "306.0", "kind": "invoice"}
    parts = (first["tool"], *first["fields"].values())
    assert first["confidence"] == pytest.approx(math.prod(each["confidence"] for each in parts))
    whole = first["confidence"] * second["confidence"] * secl["ended"]["confidence"]
    assert secl["confidence"] == pytest.approx(whole)
    assert (secl["record_id"], "the whole answer has none" in secl["reason"]) == (None, True)
    assert [each["record_id"] for each in (*parts, second["tool"], secl["ended"])] == [
        service.state.served(number).id for number in range(5)
    ]
    domains = [served.record.question.domain for served in service.state.latest(5, until=4)]
    assert domains == ["tool", "record.total", "record.kind", "tool", "tool"]
    assert examine(service.state).findings == []
    pieces = [each for chunk in chunks for each in chunk.choices[0].delta.tool_calls or ()]
    assert [(each.index, each.function.name) for each in pieces] == [(0, "record"), (1, "now")]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert [*chunks[-1].secl] == [*secl]
    assert final.choices[0].message.tool_calls[0].function.arguments == ARGUMENTS
    assert parsed.choices[0].message.tool_calls[0].function.parsed_arguments == Record(total=306, kind="invoice")


def test_a_text_in_place_of_calls_is_rated_as_any_other_and_the_choice_beside_it(ask: Any) -> None:
    answer = ask(reply(text="Which total?")).json()
    (choice,) = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Which total?", "stop")
    assert "tool_calls" not in choice["message"]
    secl = answer["secl"]
    assert (secl["calls"], secl["ended"]["text"]) == ([], "no tool")
    assert 0 < secl["confidence"] < 1
    assert ask.service.state.find(secl["record_id"]).record.position == 1
    assert ask.service.state.served(1).record.reply.text == "Which total?"


def test_a_conversation_goes_on_behind_the_results_of_tools(ask: Any) -> None:
    said = {"id": "a", "type": "function", "function": {"name": "record", "arguments": ARGUMENTS}}
    talk = [USER, {"role": "assistant", "content": None, "tool_calls": [said]}]
    answer = ask(reply(text="Done."), messages=[*talk, {"role": "tool", "tool_call_id": "a", "content": "ok"}]).json()
    assert answer["choices"][0]["message"]["content"] == "Done."
    assert answer["secl"]["confidence"] is None
    assert answer["secl"]["reason"] == "secl does not rate a text that follows results of tools."
    (request,) = ask.service.model.asked
    assert request.question.text == USER["content"]
    called = Turn("assistant", "", (ToolCall("record", ARGUMENTS, "a"),))
    assert request.since == (called, Turn("tool", "ok", answers="a"))


def test_without_confidence_calls_leave_no_record(ask: Any) -> None:
    answer = ask(reply(CALLED), secl={"confidence": False}).json()
    assert (answer["choices"][0]["finish_reason"], "calls" in answer["secl"]) == ("tool_calls", False)
    assert ask.service.position == 0


def test_tool_choice_none_asks_for_a_text(ask: Any) -> None:
    answer = ask(tool_choice="none").json()
    assert (answer["choices"][0]["finish_reason"], "calls" in answer["secl"]) == ("stop", False)


# Recorded requests of langchain-openai 1.7.4 and instructor 1.17.0.
NAMED = tool("record")
SENT: dict[str, tuple[dict[str, Any], str, bool]] = {
    "LangChain, bind_tools": ({"stream": False}, "auto", True),
    "LangChain, bind_tools with any": ({"tool_choice": "required", "stream": False}, "required", True),
    "with_structured_output": ({"tool_choice": NAMED, "parallel_tool_calls": False, "stream": False}, "record", False),
    "instructor": ({"tool_choice": NAMED}, "record", False),
}


@pytest.mark.parametrize(("fields", "choice", "parallel"), SENT.values(), ids=SENT)
def test_what_clients_send_is_understood(ask: Any, fields: dict[str, Any], choice: str, parallel: bool) -> None:
    answer = ask(reply(CALLED, ended=None), **fields).json()
    (called,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(called["function"]["arguments"]) == json.loads(ARGUMENTS)
    assert (answer["warnings"], ask.service.model.asked[0].choice) == ([], choice)
    assert ask.service.model.asked[0].parallel is parallel


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a tool that does not exist": ({"tool_choice": tool("fly")}, "choice is 'fly'"),
    "two of one name": ({"tools": [NOW, NOW]}, "two tools have the name 'now'"),
    "a bad name": ({"tools": [tool("a b")]}, "has the name 'a b'"),
    "a name of signs": ({"tools": [tool("größe")]}, "has the name"),
    "a bad schema": ({"tools": [tool("a", parameters={"properties": {"b": 5}})]}, "not a JSON Schema"),
    "another type": ({"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "has the type 'custom'"),
    "no function": ({"tools": [{"type": "function"}]}, "supports only functions"),
    "no tools": ({"tools": "record"}, "tools: "),
    "a choice without tools": ({"tools": [], "tool_choice": "required"}, "tool_choice is given without tools"),
    "an object and tools": ({"response_format": {"type": "json_object"}}, "send only one of these fields"),
    "two answers": ({"n": 2}, "n is 2"),
    "no question": ({"messages": [{"role": "assistant", "content": "Yes?"}]}, "must end with a user"),
    "half": ({"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages.1 has a call"),
}


@pytest.mark.parametrize(("fields", "sentence"), REFUSED.values(), ids=REFUSED)
def test_tools_that_cannot_be_used_are_refused_in_one_sentence(ask: Any, fields: dict[str, Any], sentence: str) -> None:
    answer = ask(reply(CALLED), **fields)
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]["message"]
    assert sentence in message
    assert message.endswith(".")
    assert ask.service.position == 0
