"""Calls of tools over HTTP: OpenAI's form, a confidence for tool and arguments, and recorded requests of clients."""

import math
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

from secl.backends.local.constrained import usable
from secl.conversation import Message, ToolCall
from secl.errors import SeclError, UnfinishedError
from secl.fields.calls import WrittenReply
from secl.fields.extraction import ObjectRequest
from secl.fields.schema import Schema
from secl.server.online.service import Service
from secl.server.verify import examine
from tests.fields.scribe import CallScribe, Scribe, call, reply, written
from tests.server.conftest import Log, Make, client_of, sdk_of

USER: dict[str, Any] = {"role": "user", "content": "Acme: invoice 7, 306.00"}
ARGUMENTS = '{"total": 306.0, "kind": "invoice"}'
PROPERTIES = {"total": {"type": "number", "description": "with tax"}, "kind": {"enum": ["invoice", "credit note"]}}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["total", "kind"]}


def tool(name: str, **more: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


RECORD, NOW = tool("record", description="An invoice.", parameters=PARAMETERS), tool("now")
CALLED = call("record", ARGUMENTS, unsure="306")
OTHERS = [reply(call("record", '{"total": 305.0, "kind": "invoice"}')), reply(call("now"))]


class Clerk(CallScribe):
    """Calls tools as `CallScribe`, writes an object if it calls none, and knows a tool without a grammar."""

    def __init__(self, *replies: WrittenReply | SeclError, samples: Any = ()) -> None:
        super().__init__(*replies, samples=samples)
        self.scribe, self.objects = Scribe(written('{"city": "Rome", "days": null}')), list[ObjectRequest]()

    def write_objects(self, requests: Any, samples: Any) -> Any:
        self.objects += requests
        return self.scribe.write_objects(requests, samples)

    def check_schema(self, schema: Schema) -> tuple[str, ...]:
        return usable(schema)[1]


class Record(BaseModel):
    """An invoice."""

    total: float = Field(description="with tax")
    kind: str


def serve(make_service: Make, *replies: WrittenReply | SeclError) -> Service:
    return make_service(model=Clerk(*replies, samples=OTHERS), settings={"method": "posterior"})


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
    called = Message("assistant", "", (ToolCall("record", ARGUMENTS, "a"),))
    assert request.since == (called, Message("tool", "ok", answers="a"))


def test_without_confidence_calls_leave_no_record(ask: Any) -> None:
    answer = ask(reply(CALLED), secl={"confidence": False}).json()
    assert (answer["choices"][0]["finish_reason"], "calls" in answer["secl"]) == ("tool_calls", False)
    assert ask.service.position == 0


CITY: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "City",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
SAID: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
RESULT = [
    USER,
    {"role": "assistant", "content": None, "tool_calls": [SAID]},
    {"role": "tool", "tool_call_id": "a", "content": "ok"},
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("talk", [[USER], RESULT])
def test_with_tools_and_a_format_the_reply_is_a_call_or_an_object_of_the_format(
    make_service: Make, talk: list[Any], stream: bool
) -> None:
    """LangChain's `bind_tools(..., response_format=...)` and pydantic-ai's `NativeOutput` send both fields."""
    service = serve(make_service, reply(CALLED, ended=None), reply(text="Let me see ..."))
    asked: Any = {"model": "scripted", "messages": talk, "tools": [RECORD, NOW], "response_format": CITY}

    with sdk_of(service) as client:
        (called, _), (given, secl) = (_whole(client, asked, stream=stream) for _ in range(2))
    assert (called.finish_reason, called.message.tool_calls[0].function.name) == ("tool_calls", "record")
    assert service_model(service).asked[0].decides
    assert (given.finish_reason, given.message.content) == ("stop", '{"city": "Rome"}')
    assert not given.message.tool_calls
    assert (secl["calls"], secl["ended"]["text"], [*secl["fields"]]) == ([], "no tool", ["city", "days"])
    parts = (secl["ended"], *secl["fields"].values())
    assert secl["confidence"] == pytest.approx(math.prod(part["confidence"] for part in parts))
    (request,) = service_model(service).objects
    assert [turn.role for turn in request.question.history] == [*["user", "assistant", "tool"] * (len(talk) > 1)]
    assert '- "city" (text)' in request.question.text
    assert examine(service.state).findings == []


def _whole(client: Any, asked: Any, *, stream: bool) -> tuple[Any, Any]:
    """Return the choice of a reply, whole or in chunks, and its object `secl`."""
    if not stream:
        reply = client.chat.completions.create(**asked)
        return reply.choices[0], reply.secl
    with client.chat.completions.stream(**asked) as events:
        chunks = [event.chunk for event in events if event.type == "chunk"]
        return events.get_final_completion().choices[0], chunks[-1].secl


def service_model(service: Service) -> Any:
    return service.model


@pytest.mark.parametrize(("choice", "name"), [("required", "record"), (tool("now"), "now")])
def test_a_reply_that_must_be_a_call_needs_no_format(ask: Any, choice: Any, name: str) -> None:
    answer = ask(
        reply(call(name, ARGUMENTS if name == "record" else "{}"), ended=None), tool_choice=choice, response_format=CITY
    ).json()
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == name
    assert not ask.service.model.asked[0].decides


@pytest.mark.parametrize("fields", [{}, {"response_format": CITY}, {"response_format": {"type": "json_object"}}])
def test_without_a_choice_of_tools_the_results_of_calls_are_followed_by_a_text_or_an_object(
    ask: Any, fields: Any
) -> None:
    answer = ask(reply(text="Done.", ended=None), messages=RESULT, tool_choice="none", **fields).json()
    content = answer["choices"][0]["message"]["content"]
    assert content == (
        '{"city": "Rome"}'
        if fields.get("response_format") == CITY
        else '{"city": "Rome", "days": null}'
        if fields
        else "Done."
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("written_reply", "content", "calls"),
    [
        (reply(text="Once upon a time,", ended=None, cut=True), "Once upon a time,", 0),
        (UnfinishedError("the model did not close its call within 5 tokens.", (56, 5)), "", 0),
        (reply(CALLED, ended=None, cut=True), None, 1),
    ],
)
def test_what_a_limit_cuts_ends_by_length_with_the_tokens_that_were_spent_and_is_not_rated(
    make_service: Make, written_reply: Any, content: str | None, calls: int, stream: bool
) -> None:
    service = serve(make_service, written_reply)
    asked: Any = {"model": "scripted", "messages": [USER], "tools": [RECORD, NOW], "max_tokens": 5}
    with sdk_of(service) as client:
        if stream:
            options: Any = {"stream": True, "stream_options": {"include_usage": True}}
            chunks: list[Any]
            *chunks, last = client.chat.completions.create(**asked, **options)
            message, end, usage = chunks[0].choices[0].delta, chunks[-1].choices[0], last.usage
        else:
            answer: Any = client.chat.completions.create(**asked)
            end, usage = answer.choices[0], answer.usage
            message = end.message
    assert (end.finish_reason, message.content, len(message.tool_calls or ())) == ("length", content, calls)
    assert (usage.prompt_tokens, usage.completion_tokens) == (56, 5)
    assert end.secl["confidence"] is None
    assert ("cut" in end.secl["reason"] or "did not close" in end.secl["reason"]) == (not calls)
    assert service.position == 3 * calls  # tool and arguments of a whole call are rated, a cut text is not


SPOILT = tool("spoilt", parameters={"type": "object", "properties": {"x": {"enum": []}}, "required": ["x"]})
NARROW = tool("narrow", parameters={"properties": {"m": {"type": "object", "propertyNames": {"type": "string"}}}})


def test_a_tool_that_cannot_be_called_is_named_and_spoils_no_chat_without_it(ask: Any) -> None:
    custom = {"type": "custom", "custom": {"name": "shell"}}
    answer = ask(reply(text="Hello."), tools=[NOW, SPOILT, NARROW, custom]).json()
    assert answer["choices"][0]["message"]["content"] == "Hello."
    spoilt, narrow, other = answer["warnings"]
    assert other.startswith("tools.3 has the type 'custom'; secl supports only functions")
    assert spoilt.startswith("the tool 'spoilt': secl cannot make a grammar from the field 'x' of the schema: Unsat")
    assert spoilt.endswith("; the model cannot call this tool.")
    assert narrow.startswith("the tool 'narrow': propertyNames of the field 'm' does not constrain the model")
    assert [each.name for each in ask.service.model.asked[0].tools] == ["now", "narrow"]


@pytest.mark.parametrize("fields", [{"tools": [SPOILT]}, {"tools": [NOW, SPOILT], "tool_choice": tool("spoilt")}])
def test_a_tool_that_cannot_be_called_and_is_needed_is_refused_by_name(ask: Any, fields: Any) -> None:
    refused = ask(reply(text="Hello."), **fields)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("the tool 'spoilt': secl cannot make a grammar from the field")


ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("now")]}}
NAMED = tool("record")
BOTH = ["record", "now"]

# The last three are recorded requests of langchain-openai 1.7.4 and instructor 1.17.0.
CHOICES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "none": ({"tool_choice": None}, "auto", BOTH),
    "any": ({"tool_choice": "any"}, "required", BOTH),
    "auto as an object": ({"tool_choice": {"type": "auto"}}, "auto", BOTH),
    "required as an object": ({"tool_choice": {"type": "required"}}, "required", BOTH),
    "allowed tools": ({"tool_choice": ALLOWED}, "required", ["now"]),
    "LangChain, bind_tools": ({"tool_choice": "required", "stream": False}, "required", BOTH),
    "with_structured_output": ({"tool_choice": NAMED, "parallel_tool_calls": False, "stream": False}, "record", BOTH),
    "instructor": ({"tool_choice": NAMED}, "record", BOTH),
}


@pytest.mark.parametrize(("fields", "choice", "names"), CHOICES.values(), ids=CHOICES)
def test_every_form_of_a_choice_is_understood(ask: Any, fields: dict[str, Any], choice: str, names: list[str]) -> None:
    called = call("now") if names == ["now"] else CALLED
    answer = ask(reply(called, ended=None), **fields).json()
    (request,) = ask.service.model.asked
    assert (request.choice, [tool.name for tool in request.tools], answer["warnings"]) == (choice, names, [])
    assert request.parallel is (choice != "record")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a tool that does not exist": ({"tool_choice": tool("fly")}, "tool_choice is {'type': 'function'"),
    "two of one name": ({"tools": [NOW, NOW]}, "two tools have the name 'now'"),
    "another type": ({"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "has the type 'custom'"),
    "no function": ({"tools": [{"type": "function"}]}, "supports only functions"),
    "no tools": ({"tools": "record"}, "tools: "),
    "a choice without tools": ({"tools": [], "tool_choice": "required"}, "tool_choice is given without tools"),
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


@pytest.mark.parametrize("depth", [100, 500, 950, 5000])
def test_arguments_that_are_nested_too_deeply_are_a_bad_request(ask: Any, caplog: Log, depth: int) -> None:
    deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
    said = {"id": "1", "type": "function", "function": {"name": "now", "arguments": deep}}
    talk = [USER, {"role": "assistant", "content": None, "tool_calls": [said]}]
    refused = ask(messages=[*talk, {"role": "tool", "tool_call_id": "1", "content": "ok"}])
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error"), refused.text
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
