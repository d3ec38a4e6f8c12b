"""JSON objects of a server: constrained by the server or checked by secl, with and without log-probabilities."""

from __future__ import annotations

import json
import math
import re
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, HttpUrl

import secl
from secl.backends.endpoint.model import EndpointModel
from secl.errors import NoObjectError, TooLongError, UnavailableError, UnfinishedError
from secl.fields.extraction import ObjectRequest, Objects, request_of, samples_wanted, weigh_objects
from secl.fields.schema import Schema
from tests.backends.endpoint.fake import Body, Distribution, FakeServer, Form, knowing
from tests.backends.endpoint.test_engines import by_template
from tests.server.conftest import Patch

SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "string"}, "total": {"type": ["number", "null"]}},
    "required": ["number", "total"],
}
GREEDY = '{"number": "BH-2291", "total": 306.0}'
OTHER = '{"number": "BH-7731", "total": 306}'


def said(text: str, unsure: str = "2291") -> list[Distribution]:
    """Words and signs as tokens, all certain but one."""
    return [{part: 0.6 if part == unsure else 0.99} for part in re.findall(r"\s*\w+|\s*\W", text)]


def writing(*samples: str, greedy: str = GREEDY) -> Any:
    """A rule that writes an object and then samples in turn."""
    drawn = iter(samples)

    def rule(body: Body) -> list[Distribution]:
        if "JSON object" not in body["messages"][-1]["content"]:
            return knowing(body)
        return said(next(drawn)) if body["temperature"] else said(greedy)

    return rule


def request(document: str = "An invoice.") -> ObjectRequest:
    return request_of(document, Schema.of(SCHEMA))


def objects_of(model: Any, *documents: str) -> list[Any]:
    return list(model.write_objects([*map(request, documents or ["An invoice."])], samples_wanted))


def test_an_object_fits_the_constraint_and_samples_come_at_once(model: Any, server: FakeServer) -> None:
    server.several, server.rule = True, writing(OTHER, "{}")
    (written,) = objects_of(model)
    first, second = server.asked
    constraint = first["response_format"]["json_schema"]
    assert (first["response_format"]["type"], constraint["strict"]) == ("json_schema", True)
    assert constraint["schema"] == request().schema.grammar
    assert (first["temperature"], first["max_tokens"], "n" in first) == (0, 512, False)
    assert (second["temperature"], second["top_p"], second["n"]) == (1, 0.95, 2)
    assert second["response_format"] == first["response_format"]
    assert [None if each is None else each.text for each in written.samples] == [OTHER, None]
    tokens = [written.greedy.text[begin:end] for begin, end in pairwise((0, *written.greedy.ends))]
    assert tokens[6:9] == ["BH", "-", "2291"]
    assert written.greedy.log_p[8] == pytest.approx(math.log(0.6))
    assert (written.ledger.answering, written.plain_tokens) == (10 + len(tokens), 10 + len(tokens))
    assert written.ledger.sampling > len(tokens)


@pytest.mark.parametrize("field", ["reasoning", None, "requested"])
@pytest.mark.parametrize("differs", [False, True])
def test_objects_and_samples_have_thoughts(server: FakeServer, field: str | None, differs: bool) -> None:
    words = ["Let", " me", " see"]
    write = writing(OTHER if differs else GREEDY, *[GREEDY] * 9)
    if field == "requested":

        def rule(body: Body) -> Any:
            if "logprobs" not in body:
                return [{word: 0.9} for word in words]
            document = body["messages"][:1] if "JSON object" in body["messages"][0]["content"] else body["messages"]
            return write({**body, "messages": document})

        server.rule = rule
    else:
        server.thought, server.form, server.rule = (*words,), Form(field, switched=by_template), write
    with closing(EndpointModel(server.url, thinking=20)) as model:
        (written,) = objects_of(model)
        assert len(written.samples) == 1 + differs
        for each in (written.greedy, *written.samples):
            assert (each.thought.text, each.thought.cut) == ("Let me see", False)
            assert each.log_p[8] == pytest.approx(math.log(0.6 if "2291" in each.text else 0.99))
        words *= 200
        server.thought = (*words,) if server.thought else ()
        (cut,) = objects_of(model)
        assert (cut.greedy.text, cut.greedy.thought.cut) == (GREEDY, True)


def test_a_certain_object_costs_one_request(model: Any, server: FakeServer) -> None:
    server.rule = writing(greedy=GREEDY.replace("2291", "17"))
    assert len(objects_of(model, "a", "b")) == len(server.asked) == 2


@pytest.mark.parametrize("several", [False, None])
def test_samples_may_be_requests_of_their_own(model: Any, server: FakeServer, several: Any) -> None:
    server.several, server.rule = several, writing(*[GREEDY] * 2)
    (written,) = objects_of(model)
    assert len(written.samples) == 2
    assert len({body["seed"] for body in server.asked[1:]}) == 2


def test_an_object_without_a_constraint_is_found_checked_and_asked_for_again(model: Any, server: FakeServer) -> None:
    server.formats = False
    fenced, short = f"Here it is:\n```json\n{GREEDY}\n```", '{"number": "BH-2291"}'

    def rule(body: Body) -> list[Distribution]:
        return said(fenced) if body["temperature"] or len(body["messages"]) > 1 else said(short)

    server.rule = rule
    (written,) = objects_of(model)
    assert written.greedy.text == GREEDY
    value = written.greedy.tokens((12, 19))
    assert [written.greedy.log_p[token] for token in value] == pytest.approx([math.log(p) for p in (0.99, 0.99, 0.6)])
    asked = server.asked[1]["messages"]
    assert asked[1] == {"role": "assistant", "content": short}
    assert "no such object (the object: 'total' is a required property)" in asked[2]["content"]
    assert not any("response_format" in body for body in server.asked)


@pytest.mark.parametrize(
    ("text", "reason"), [("I cannot.", "broken JSON"), ('{"number": 3, "total": 1}', "number: 3 is not")]
)
def test_two_failures_spoil_no_other_object(model: Any, server: FakeServer, text: str, reason: str) -> None:
    good = writing(greedy=GREEDY.replace("2291", "17"))
    server.rule = lambda body: said(text) if "bad" in body["messages"][0]["content"] else good(body)
    fine, failed, refused = objects_of(model, "fine", "bad", "long " * 2000)
    assert [type(each) for each in (fine, failed, refused)] == [Objects, NoObjectError, TooLongError]
    assert f"the model wrote no object that fits the schema ({reason}" in str(failed)


class Line(BaseModel):
    name: str
    count: int = 1
    more: list[Line] = []


class Bill(BaseModel):
    lines: list[Line]
    kind: Annotated[Transfer | Cash, Field(discriminator="by")]
    site: HttpUrl | None = None
    tags: set[str] = Field(set(), json_schema_extra={"default": []})


class Transfer(BaseModel):
    by: Literal["transfer"]
    bank: str


class Cash(BaseModel):
    by: Literal["cash"]
    coins: dict[Literal["one", "two"], int]


BILL = (
    '{"lines": [{"name": "pen", "count": null, "more": [{"name": "ink", "count": 2, "more": null}]}], '
    '"kind": {"by": "cash", "coins": {"one": 3, "two": null}}, "site": null, "tags": null}'
)


def test_nested_objects_are_closed_for_servers_and_null_stands_for_their_absent_keys(
    model: EndpointModel, server: FakeServer
) -> None:
    server.rule = writing(greedy=BILL)
    schema = Schema.of(Bill)
    (outcome,) = model.write_objects([request_of("A bill.", schema)], lambda *_: 0)
    assert isinstance(outcome, Objects)
    constraint = server.asked[0]["response_format"]["json_schema"]
    assert constraint["strict"] is True
    assert sorted(constraint["schema"]["$defs"]) == ["Cash", "Line", "Transfer"]
    for node in (constraint["schema"], *constraint["schema"]["$defs"].values()):
        assert (node["required"], node["additionalProperties"]) == ([*node["properties"]], False)
    assert "uri" not in json.dumps(constraint)
    lines = [Line(name="pen", more=[Line(name="ink", count=2)])]
    assert schema.validated(outcome.greedy.value) == Bill(lines=lines, kind=Cash(by="cash", coins={"one": 3}))


def test_a_schema_with_free_keys_is_sent_without_the_word_strict(model: EndpointModel, server: FakeServer) -> None:
    server.rule = writing(greedy='{"prices": {"pen": 2}}')
    prices = Schema.of({"properties": {"prices": {"type": "object", "additionalProperties": {"type": "number"}}}})
    (outcome,) = model.write_objects([request_of("A bill.", prices)], lambda *_: 0)
    assert isinstance(outcome, Objects)
    assert server.asked[0]["response_format"]["json_schema"]["strict"] is False


def test_a_server_s_object_satisfies_one_branch_or_is_asked_for_again(model: EndpointModel, server: FakeServer) -> None:
    texts = iter(['{"a": true, "b": false}', '{"a": null, "b": false}'])
    server.rule = lambda body: said(next(texts)) if "JSON object" in str(body["messages"]) else knowing(body)
    keys = [{"type": "object", "properties": {key: {"type": "boolean"}}, "required": [key]} for key in "ab"]
    schema = Schema.of({"oneOf": keys})
    (outcome,) = model.write_objects([request_of("Choose.", schema)], lambda *_: 0)
    assert isinstance(outcome, Objects)
    assert schema.validated(outcome.greedy.value) == {"b": False}
    assert "Your reply is no such object" in server.asked[-1]["messages"][-1]["content"]
    assert "anyOf" not in server.asked[0]["response_format"]["json_schema"]["schema"]


def test_an_object_that_the_limit_of_tokens_cuts_is_unfinished(model: EndpointModel, server: FakeServer) -> None:
    server.rule = writing()
    cut = ObjectRequest(request().question, Schema.of(SCHEMA), max_tokens=9)
    (outcome,) = model.write_objects([cut], samples_wanted)
    assert isinstance(outcome, UnfinishedError)


def test_without_log_probabilities_samples_alone_are_the_evidence(model: EndpointModel, server: FakeServer) -> None:
    server.rule, server.most = writing(GREEDY, OTHER, OTHER, OTHER, GREEDY), 0
    with pytest.warns(UserWarning, match=r"http://127\.0\.0\.1:\d+/v1 reports no log-probabilities"):
        found: Any = next(weigh_objects(model, [request()], secl.learning.Calibrator(model).weigh))
    number, total = found.fields["number"], found.fields["total"]
    assert [sample.log_p for sample in number.evidence.candidates.samples] == [None] * 5
    assert math.isnan(number.reply.log_probability)
    scores = [0.4 * math.log(count + 0.5) for count in (3, 3, 0)]
    assert number.confidence == pytest.approx(math.exp(scores[0]) / sum(map(math.exp, scores)))
    assert number.confidence < total.confidence < 1


def test_a_dead_server_ends_the_window(model: Any, server: FakeServer, monkeypatch: Patch) -> None:
    monkeypatch.setattr(model.endpoint._client, "max_retries", 0)
    server.statuses = [503] * 9
    with pytest.raises(UnavailableError):
        objects_of(model)


@pytest.mark.heavy
def test_a_server_of_the_same_model_gives_the_same_fields(model: Any, server: FakeServer, monkeypatch: Patch) -> None:
    from tests.backends.local.conftest import tiny_of

    local = tiny_of("llama")
    properties: dict[str, Any] = {
        "kind": {"enum": ["offer", "reminder"]},
        "pages": {"type": "integer", "minimum": 0, "maximum": 99},
        "word": {"type": ["string", "null"], "maxLength": 8, "pattern": "^[a-z]*$"},
    }
    schema = Schema.of({"type": "object", "properties": properties, "required": [*properties]})
    asked = request_of("A letter of ACME, three pages.", schema)
    objects: Any
    (objects,) = local.write_objects([asked], samples_wanted)
    assert len(objects.samples) == 2

    def choice(body: Body) -> dict[str, Any]:
        written = objects.samples[body["number"]] if body["temperature"] else objects.greedy
        assert asked.question.context in body["messages"][0]["content"]
        content = [
            {"token": written.text[begin:end], "logprob": log_p, "top_logprobs": []}
            for (begin, end), log_p in zip(pairwise((0, *written.ends)), written.log_p, strict=True)
        ]
        message = {"content": written.text}
        return {"message": message, "finish_reason": "stop", "logprobs": {"content": content}, "length": len(content)}

    server.several = True
    server.choice = choice  # type: ignore[method-assign]
    # A server shows no entropies under the mask of the schema, and secl reads no value a second time there.
    blind = replace(objects.greedy, alone={}, entropy=(math.nan,) * len(objects.greedy.ends))
    monkeypatch.setattr(local, "write_objects", lambda *_: [replace(objects, greedy=blind)])
    found: Any = [next(weigh_objects(each, [asked], secl.learning.Calibrator(each).weigh)) for each in (local, model)]
    here, there = found
    assert json.loads(here.text) == json.loads(there.text)
    for name, record in here.fields.items():
        assert there.fields[name].text == record.text
        assert there.fields[name].confidence == pytest.approx(record.confidence, abs=1e-9)
        assert dict(there.fields[name].candidates) == pytest.approx(dict(record.candidates), abs=1e-9)
