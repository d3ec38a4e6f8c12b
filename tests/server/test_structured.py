"""Objects of a schema over HTTP: OpenAI's form, a confidence for each field, and records that can be labelled."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, Field

from secl.errors import NoObjectError, ParameterError, SeclError, StorageError, UnfinishedError
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.values import WrittenObject
from secl.server.http.health import view
from secl.server.http.pages import overview
from secl.server.online.service import Service
from secl.server.settings import Limits
from secl.server.verify import examine
from tests.fields.scribe import Scribe, written
from tests.server.conftest import Make, Patch, client_of, raising
from tests.server.waiting import close, explained

ASKED: list[Any] = [{"role": "user", "content": "Acme: invoice 7, 306.00, paid?"}]
GREEDY = '{"total": 306.0, "kind": "invoice", "due": null}'
ANY_OBJECT: Any = {"type": "json_object"}
SAMPLE = '{"total": 305.0, "kind": "invoice", "due": null}'


class Invoice(BaseModel):
    """An invoice."""

    total: float = Field(description="with tax")
    kind: Literal["invoice", "credit note"]
    due: str | None = None


class Clerk(Scribe):
    """A scribe whose failure the question names."""

    def __init__(self) -> None:
        super().__init__(written(GREEDY, unsure="306"), *[SAMPLE] * 3, GREEDY, None)
        self.requests: list[ObjectRequest] = []

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        self.requests += requests
        failures: dict[str, SeclError] = {
            "endless": UnfinishedError("the model did not close the object within 9 tokens; shorten it."),
            "free": NoObjectError("the model wrote no object of the schema."),
            "odd": ParameterError("secl cannot make a grammar from the schema: odd."),
            "broken": SeclError("a secret"),
        }
        outcomes = super().write_objects(requests, samples)
        said = [request.question.text.partition("\n")[0] for request in requests]
        return [failures.get(text, each) for text, each in zip(said, outcomes, strict=True)]


@pytest.fixture
def service(make_service: Make) -> Service:
    return make_service(model=Clerk(), settings={"method": "posterior"})


@pytest.fixture
def clerk(service: Service) -> Any:
    return service.model


def post(service: Service, **fields: Any) -> Any:
    body = {"model": "scripted", "messages": ASKED, "response_format": ANY_OBJECT, **fields}
    with client_of(service) as client:
        return client.post("/v1/chat/completions", json=body)


def schema(node: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "given", "schema": node}}


def test_the_sdk_gets_an_instance_and_confidences_of_fields(sdk: openai.OpenAI, service: Service, clerk: Clerk) -> None:
    talk: list[Any] = [{"role": "system", "content": "Be exact."}, *ASKED]
    reply: Any = sdk.chat.completions.parse(model="scripted", messages=talk, response_format=Invoice)
    (choice,) = reply.choices
    assert choice.message.content == GREEDY
    assert choice.message.parsed == Invoice(total=306, kind="invoice")
    assert choice.finish_reason == "stop"
    assert reply.usage.completion_tokens == len(clerk.greedy.ends)
    assert reply.warnings == []
    secl = choice.secl
    assert secl == reply.secl
    assert (secl["record_id"], secl["candidates"], "detail" in secl) == (None, None, False)
    assert "the whole answer has none" in secl["reason"]
    fields = secl["fields"]
    assert secl["confidence"] == pytest.approx(math.prod(field["confidence"] for field in fields.values()))
    texts = {"total": "306.0", "kind": "invoice", "due": "null"}
    assert {name: field["text"] for name, field in fields.items()} == texts
    assert [each["text"] for each in fields["total"]["candidates"]] == ["305.0", "306.0"]
    assert {each["text"] for each in fields["kind"]["candidates"]} == {"invoice", "credit note"}
    assert [each["text"] for each in fields["due"]["candidates"]] == ["null"]
    for number, (name, field) in enumerate(fields.items()):
        served = service.state.served(number)
        assert (served.id, served.batch, served.record.question.domain) == (field["record_id"], 3, name)
    (asked,) = clerk.asked
    assert (asked.system, asked.text.partition("\n")[0]) == ("Be exact.", ASKED[0]["content"])
    assert '- "total" (number): with tax\n' in asked.text
    before = fields["due"]["confidence"]
    sdk.post("/feedback", body={"record_id": fields["due"]["record_id"], "correct": False}, cast_to=object)
    again: Any = sdk.chat.completions.parse(model="scripted", messages=talk, response_format=Invoice)
    assert again.secl["fields"]["due"]["confidence"] < before
    assert post(service, secl={"detail": "full"}).json()["secl"]["fields"]["total"]["detail"]["labelled"]["labels"] == 1
    with client_of(service) as plain:
        page = plain.get(f"/v1/records/{fields['total']['record_id']}")
        assert (page.status_code, page.json()["prompt"]) == (200, None)
        assert plain.get("/").status_code == plain.get(f"/records/{fields['total']['record_id']}").status_code == 200


def test_the_list_of_records_names_the_document_of_a_field(service: Service) -> None:
    post(service, response_format=schema(Invoice.model_json_schema()))
    with client_of(service) as client:
        (total, *_), page = client.get("/v1/records").json()["records"][::-1], client.get("/records").text
    assert total["question"].startswith(f"{ASKED[0]['content']}"[:40])
    assert total["question"].endswith(": What is the value of 'total' (with tax)?")
    assert page.count(f"{ASKED[0]['content']}"[:40]) == 3


def test_a_stream_gives_the_object_and_its_confidences_at_its_end(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model="scripted", messages=ASKED, response_format=Invoice) as stream:
        chunks = [event.chunk for event in stream if event.type == "chunk"]
        final: Any = stream.get_final_completion()
    assert final.choices[0].message.parsed == Invoice(total=306, kind="invoice")
    last: Any = chunks[-1]
    assert (last.choices[0].finish_reason, last.choices[0].secl) == ("stop", last.secl)
    assert last.secl["fields"].keys() == {"total", "kind", "due"}
    usage: Any = {"stream": True, "stream_options": {"include_usage": True}}
    *_, used = sdk.chat.completions.create(model="scripted", messages=ASKED, response_format=ANY_OBJECT, **usage)
    assert used.usage.total_tokens == 61


def test_a_null_for_a_field_that_may_be_absent_and_not_null_is_left_out(service: Service) -> None:
    properties = {"total": {"type": "number"}, "due": {"type": "string"}}
    reply = post(service, response_format=schema({"properties": properties, "required": ["total"]})).json()
    assert reply["choices"][0]["message"]["content"] == '{"total": 306.0, "kind": "invoice"}'
    assert reply["secl"]["fields"]["due"]["text"] == "null"


def test_fields_that_say_how_a_text_is_drawn_are_named_as_without_effect(service: Service, clerk: Clerk) -> None:
    how = {"temperature": 0.7, "seed": 5, "top_p": 0.9, "logprobs": True, "max_tokens": 5000, "stop": ["x"]}
    reply = post(service, **how).json()
    names = [each.partition(" ")[0] for each in reply["warnings"] if "no effect here" in each]
    assert sorted(names) == ["logprobs", "seed", "stop", "temperature", "top_p"]
    assert clerk.requests[0].max_tokens == Limits().max_tokens
    assert reply["choices"][0]["logprobs"] is None


RECURSION = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "recursion": ({"response_format": schema(RECURSION)}, "refers only to itself"),
    "an array": ({"response_format": schema({"type": "array", "items": {"type": "string"}})}, "the type 'array'"),
    "a type that is none": ({"response_format": schema({"type": "nonsense"})}, "the type 'nonsense'"),
    "no schema": ({"response_format": {"type": "json_schema", "json_schema": 5}}, "json_schema: "),
    "another type": ({"response_format": {"type": "grammar"}}, "response_format has the type 'grammar'"),
    "no words": ({"response_format": "json"}, "response_format: "),
    "two objects": ({"n": 2}, "n is 2"),
    "a keyword": ({"messages": [{"role": "user", "content": "odd"}]}, "cannot make a grammar"),
}


@pytest.mark.parametrize(("fields", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_schema_that_cannot_be_used_is_refused(service: Service, fields: dict[str, Any], sentence: str) -> None:
    reply = post(service, **fields)
    assert reply.status_code == 400, reply.text
    message = reply.json()["error"]["message"]
    assert sentence in message
    assert message.endswith(".")
    assert (service.position, service.failures) == (0, 0)


def test_an_object_that_fails_is_explained_and_others_do_not_notice(sdk: openai.OpenAI, service: Service) -> None:
    endless: list[Any] = [{"role": "user", "content": "endless"}]
    with pytest.raises(openai.LengthFinishReasonError) as cut:
        sdk.chat.completions.parse(model="scripted", messages=endless, response_format=Invoice)
    secl = cut.value.completion.secl  # type: ignore[attr-defined]
    assert (secl["confidence"], secl["reason"][:36]) == (None, "the model did not close the object w")
    unfit = post(service, messages=[{"role": "user", "content": "free"}])
    assert (unfit.status_code, unfit.headers["x-should-retry"]) == (502, "false")
    assert unfit.json()["error"]["message"] == "the model wrote no object of the schema."
    failed = post(service, messages=[{"role": "user", "content": "broken"}])
    assert (failed.status_code, "secret" in failed.text) == (500, False)
    assert (service.position, service.failures) == (0, 1)
    assert post(service).status_code == 200
    assert service.position == 3


def test_a_request_without_confidence_gets_the_object_and_leaves_no_record(service: Service) -> None:
    reply = post(service, secl={"confidence": False}).json()
    assert reply["choices"][0]["message"]["content"] == GREEDY
    assert "turned confidences off" in reply["secl"]["reason"]
    assert "fields" not in reply["secl"]
    assert service.position == len(service.state) == 0


@pytest.mark.parametrize("keep", ["full", "none"])
def test_what_fields_leave_behind_is_consistent_and_no_gate_has_looked_at_it(make_service: Make, keep: Any) -> None:
    service = make_service(model=Clerk(), keep_text=keep, settings={"gate.name": "entropy-shift", "gate.warmup": 5})
    gate = service.calibrator.state.gate
    for _ in range(3):
        assert post(service, response_format=schema(Invoice.model_json_schema())).status_code == 200
    assert service.calibrator.state.gate == gate
    found = examine(service.state)
    assert (found.examined, found.findings) == (9, [])
    assert service.state.served(0).record.question.id.endswith("total")
    stored = " ".join(str(row) for row in service.state.rows("SELECT body FROM records"))
    assert ("Acme" in stored, '"306' in stored) == ((keep == "full"), (keep == "full"))
    why = explained(service.state, 0)["why"]
    assert any("secl learns nothing from fields" in sentence for sentence in why)
    assert not any("nan" in sentence for sentence in why)
    close(service)


def test_fields_that_cannot_be_stored_say_so(service: Service, monkeypatch: Patch) -> None:
    monkeypatch.setattr(service.state, "add_answers", raising(StorageError("disk full.")))
    secl = post(service).json()["secl"]
    assert "cannot write to its disk" in secl["reason"]
    assert {field["record_id"] for field in secl["fields"].values()} == {None}
    assert service.position == 0


def test_the_page_draws_the_confidences_of_fields_which_have_no_stated_one(service: Service) -> None:
    post(service)
    shown = overview(view(service))
    assert "This chart appears after the first answers." not in shown
    assert 'class="mean"' in shown
    assert "mean of 20" in shown
    assert "stated, mean of 20" not in shown
    assert "nan" not in shown.casefold().replace("finance", "")
