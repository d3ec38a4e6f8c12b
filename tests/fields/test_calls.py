"""Tool calls with confidences: the choice of a tool and each argument are questions; a call has their product."""

import math
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

import secl
from secl.conversation import Message, ToolCall
from secl.errors import ParameterError, QuestionError, UnfinishedError
from secl.fields.calls import Calls
from secl.fields.tools import NO_TOOL, CallRequest, Tool
from tests.fields.scribe import CallScribe, call, reply


class Book(BaseModel):
    """Book a room."""

    date: str = Field(description="Day")
    people: int
    floor: Literal["first", "second"] | None = None

    @field_validator("people")
    @classmethod
    def _few(cls, people: int) -> int:
        if people > 9:
            raise ValueError("nine at most")
        return people


NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Forecast.", "parameters": CITY}
TOOLS: list[Any] = [Book, NOW, WEATHER]
ROME, OSLO = '{"city": "Rome"}', '{"city": "Oslo", "days": 3}'


def called(model: CallScribe, request: Any = "What next?", accept: float | None = None, **parts: Any) -> Calls:
    return secl.load(model, accept=accept).call(request, TOOLS, **parts)


def test_a_call_has_a_record_for_its_tool_and_one_for_each_argument() -> None:
    drawn = (reply(call("weather", OSLO)), reply(call("weather", ROME)), reply(call("now")), reply(text="Hm."), None)
    model = CallScribe(reply(call("weather", ROME, p=0.6)), samples=drawn)
    found = called(model, accept=0.9)
    (weather,) = found.calls
    assert (weather.name, weather.arguments, [*weather.fields]) == ("weather", {"city": "Rome"}, ["city", "days"])
    assert weather.tool is not None
    p = math.exp(weather.tool.frozen.log_probability)
    odds = p / (1 - p)
    assert weather.tool.candidates[0][0] == "weather"
    assert weather.tool.candidates[0][1] == pytest.approx(odds**2 / (1 + odds**2))
    assert {text for text, _ in weather.tool.candidates} == {"weather", "Book", "now", NO_TOOL}
    assert sum(p for _, p in weather.tool.candidates) == pytest.approx(1)
    compared = weather.tool.evidence.candidates
    assert compared is not None
    assert [each.candidate for each in compared.samples] == [0, 0, 1, 2]
    city, days = weather.fields.values()
    assert {text for text, _ in city.candidates} == {"Rome", "Oslo"}  # samples with another tool do not count
    assert (days.text, {text for text, _ in days.candidates}) == ("null", {"null", "3"})
    assert weather.confidence == pytest.approx(weather.tool.confidence * city.confidence * days.confidence)
    assert found.ended is not None
    assert found.confidence == pytest.approx(weather.confidence * found.ended.confidence)
    assert found.accepted is False
    assert [record.question.domain for record in found.records] == ["tool", "weather.city", "weather.days", "tool"]
    assert len({record.question.id for record in found.records}) == 4
    assert sum(record.ledger.total for record in found.records) == pytest.approx(90)
    assert found.turn == Message("assistant", "", (ToolCall("weather", ROME),))
    assert repr(found).startswith(f"Calls(confidence={found.confidence:.3f}, calls=(Call(name='weather'")


def test_no_tool_is_a_choice_like_any_other() -> None:
    sure, unsure = (called(CallScribe(reply(text="Hello.", ended=math.log(p)))) for p in (0.99, 0.6))
    assert (sure.text, sure.calls) == ("Hello.", ())
    assert sure.ended is not None
    assert sure.confidence == sure.ended.confidence > unsure.confidence
    assert sure.ended.candidates[0] == (NO_TOOL, sure.confidence)


def test_a_tool_with_free_keys_has_a_field_for_each_key_of_its_arguments() -> None:
    put = {"name": "put", "parameters": {"type": "object", "additionalProperties": {"type": "integer"}}}
    model = secl.load(CallScribe(*(reply(call("put", text)) for text in ('{"a": 1, "b": 2}', "{}", '{"a": "x"}'))))
    (found,) = model.call("Put.", [put, NOW]).calls
    assert (found.arguments, [*found.fields]) == ({"a": 1, "b": 2}, ["a", "b"])
    assert model.call("Put.", [put, NOW]).calls[0].fields == {}
    with pytest.raises(QuestionError, match=r"does not fit the schema \(a: 'x' is not of type 'integer'\); relax the"):
        model.call("Put.", [put, NOW])


def test_a_cut_reply_has_no_confidence_and_says_so() -> None:
    model = CallScribe(*[reply(call("now"), text="", ended=None, cut=True), reply(text="Once", ended=None, cut=True)])
    for texts in (("now",), ()):
        found = secl.load(model, accept=0.1).call("What next?", TOOLS)
        assert (found.cut, math.isnan(found.confidence), found.accepted, found.ended) == (True, True, False, None)
        assert tuple(each.name for each in found.calls) == texts
        assert all(0 < each.confidence < 1 for each in found.calls)


def test_two_calls_at_once_are_each_compared_with_the_call_of_a_sample_that_is_most_like_it() -> None:
    swapped = reply(call("weather", OSLO), call("weather", ROME))
    found = called(CallScribe(reply(call("weather", ROME, p=0.6), call("weather", OSLO)), samples=(swapped,) * 5))
    for each, city in zip(found.calls, ("Rome", "Oslo"), strict=True):
        assert [text for text, _ in each.fields["city"].candidates] == [city]
    missing = called(CallScribe(reply(call("weather", ROME, p=0.6), call("now")), samples=(reply(call("now")),) * 5))
    rome, now = (each.tool for each in missing.calls)
    assert rome is not None
    assert now is not None
    assert [text for text, _ in rome.candidates[:2]] == ["weather", NO_TOOL]
    assert now.confidence > 0.9 > rome.confidence
    further = called(CallScribe(reply(call("now"), ended=math.log(0.5)), samples=(swapped,) * 5))
    assert further.ended is not None
    assert [text for text, _ in further.ended.candidates[:2]] == [NO_TOOL, "weather"]


def test_what_the_request_chose_has_no_confidence_of_its_own() -> None:
    found = called(CallScribe(reply(call("now"), ended=None)), choice="now")
    assert (found.calls[0].tool, found.ended, found.confidence, found.records) == (None, None, 1.0, ())
    none = called(CallScribe(reply(text="No.", ended=None)), choice="none")
    assert (none.text, none.calls, none.ended) == ("No.", (), None)
    required = called(CallScribe(reply(call("now"), ended=None)), choice="required", parallel=False)
    assert required.calls[0].tool is not None
    assert NO_TOOL not in dict(required.calls[0].tool.candidates)


def test_arguments_of_a_class_are_an_instance_of_it_and_its_validators_run() -> None:
    found = called(CallScribe(reply(call("Book", '{"date": "2026-05-03", "people": 4}'))))
    assert found.calls[0].arguments == Book(date="2026-05-03", people=4)
    assert [*found.calls[0].fields] == ["date", "people", "floor"]
    with pytest.raises(
        QuestionError, match=r"does not fit Book \(people: Value error, nine at most\); relax the class"
    ):
        called(CallScribe(reply(call("Book", '{"date": "2026-05-03", "people": 40}'))))


def test_a_missing_argument_is_as_probable_as_the_place_where_the_model_went_on_without_it() -> None:
    written = call("weather", '{"city": "Rome"}', unsure="}")
    assert written.arguments.text[slice(*written.opened(Tool.of(WEATHER).schema).places["days",])] == "}"
    found = called(CallScribe(reply(written), samples=(reply(call("weather", ROME)),) * 5))
    city, days = found.calls[0].fields.values()
    assert days.confidence < city.confidence
    assert days.reply.log_probability == pytest.approx(math.log(0.4))


def test_calls_are_labelled_by_tool_and_argument_and_counted_for_thresholds() -> None:
    model = secl.load(CallScribe(*[reply(call("weather", ROME))] * 2))
    before = model.call("Rain?", TOOLS)
    for record in before.calls[0].fields.values():
        model.label(record, False, chance=1)
    after = model.call("Rain?", TOOLS)
    assert after.calls[0].fields["city"].confidence < before.calls[0].fields["city"].confidence
    assert model.threshold(0.5).answers == 8


def test_a_conversation_goes_on_behind_the_results_of_calls_even_of_tools_that_are_gone() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rain in Rome?"},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "gone", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "No rain."},
    ]
    model = CallScribe(reply(text="No."))
    assert called(model, messages).text == "No."
    (asked,) = model.asked
    assert (asked.question.text, asked.question.system) == ("Rain in Rome?", "Be brief.")
    called_before = Message("assistant", "", (ToolCall("gone", "{}", "1"),))
    assert asked.since == (called_before, Message("tool", "No rain.", answers="1"))
    assert (asked.prompt.turns, [turn.role for turn in asked.prompt.history]) == ((), ["user", "assistant", "tool"])
    assert asked.question.id != CallRequest.of("Rain in Rome?", TOOLS, system="Be brief.").question.id


def test_other_models_and_calls_that_are_not_closed_are_refused_in_a_sentence() -> None:
    with pytest.raises(ParameterError, match="'scripted' is not local, and only local models can call tools"):
        secl.load(secl.testing.ScriptedModel()).call("x", TOOLS)
    with pytest.raises(UnfinishedError, match="did not close"):
        called(CallScribe(UnfinishedError("the model did not close its call.")))


def test_certain_replies_need_no_samples() -> None:
    samples = [reply(text="Other.")] * 5
    certain = called(CallScribe(reply(call("now")), samples=samples))
    unsure = called(CallScribe(reply(call("now", p=0.6)), samples=samples))
    assert [record.ledger.sampling for record in certain.records] == [0, 0]
    assert all(record.ledger.sampling for record in unsure.records)
    assert certain.confidence > unsure.confidence
